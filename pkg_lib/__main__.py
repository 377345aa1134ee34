"""python -m pkg_lib, or pkg-lib: the command line of cli.py."""

import os
import signal
import sys


def main() -> int:
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # Ctrl-C while the import below runs
    from pkg_lib import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())

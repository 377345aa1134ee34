"""python -m pkg_lib, or pkg-lib: the command line of cli.py."""

import os
import signal
import sys


def main() -> int:
    # Ctrl-C while the imports below run ends as quietly as later on.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from pkg_lib import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())

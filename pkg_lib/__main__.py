"""`python -m pkg_lib` and `pkg-lib`: start the command line of cli.py."""

import os
import signal
import sys


def main() -> int:
    """Run the command line.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # Ctrl-C during the import below
    from pkg_lib import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())

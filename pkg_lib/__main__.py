"""python -m pkg_lib: the command line of cli.py."""

import os
import signal
import sys

if __name__ == "__main__":
    # Ctrl-C while the imports below run ends as quietly as later on.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from pkg_lib.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())

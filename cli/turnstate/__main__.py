"""``python -m turnstate``, the same program as ``turnstate``."""

from __future__ import annotations

import os
import sys
import threading


def main() -> int:
    """Run the program; an interrupt while it is still being loaded ends like any other."""
    try:
        from turnstate.commands.app import main as program
    except KeyboardInterrupt:
        return 130
    code = program()
    if _others_run():
        os._exit(code)
    return code


def _others_run() -> bool:
    """Whether a thread is left that would keep the process from ending: a saver's, whose connection nobody closed."""
    return any(not each.daemon for each in threading.enumerate() if each is not threading.main_thread())


if __name__ == "__main__":
    sys.exit(main())

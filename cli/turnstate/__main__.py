"""``python -m turnstate``, the same program as ``turnstate``."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading

_INTERRUPTED = 130


def main() -> int:
    """Run the program; an interrupt while it is being loaded, or has just ended, ends like any other."""
    try:
        from turnstate.commands.app import main as program

        code = program()
        # All is written. Python would answer an interrupt of its own clearing up with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    # Interrupted in text that it executes, as dataclasses have it do, Python would end by killing itself.
    if code >= _INTERRUPTED - signal.SIGINT or _others_run():
        os._exit(code)
    # Before all goes, Python would look twice through it for what to free. Code of the user's may rely on that: files
    # and connections that its modules hold are closed by nothing else.
    if "turnstate_backends.usercode" not in sys.modules:
        gc.freeze()
    return code


def _others_run() -> bool:
    """Whether a thread is left that would keep the process from ending: a saver's, whose connection nobody closed."""
    return any(not each.daemon for each in threading.enumerate() if each is not threading.main_thread())


if __name__ == "__main__":
    sys.exit(main())

"""``python -m turnstate``, the same program as ``turnstate``."""

from __future__ import annotations

import sys

from turnstate.commands.app import main

if __name__ == "__main__":
    sys.exit(main())

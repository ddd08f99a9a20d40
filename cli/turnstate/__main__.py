"""``python -m turnstate``, the same program as ``turnstate``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the program; an interrupt while it is still being loaded ends like any other."""
    try:
        from turnstate.commands.app import main as program
    except KeyboardInterrupt:
        return 130
    return program()


if __name__ == "__main__":
    sys.exit(main())

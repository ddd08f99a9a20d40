"""Exit codes, also those of the two ways in which a command ends without an answer. Knows neither Typer nor Rich.

0 clean · 1 a difference or finding was asked about and exists · 2 usage, or the store cannot be opened ·
4 it never was there · 5 it was there and is no longer retained · 6 it is there and cannot be read · 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnstate.history.refusals import Missed as Missed  # exit by its outcome
from turnstate.history.refusals import Refused as Refused  # exit 2

CLEAN: Final = 0
FOUND: Final = 1
USAGE: Final = 2
NEVER_THERE: Final = 4
NO_LONGER_RETAINED: Final = 5
UNREADABLE: Final = 6
INTERRUPTED: Final = 130

BY_OUTCOME: Mapping[str, int] = {
    "value": CLEAN,
    "no_such_thread": NEVER_THERE,
    "no_such_turn": NEVER_THERE,
    "no_such_key": NEVER_THERE,
    "not_yet_written": NEVER_THERE,
    "removed": NEVER_THERE,
    "turn_no_longer_retained": NO_LONGER_RETAINED,
    "value_missing": UNREADABLE,
    "encrypted": UNREADABLE,
    "undecodable": UNREADABLE,
    "delta_unresolved": UNREADABLE,
}
"""The exit code of each outcome of a read."""

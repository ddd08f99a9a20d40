"""The same turns of two recordings, turn by turn: what another model, prompt or release made of them.

Pure functions over two histories. A turn is the same by its number; whether it asked the same is said beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from turnstate.history.changes import DiffReport, Standpoint, diff_report
from turnstate.history.places import Miss, Place, turn_place
from turnstate.history.thread import History

Side = Literal["from", "to"]


class Compared(Struct, frozen=True):
    """One turn of both.

    Attributes:
        turn: Its number.
        questions: What it asked in either; None where there is no such turn, or no text is known.
        report: What differs between its ends; None where it cannot be compared.
        missing: Why not, by side; under None what concerns both.
    """

    turn: int
    questions: tuple[str | None, str | None]
    report: DiffReport | None
    missing: tuple[tuple[Side | None, Miss], ...] = ()

    @property
    def asked_alike(self) -> bool:
        """Nothing shows that the questions differ."""
        return None in self.questions or self.questions[0] == self.questions[1]

    @property
    def in_one_only(self) -> bool:
        """One of the two has never had the turn."""
        return [miss.outcome for _, miss in self.missing] == ["no_such_turn"]


class AgainstReport(Struct, frozen=True):
    """Two recordings compared.

    Attributes:
        first: The one.
        second: The other.
        asked: The key or pattern that was asked for; None for all keys.
        ids: Generated ids were compared too.
        turns: In order.
    """

    first: History
    second: History
    asked: str | None
    ids: bool
    turns: tuple[Compared, ...]


def against_report(
    first: History,
    second: History,
    numbers: Iterable[int],
    asked: str | None = None,
    *,
    internal: bool = False,
    reveal: bool = False,
    ids: bool = False,
) -> AgainstReport | Miss:
    """What differs between the ends of the same turns of two histories.

    Args:
        first: The one.
        second: The other, of whichever store.
        numbers: Of the turns, from 0.
        asked: A key or a pattern; all keys when None.
        internal: LangGraph's own channels too.
        reveal: Show secrets.
        ids: Compare generated ids too, see :mod:`turnstate.history.generated`.

    Returns:
        The report, or ``no_such_key``.

    Raises:
        keys.AmbiguousKey: Two channels have an entry of the name that was asked for.
    """
    turns = []
    for number in numbers:
        places = [turn_place(history, number) for history in (first, second)]
        found = _between(first, second, places, asked, internal=internal, reveal=reveal, ids=ids)
        if isinstance(found, Miss) and found.outcome == "no_such_key":
            return found
        questions = (_question(first, number), _question(second, number))
        if isinstance(found, Miss):
            turns.append(Compared(number, questions, None, ((None, found),)))
        else:
            turns.append(Compared(number, questions, found, tuple(_missing(places))))
    return AgainstReport(first, second, asked, ids, tuple(turns))


def _between(
    first: History,
    second: History,
    places: Sequence[Place | Miss],
    asked: str | None,
    *,
    internal: bool,
    reveal: bool,
    ids: bool,
) -> DiffReport | Miss | None:
    """What differs, or why that cannot be told of what is there; None where a place is not."""
    old, new = places
    if isinstance(old, Miss) or isinstance(new, Miss):
        return None
    ends = Standpoint(first, old), Standpoint(second, new)
    return diff_report(*ends, asked, internal=internal, reveal=reveal, ids=ids)


def _missing(places: Sequence[Place | Miss]) -> Iterator[tuple[Side, Miss]]:
    sides: tuple[Side, Side] = ("from", "to")
    for side, place in zip(sides, places, strict=True):
        if isinstance(place, Miss):
            yield side, place


def _question(history: History, number: int) -> str | None:
    turns = history.turns
    return turns.turns[number].question if number <= turns.total else None

"""From what was asked for to what is meant: a thread and line, a checkpoint, a place, keys, rows, two ends.

Where there is nothing that could be meant, why stands in :class:`~turnstate.history.refusals.Missed`; where more than
one thing could be, in :class:`~turnstate.history.refusals.Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnstate.history.refusals import Missed, Refused

if TYPE_CHECKING:
    from turnstate.history.accumulate import Rule
    from turnstate.history.changes import DiffReport, Standpoint
    from turnstate.history.keys import AmbiguousKey, Key
    from turnstate.history.listing import KeyReport
    from turnstate.history.log import Log, Span
    from turnstate.history.places import Miss, Place
    from turnstate.history.reading import Reading
    from turnstate.history.thread import History
    from turnstate.history.turns import TurnsBy
    from turnstate_backends.interface import Store

MESSAGES = "messages"
"""The conversation's channel unless another is named."""

_FEW_NAMES = 5
_NEAREST_AMONG = 1000  # the latest threads, to look for a name like the one that was typed


class When(Struct, frozen=True):
    """Where on a line to read: at ``checkpoint``, else ``at`` a time, else at the end or start of ``turn``."""

    turn: int = -1
    at_start: bool = False
    checkpoint: str | None = None
    at: datetime | None = None


def thread_found(
    store: Store,
    thread: str,
    *,
    ns: str = "",
    branch: str | None = None,
    messages: str = MESSAGES,
    turns_by: TurnsBy | None = None,
    reducers: Mapping[str, Rule] | None = None,
) -> History | None:
    """A thread along the head's line, or along that of a branch; None where there is no such thread or namespace.

    Raises:
        Missed: There is no such branch.
        Refused: Several checkpoints begin as the branch does; or the thread has no channel that was named.
    """
    from turnstate.history.thread import History

    reducers = reducers or {}
    history = History(store, thread, ns, messages=messages, turns_by=turns_by, reducers=reducers)
    if not history.forest.rows:
        return None
    lines = [history]
    if branch is not None:
        named = checkpoint_id(history, branch)
        # With clock skew the head can have children; who names it means the line that LangGraph would resume.
        tip = named if named == history.forest.head else history.forest.tip_beyond(named)
        lines.append(history.along(tip))
    for channel in [*([messages] if messages != MESSAGES else []), *reducers]:
        _must_have(lines, channel)
    return lines[-1]


def thread_asked(store: Store, thread: str, *, ns: str = "", **options: Any) -> History:
    """:func:`thread_found`, or the words that there is no such thread, for which others are looked at.

    Raises:
        Missed: There is no such thread, namespace or branch.
        Refused: As there.
    """
    history = thread_found(store, thread, ns=ns, **options)
    if history is None:
        raise no_thread(store, thread, ns)
    return history


def _must_have(lines: Sequence[History], channel: str) -> None:
    """Refuse to go on where a channel was named which the thread has on none of some lines."""
    channels = {name for line in lines for name in line.channels()}
    if channel in channels:
        return
    from turnstate.history.keys import nearest

    own = sorted(name for name in channels if not lines[0].is_internal(name))
    few = nearest(channel, own) or own[:_FEW_NAMES]
    more = f" and {len(own) - len(few)} more" if len(own) > len(few) else ""
    raise Refused(
        f"thread {lines[0].thread!r} has no channel {channel!r}",
        f"it has: {', '.join(few)}{more}" if few else "it has none",
        "Name one that it has, or leave it out.",
    )


def no_thread(store: Store, thread: str, ns: str) -> Missed:
    """That a thread, or this namespace of it, is not there; with what is."""
    here = store.threads(thread=thread)
    if here:
        names = [f"{name!r}" for name in here[0].namespaces]
        more = f" and {len(names) - _FEW_NAMES} more" if len(names) > _FEW_NAMES else ""
        return Missed(
            "no_such_thread",
            f"thread {thread!r} has no checkpoint in namespace {ns!r}; it has: {', '.join(names[:_FEW_NAMES])}{more}",
            namespaces=list(here[0].namespaces),
        )
    from turnstate.history.keys import is_glob, nearest
    from turnstate_backends.interface import StoreError

    message = f"the store has no thread {thread!r}"
    if is_glob(thread):
        message += ", and only threads and gaps take a pattern"
    try:
        latest = [row.id for row in store.threads(limit=_NEAREST_AMONG)]
    except StoreError:  # not every saver can list its threads
        return Missed("no_such_thread", message)
    near = nearest(thread, latest)
    if near:
        return Missed("no_such_thread", f"{message}; nearest: {', '.join(near)}", nearest=near)
    latest_words = f"; the latest: {', '.join(latest[:3])}" if latest else "; it has no threads"
    return Missed("no_such_thread", message + latest_words)


def checkpoint_id(history: History, prefix: str) -> str:
    """The whole id of a checkpoint of the thread, on whichever line.

    Raises:
        Missed: None begins so; or one did, and only what was written on it is left.
        Refused: Several do.
    """
    from turnstate.history.lines import matching

    found = matching(list(history.forest.rows), prefix) if prefix else []
    if len(found) == 1:
        return found[0]
    if not found:
        gone = matching(list(history.writes), prefix) if prefix else []
        if len(gone) == 1:
            raise Missed(
                "turn_no_longer_retained", f"checkpoint {gone[0]} was deleted; only writes on it are left"
            )
        raise Missed(
            "no_such_turn",
            f"the thread has no checkpoint that begins with {prefix!r}; its newest is {history.forest.head}",
        )
    listed = ", ".join(found[:_FEW_NAMES])
    listed += f" and {len(found) - _FEW_NAMES} more" if len(found) > _FEW_NAMES else ""
    raise Refused(f"{prefix!r} is the beginning of {len(found)} checkpoints", listed, "Give more of the id.")


def place_asked(history: History, when: When) -> tuple[History, Place | Miss]:
    """The place, and the history of the line that it lies on: a checkpoint may lie on another one than the head's.

    Raises:
        Missed: There is no such checkpoint.
        Refused: There are several.
    """
    from turnstate.history import places

    if when.checkpoint is not None:
        id = checkpoint_id(history, when.checkpoint)
        if id not in history.line.index:
            history = history.along(history.forest.tip_beyond(id))
        return history, places.checkpoint_place(history, id)
    if when.at is not None:
        return history, places.time_place(history, when.at)
    return history, places.turn_place(history, when.turn, at_start=when.at_start)


def missed(history: History, miss: Miss) -> Missed:
    """That there is no place to read at, with the turns that there are."""
    return Missed(
        miss.outcome,
        miss.message,
        **({} if miss.turn is None else {"turn": miss.turn}),
        total_turns=history.turns.total,
        retained_turns=list(history.turns.retained),
    )


def ambiguous(name: str, error: AmbiguousKey) -> Refused:
    """That two channels have an entry of a name."""
    return Refused(
        f"{name!r} is an entry of {len(error.names)} channels",
        ", ".join(error.names),
        "Give one of these names.",
    )


def readings_asked(
    history: History, key: str, place: Place | Miss, *, internal: bool = False, reveal: bool = False
) -> list[Reading]:
    """What the key, or each key that the pattern matches, reads as; a pattern that matches none is a plain name.

    Raises:
        Refused: Two channels have an entry of that name.
    """
    from turnstate.history.keys import is_glob
    from turnstate.history.reading import read_all

    matched = read_all(history, key, place, internal=internal, reveal=reveal) if is_glob(key) else []
    return matched or [reading_asked(history, key, place, internal=internal, reveal=reveal)]


def reading_asked(
    history: History, key: str, place: Place | Miss, *, internal: bool = False, reveal: bool = False
) -> Reading:
    """What the key reads as, whose name is no pattern.

    Raises:
        Refused: Two channels have an entry of that name.
    """
    from turnstate.history.keys import AmbiguousKey
    from turnstate.history.reading import read

    try:
        return read(history, key, place, internal=internal, reveal=reveal)
    except AmbiguousKey as error:
        raise ambiguous(key, error) from None


def query_asked(query: str) -> Callable[[Any], Any]:
    """An expression to look into values with, for :func:`looked_into`.

    Raises:
        Refused: It is none.
    """
    from turnstate.history.query import QueryError, compiled, selected

    try:
        return partial(selected, compiled(query))
    except QueryError as error:
        raise Refused(
            "the query cannot be read", str(error), "See https://jmespath.org for the language."
        ) from None


def looked_into(reading: Reading, look: Callable[[Any], Any]) -> Reading:
    """The reading with what a query selects as its value; JMESPath gives null where it selects nothing.

    Args:
        reading: As it was read.
        look: From a value to what is selected of it; a :class:`~turnstate.history.query.QueryError` is refused.

    Raises:
        Refused: The query asks for what the value does not have.
    """
    from msgspec.structs import replace

    from turnstate.history.query import QueryError

    if reading.outcome != "value":
        return reading
    try:
        value = look(reading.value)
    except QueryError as error:
        raise Refused(
            "the query cannot be applied to the value",
            str(error),
            "Look at the value without a query first.",
        ) from None
    message = "the query selects nothing, or a null" if value is None else ""
    return replace(reading, value=value, entry=None, has_entry=False, message=message)


def logged_keys(log: Log, asked: str) -> list[Key]:
    """The key that is meant, or each that the pattern matches; a pattern that matches none is a plain name.

    Raises:
        Missed: There is no such key.
        Refused: Two channels have an entry of that name.
    """
    from turnstate.history import keys as names

    matched = names.matching(asked, log.leaves()) if names.is_glob(asked) else []
    return matched or [logged_key(log, asked)]


def logged_key(log: Log, asked: str) -> Key:
    """The key that is meant.

    Raises:
        Missed: There is no such key.
        Refused: Two channels have an entry of that name.
    """
    from turnstate.history import keys as names

    try:
        key = names.find(asked, log.known)
    except names.AmbiguousKey as error:
        raise ambiguous(asked, error) from None
    if key is None:
        near = names.nearest(asked, log.names.values())
        hint = f"; nearest: {', '.join(near)}" if near else ""
        fields = {"nearest": near} if near else {}
        raise Missed("no_such_key", f"the thread has no key {asked!r}{hint}", **fields)
    return key


def turns_span(history: History, first: int | None, last: int | None) -> Span:
    """The rows of some turns; None for an end left open, negative numbers count from the last.

    Raises:
        Refused: The turns are in the wrong order.
        Missed: There is no such turn, or none of them has a row that is kept.
    """
    from turnstate.history.log import span_of
    from turnstate.history.places import pruned_words, turns_had

    turns = history.turns
    ends = [0 if first is None else first, turns.total if last is None else last]
    first, last = (turns.total + 1 + number if number < 0 else number for number in ends)
    if first > last and first <= turns.total:
        raise Refused(
            "the turns cannot be looked at", "the first turn comes after the last", "Exchange the two."
        )
    known = {"total_turns": turns.total, "retained_turns": list(turns.retained)}
    if first > turns.total or last < 0:
        raise Missed("no_such_turn", turns_had(history), **known)
    span = span_of(history, max(first, 0), last)
    if span is None:
        words = pruned_words(history, "those turns were pruned")
        raise Missed("turn_no_longer_retained", words, **known)
    return span


def keys_asked(history: History, when: When, *, internal: bool = False) -> KeyReport:
    """The keys of the state at a place.

    Raises:
        Missed: There is no such place, or its checkpoint as a whole cannot be read.
        Refused: The checkpoint is not told by what it begins with.
    """
    from turnstate.history.listing import keys_at

    history, place = place_asked(history, when)
    report = keys_at(history, found_place(history, place), internal=internal)
    if (damage := report.damage) and damage.absence:
        turn = {} if report.turn is None else {"turn": report.turn}
        where = [*(f"turn {number}" for number in turn.values()), f"checkpoint {report.checkpoint}"]
        raise Missed(
            damage.absence,
            f"{damage.summary}; {', '.join(where)}",
            **turn,
            checkpoint=report.checkpoint,
            total_turns=report.turns.total,
            retained_turns=list(report.turns.retained),
        )
    return report


# The two ends of a comparison.


def found_place(history: History, place: Place | Miss, *, changed: int | None = None) -> Place:
    """The place, which is where a turn began where ``changed`` names one.

    Raises:
        Missed: There is none.
    """
    from turnstate.history.places import Miss, end_words, pruned_words

    if not isinstance(place, Miss):
        return place
    if changed is not None and place.outcome == "turn_no_longer_retained":
        needs = f"what turn {changed} changed needs {end_words(place.turn or 0)}, which was pruned"
        place = Miss(place.outcome, pruned_words(history, needs), changed)
    raise missed(history, place)


def ends_of_turn(history: History, number: int) -> tuple[Standpoint, Standpoint]:
    """Where the turns that were asked together with a turn began, and where it ended.

    Raises:
        Missed: There is no such turn, or one of the ends is no longer kept.
    """
    from turnstate.history.changes import Standpoint
    from turnstate.history.places import turn_place, turns_had

    new = found_place(history, turn_place(history, number))
    turn = history.turns.turns[new.turn or 0]
    if turn.number == 0:
        had = history.turns.total
        raise Missed(
            "no_such_turn", "turn 0 is what precedes the first question" if had else turns_had(history)
        )
    before = turn_place(history, min(turn.asked_with, default=turn.number) - 1)
    return (
        Standpoint(history, found_place(history, before, changed=turn.number)),
        Standpoint(history, new),
    )


def ends_of_turns(
    history: History, first: int | None, last: int | None, *, line: History | None = None
) -> tuple[Standpoint, Standpoint]:
    """The end of one turn, by default the state before the first question, and that of another, by default the last.

    Args:
        history: The thread.
        first: On ``line``, which is the history's own unless it is given.
        last: On the history's line.

    Raises:
        Missed: There is no such turn, or it is no longer kept.
    """
    from turnstate.history.changes import Standpoint
    from turnstate.history.places import turn_place

    line = line or history
    new = found_place(history, turn_place(history, -1 if last is None else last))
    old = found_place(line, turn_place(line, first or 0))
    return Standpoint(line, old), Standpoint(history, new)


def ends_at_checkpoints(history: History, ids: tuple[str, str]) -> tuple[Standpoint, Standpoint]:
    """Two checkpoints by the beginnings of their ids, each on its own line.

    Raises:
        Missed: There is no such checkpoint.
        Refused: There are several.
    """
    from turnstate.history.changes import Standpoint

    lines = [place_asked(history, When(checkpoint=id)) for id in ids]
    old, new = (Standpoint(line, found_place(line, place)) for line, place in lines)
    return old, new


def changes_asked(
    old: Standpoint, new: Standpoint, key: str | None, *, internal: bool = False, reveal: bool = False
) -> DiffReport:
    """What changed between two ends in a key, in those that a pattern matches, or in all.

    Raises:
        Missed: There is no such key, or an end as a whole cannot be read.
        Refused: Two channels have an entry of that name.
    """
    from turnstate.history.changes import diff_report
    from turnstate.history.keys import AmbiguousKey
    from turnstate.history.places import Miss

    try:
        report = diff_report(old, new, key, internal=internal, reveal=reveal)
    except AmbiguousKey as error:
        raise ambiguous(key or "", error) from None
    if isinstance(report, Miss):
        raise missed(new.history, report)
    return report

"""The questions to an opened store, as plain functions: each is one walk of :mod:`turnstate.history`, given as records.

That a thread, turn or key is not there is an ``outcome``, and never an error. A :class:`turnstate.StoreError` says what
a caller can mend: the store cannot be read, or a name means more than one thing.

What the functions share stands in :mod:`turnstate`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from turnstate.library.records import (
    Change,
    Diff,
    End,
    Gap,
    Gaps,
    Key,
    Keys,
    Log,
    Reading,
    Thread,
    Turn,
    Turns,
    Version,
    Written,
)
from turnstate.library.store import Store

if TYPE_CHECKING:
    from turnstate.history import changes, listing, versions
    from turnstate.history import gaps as gap_walk
    from turnstate.history import log as log_walk
    from turnstate.history.keys import Key as KeyName
    from turnstate.history.thread import History
    from turnstate.history.turns import TurnsBy
    from turnstate_backends.interface import Store as Backend

_Answer = TypeVar("_Answer")


def threads(store: Store, pattern: str | None = None, *, limit: int | None = None) -> tuple[Thread, ...]:
    """The threads of a store, most recent activity first; no state is read.

    Args:
        store: The store.
        pattern: Only ids that match it (``*``, ``?``, ``[abc]``), case-sensitive.
        limit: At most so many.
    """
    from turnstate.history.activity import span_of

    with _reading(store) as backend:
        return tuple(
            Thread(row.id, row.checkpoints, row.namespaces, *span_of(backend, row), row.head)
            for row in backend.threads(limit=limit, pattern=pattern)
        )


def turns(
    store: Store,
    thread: str,
    *,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Turns:
    """Each turn of a thread, those that were pruned included; see :mod:`turnstate` for the arguments."""

    def answer(history: History) -> Turns:
        from turnstate.history.listing import turn_report

        report = turn_report(history)
        counted = report.turns
        return Turns(
            "value",
            "",
            thread,
            namespace,
            report.head,
            counted.by,
            counted.total,
            counted.total_is,
            counted.retained,
            tuple(map(_turn, report.rows)),
        )

    def miss(outcome: Any, message: str, _known: dict[str, Any]) -> Turns:
        return Turns(outcome, message, thread, namespace, total=_never(outcome))

    return _answered(store, thread, answer, miss, namespace, branch, messages, turns_by)


def keys(
    store: Store,
    thread: str,
    turn: int | None = None,
    *,
    checkpoint: str | None = None,
    at: datetime | None = None,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Keys:
    """The keys that a thread's state held as a turn ended, by default the last, and which turns wrote them.

    See :mod:`turnstate` for the other arguments.

    Args:
        store: The store.
        thread: ``thread_id``.
        turn: The turn.
        checkpoint: As of this checkpoint, an id or its unique beginning, in place of a turn.
        at: As of this time, in place of a turn.
        internal: LangGraph's own channels too.
        namespace: ``checkpoint_ns``.
        branch: A checkpoint whose line is meant.
        messages: The channel that holds the conversation.
        turns_by: What to count.
    """
    from turnstate.history.asked import keys_asked

    when = _when(turn, False, checkpoint, at)

    def answer(history: History) -> Keys:
        report = keys_asked(history, when, internal=internal)
        counted = report.turns
        return Keys(
            "value",
            "",
            thread,
            namespace,
            report.turn,
            report.checkpoint,
            tuple(map(_key, report.rows)),
            counted.total,
            counted.retained,
        )

    def miss(outcome: Any, message: str, known: dict[str, Any]) -> Keys:
        return Keys(
            outcome, message, thread, namespace, known.get("turn"), known.get("checkpoint"), (), *_had(known)
        )

    return _answered(store, thread, answer, miss, namespace, branch, messages, turns_by)


def read(
    store: Store,
    thread: str,
    key: str,
    turn: int | None = None,
    *,
    at_start: bool = False,
    checkpoint: str | None = None,
    at: datetime | None = None,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Reading:
    """What a key held as a turn ended, by default the last, or why that cannot be told.

    See :mod:`turnstate` for the other arguments.

    Args:
        store: The store.
        thread: ``thread_id``.
        key: A channel; an entry of a channel that is a mapping; ``channel:entry`` where two channels have the entry.
        turn: The turn.
        at_start: What the turn began with.
        checkpoint: As of this checkpoint, an id or its unique beginning, in place of a turn.
        at: As of this time, in place of a turn.
        internal: LangGraph's own channels may be named.
        namespace: ``checkpoint_ns``.
        branch: A checkpoint whose line is meant.
        messages: The channel that holds the conversation.
        turns_by: What to count.

    Raises:
        StoreError: The store cannot be read; two channels have an entry of that name; or several checkpoints begin so.
    """
    from turnstate.history.asked import place_asked, reading_asked
    from turnstate.history.jsonform import jsonable

    when = _when(turn, at_start, checkpoint, at)

    def answer(history: History) -> Reading:
        history, place = place_asked(history, when)
        found = reading_asked(history, key, place, internal=internal)
        return Reading(
            found.outcome,
            found.message,
            thread,
            namespace,
            found.key,
            found.channel,
            found.turn,
            jsonable(found.value) if found.outcome == "value" else None,
            jsonable(found.entry) if found.has_entry else None,
            found.checkpoint,
            found.borrowed,
            _written(found.written),
            found.turns_written,
            found.earlier_unknown,
            found.total,
            history.turns.total_is,
            found.retained,
            jsonable(dict(found.stored)) if found.stored else None,
            found.nearest,
        )

    def miss(outcome: Any, message: str, known: dict[str, Any]) -> Reading:
        nearest = tuple(known.get("nearest", ()))
        return Reading(outcome, message, thread, namespace, key, nearest=nearest)

    return _answered(store, thread, answer, miss, namespace, branch, messages, turns_by)


def log(
    store: Store,
    thread: str,
    key: str | None = None,
    *,
    turns: tuple[int | None, int | None] | None = None,
    limit: int | None = None,
    reverse: bool = False,
    values: bool | None = None,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Log:
    """Every version of a key: when, by whom, and what it held since; without a key those of all keys.

    See :mod:`turnstate` for the other arguments.

    Args:
        store: The store.
        thread: ``thread_id``.
        key: The key, as :func:`read` takes it.
        turns: Only versions of these turns, the first and the last; None for an end left open.
        limit: Only the most recent ones, so many.
        reverse: Newest first.
        values: Whether versions have their values, all of which are then held; by default those of one key do.
        internal: LangGraph's own channels too.
        namespace: ``checkpoint_ns``.
        branch: A checkpoint whose line is meant.
        messages: The channel that holds the conversation.
        turns_by: What to count.

    Raises:
        StoreError: The store cannot be read; two channels have an entry of that name; or the turns are out of order.
    """
    with_values = key is not None if values is None else values

    def answer(history: History) -> Log:
        from turnstate.history import log as walk
        from turnstate.history.asked import logged_key, turns_span
        from turnstate.history.key_log import KeyLog

        found = walk.Log(history, internal=internal)
        span = None if turns is None else turns_span(history, *turns)
        name = None if key is None else logged_key(found, key)
        listed = KeyLog(found, name, span=span, limit=limit, reverse=reverse)
        versions: list[Version] = []
        gaps: list[Gap] = []
        for entry in listed:
            if isinstance(entry, walk.Logged):
                versions.append(_version(entry, found.name(entry.key), with_values))
            else:
                gaps.append(_gap(entry))
        counted = history.turns
        return Log(
            "value",
            "",
            thread,
            namespace,
            None if name is None else listed.name,
            None if name is None else name.channel,
            listed.turns_written if name is not None else (),
            listed.earlier_unknown,
            tuple(versions),
            tuple(gaps),
            counted.total,
            counted.retained,
        )

    def miss(outcome: Any, message: str, known: dict[str, Any]) -> Log:
        total, retained = _had(known)
        return Log(outcome, message, thread, namespace, key, total_turns=total, retained_turns=retained)

    return _answered(store, thread, answer, miss, namespace, branch, messages, turns_by)


def diff(
    store: Store,
    thread: str,
    key: str | None = None,
    *,
    turns: int | tuple[int | None, int | None] = -1,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Diff:
    """What changed in a key, in those that a pattern matches, or in all; by default with the last turn.

    See :mod:`turnstate` for the other arguments.

    Args:
        store: The store.
        thread: ``thread_id``.
        key: The key, as :func:`read` takes it, or a pattern such as ``gazet/*``.
        turns: One turn: what it changed. Two: from the end of the first, by default the state before the first
            question, to the end of the second, by default the last.
        internal: LangGraph's own channels too.
        namespace: ``checkpoint_ns``.
        branch: A checkpoint whose line is meant.
        messages: The channel that holds the conversation.
        turns_by: What to count.

    Raises:
        StoreError: The store cannot be read, or two channels have an entry of that name.
    """

    def answer(history: History) -> Diff:
        from turnstate.history.asked import changes_asked, ends_of_turn, ends_of_turns

        ends = ends_of_turn(history, turns) if isinstance(turns, int) else ends_of_turns(history, *turns)
        report = changes_asked(*ends, key, internal=internal)
        return Diff(
            "value",
            "",
            thread,
            namespace,
            _end(report.old),
            _end(report.new),
            tuple(map(_change, report.changes)),
            tuple(each.name for each in report.incomparable),
            report.turns.total,
            report.turns.retained,
        )

    def miss(outcome: Any, message: str, known: dict[str, Any]) -> Diff:
        total, retained = _had(known)
        return Diff(outcome, message, thread, namespace, total_turns=total, retained_turns=retained)

    return _answered(store, thread, answer, miss, namespace, branch, messages, turns_by)


def gaps(
    store: Store,
    thread: str,
    *,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Gaps:
    """Which turns and steps of a thread are no longer retained; see :mod:`turnstate` for the arguments."""

    def answer(history: History) -> Gaps:
        from turnstate.history.gaps import gap_report

        report = gap_report(history)
        counted = report.turns
        return Gaps(
            "value",
            "",
            thread,
            namespace,
            counted.total,
            counted.total_is,
            counted.retained,
            tuple(map(_gap, report.gaps)),
            report.orphans.writes,
            report.orphans.blobs,
        )

    def miss(outcome: Any, message: str, _known: dict[str, Any]) -> Gaps:
        return Gaps(outcome, message, thread, namespace, total=_never(outcome))

    return _answered(store, thread, answer, miss, namespace, branch, messages, turns_by)


# What they share.


def _never(outcome: str) -> int | None:
    """How many turns a thread has had that cannot be told of: none where it never was, else that is not known."""
    return 0 if outcome == "no_such_thread" else None


def _answered(
    store: Store,
    thread: str,
    answer: Callable[[History], _Answer],
    miss: Callable[[Any, str, dict[str, Any]], _Answer],
    namespace: str,
    branch: str | None,
    messages: str | None,
    turns_by: TurnsBy | None,
) -> _Answer:
    """What is found of a thread; or what stands for it where something that was asked about is not there.

    Args:
        store: The store.
        thread: ``thread_id``.
        answer: Finds it.
        miss: Makes the record of an outcome, of its words, and of what is known besides.
        namespace: ``checkpoint_ns``.
        branch: As :mod:`turnstate` has it.
        messages: The same.
        turns_by: The same.
    """
    from turnstate.history.refusals import Missed

    with _reading(store) as backend:
        try:
            history = store.history(
                backend, thread, namespace=namespace, branch=branch, messages=messages, turns_by=turns_by
            )
            return answer(history)
        except Missed as missed:
            return miss(missed.outcome, store.without_passwords(missed.message), missed.fields)


def _reading(store: Store) -> AbstractContextManager[Backend]:
    if not isinstance(store, Store):
        raise TypeError(f"store is what open_store gives, not {type(store).__qualname__}")
    return store.reading()


def _had(known: dict[str, Any]) -> tuple[int | None, tuple[int, ...]]:
    """How many turns a thread has had, and those that are kept, of what is known of a miss."""
    return known.get("total_turns"), tuple(known.get("retained_turns", ()))


def _when(turn: int | None, at_start: bool, checkpoint: str | None, at: datetime | None) -> Any:
    """Where to read.

    Raises:
        ValueError: More than one place was given.
    """
    from turnstate.history.asked import When

    if sum(given is not None for given in (turn, checkpoint, at)) > 1:
        raise ValueError("give only one of turn, checkpoint and at")
    if at_start and (checkpoint is not None or at is not None):
        raise ValueError("at_start goes with a turn")
    if at is not None and at.tzinfo is None:
        raise ValueError("at needs a time zone")
    return When(-1 if turn is None else turn, at_start, checkpoint, at)


def _turn(row: listing.TurnRow) -> Turn:
    turn = row.turn
    known = turn.first is not None and (bool(row.keys_written) or not row.may_have_written_more)
    return Turn(
        turn.number,
        turn.question,
        turn.retained,
        turn.status,
        row.first_checkpoint,
        row.last_checkpoint,
        row.started,
        row.ended,
        row.checkpoints,
        row.keys_written if known else None,
        "at_least" if row.may_have_written_more else "exact",
        turn.asked_with,
        turn.edited,
        row.thinned,
        turn.borrowed,
    )


def _key(row: listing.KeyRow) -> Key:
    return Key(
        row.name,
        row.key.channel,
        row.key.entry,
        row.type,
        row.size,
        row.summary,
        row.absence,
        row.turns_written,
        row.earlier_unknown,
        _written(row.written),
    )


def _written(written: versions.Written | None) -> Written | None:
    if written is None:
        return None
    lost = not written.turns  # neither the time of its row nor its node are those of the write
    return Written(
        None if lost else written.turns[-1],
        written.turns,
        written.checkpoint,
        None if lost else written.node,
        None if lost else written.time,
        written.inferred,
    )


def _version(version: log_walk.Logged, name: str, with_value: bool) -> Version:
    outcome, value, entry = _held(version.key, version.now, with_value)
    return Version(
        name,
        version.key.channel,
        version.turns[-1] if version.turns else None,
        version.turns,
        version.checkpoint,
        version.step,
        version.time,
        version.nodes,
        version.change,
        version.ends_turn,
        version.inferred,
        version.lost,
        version.reread,
        outcome,
        value,
        entry,
    )


def _held(key: KeyName, part: Any, with_value: bool) -> tuple[Any, Any, Any]:
    """The outcome of reading a version's value, the value, and the whole entry that it is a field of."""
    from turnstate.history.jsonform import jsonable
    from turnstate.history.log_words import value_of
    from turnstate_backends.values import Absent

    if part is None:
        return "removed", None, None
    value, whole, is_field = (
        (part, None, False)
        if isinstance(part, Absent)
        else value_of(key, part)
        if with_value
        else (None, None, False)
    )
    if isinstance(value, Absent):
        return ("undecodable" if value.kind == "empty" else value.kind), None, None
    return "value", jsonable(value), jsonable(whole) if is_field else None


def _gap(gap: gap_walk.Gap) -> Gap:
    left = gap.recoverable
    return Gap(
        gap.kind,
        gap.turns,
        gap.after,
        gap.before,
        None if gap.steps is None else gap.steps.count,
        tuple(each.words for each in gap.evidence),
        left.writes,
        left.blobs,
        gap.channel,
    )


def _end(end: changes.End) -> End:
    return End(end.turn, end.checkpoint, end.borrowed)


def _change(change: changes.KeyChange) -> Change:
    from turnstate.history.diff import patch

    gone = change.change == "removed"  # no patch takes a whole document away
    return Change(
        change.name,
        change.key.channel,
        change.key.entry,
        change.change,
        change.old,
        change.new,
        () if gone else tuple(patch(change.operations)),
        tuple(patch(change.entry)),
    )

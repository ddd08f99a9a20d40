"""What the library's functions give: frozen records with the names that the documents of the command line have.

Values are plain data as ``--json`` has them: what was an instance is ``{"$type": "module.Class", "$value": …}``, bytes
are ``{"$type": "bytes", "$base64": …}``, what cannot be read within a value is ``{"$absent": kind, …}``, and a secret
is masked. They are not to be changed: records may share them. Times are in UTC. An ``outcome`` says how an answer
ended; everything that is None besides is not known or does not apply, and never a stored null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from turnstate.history.reading import Outcome
from turnstate.history.turns import TotalIs, TurnsBy


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a store.

    Attributes:
        thread: ``thread_id``.
        checkpoints: Rows in all namespaces.
        namespaces: Each ``checkpoint_ns``; ``""`` is the root graph.
        first: When its first checkpoint was made.
        last: When its last one was.
        head: The checkpoint that LangGraph would resume; None without rows in the root namespace.
    """

    thread: str
    checkpoints: int
    namespaces: tuple[str, ...]
    first: datetime | None
    last: datetime | None
    head: str | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, also one that is no longer retained.

    Attributes:
        turn: Its number, from 1.
        question: What was asked; None where no text is known.
        retained: Whether the state with which it ended can be read.
        status: How it ended; None where its rows are gone.
        first_checkpoint: Its first row; None where it has none any more.
        last_checkpoint: The row with the state as it ended, else the last one kept of it.
        started: When its first row was made.
        ended: When its last one was.
        checkpoints: Rows of its own that are kept.
        keys_written: Keys written in it, as far as rows tell; None where none of them is kept.
        keys_written_is: ``at_least`` where rows are gone, so that it may have written more.
        asked_with: The numbers of all questions that came in one input with its own; empty where it came alone.
        edited: ``update_state`` was used within it.
        thinned: Its end is kept, and steps of it are gone.
        read_from_next_input: Its own last row is gone; its end is read in the row that took the next input.
    """

    turn: int
    question: str | None
    retained: bool
    status: Literal["complete", "interrupted", "error", "unfinished", "never_ran"] | None
    first_checkpoint: str | None
    last_checkpoint: str | None
    started: datetime | None
    ended: datetime | None
    checkpoints: int
    keys_written: tuple[str, ...] | None
    keys_written_is: Literal["exact", "at_least"]
    asked_with: tuple[int, ...]
    edited: bool
    thinned: bool
    read_from_next_input: bool


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a thread.

    Attributes:
        outcome: ``value``, ``no_such_thread``; of a branch that is named also ``no_such_turn`` and
            ``turn_no_longer_retained``.
        message: The outcome in words, where it is no value.
        thread: ``thread_id``.
        namespace: ``checkpoint_ns``.
        head: The checkpoint that LangGraph would resume.
        turns_by: What was counted.
        total: How many turns the thread has had.
        total_is: How sure that number is.
        retained: The turns whose end can be read.
        turns: All of them from 1, in order.
    """

    outcome: Outcome
    message: str
    thread: str
    namespace: str
    head: str | None = None
    turns_by: TurnsBy | None = None
    total: int | None = None
    total_is: TotalIs | None = None
    retained: tuple[int, ...] = ()
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The last write of a key up to where it was read.

    Attributes:
        turn: In which turn; None where it was written in rows that are gone.
        turns: That, and the turns whose questions came in one input with its.
        checkpoint: The row that holds what was written; of a write in rows that are gone the first kept one that does.
        node: Who wrote; ``__start__`` for an input, ``update_state`` for an edit; None where nothing tells.
        time: When that row was made; None where the write's own is gone.
        inferred: No write row tells of it.
    """

    turn: int | None
    turns: tuple[int, ...]
    checkpoint: str
    node: str | None
    time: datetime | None
    inferred: bool


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a thread's state.

    Attributes:
        key: The shortest name that says which is meant: a channel, an entry of a mapping channel, ``channel:entry``.
        channel: Its channel.
        entry_name: The entry's name in its channel; None for a channel.
        type: The value's, in a word; the kind of absence where it cannot be read.
        bytes: Size of what is stored; None where that cannot be told.
        summary: One line about the value.
        absence: Why it cannot be read; None where it can.
        turns_written: The turns that wrote it.
        earlier_unknown: Rows that are gone wrote it too.
        last_written: The last write up to there.
    """

    key: str
    channel: str
    entry_name: str | None
    type: str
    bytes: int | None
    summary: str
    absence: str | None
    turns_written: tuple[int, ...]
    earlier_unknown: bool
    last_written: Written | None


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a thread's state held.

    Attributes:
        outcome: ``value``; or why there is no such state to look at.
        message: The outcome in words, where it is no value.
        thread: ``thread_id``.
        namespace: ``checkpoint_ns``.
        turn: The turn whose end was looked at.
        checkpoint: The row that was read.
        keys: By channel; entries in stored order.
        total_turns: How many turns the thread has had.
        retained_turns: The turns whose end can be read.
    """

    outcome: Outcome
    message: str
    thread: str
    namespace: str
    turn: int | None = None
    checkpoint: str | None = None
    keys: tuple[Key, ...] = ()
    total_turns: int | None = None
    retained_turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a key held as of a turn.

    Attributes:
        outcome: How the read ended; only with ``value`` does ``value`` mean anything.
        message: The outcome in words; also what is to be known of a value, where there is something.
        thread: ``thread_id``.
        namespace: ``checkpoint_ns``.
        key: The key's name, as it was asked for.
        channel: Its channel, where there is such a key.
        turn: The turn that was read.
        value: The value; of an entry that is a mapping with a ``value`` field, that field.
        entry: The whole entry in that case.
        checkpoint: The row that was read.
        borrowed: It is the next turn's input row, the turn's own rows being gone.
        written: The last write up to there.
        turns_written: All turns that wrote the key: who compares two of them must not compare a value with itself.
        earlier_unknown: Rows that are gone wrote it too.
        total_turns: How many turns the thread has had; None of a thread that never was.
        total_is: How sure that number is.
        retained_turns: The turns whose end can be read.
        stored: What is stored where it cannot be read: ``type``, ``bytes``, ``sha256``, ``reason``.
        nearest: Names like one that was not found.
    """

    outcome: Outcome
    message: str
    thread: str
    namespace: str
    key: str
    channel: str | None = None
    turn: int | None = None
    value: Any = None
    entry: Any = None
    checkpoint: str | None = None
    borrowed: bool = False
    written: Written | None = None
    turns_written: tuple[int, ...] = ()
    earlier_unknown: bool = False
    total_turns: int | None = None
    total_is: TotalIs | None = None
    retained_turns: tuple[int, ...] = ()
    stored: Mapping[str, Any] | None = None
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """One write of a key.

    Attributes:
        key: The key's name.
        channel: Its channel.
        turn: The turn it was written in; None where that row is gone.
        turns: That, and the turns whose questions came in one input with its.
        checkpoint: The row that holds what was written.
        step: The row's step.
        time: When the row was made.
        nodes: Who wrote, in the order in which the writes were applied; empty where nothing tells.
        change: Against the version before; None where that cannot be told.
        ends_turn: The turn ended with it.
        inferred: No write row tells of it.
        lost: It was written in rows that are gone.
        reread: Nothing wrote it: LangGraph read the value back in another form than it was written.
        outcome: ``value``; ``removed``, or why the value cannot be read.
        value: The value since, where values were asked for.
        entry: The whole entry, where ``value`` is only its ``value`` field.
    """

    key: str
    channel: str
    turn: int | None
    turns: tuple[int, ...]
    checkpoint: str
    step: int | None
    time: datetime | None
    nodes: tuple[str, ...]
    change: Literal["added", "changed", "same", "removed"] | None
    ends_turn: bool
    inferred: bool
    lost: bool
    reread: bool
    outcome: Outcome
    value: Any = None
    entry: Any = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Turns or steps that the thread had and the store no longer holds.

    Attributes:
        kind: ``pruned``: the turns' ends are gone; ``thinned``: they are kept, and steps are gone; ``value_missing``:
            a row is kept and a value of it is not; ``not_recorded``: ``durability="exit"`` never stored the steps, no
            loss.
        turns: Which; empty where it lies before the first question that is known.
        after: The last checkpoint kept before it; None at the front.
        before: The first one kept after it.
        steps_missing: How many, where that can be told.
        evidence: What shows it, in words.
        writes: Write rows that deleted checkpoints left behind.
        blobs: Value rows that they left behind.
        channel: The channel whose value is missing, of ``value_missing``.
    """

    kind: Literal["pruned", "thinned", "value_missing", "not_recorded"]
    turns: tuple[int, ...]
    after: str | None
    before: str
    steps_missing: int | None
    evidence: tuple[str, ...]
    writes: int
    blobs: int
    channel: str | None


@dataclass(frozen=True, slots=True)
class Log:
    """The versions of a key, or of all keys.

    Attributes:
        outcome: ``value``; or why there is nothing to list.
        message: The outcome in words, where it is no value.
        thread: ``thread_id``.
        namespace: ``checkpoint_ns``.
        key: The key's name; None for all keys.
        channel: Its channel.
        turns_written: The turns that wrote it.
        earlier_unknown: Rows that are gone wrote it too.
        versions: In order of time.
        gaps: Where rows between them are gone.
        total_turns: How many turns the thread has had.
        retained_turns: The turns whose end can be read.
    """

    outcome: Outcome
    message: str
    thread: str
    namespace: str
    key: str | None = None
    channel: str | None = None
    turns_written: tuple[int, ...] = ()
    earlier_unknown: bool = False
    versions: tuple[Version, ...] = ()
    gaps: tuple[Gap, ...] = ()
    total_turns: int | None = None
    retained_turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """One end of a comparison: the turn whose end it is, and the row that was read.

    Attributes:
        turn: None before the first turn.
        checkpoint: The row's id.
        borrowed: It is the next turn's input row, the turn's own rows being gone.
    """

    turn: int | None
    checkpoint: str
    borrowed: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A key that differs between two ends.

    Attributes:
        key: The key's name.
        channel: Its channel.
        entry_name: The entry's name in its channel; None for a channel.
        change: ``added`` and ``removed`` where it is not there at one end.
        old: Its value at the first end; ``{"$absent": kind, …}`` where it cannot be read there; None for ``added``.
        new: The same at the second end; None for ``removed``.
        patch: What makes ``old`` into ``new``, as RFC 6902 has it; empty for ``removed``.
        entry_patch: The same for the rest of an entry that is shown by its ``value`` field.
    """

    key: str
    channel: str
    entry_name: str | None
    change: Literal["added", "removed", "changed"]
    old: Any
    new: Any
    patch: tuple[Mapping[str, Any], ...]
    entry_patch: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from the end of one turn to the end of another.

    Attributes:
        outcome: ``value``; or why there is nothing to compare.
        message: The outcome in words, where it is no value.
        thread: ``thread_id``.
        namespace: ``checkpoint_ns``.
        start: The first end.
        end: The second.
        changes: By channel, then by entry.
        incomparable: Names of keys that can be read at neither end, so that nothing tells whether they changed.
        total_turns: How many turns the thread has had.
        retained_turns: The turns whose end can be read.
    """

    outcome: Outcome
    message: str
    thread: str
    namespace: str
    start: End | None = None
    end: End | None = None
    changes: tuple[Change, ...] = ()
    incomparable: tuple[str, ...] = ()
    total_turns: int | None = None
    retained_turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a thread had and its store no longer holds.

    Attributes:
        outcome: ``value``, ``no_such_thread``; of a branch that is named also ``no_such_turn`` and
            ``turn_no_longer_retained``.
        message: The outcome in words, where it is no value.
        thread: ``thread_id``.
        namespace: ``checkpoint_ns``.
        total: How many turns the thread has had.
        total_is: How sure that number is.
        retained: The turns whose end can be read.
        gaps: In the order of the line.
        orphaned_writes: Write rows on checkpoints that are gone.
        orphaned_blobs: Value rows that no kept checkpoint refers to.
    """

    outcome: Outcome
    message: str
    thread: str
    namespace: str
    total: int | None = None
    total_is: TotalIs | None = None
    retained: tuple[int, ...] = ()
    gaps: tuple[Gap, ...] = ()
    orphaned_writes: int | None = None
    orphaned_blobs: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A thread's state as one turn ended.

    Attributes:
        outcome: ``value``; ``no_such_thread`` and ``no_such_turn`` where it never was; ``turn_no_longer_retained``
            where it was pruned; ``encrypted`` or ``undecodable`` where the row as a whole cannot be read.
        message: The outcome in words, where it is no value.
        turn: The turn, from 0.
        entries: Key → entry, see :class:`turnstate.CheckpointHistory`; empty unless the outcome is ``value``.
        checkpoint: The row that was read.
        total: How many turns the thread has had.
        retained: The turns whose end can be read.
        present: As :class:`turnstate.Snapshots` has it.
    """

    outcome: Outcome
    message: str
    turn: int | None
    entries: Mapping[str, Any]
    checkpoint: str | None
    total: int
    retained: tuple[int, ...]
    present: int | None = None

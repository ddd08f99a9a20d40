"""Which human messages are questions: those that reached the thread from outside the graph.

The rule stands in :func:`find_questions`. What a step brought is read from its small write rows where they
tell, else from the message lists before and after. Pure but for the reader that is handed in.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.lines import Line
from turnstate.history.messages import Message, MessageList
from turnstate.history.met import LearnsFrom, MessageReader, Met, beyond
from turnstate.history.steps import (
    RESUME,
    Step,
    are_complete,
    is_outside,
    is_trigger,
    is_update_task,
    node_of,
    resumed_tasks,
    steps_of,
)
from turnstate_backends.interface import Checkpoint, Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Stored, Tagged


class Question(Struct, frozen=True):
    """A human message from outside.

    Attributes:
        text: What was asked; None where an input has no text.
        row: Position on the line of the first row that holds it (of the input row itself while no step ran).
        start: Position of the row with which its turn begins: the input row before ``row``, or ``row``.
        waiting: No step ran yet: the question stands only in the input.
        inherited: It was already there in a first kept row, so the turn's own rows may be gone.
    """

    text: str | None
    row: int
    start: int
    waiting: bool = False
    inherited: bool = False


class Aside(Struct, frozen=True):
    """A human message that is not a question: a node made it, or a summary."""

    text: str
    row: int
    why: Literal["node", "summary"]
    by: str | None = None


class Findings(Struct):
    """Questions in the order in which the thread met them, and what was found besides.

    Attributes:
        named_at_front: A message with a ``name`` was counted in a row whose past is gone: perhaps a node's.
        trimmed_at_front: Such a row shows that messages had been taken out before.
        removes: The graph takes messages out of the list: some write on the line did.
        perhaps_asked: A run saved in one row holds a human message with a ``name`` before an answer, or is the first
            row and holds one after an answer, or another row and holds one after nothing but answers or after one
            question that was asked before: perhaps a node's. Or a task that was given an answer wrote one that holds
            none of its words.
        unseen: A run saved in one row took messages out of the list and holds no question: its own may be among them.
        parted: A row after a seam lacks human messages of the row before it: it may be another branch's.
        unreadable: An input wrote messages that cannot be read (encrypted, damaged); one question was assumed.
    """

    questions: list[Question] = []
    asides: list[Aside] = []
    named_at_front: bool = False
    trimmed_at_front: bool = False
    removes: bool = False
    perhaps_asked: bool = False
    unseen: bool = False
    parted: bool = False
    unreadable: bool = False


_BELIEVING: tuple[LearnsFrom, ...] = ("writes", "rows")


def settle(
    line: Line,
    children: Mapping[str, Sequence[Checkpoint]],
    writes: Mapping[str, Sequence[Write]],
    reader: MessageReader,
) -> tuple[tuple[Step, ...], Findings]:
    """The steps and questions of a line, by the least reading that can be verified.

    Write rows are evidence, never a premise. They are believed when the tip's list holds just the human messages
    that they tell of, in order; else when it holds none that they do not tell of, where no id was wanting, or once
    such ids were learned from lists on the way. Otherwise the lists alone tell.
    """
    elsewhere = frozenset(
        parent
        for parent, rows in children.items()
        if parent in line.index
        and any(c.id not in line.index and c.source not in ("input", "update") for c in rows)
    )
    steps = steps_of(line, children, writes)
    if are_complete(line, steps, writes):
        for learns in _BELIEVING:
            met = Met(line, reader, learns)
            found = find_questions(line, steps, met, elsewhere)
            if met.accounts_for_tip():
                return steps, found
    steps = steps_of(line, children, writes, trusted=False)
    return steps, find_questions(line, steps, Met(line, reader, "lists"), elsewhere)


def find_questions(
    line: Line, steps: Sequence[Step], met: Met, elsewhere: Collection[str] = frozenset()
) -> Findings:
    """Walk a line and say at which rows a question arrived.

    A human message is a question where the row took something from outside: after an input, by
    ``update_state``, by the answer to an interrupt, or in a row that cannot be split. What a node wrote is none.

    Args:
        line: The line.
        steps: How each of its rows came to be.
        met: The human messages met so far: none.
        elsewhere: Rows of the line from which another branch went on. An input that ran there and was replaced
            here was asked there, not here.
    """
    found = Findings()
    reader = met.reader
    for i, (row, step) in enumerate(zip(line.rows, steps, strict=True)):
        if step.arrival == "first":
            _at_first_row(i, line, met, found)
        elif step.took_input or step.arrival in ("update", "fork"):
            asked = _from_outside(i, line, steps, met, found)
            start = _input_row(i, line) if step.took_input else i
            if asked is None:
                found.unreadable = True
                found.questions.append(Question(None, i, start))
            else:
                found.questions += [Question(m.text, i, start) for m in asked]
        elif step.arrival == "run":
            _from_run(i, line, met, found)
        elif step.arrival == "step":
            _from_nodes(i, line, step, met, found)
        replaced = row.id in elsewhere and _is_replaced(i, steps)
        if row.source == "input" and not _ran(i, steps) and not replaced:
            waiting = reader.pending_input(row.id) or MessageList(())
            asked = met.new(waiting.messages, at_input=True, waiting=True)
            found.questions += [Question(m.text, i, i, waiting=True) for m in asked]
    return found


def _at_first_row(i: int, line: Line, met: Met, found: Findings) -> None:
    """Nothing before the row is kept: every untagged human message counts, and what makes that unsure is noted."""
    messages: Sequence[Message] = met.reader.state(line.rows[i].id) or ()
    first_run = not i and bool(messages) and not line.front_dangling
    first_run = first_run and met.reader.in_first_run(line.rows[i].id)
    spoken = [m.role for m in messages if m.role != "system"]
    trimmed = any(m.summary for m in messages) or (bool(spoken) and spoken[0] != "human")
    if first_run:
        leading = _leading(messages)
        # A saver that prunes can leave such a row too, and then the others were asked as well.
        found.perhaps_asked |= any(m.role == "human" and not m.summary for m in messages[len(leading) :])
        messages = leading
    asked = met.new(messages, at_input=False, whole=True)
    if i or line.front_missing:
        found.named_at_front |= any(m.name for m in asked)
        found.trimmed_at_front |= trimmed
        found.parted |= bool(i) and _lacks(i, line, met.reader)
    found.questions += [Question(m.text, i, i, inherited=not first_run) for m in asked]
    found.asides += [Aside(m.text, i, "summary") for m in messages if m.role == "human" and m.summary]


def _from_outside(
    i: int, line: Line, steps: Sequence[Step], met: Met, found: Findings
) -> Sequence[Message] | None:
    """The questions that an input or an ``update_state`` brought; None when it brought what cannot be read."""
    parent, step = line.rows[i - 1], steps[i]
    lists = _written_by(step.writes, met.reader.written(parent.id)) if step.writes is not None else None
    if lists is not None and not lists:
        return ()
    unread = lists is None and step.writes is not None
    if unread and step.took_input and met.reader.state(line.rows[i].id) is None:
        return None
    if lists is None or any(part.replaces or part.ambiguous for part in lists):
        met.note(met.reader.state(parent.id) or ())
        brought: Sequence[Message] = _added(i, line, met.reader)
        if step.arrival == "run":
            brought = _leading(brought)
    else:
        brought = [m for part in lists for m in part.messages if not m.bare or met.assigns_ids]
    found.asides += [Aside(m.text, i, "summary") for m in brought if m.role == "human" and m.summary]
    found.removes |= any(m.role == "remove" for m in brought)
    if step.arrival == "update" and not _asks_again(i, steps, met.reader.on(parent.id)):
        for n, text in met.corrected(brought, [question.text for question in found.questions], parent.id):
            found.questions[n] = replace(found.questions[n], text=text)
    return met.new(brought, at_input=step.took_input or step.arrival == "update", row=i)


def _from_run(i: int, line: Line, met: Met, found: Findings) -> None:
    """The questions of a run saved in one row: its human messages before an answer, but for a history sent again.

    One question with its answer before another may also be a repeated question, and a node's message after it.
    """
    added = _added(i, line, met.reader)
    rest, repeated = met.after_history(added)
    brought = _leading(rest)
    spoken = any(m.role == "human" for m in brought)
    asked = met.new(brought if spoken else _written_anew(i, line, met.reader), at_input=True)
    found.questions += [Question(m.text, i, i) for m in asked]
    found.perhaps_asked |= any(m.name for m in asked) or repeated == 1
    found.perhaps_asked |= not asked and any(m.role == "human" and not m.summary for m in added)
    found.unseen |= not asked and _lacks(i, line, met.reader)


def _written_anew(i: int, line: Line, reader: MessageReader) -> Sequence[Message]:
    """The last human message of a list without ids that a run replaced as a whole: it was asked with its old text."""
    before = reader.state(line.rows[i - 1].id) or ()
    after = reader.state(line.rows[i].id) or ()
    humans = [m for m in after if m.role == "human"]
    grew = len(after) > len(before) and [m.raw for m in after[: len(before)]] == [m.raw for m in before]
    if grew or not humans or humans[-1].id or not reader.changed(line.rows[i - 1].id, line.rows[i].id):
        return ()
    return humans[-1:]


def _asks_again(i: int, steps: Sequence[Step], on_parent: Sequence[Write]) -> bool:
    """Whether a question that ``update_state`` changed was asked anew: the graph had come to rest, and then ran.

    Otherwise the change corrects the question of the turn that is going on, or edits what is past.
    """
    under_way = any(is_trigger(w) for w in steps[i - 1].writes or ())
    under_way |= any(not is_update_task(w) for w in on_parent)
    runs_on = i + 1 < len(steps) and steps[i + 1].arrival == "step"
    return runs_on and not under_way


def _from_nodes(i: int, line: Line, step: Step, met: Met, found: Findings) -> None:
    """Human messages of a step's tasks are the nodes' own.

    They are questions where a task had just been given an answer and speaks in the user's words, and where no task
    wrote them but the caller did, by ``Command(update=…)``.
    """
    if step.writes is None:
        _from_unknown_tasks(i, line, met, found)
        return
    on_parent = met.reader.on(line.rows[i - 1].id)
    made = {(w.task, w.idx) for w in step.writes}
    written = met.reader.written(line.rows[i - 1].id)
    parts = [(w, part) for w, part in written if part and (w.task, w.idx) in made]
    found.removes |= any(m.role == "remove" for _, part in parts for m in part.messages)
    if not any(m.role == "human" for _, part in parts for m in part.messages):
        return
    answered = resumed_tasks(on_parent)
    others = 0
    for write, part in parts:
        given = on_parent if write.task in answered else ()
        humans = _besides_list(i, write, part, met, given, others)
        new = met.new(humans, at_input=False, row=i)
        others += len(new)
        asked: Sequence[Message] = new if is_outside(write) else ()
        if write.task in answered and not asked:
            asked = _in_the_users_words(new, on_parent, found)
        found.questions += [Question(m.text, i, i) for m in asked]
        found.asides += [Aside(m.text, i, "node", node_of(write)) for m in new if m not in asked]
        found.asides += [Aside(m.text, i, "summary", node_of(write)) for m in humans if m.summary]


def _from_unknown_tasks(i: int, line: Line, met: Met, found: Findings) -> None:
    """The questions of a step whose writes are not known: the caller's and the user's words in what the list gained."""
    on_parent = met.reader.on(line.rows[i - 1].id)
    by_caller = any(is_outside(w) and w.channel != RESUME for w in on_parent)
    answered = resumed_tasks(on_parent)
    rest = _added(i, line, met.reader) if by_caller or answered else ()
    asked: list[Message] = []
    if by_caller:
        said, rest = _by_caller(rest, met.reader.written(line.rows[i - 1].id))
        asked += met.new(said, at_input=False)
    if rest and answered:
        asked += _in_the_users_words(met.new(rest, at_input=False), on_parent, found)
    found.questions += [Question(m.text, i, i) for m in asked]
    met.unsure_of(i)


def _besides_list(
    i: int, write: Write, part: MessageList, met: Met, given: Sequence[Write], others: int
) -> Sequence[Message]:
    """The human messages of one write into row ``i``, without those of the list that it wrote once more.

    Args:
        i: The row.
        write: The write.
        part: What it holds.
        met: What was met before.
        given: Where its task had been given an answer: the writes beside it.
        others: New messages of the writes before it.
    """
    humans = _humans(part.messages, met)
    if met.assigns_ids:
        return humans
    if is_outside(write):
        return _humans(part.messages[met.list_again(part.messages, i) :], met)
    rest = met.after_list(part, humans, i)
    if rest or not _holds_an_answer(humans, given):
        return rest
    return _humans(met.gained(i), met)[others:]  # the answer may repeat the last question's text


def _humans(messages: Iterable[Message], met: Met) -> Sequence[Message]:
    return [m for m in messages if m.role == "human" and (not m.bare or met.assigns_ids)]


def _in_the_users_words(
    humans: Sequence[Message], on_parent: Iterable[Write], found: Findings
) -> Sequence[Message]:
    """Of the human messages of tasks that were given an answer, those that hold its text; else those without a name,
    which is a guess: a node of the task may have made them."""
    given = [w.value for w in on_parent if w.channel == RESUME]
    texts = _texts_of(given)
    for holds in (operator.eq, operator.contains):
        if in_words := [m for m in humans if any(holds(m.text, text) for text in texts)]:
            return in_words
    nameless = [m for m in humans if not m.name]
    found.perhaps_asked |= bool(nameless) and all(value.complete for value in given)
    return nameless


def _holds_an_answer(humans: Iterable[Message], on_parent: Iterable[Write]) -> bool:
    texts = _texts_of([w.value for w in on_parent if w.channel == RESUME])
    return any(text in m.text for m in humans for text in texts)


def _texts_of(given: Iterable[Stored]) -> Sequence[str]:
    return [text for value in given if value.complete for text in _texts_in(decode(value))]


def _texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield from [value] if value else []
        case Tagged():
            yield from _texts_in(value.value)
        case list() | dict():
            for part in value.values() if isinstance(value, dict) else value:
                yield from _texts_in(part)


def _written_by(
    made: Iterable[Write], written: Sequence[tuple[Write, MessageList | None]]
) -> list[MessageList] | None:
    """The lists that these tasks wrote; None when one of them cannot be read."""
    keys = {(w.task, w.idx) for w in made}
    lists = [part for write, part in written if (write.task, write.idx) in keys]
    return None if any(part is None for part in lists) else [part for part in lists if part]


def _added(i: int, line: Line, reader: MessageReader) -> Sequence[Message]:
    """What the list gained in a row: its new tail, or all of it where it was replaced or taken apart."""
    before = reader.state(line.rows[i - 1].id) or ()
    after = reader.state(line.rows[i].id) or ()
    raw = [m.raw for m in before]
    if [m.raw for m in after[: len(before)]] == raw:
        if len(after) > len(before) or not reader.changed(line.rows[i - 1].id, line.rows[i].id):
            return after[len(before) :]
        return after[-1:]  # the list was written again and is the same: its last message was asked once more
    return beyond(after, before, by=operator.attrgetter("raw")) or after[-1:]


def _by_caller(
    added: Sequence[Message], written: Sequence[tuple[Write, MessageList | None]]
) -> tuple[Sequence[Message], Sequence[Message]]:
    """Of what the list gained, what a caller wrote, all of it where that cannot be read; and what tasks did."""
    lists = [part for write, part in written if is_outside(write)]
    if not lists or None in lists:
        return added, ()
    said = {m.content for part in lists if part for m in part.messages}
    return [m for m in added if m.content in said], [m for m in added if m.content not in said]


def _lacks(i: int, line: Line, reader: MessageReader) -> bool:
    """Whether human messages of the row before are no longer in a row's list."""
    before = reader.state(line.rows[i - 1].id) or ()
    after = {m.id or m.content for m in reader.state(line.rows[i].id) or ()}
    return any((m.id or m.content) not in after for m in before if m.role == "human" and not m.summary)


def _leading(messages: Iterable[Message]) -> list[Message]:
    """Of a whole run in one row: what stands before the first answer of the graph."""
    leading = []
    for message in messages:
        if message.role in ("ai", "tool"):
            break
        leading.append(message)
    return leading


def _input_row(i: int, line: Line) -> int:
    """The row that took the input which row ``i`` spreads; copies of it are passed over."""
    start = i - 1
    while start > 0 and line.rows[start].source == "fork":
        start -= 1
    return start


def _is_replaced(i: int, steps: Sequence[Step]) -> bool:
    """Whether another input came, over edits and copies, before a step could spread the one of row ``i``."""
    following = (step.arrival for step in steps[i + 1 :] if step.arrival not in ("update", "fork"))
    return next(following, None) == "input"


def _ran(i: int, steps: Sequence[Step]) -> bool:
    """Whether a step spread the input that row ``i`` took, or a copy of it did."""
    if i + 1 == len(steps) or not steps[i + 1].took_input:
        return False
    return steps[i + 1].arrival != "fork" or _ran(i + 1, steps)

"""Which human messages are questions: those that reached the thread from outside the graph.

The rule stands in :func:`find_questions`. What a step brought is read from its small write rows where they
tell, else from the message lists before and after. Pure but for the reader that is handed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from turnstate.history.lines import Line
from turnstate.history.messages import Message, MessageList
from turnstate.history.steps import (
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


class MessageReader(Protocol):
    """What the rule asks of a thread's message channel."""

    def state(self, checkpoint: str) -> tuple[Message, ...] | None:
        """The list as the checkpoint holds it; None when there is none or it cannot be read."""

    def written(self, checkpoint: str) -> Sequence[tuple[Write, MessageList | None]]:
        """Writes to the channel on top of a checkpoint; None for one that cannot be read."""

    def pending_input(self, checkpoint: str) -> MessageList | None:
        """What an input row took in and no step has spread yet."""

    def changed(self, before: str, after: str) -> bool:
        """Whether the channel has another version in ``after``."""

    def on(self, checkpoint: str) -> Sequence[Write]:
        """All write rows on top of a checkpoint."""

    def in_first_run(self, checkpoint: str) -> bool:
        """Whether the thread had taken one input at most when the checkpoint was made."""


@dataclass(frozen=True, slots=True)
class Question:
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


@dataclass(frozen=True, slots=True)
class Aside:
    """A human message that is not a question: a node made it, or a summary."""

    text: str
    row: int
    why: Literal["node", "summary"]
    by: str | None = None


@dataclass(slots=True)
class Findings:
    """Questions in the order in which the thread met them, and what was found besides.

    Attributes:
        named_at_front: A message with a ``name`` was counted in a row whose past is gone: perhaps a node's.
        trimmed_at_front: Such a row shows that messages had been taken out before.
        removes: The graph takes messages out of the list: some write on the line did.
        unreadable: An input wrote messages that cannot be read (encrypted, damaged); one question was assumed.
    """

    questions: list[Question] = field(default_factory=list)
    asides: list[Aside] = field(default_factory=list)
    named_at_front: bool = False
    trimmed_at_front: bool = False
    removes: bool = False
    unreadable: bool = False


def settle(
    line: Line,
    children: Mapping[str, Sequence[Checkpoint]],
    writes: Mapping[str, Sequence[Write]],
    reader: MessageReader,
) -> tuple[tuple[Step, ...], Findings]:
    """The steps and questions of a line, by the least reading that can be verified.

    Write rows are evidence, never a premise. They are believed when the tip's list holds just the human messages
    that they tell of, in order; else, with ids learned from lists on the way, when it holds none that
    was not met. Otherwise the lists alone tell.
    """
    steps = steps_of(line, children, writes)
    if are_complete(line, steps, writes):
        for learns in _LEARNED_FROM[:2]:
            known = _Known(line, reader, learns)
            found = find_questions(line, steps, known)
            if known.accounts_for_tip():
                return steps, found
    steps = steps_of(line, children, writes, trusted=False)
    return steps, find_questions(line, steps, _Known(line, reader, "lists"))


_LearnedFrom = Literal["writes", "rows", "lists"]
"""Where ids of messages are learned from: the writes alone; also the rows at which a write told none; the lists
before each input, which are read anyway where no write is believed."""
_LEARNED_FROM: tuple[_LearnedFrom, ...] = ("writes", "rows", "lists")


def find_questions(line: Line, steps: Sequence[Step], known: _Known) -> Findings:
    """Walk a line and say at which rows a question arrived.

    A human message is a question where the row took something from outside: after an input, by
    ``update_state``, by the answer to an interrupt, or in a row that cannot be split. What a node wrote is none.
    """
    found = Findings()
    reader = known.reader
    for i, (row, step) in enumerate(zip(line.rows, steps, strict=True)):
        if step.arrival == "first":
            _at_first_row(i, line, known, found)
        elif step.took_input or step.arrival in ("update", "fork"):
            asked = _from_outside(i, line, steps, known, found)
            start = _input_row(i, line) if step.took_input else i
            if asked is None:
                found.unreadable = True
                found.questions.append(Question(None, i, start))
            else:
                found.questions += [Question(m.text, i, start) for m in asked]
        elif step.arrival == "run":
            asked = known.new(_leading(_added(i, line, reader)), at_input=True)
            found.questions += [Question(m.text, i, i) for m in asked]
        elif step.arrival == "step":
            _from_nodes(i, line, step, known, found)
        if row.source == "input" and not _ran(i, steps):
            waiting = reader.pending_input(row.id) or MessageList(())
            asked = known.new(waiting.messages, at_input=True, waiting=True)
            found.questions += [Question(m.text, i, i, waiting=True) for m in asked]
    return found


def _at_first_row(i: int, line: Line, known: _Known, found: Findings) -> None:
    """Nothing before the row is kept: every untagged human message counts, and what makes that unsure is noted."""
    messages: Sequence[Message] = known.reader.state(line.rows[i].id) or ()
    first_run = not i and bool(messages) and known.reader.in_first_run(line.rows[i].id)
    if first_run:
        messages = _leading(messages)
    asked = known.new(messages, at_input=False, whole=True)
    if i or line.front_missing:
        found.named_at_front |= any(m.name for m in asked)
        spoken = [m.role for m in messages if m.role != "system"]
        found.trimmed_at_front |= any(m.summary for m in messages) or (bool(spoken) and spoken[0] != "human")
    found.questions += [Question(m.text, i, i, inherited=not first_run) for m in asked]
    found.asides += [Aside(m.text, i, "summary") for m in messages if m.role == "human" and m.summary]


def _from_outside(
    i: int, line: Line, steps: Sequence[Step], known: _Known, found: Findings
) -> Sequence[Message] | None:
    """The questions that an input or an ``update_state`` brought; None when it brought what cannot be read."""
    parent, step = line.rows[i - 1], steps[i]
    lists = _written_by(step.writes, known.reader.written(parent.id)) if step.writes is not None else None
    if lists is not None and not lists:
        return ()
    unread = lists is None and step.writes is not None
    if unread and step.took_input and known.reader.state(line.rows[i].id) is None:
        return None
    if lists is None or any(part.replaces or part.ambiguous for part in lists):
        known.note(known.reader.state(parent.id) or ())
        brought: Sequence[Message] = _added(i, line, known.reader)
        if step.arrival == "run":
            brought = _leading(brought)
    else:
        brought = [m for part in lists for m in part.messages if not m.bare or known.assigns_ids]
    found.asides += [Aside(m.text, i, "summary") for m in brought if m.role == "human" and m.summary]
    found.removes |= any(m.role == "remove" for m in brought)
    if step.arrival == "update" and not _asks_again(i, steps, known.reader.on(parent.id)):
        known.correct(brought, found.questions, parent.id)
    return known.new(brought, at_input=step.took_input or step.arrival == "update", row=i)


def _asks_again(i: int, steps: Sequence[Step], on_parent: Sequence[Write]) -> bool:
    """Whether a question that ``update_state`` changed was asked anew: the graph had come to rest, and then ran.

    Otherwise the change corrects the question of the turn that is going on, or edits what is past.
    """
    under_way = any(is_trigger(w) for w in steps[i - 1].writes or ())
    under_way |= any(not is_update_task(w) for w in on_parent)
    runs_on = i + 1 < len(steps) and steps[i + 1].arrival == "step"
    return runs_on and not under_way


def _from_nodes(i: int, line: Line, step: Step, known: _Known, found: Findings) -> None:
    """Human messages of a step's tasks are the nodes' own.

    They are questions where a task had just been given an answer, and where no task wrote them but the caller
    did, by ``Command(update=…)``.
    """
    on_parent = known.reader.on(line.rows[i - 1].id)
    if step.writes is None:
        from_outside = bool(resumed_tasks(on_parent)) or any(is_outside(w) for w in on_parent)
        asked = known.new(_added(i, line, known.reader), at_input=False) if from_outside else []
        found.questions += [Question(m.text, i, i) for m in asked]
        known.unsure_of(i)
        return
    made = {(w.task, w.idx) for w in step.writes}
    written = known.reader.written(line.rows[i - 1].id)
    parts = [(w, part.messages) for w, part in written if part and (w.task, w.idx) in made]
    found.removes |= any(m.role == "remove" for _, messages in parts for m in messages)
    if not any(m.role == "human" for _, messages in parts for m in messages):
        return
    answered = resumed_tasks(on_parent)
    for write, messages in parts:
        humans = [m for m in messages if m.role == "human" and (not m.bare or known.assigns_ids)]
        new = known.new(humans, at_input=False, row=i)
        if is_outside(write) or write.task in answered:
            found.questions += [Question(m.text, i, i) for m in new]
        else:
            found.asides += [Aside(m.text, i, "node", node_of(write)) for m in new]
        found.asides += [Aside(m.text, i, "summary", node_of(write)) for m in humans if m.summary]


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
    old = set(raw)
    return [m for m in after if m.raw not in old] or after[-1:]


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


def _ran(i: int, steps: Sequence[Step]) -> bool:
    """Whether a step spread the input that row ``i`` took, or a copy of it did."""
    if i + 1 == len(steps) or not steps[i + 1].took_input:
        return False
    return steps[i + 1].arrival != "fork" or _ran(i + 1, steps)


class _Known:
    """The human messages met so far on a line: by id, and their contents in order."""

    def __init__(self, line: Line, reader: MessageReader, learns: _LearnedFrom) -> None:
        self.line = line
        self.reader = reader
        self.learns = learns
        self._ids: dict[str, str] = {}
        self._contents: list[str] = []
        self._held: list[str] = []  # of those, the contents that came into the list
        self._nameless = False  # a question without a known id was met
        self._unsure: list[int] = []  # rows at which a message got an id that its write does not tell
        self._tip = reader.state(line.rows[-1].id)
        humans = [m for m in self._tip or () if m.role == "human" and not m.bare]
        self.assigns_ids = bool(humans) and all(m.id for m in humans)
        """The channel's reducer gives every message an id, so a message without one is a new one."""

    def accounts_for_tip(self) -> bool:
        """Whether the tip's list is explained: by exactly what was met, or, once ids are learned, by no more."""
        if self._tip is None:
            return self.learns != "writes"
        tip = [m.content for m in self._tip if self._counts(m)]
        return tip == self._held if self.learns == "writes" else not Counter(tip) - Counter(self._held)

    def _counts(self, message: Message) -> bool:
        return message.role == "human" and not message.summary and (not message.bare or self.assigns_ids)

    def unsure_of(self, row: int) -> None:
        """A human message may have come into the list at this row without its id being told."""
        if self.learns == "rows":
            self._unsure.append(row)

    def note(self, messages: Iterable[Message]) -> None:
        """Messages that were in the list already; where no write is believed, this is how their ids are met."""
        if self.learns == "lists":
            for m in messages:
                if m.role == "human" and m.id:
                    self._ids.setdefault(m.id, m.content)

    def new(
        self,
        brought: Sequence[Message],
        *,
        at_input: bool,
        row: int | None = None,
        whole: bool = False,
        waiting: bool = False,
    ) -> list[Message]:
        """The questions among messages that came in together: those not met before.

        A message with a known id is new when its content changed at an input. Messages without ids are
        compared by content and order where a client seems to have sent its history again. An input that
        ends in a human message asks at least that, unless the id says that it was asked before.

        Args:
            brought: The messages, in order.
            at_input: They came with an input.
            row: The row that gives an id to those that come without.
            whole: They are the whole list, not what was added to it.
            waiting: They are in no list yet.
        """
        humans = [m for m in brought if self._counts(m)]
        if not humans:
            return []
        if self._unsure and any(m.id and m.id not in self._ids for m in humans):
            self._learn()
        again = self._in_order_again(humans) if whole else self._sent_again(brought, humans)
        asked = [
            m
            for i, m in enumerate(humans)
            if self._is_new(m, at_input)
            and id(m) not in again
            and not any(m.id and m.id == later.id for later in humans[i + 1 :])
        ]
        last = brought[-1]
        if not asked and at_input and last is humans[-1] and not last.id:
            asked = [last]
        for m in humans:
            if m.id:
                self._ids[m.id] = m.content
            else:
                self._nameless = True
                if row is not None and self.assigns_ids:
                    self.unsure_of(row)
        self._contents += [m.content for m in asked]
        self._held += [] if waiting else [m.content for m in asked]
        return asked

    def correct(self, brought: Sequence[Message], questions: list[Question], before: str) -> None:
        """Take over the changed text of questions that are known, so that they are not new.

        Args:
            brought: What ``update_state`` wrote.
            questions: Those found so far; a corrected one is replaced.
            before: The checkpoint that it wrote on, whose list tells which of several equal texts it changed.
        """
        held = [m for m in self.reader.state(before) or () if self._counts(m)]
        for message in (m for m in brought if m.role == "human" and m.id):
            old = next((m for m in held if m.id == message.id), None)
            if old is None:
                continue
            later = sum(1 for m in held[held.index(old) + 1 :] if m.content == old.content)
            same = [n for n, question in enumerate(questions) if question.text == old.text]
            if len(same) > later:
                n = same[-1 - later]
                questions[n] = replace(questions[n], text=message.text)
            self._held = [message.content if c == old.content else c for c in self._held]
            self._ids[message.id or ""] = message.content

    def _is_new(self, message: Message, at_input: bool) -> bool:
        if message.id is None or message.id not in self._ids:
            return True
        return at_input and self._ids[message.id] != message.content

    def _learn(self) -> None:
        """Read the ids that reducers gave to messages whose writes had none."""
        for row in dict.fromkeys(self._unsure):
            for m in self.reader.state(self.line.rows[row].id) or ():
                if m.role == "human" and m.id:
                    self._ids.setdefault(m.id, m.content)
        self._unsure.clear()

    def _sent_again(self, brought: Sequence[Message], humans: Sequence[Message]) -> set[int]:
        """Of messages without known ids, those that repeat the history (by ``id()``).

        A reducer, or the client, may have given the repeated ones new ids.
        """
        unknown = [m for m in humans if m.id is None or m.id not in self._ids]
        answers = any(m.role in ("ai", "tool") for m in brought[: _last_human(brought)])
        contents = [m.content for m in unknown]
        whole = len(contents) > len(self._contents) > 0 and contents[: len(self._contents)] == self._contents
        if not answers and (self.assigns_ids or not whole):
            return set()
        return {id(unknown[i]) for i in _common(contents, self._contents)}

    def _in_order_again(self, humans: Sequence[Message]) -> set[int]:
        """Of a whole list, the messages that stand for questions whose id was not known when they were met."""
        if not self._nameless:
            return set()
        return {id(humans[i]) for i in _common([m.content for m in humans], self._contents)}


def _last_human(messages: Sequence[Message]) -> int:
    return max((i for i, m in enumerate(messages) if m.role == "human"), default=0)


def _common(new: Sequence[str], old: Sequence[str]) -> list[int]:
    """Positions in ``new`` of a longest common subsequence with ``old``, the earliest ones."""
    start = 0
    while start < min(len(new), len(old)) and new[start] == old[start]:
        start += 1
    a, b = new[start:], old[start:]
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            best[i][j] = best[i + 1][j + 1] + 1 if a[i] == b[j] else max(best[i + 1][j], best[i][j + 1])
    found, i, j = list(range(start)), 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            found.append(start + i)
            i, j = i + 1, j + 1
        elif best[i][j + 1] >= best[i + 1][j]:
            j += 1
        else:
            i += 1
    return found

"""The human messages met so far on a line, and which of those that come in are new.

A message is known by its id; where it has none, by its content and its place in the order. Knows no steps and no
turns: :mod:`turnstate.history.questions` walks the line and says what came from outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Literal, Protocol, TypeVar

from turnstate.history.lines import Line
from turnstate.history.messages import Message, MessageList
from turnstate_backends.interface import Write

_Part = TypeVar("_Part")

LearnsFrom = Literal["writes", "rows", "lists"]
"""Where ids of messages are learned from: the writes alone; also the rows at which a write told none, where it matters;
the lists before each input, which are read anyway where no write is believed."""


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
        """Whether the thread had been asked once at most when the checkpoint was made."""


class Met:
    """The human messages met so far on a line: by id, and their contents in order.

    Args:
        line: The line.
        reader: Its message channel.
        learns: See :data:`LearnsFrom`.
    """

    def __init__(self, line: Line, reader: MessageReader, learns: LearnsFrom) -> None:
        self.line = line
        self.reader = reader
        self.learns = learns
        self._ids: dict[str, str] = {}
        self._contents: list[str] = []
        self._held: list[str] = []  # of those, the contents that came into the list
        self._nameless = False  # a question without a known id was met
        self._unsure: list[int] = []  # rows at which a message got an id that its write does not tell
        self._unsure_contents: set[str] | None = set()  # of these messages; None where one is not known
        self._missed_ids = False  # that it did not learn some may have made a difference
        # What a task writes becomes the list; None while that is not known.
        self._replaced: bool | None = None
        self._tip = reader.state(line.rows[-1].id)
        humans = [m for m in self._tip or () if m.role == "human" and not m.bare]
        self.assigns_ids = bool(humans) and all(m.id for m in humans)
        """The channel's reducer gives every message an id, so a message without one is a new one."""

    def accounts_for_tip(self) -> bool:
        """Whether the tip's list is explained: by exactly what was met, or, where no id is wanting, by no more."""
        if self._tip is None:
            return not self._missed_ids
        tip = [m.content for m in self._tip if self._counts(m)]
        return tip == self._held or not (self._missed_ids or Counter(tip) - Counter(self._held))

    def _counts(self, message: Message) -> bool:
        return message.role == "human" and not message.summary and (not message.bare or self.assigns_ids)

    def unsure_of(self, row: int, content: str | None = None) -> None:
        """A human message, of this content if that is known, may have come into the list at this row without its id
        being told."""
        if self.learns == "lists":
            return
        self._unsure.append(row)
        if content is None:
            self._unsure_contents = None
        elif self._unsure_contents is not None:
            self._unsure_contents.add(content)

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
        # By position: messages of equal payloads may be one object.
        humans = [i for i, m in enumerate(brought) if self._counts(m)]
        if not humans:
            return []
        ids = {brought[i].id: i for i in humans}  # of each id the last
        if any(id and id not in self._ids for id in ids) and self._may_be_met(brought, at_input):
            self._learn()
        again = self._in_order_again(brought, humans) if whole else self._sent_again(brought, humans)
        last = len(brought) - 1
        fresh = [
            i
            for i in humans
            if self._is_new(brought[i], at_input) and (not brought[i].id or ids[brought[i].id] == i)
        ]
        news = [i for i in fresh if i not in again]
        answered = _last_answer(brought) if at_input and row is not None else 0
        # More than the last is new, or less than what follows the answers: not texts tell then, the list before does.
        if answered and (any(i != last for i in news) or any(i >= answered for i in again)):
            held = self.list_again(brought, row or 0)
            news = [i for i in fresh if i >= held and (i not in again or (held and i >= answered))]
        if not news and at_input and last == humans[-1] and brought[last].id not in self._ids:
            news = [last]
        for i in humans:
            m = brought[i]
            if m.id:
                self._ids[m.id] = m.content
            else:
                self._nameless = True
                if row is not None and self.assigns_ids:
                    self.unsure_of(row, m.content)
        asked = [brought[i] for i in news]
        self._contents += [m.content for m in asked]
        self._held += [] if waiting else [m.content for m in asked]
        return asked

    def corrected(
        self, brought: Sequence[Message], texts: Sequence[str | None], before: str
    ) -> list[tuple[int, str]]:
        """Positions of questions whose text was changed, with the new text; so they are not new.

        Args:
            brought: What ``update_state`` wrote.
            texts: Those of the questions so far.
            before: The checkpoint that it wrote on, whose list tells which of several equal texts it changed.
        """
        held = [m for m in self.reader.state(before) or () if self._counts(m)]
        found = []
        for message in (m for m in brought if m.role == "human" and m.id):
            old = next((m for m in held if m.id == message.id), None)
            if old is None:
                continue
            later = sum(1 for m in held[held.index(old) + 1 :] if m.content == old.content)
            same = [n for n, text in enumerate(texts) if text == old.text]
            if len(same) > later:
                found.append((same[-1 - later], message.text))
            self._held = [message.content if c == old.content else c for c in self._held]
            self._ids[message.id or ""] = message.content
        return found

    def _is_new(self, message: Message, at_input: bool) -> bool:
        if message.id is None or message.id not in self._ids:
            return True
        return at_input and self._ids[message.id] != message.content

    def _may_be_met(self, brought: Sequence[Message], at_input: bool) -> bool:
        """Whether an unknown id may be one that a reducer gave to a message met before, and this make a difference.

        A single message of an input makes none where its content is another: it is new, or was changed and is asked.
        """
        if not self._unsure:
            return False
        contents = self._unsure_contents
        return not at_input or len(brought) > 1 or contents is None or brought[0].content in contents

    def _learn(self) -> None:
        """Read the ids that reducers gave to messages whose writes had none."""
        if self.learns == "writes":
            self._missed_ids = True
            return
        for row in dict.fromkeys(self._unsure):
            for m in self.reader.state(self.line.rows[row].id) or ():
                if m.role == "human" and m.id:
                    self._ids.setdefault(m.id, m.content)
        self._unsure.clear()
        self._unsure_contents = set()

    def _sent_again(self, brought: Sequence[Message], humans: Sequence[int]) -> Collection[int]:
        """Of messages without known ids, those that repeat the history (positions).

        A reducer, or the client, may have given the repeated ones new ids; not where some come with the ids they had.
        """
        ids = [brought[i].id for i in humans]
        keeps_ids = any(id in self._ids for id in ids)
        unknown = [
            i
            for i, id in zip(humans, ids, strict=True)
            if id is None or (id not in self._ids and not keeps_ids)
        ]
        contents = [brought[i].content for i in unknown]
        if _last_answer(brought):
            return {unknown[i] for i in _common(contents, self._contents)}
        # Without answers only a list that an input replaces as a whole tells: it begins with the last questions.
        return unknown[: 0 if self.assigns_ids else _overlap(self._contents, contents, len(contents) - 1)]

    def list_again(self, brought: Sequence[Message], row: int) -> int:
        """How many messages of a caller's stand at the end of the list that they met, or are that list: sent once more.

        That list may hold what no question was, a summary of a node's, and the history more than once.
        """
        held = (self.reader.state(self.line.rows[row - 1].id) or ()) if len(brought) > 1 else ()
        old, new = ([(m.role, m.content) for m in messages] for messages in (held, brought))
        return _overlap(old, new, len(new) - 1)

    def after_history(self, added: Sequence[Message]) -> tuple[Sequence[Message], int]:
        """What follows the history, or its end, that a client sent once more at the beginning of what a run added.

        Returns:
            The rest, from the human message after the repeated answers on, and how many questions were repeated.
        """
        humans = [i for i, m in enumerate(added) if self._counts(m)]
        contents = [added[i].content for i in humans]
        n = len(humans)
        while n := _overlap(self._contents, contents, n - 1):
            if any(m.role in ("ai", "tool") for m in added[humans[n - 1] : humans[n]]):
                return added[humans[n] :], n
        return added, 0

    def after_list(self, part: MessageList, humans: Sequence[Message], row: int) -> Sequence[Message]:
        """What a task wrote besides the list, or its end, that it wrote once more: it must where no reducer adds to it.

        Of a channel whose reducer gives no ids.

        Args:
            part: What the task wrote.
            humans: The human messages of it.
            row: The row that its step led to.
        """
        counted = [i for i, m in enumerate(humans) if self._counts(m)]
        if not counted:
            return humans
        contents = [humans[i].content for i in counted]
        repeated = _overlap(self._held, contents, len(contents))
        if not repeated and set(self._held).isdisjoint(contents):
            return humans
        if not (part.replaces or self._became_list(part, row)):
            return humans
        if repeated:
            return humans[counted[repeated - 1] + 1 :]
        # Something of the task's own, as a summary, stands before what it kept.
        before = self.reader.state(self.line.rows[row - 1].id) or ()
        return beyond(humans, filter(self._counts, before), by=attrgetter("content"))

    def gained(self, row: int) -> Sequence[Message]:
        """What follows the list of the row before, or its end, in a row's list."""
        before, after = (self.reader.state(self.line.rows[i].id) or () for i in (row - 1, row))
        return after[_overlap([m.raw for m in before], [m.raw for m in after], len(after)) :]

    def _became_list(self, part: MessageList, row: int) -> bool:
        """Whether a row's list is what a task wrote, and no reducer added this to the list before: asked once."""
        if self._replaced is not None:
            return self._replaced
        before, after = (self.reader.state(self.line.rows[i].id) for i in (row - 1, row))
        longer = after is not None and len(after) > len(part.messages)
        if longer or (before and after):
            self._replaced = not longer
        return not longer

    def _in_order_again(self, brought: Sequence[Message], humans: Sequence[int]) -> Collection[int]:
        """Of a whole list, the messages that stand for questions whose id was not known when they were met."""
        if not self._nameless:
            return ()
        return {humans[i] for i in _common([brought[i].content for i in humans], self._contents)}


def beyond(
    messages: Iterable[Message], others: Iterable[Message], *, by: Callable[[Message], object]
) -> list[Message]:
    """The messages that others do not have, in order: of those that are alike by something, as many as are more."""
    left = Counter(map(by, others))
    found = []
    for message in messages:
        if left[by(message)]:
            left[by(message)] -= 1
        else:
            found.append(message)
    return found


def _last_answer(messages: Sequence[Message]) -> int:
    """Where the last answer before the last human message ends; 0 where there is none."""
    last_human = max((i for i, m in enumerate(messages) if m.role == "human"), default=0)
    return max((i + 1 for i, m in enumerate(messages[:last_human]) if m.role in ("ai", "tool")), default=0)


def _common(new: Sequence[str], old: Sequence[str]) -> list[int]:
    """Positions in ``new`` of a longest common subsequence with ``old``, the earliest ones."""
    in_new, in_old = set(new), set(old)
    b = [content for content in old if content in in_new]
    places = [i for i, content in enumerate(new) if content in in_old]
    a = [new[i] for i in places]
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    found, places, a, b = places[:start], places[start:], a[start:], b[start:]
    # Of each end of ``a`` the longest with an end of ``b`` is the number of bits set below that end's length: H. Hyyrö,
    # "Bit-parallel LCS-length computation revisited" (2004). A table of numbers takes seconds for a long history.
    places_in_b: dict[str, int] = {}
    for i, content in enumerate(reversed(b)):
        places_in_b[content] = places_in_b.get(content, 0) | 1 << i
    every = (1 << len(b)) - 1
    rest, ends = every, [0]
    for content in reversed(a):
        matches = rest & places_in_b.get(content, 0)
        rest = ((rest + matches) | (rest - matches)) & every
        ends.append(every & ~rest)

    def best(i: int, j: int) -> int:
        return (ends[len(a) - i] & ((1 << (len(b) - j)) - 1)).bit_count()

    j, left = 0, best(0, 0)
    for i, content in enumerate(a):
        if not left:
            break
        if content in b[j:] and best(i + 1, b.index(content, j) + 1) == left - 1:
            found.append(places[i])
            j, left = b.index(content, j) + 1, left - 1
    return found


def _overlap(old: Sequence[_Part], new: Sequence[_Part], most: int) -> int:
    """With how many of the last of ``old``, at most so many, ``new`` begins."""
    for i in range(len(old) - min(most, len(old), len(new)), len(old)):
        if old[i] == new[0] and old[i:] == new[: len(old) - i]:
            return len(old) - i
    return 0

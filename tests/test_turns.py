"""Every row set gives turns that account for each row and each number once, however odd the rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from test_lines import IDS, ROWS
from turnstate.history.inputs import input_rows
from turnstate.history.lines import forest
from turnstate.history.messages import Message, MessageList
from turnstate.history.questions import settle
from turnstate.history.steps import by_checkpoint
from turnstate.history.turns import turns_by_questions
from turnstate_backends.interface import Checkpoint, Write
from turnstate_backends.values import Stored


@dataclass
class Held:
    """What a thread holds, in memory: message lists by checkpoint, and write rows."""

    lists: Mapping[str, tuple[Message, ...] | None]
    writes: Mapping[str, Sequence[Write]]
    brought: Mapping[str, MessageList | None] = field(default_factory=dict)

    def state(self, checkpoint: str) -> tuple[Message, ...] | None:
        return self.lists.get(checkpoint)

    def written(self, checkpoint: str) -> list[tuple[Write, MessageList | None]]:
        return [(w, self.brought.get(checkpoint)) for w in self.on(checkpoint) if w.channel == "messages"]

    def pending_input(self, checkpoint: str) -> MessageList | None:
        return self.brought.get(checkpoint)

    def changed(self, before: str, after: str) -> bool:
        return self.lists.get(before) != self.lists.get(after)

    def on(self, checkpoint: str) -> Sequence[Write]:
        return self.writes.get(checkpoint, ())

    def in_first_run(self, checkpoint: str) -> bool:
        return checkpoint == "00"

    def took_input_on_top_of(self, before: str, after: str) -> bool:
        return (len(before) + len(after)) % 2 == 0

    def at_rest(self, checkpoint: str) -> bool | None:
        return {0: None, 1: True}.get(len(checkpoint) % 3, False)


MESSAGES = st.builds(
    lambda role, id, text, name, summary: Message(
        role, id, name, text, text, summary, raw=f"{role}{id}{text}".encode()
    ),
    role=st.sampled_from(["human", "ai", "tool", "remove", "other"]),
    id=st.none() | st.sampled_from(["h1", "h2", "h3"]),
    text=st.sampled_from(["yes", "no", ""]),
    name=st.none() | st.just("critic"),
    summary=st.booleans(),
)
LISTS = st.lists(MESSAGES, max_size=5).map(tuple)
WRITES = st.lists(
    st.builds(
        Write,
        checkpoint=IDS,
        task=st.sampled_from(["00000000-0000-0000-0000-000000000000", "t1", "t2"]),
        path=st.sampled_from(
            ["", "~__pregel_pull, __start__", "~__pregel_pull, a", "~__interrupt__, 0000000000"]
        ),
        idx=st.integers(-4, 3),
        channel=st.sampled_from(
            ["messages", "plan", "branch:to:a", "__interrupt__", "__resume__", "__error__"]
        ),
        value=st.just(Stored("msgpack", b"\xc0", 1)),
    )
)


@settings(max_examples=250, deadline=None)
@given(
    rows=ROWS,
    lists=st.dictionaries(IDS, st.none() | LISTS),
    brought=st.dictionaries(IDS, st.none() | LISTS.map(MessageList)),
    writes=WRITES,
)
def test_every_row_and_every_number_is_accounted_for_once(
    rows: list[Checkpoint],
    lists: dict[str, tuple[Message, ...] | None],
    brought: dict[str, MessageList | None],
    writes: list[Write],
) -> None:
    wood = forest(rows)
    line = wood.line(wood.head)
    held = Held(lists, by_checkpoint(writes), brought)
    steps, found = settle(line, wood.children, held.writes, held)
    turns = turns_by_questions(line, steps, found, held)
    assert [turn.number for turn in turns.turns] == list(range(len(found.questions) + 1))
    assert [turn.question for turn in turns.turns[1:]] == [question.text for question in found.questions]
    covered = [0] * len(line.rows)
    for first, last in {(t.first, t.last) for t in turns.turns if t.first is not None and t.last is not None}:
        for position in range(first, last + 1):
            covered[position] += 1
    begun = min((t.first for t in turns.turns if t.first is not None), default=len(line.rows))
    assert covered[begun:] == [1] * (len(line.rows) - begun)
    for position in range(len(line.rows)):
        assert turns.at_row(position)
    for turn in turns.turns:
        assert turn.retained == (turn.end is not None)
        assert turn.asked_with == () or turn.number in turn.asked_with
    assert set(turns.retained) <= set(range(1, turns.total + 1))
    assert input_rows(line, steps, held.writes) == sorted(set(input_rows(line, steps, held.writes)))

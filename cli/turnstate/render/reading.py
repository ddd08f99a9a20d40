"""What a person is told about a value: where it was read, and who wrote it."""

from __future__ import annotations

from turnstate.history.reading import Reading
from turnstate.history.turns import Turns
from turnstate.history.versions import Written
from turnstate.render.listings import BY_REDUCER, total_notes
from turnstate.render.screen import Screen
from turnstate.render.text import one_line, spans
from turnstate.render.values import value_text


def write_reading(screen: Screen, reading: Reading, turns: Turns, *, titled: bool) -> None:
    """The value as data, everything else as a note.

    Args:
        screen: Where to.
        reading: What was read.
        turns: The turns of the line.
        titled: Several keys were asked for, so each value is headed by its key's name, and each note names it.
    """
    name = f"{one_line(reading.key)}: " if titled else ""
    if reading.outcome == "value":
        if titled:
            screen.data(screen.on_out(one_line(reading.key), "bold"))
        screen.data(value_text(reading.value))
        if reading.message:
            screen.note(reading.message, "yellow")
    else:
        write_outcome(screen, f"{name}{reading.outcome}", reading.message)
        if reading.stored.get("rule") == "unknown":
            screen.note(BY_REDUCER)
    if facts := provenance(reading):
        screen.note(name + " · ".join(one_line(fact) for fact in facts))
    if reading.plain:
        screen.note(f"{name}this value is stored in clear, other rows of the thread are encrypted", "yellow")
    if reading.shared_with:
        screen.note(
            f"this value is another branch's: {reading.shared_with[0]} wrote the same version before, "
            "and the store keeps one value of a version, the first",
            "yellow",
        )
    for note in total_notes(turns) if reading.outcome == "value" else ():
        screen.note(note)


def write_outcome(screen: Screen, outcome: str, message: str) -> None:
    """An outcome that is no value: its name, then its words."""
    screen.note(f": {one_line(message)}" if message else "", "red", lead=outcome)


def provenance(reading: Reading) -> list[str]:
    """Turn, checkpoint, last write, and every turn that wrote the key."""
    if reading.checkpoint is None or reading.outcome == "no_such_key":
        return []
    facts = []
    if reading.turn is not None:
        turn = f"turn {spans([reading.together])}"
        facts.append(f"start of {turn}" if reading.at_start else turn)
    facts.append(f"checkpoint {reading.checkpoint}")
    if reading.borrowed and reading.turn is not None:
        after = reading.together[-1] + 1
        facts.append(f"read in turn {after}'s input row, {turn}'s own rows are gone")
    written = reading.written
    if written is not None:
        facts.append(_written(written))
    groups = reading.spans_written
    listed = spans(groups)
    if len(groups) < len(reading.turns_written) and len(groups) > 1:
        facts.append(f"written in turns {listed}")
    elif len(groups) > 1:
        facts.append(f"written in {len(groups)} turns ({listed})")
    elif listed and not (written and written.turns):
        facts.append(f"written in turn {listed}" if written is None else f"and in turn {listed}")
    if reading.outcome == "value" and written is None:
        facts.append("which turn wrote it can no longer be told")
    if reading.earlier_unknown and written and written.turns:
        facts.append("rows that are gone wrote it too, in turns that can no longer be told")
    return facts


def _written(written: Written) -> str:
    if not written.turns:
        return "written in rows that are gone, in a turn that can no longer be told"
    by = f" by {written.node}" if written.node else ""
    return f"written in turn {spans([written.turns])}{by}" + (
        " (inferred: the value changed)" if written.inferred else ""
    )

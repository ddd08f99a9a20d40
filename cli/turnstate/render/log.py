"""A log of versions in its forms: a table or blocks for a person, documents for programs, written as they come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.diff import Operation, masked, masked_operations, patch
from turnstate.history.jsonform import jsonable
from turnstate.history.key_log import KeyLog
from turnstate.history.keys import Key
from turnstate.history.log import Logged
from turnstate.history.log_words import REREAD, change_in_words, value_of
from turnstate.history.phrases import clip, counted
from turnstate.history.times import iso
from turnstate.render.documents import Document, present, write_json
from turnstate.render.listings import id_length, moment_text, total_notes
from turnstate.render.screen import Screen
from turnstate.render.tables import CUT, Cell, Column, Style, write_table
from turnstate.render.text import numbers, one_line, spans
from turnstate.render.values import Shared, json_text, value_text
from turnstate_backends.values import Absent, Stored

if TYPE_CHECKING:
    from turnstate.history.gaps import Gap

SCHEMA = "turnstate.log/1"

_WORDS = 240  # characters of what changed, on a terminal
_ONE_LINE = 100  # columns of a terminal that has room to say it in one line
_STYLES: dict[str | None, Style] = {"added": "green", "removed": "red", "same": "dim", None: "yellow"}


class Shown(Struct, frozen=True):
    """What is shown of each version beside when, who and how.

    Attributes:
        values: The value.
        patches: The difference to the version before.
        reveal: Secrets too.
        name: How a key is addressed, where several are told of in one list; else None.
    """

    values: bool
    patches: bool
    reveal: bool
    name: Callable[[Key], str] | None = None


# For a person.


class Line(Struct, frozen=True):
    """A version without its payloads, so that a long log can wait for its columns to be measured."""

    version: Logged
    words: str


def line_of(entry: Logged | Gap, shown: Shown) -> Line | Gap:
    """An entry as the table needs it."""
    if not isinstance(entry, Logged):
        return entry
    words = change_in_words(entry, reveal=shown.reveal)
    return Line(replace(entry, before=None, now=None), words)


def write_table_of(
    screen: Screen, entries: Iterable[Logged | Gap], shown: Shown, ids: Collection[str] = ()
) -> None:
    """One row per version, and one per gap where it lies.

    Args:
        screen: Where to.
        entries: What to show.
        shown: What of each version.
        ids: All checkpoint ids of the thread: a terminal without room for a whole one gets what tells them apart.
    """
    lines = [line_of(entry, shown) for entry in entries]
    if not lines:
        screen.note("nothing was written in what was asked for")
        return
    length = id_length(screen, ids)
    versions = [line.version for line in lines if isinstance(line, Line)]
    several = any(n > 1 for n in Counter((v.key, v.turns) for v in versions if v.turns).values())
    ends = several and not screen.interactive
    runs = any(version.run for version in versions)
    columns = [
        Column("turn", right=True),
        *([Column("key", text=True)] if shown.name else []),
        Column("time", text=True),
        Column("step", right=True),
        Column("node"),
        Column("change"),
        *([Column("ends")] if ends else []),
        *([Column("run", text=True)] if runs else []),
        Column("checkpoint", whole=True),
        Column("what", text=True, one_line=screen.width >= _ONE_LINE),
    ]

    def cells(line: Line | Gap) -> list[Cell]:
        if not isinstance(line, Line):
            before = [Cell(numbers(line.turns).replace(" ", "")), *([Cell("")] if shown.name else [])]
            after = [Cell("")] * (ends + runs + 1)
            words = gap_in_words(line, length)
            return [*before, Cell(""), Cell(""), Cell(""), Cell(line.kind, "red"), *after, Cell(words, "red")]
        version = line.version
        mark = "*" if several and not ends and version.ends_turn else ""
        words = clip(line.words, _WORDS) if screen.interactive else line.words
        return [
            Cell(_turns(version)),
            *([Cell(shown.name(version.key), "bold")] if shown.name else []),
            Cell(moment_text(screen, version.time)),
            Cell("" if version.step is None else str(version.step)),
            Cell(",".join(version.nodes)),
            Cell(change_name(version) + mark, _STYLES.get(version.change, "")),
            *([Cell("*" if version.ends_turn else "")] if ends else []),
            *([Cell(version.run or "")] if runs else []),
            Cell(version.checkpoint[:length]),
            Cell(words),
        ]

    if write_table(screen, columns, [cells(line) for line in lines]):
        screen.note(CUT)


def write_blocks(screen: Screen, entries: Iterable[Logged | Gap], shown: Shown) -> None:
    """Each version under a line of its own, with its value or what changed."""
    for entry in entries:
        if not isinstance(entry, Logged):
            screen.line(screen.on_out(one_line(gap_in_words(entry)), "red"))
            continue
        screen.line(screen.on_out(one_line(_heading(entry, shown)), "bold"))
        if shown.patches:
            for line in _patch_lines(screen, entry, shown.reveal):
                screen.line(line)
        if shown.values or (shown.patches and not isinstance(entry.before, Stored)):
            screen.data(_value_text(entry, shown.reveal))


def write_log(screen: Screen, log: KeyLog, shown: Shown, *, titled: bool) -> None:
    """One log for a person.

    Args:
        screen: Where to.
        log: What to read.
        shown: What of each version.
        titled: Several logs follow one another, so each is headed by its key.
    """
    if titled:
        screen.line(screen.on_out(one_line(log.name), "bold"))
    if shown.values or shown.patches:
        write_blocks(screen, log, shown)
    else:
        write_table_of(screen, log, shown, log.history.forest.rows)
    facts = _facts(log)
    if facts:
        screen.note(" · ".join(map(one_line, facts)))
    for note in total_notes(log.history.turns):
        screen.note(note)


def _facts(log: KeyLog) -> list[str]:
    """What a log of one key must not leave unsaid."""
    if log.key is None:
        return []
    facts = [log.name] if log.key.entry is None else [log.name, f"channel {log.key.channel}"]
    turns = log.turns_written
    if turns:
        groups = list(dict.fromkeys(map(log.history.turns.together, turns)))
        shared = len(groups) < len(turns)
        which = spans(groups)
        facts.append(
            f"written in turns {which}" if shared else f"written in {counted(len(turns), 'turn')} ({which})"
        )
    if log.earlier_unknown:
        too = " too" if turns else ""
        facts.append(f"rows that are gone wrote it{too}, in turns that can no longer be told")
    if not (turns or log.earlier_unknown):
        facts.append("which turns wrote it can no longer be told")
    return facts


def _turns(version: Logged) -> str:
    return spans([version.turns]) if version.turns else "?"


def _heading(version: Logged, shown: Shown) -> str:
    facts = [f"turn {_turns(version)}" if version.turns else "written in rows that are gone"]
    if shown.name:
        facts.insert(0, shown.name(version.key))
    if version.time is not None:
        facts.append(iso(version.time))
    if version.step is not None:
        facts.append(f"step {version.step}")
    facts += [", ".join(version.nodes)] if version.nodes else []
    why = REREAD if version.reread else "inferred: the value changed"
    facts.append(change_name(version) + (f" ({why})" if version.inferred else ""))
    facts += [f"run {version.run}"] if version.run else []
    facts += [f"checkpoint {version.checkpoint}"]
    return " · ".join(facts)


def change_name(version: Logged) -> str:
    """The change in a word; ``written`` where two values cannot be compared."""
    if version.change is not None:
        return version.change
    return "written" if not isinstance(version.now, Absent) else version.now.kind


def gap_in_words(gap: Gap, length: int | None = None) -> str:
    """Which rows are gone, in one line; so many characters of an id."""
    before = gap.before[:length]
    where = f"before {before}" if gap.after is None else f"between {gap.after[:length]} and {before}"
    turns = f" of turn{'s' if len(gap.turns) > 1 else ''} {numbers(gap.turns)}" if gap.turns else ""
    return f"rows{turns} are gone {where}{_steps(gap)}"


def _steps(gap: Gap) -> str:
    steps = gap.steps
    if steps is None or not steps.count:
        return ""
    return f", step {steps.first}" if steps.count == 1 else f", steps {steps.first} to {steps.last}"


def _value_text(version: Logged, reveal: bool) -> str:
    if version.now is None:
        return "(no longer there)"
    if isinstance(version.now, Absent):
        return value_text(version.now)
    return value_text(value_of(version.key, version.now, reveal=reveal)[0])


def _patch_lines(screen: Screen, version: Logged, reveal: bool) -> Iterator[str]:
    from turnstate.render.diff import beside, rows_of, unified_lines

    found = _sides(version, reveal)
    if found is not None:
        old, new, operations, rest = found
        yield from unified_lines(rows_of(old, new, operations), color=screen.color)
        if words := beside(rest):
            yield screen.on_out(f"  {words}", "dim")


def _sides(
    version: Logged, reveal: bool
) -> tuple[Any, Any, tuple[Operation, ...], tuple[Operation, ...]] | None:
    """The value before and now as :func:`turnstate.history.changes.sides` has them; None without either."""
    from turnstate.history.changes import sides

    if not isinstance(version.before, Stored) or not isinstance(version.now, Stored):
        return None
    old, new = (value_of(version.key, part, reveal=True)[1] for part in (version.before, version.now))
    if isinstance(old, Absent) or isinstance(new, Absent):
        return None
    form_old, form_new, operations, rest = sides(version.key, old, new)
    if reveal:
        return form_old, form_new, operations, rest
    return masked(form_old), masked(form_new), masked_operations(operations), masked_operations(rest)


# For programs.


def version_document(version: Logged, shown: Shown) -> Document:
    """One version of ``turnstate.log/1``."""
    document: Document = {}
    if shown.name:
        document = present(
            key=shown.name(version.key), channel=version.key.channel, entry_name=version.key.entry
        )
    document |= present(
        turn=version.turns[-1] if version.turns else None,
        turns=list(version.turns) if len(version.turns) > 1 else None,
        checkpoint=version.checkpoint,
        step=version.step,
        time=None if version.time is None else iso(version.time),
        node=version.nodes[-1] if version.nodes else None,
        nodes=list(version.nodes) if len(version.nodes) > 1 else None,
        run=version.run,
        change=version.change,
        ends_turn=version.ends_turn or None,
        inferred=version.inferred or None,
        lost=version.lost or None,
        reread=version.reread or None,
    )
    document |= _value_fields(version, shown)
    if shown.patches and (found := _sides(version, shown.reveal)) is not None:
        *_, operations, rest = found
        document |= present(patch=patch(operations), entry_patch=patch(rest) or None)
    return document


def _value_fields(version: Logged, shown: Shown) -> Document:
    if version.now is None:
        return {"absence": "removed"}
    value, whole, is_field = (
        (version.now, None, False)
        if isinstance(version.now, Absent)
        else value_of(version.key, version.now, reveal=shown.reveal)
        if shown.values
        else (None, None, False)
    )
    if isinstance(value, Absent):
        stored = {"stored": jsonable(dict(value.stored))} if value.stored else {}
        return {"absence": value.kind, **stored}
    if not shown.values:
        return {}
    if not is_field:
        return {"value": jsonable(value)}
    entry = jsonable(whole)
    return {"value": entry["value"] if "value" in entry else jsonable(value), "entry": entry}


def _version_text(screen: Screen, version: Logged, shown: Shown, common: Document) -> str:
    """A version as JSON, with the fields that all have in common. The value of an entry stands in the entry too."""
    document = common | version_document(version, shown)
    entry = document.get("entry")
    if type(entry) is dict and "value" in entry:
        shared = Shared(entry["value"])
        document |= {"value": shared, "entry": entry | {"value": shared}}
    return json_text(document, ascii_only=screen.ascii_only)


def gap_document(gap: Gap) -> Document:
    """A gap as a log names it; ``gaps`` tells all about it."""
    return present(
        turns=list(gap.turns),
        kind=gap.kind,
        after=gap.after,
        before=gap.before,
        steps_missing=None if gap.steps is None else [gap.steps.first, gap.steps.last],
    )


def document_lines(
    screen: Screen,
    head: Document,
    name: str,
    items: Iterable[Iterable[str]],
    tail: Callable[[], Document],
) -> Iterator[str]:
    """One document over several lines, so that a list in it is never held as a whole.

    Args:
        screen: Where it goes.
        head: Fields before the list.
        name: The list's field.
        items: The lines of each item.
        tail: Fields after it, asked for at the end.
    """
    held = json_text(head, ascii_only=screen.ascii_only)[:-1] + f", {json.dumps(name)}: ["
    first = True
    for item in items:
        for n, line in enumerate(item):
            yield held + ("," if n == 0 and not first else "")
            held = line
        first = False
    yield held
    rest = json_text(tail(), ascii_only=screen.ascii_only)[1:]
    yield "]" + (", " if len(rest) > 1 else "") + rest


def log_lines(screen: Screen, log: KeyLog, shown: Shown) -> Iterator[str]:
    """``turnstate.log/1``, one line per version."""
    gaps: list[Document] = []

    def items() -> Iterator[list[str]]:
        for entry in log:
            if not isinstance(entry, Logged):
                gaps.append(gap_document(entry))
            else:
                yield [_version_text(screen, entry, shown, {})]

    return document_lines(screen, head(log), "versions", items(), lambda: tail(log, gaps))


def tail(log: KeyLog, gaps: list[Document]) -> Document:
    """What the document of one log ends with, when its versions were read and these gaps lay between them."""
    turns = log.history.turns
    written = {"turns_written": list(log.turns_written)} if log.key else {}
    return {
        **written,
        **present(earlier_unknown=log.earlier_unknown or None),
        "gaps": gaps,
        "total_turns": turns.total,
        "total_is": turns.total_is,
        "turns_by": turns.by,
    }


def logs_lines(
    screen: Screen, thread: str, ns: str, pattern: str, logs: Iterable[KeyLog], shown: Shown
) -> Iterator[str]:
    """``turnstate.log/1`` of a pattern: ``logs``, one per key."""
    common = {"schema": SCHEMA, "thread": thread, "namespace": ns, "key": pattern}
    return document_lines(screen, common, "logs", (log_lines(screen, log, shown) for log in logs), dict)


def head(log: KeyLog) -> Document:
    """What every document of one log begins with."""
    document: Document = {"schema": SCHEMA, "thread": log.history.thread, "namespace": log.history.ns}
    if log.key is None:
        return document
    return document | present(key=log.name, channel=log.key.channel, entry_name=log.key.entry)


def write_document(screen: Screen, lines: Iterable[str]) -> None:
    """Print a document that comes in lines: as it comes, or laid out for a person."""
    if screen.interactive:
        write_json(screen, json.loads("\n".join(lines)))
        return
    for line in lines:
        screen.data(line)


def write_lines(screen: Screen, log: KeyLog, shown: Shown) -> None:
    """``turnstate.log/1``, one document per version, and one with ``gap`` per gap where it lies."""
    common = head(log)
    for entry in log:
        if isinstance(entry, Logged):
            screen.data(_version_text(screen, entry, shown, common))
        else:
            screen.data(json_text({**common, "gap": gap_document(entry)}, ascii_only=screen.ascii_only))

"""The benchmark's figures as Markdown tables, with the targets beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from fleet import ROWS, Fleet
from measuring import COMMANDS, Backend, Measured, Run, Store
from stores import Shape

OWN_TARGETS: Mapping[str, float] = {
    "show": 0.1,
    "turns": 0.1,
    "keys": 0.1,
    "gaps": 0.1,
    "log": 0.35,
    "log --json": 0.25,
    "turns, table": 0.2,
    "keys, table": 0.2,
    "gaps, text": 0.2,
}
"""Seconds that a command may take beyond an empty program on 500 turns of 20 KiB."""
LARGE_SHOW_TARGET = 0.25
"""Likewise for ``show`` on 2,000 turns whose conversation is trimmed: 8,000 rows and 0.9 GB in SQLite."""
FLEET_TARGETS: Mapping[Backend, float] = {"SQLite": 0.3, "PostgreSQL": 0.6}
"""Likewise for the 50 most recent threads of a fleet."""
PEAK_TARGETS: Mapping[Backend, int] = {"SQLite": 60, "PostgreSQL": 80}
"""MiB on up to 500 turns, of whatever reads no more than one version of a value."""
LOG_PEAK_TARGET = 90
"""MiB of a log, which reads every version."""
RATIO_TARGETS: Mapping[int, int] = {500: 40, 2000: 300}
"""Turns → how many times as fast ``show`` is as walking ``saver.list``, where the conversation is kept whole."""
NOISE = 0.02
"""Seconds of own cost below which an exponent would be one of noise."""


def table(measured: Measured) -> Iterator[str]:
    """One store's figures as a Markdown table; ``!`` marks what misses its target."""
    store = measured.store
    listed = [run.wall for run in measured.walks.get("list", [])]
    history = [run.wall for run in measured.walks.get("history", [])]
    yield f"{store.backend}, {_title(store)}, {store.size / 1e6:,.0f} MB:"
    yield ""
    bounded = isinstance(store.shape, Shape) and store.shape.turns <= 500
    peak_target = PEAK_TARGETS[store.backend]
    head = [
        "command",
        "wall s (min–max)",
        "CPU s",
        f"peak MiB (≤ {peak_target})" if bounded else "peak MiB",
        "own s (target)",
        "read MB",
    ]
    head += ["× saver.list"] if listed else []
    head += ["× get_state_history"] if history else []
    rows = [head, ["empty program", *_figures(measured.baseline), *[""] * (len(head) - 4)]]
    for name, runs in measured.commands.items():
        wall, cpu, peak = _figures(runs)
        own, target = median(measured.own[name]), _target(store, name)
        told = f"{own:.3f}" if target is None else f"{own:.3f} (≤ {target})"
        most = LOG_PEAK_TARGET if name.startswith("log") else peak_target
        row = [" ".join(store.commands[name]), wall, cpu, _mark(peak, bounded and float(peak) > most)]
        row += [_mark(told, target is not None and own > target), _megabytes(measured.read.get(name))]
        if listed:
            ratio = median(listed) / median(run.wall for run in runs)
            least = _least_ratio(store, name)
            row += [f"{ratio:.0f}" if least is None else _mark(f"{ratio:.0f} (≥ {least})", ratio < least)]
        row += [f"{median(history) / median(run.wall for run in runs):.0f}"] if history else []
        rows.append(row)
    for way, label in (("list", "walk saver.list"), ("history", "walk get_state_history")):
        if way in measured.walks:
            rows.append([label, *_figures(measured.walks[way]), *[""] * (len(head) - 4)])
    yield from _markdown(rows)


def _title(store: Store) -> str:
    shape = store.shape
    if isinstance(shape, Fleet):
        return f"{shape.threads:,} threads, {shape.threads * ROWS:,} checkpoints"
    return (
        f"{shape.turns:,} turns, {shape.turns * 4:,} checkpoints, "
        f"{shape.value_bytes // 1024} KiB rewritten each turn"
        + (f", the last {shape.kept} messages kept" if shape.kept else "")
    )


def _target(store: Store, name: str) -> float | None:
    shape = store.shape
    if isinstance(shape, Fleet):
        return FLEET_TARGETS[store.backend] if name == "threads" else None
    if shape.turns <= 500:
        return OWN_TARGETS.get(name) if shape.turns == 500 else None
    return LARGE_SHOW_TARGET if name == "show" and shape.kept else None


def _least_ratio(store: Store, name: str) -> int | None:
    if not isinstance(store.shape, Shape) or store.shape.kept or name != "show":
        return None
    return RATIO_TARGETS.get(store.shape.turns)


def growth(small: Measured, large: Measured) -> Iterator[str]:
    """How cost grows with the number of turns: the exponent e in cost ~ turns ** e, and what more of them cost.

    Own cost may begin below nothing, where the empty program loads what turnstate does not: then only the second tells.
    """
    shapes = [each.store.shape for each in (small, large) if isinstance(each.store.shape, Shape)]
    turns = [shape.turns for shape in shapes]
    factor = turns[1] / turns[0]
    yield (
        f"{small.store.backend}, {shapes[0].value_bytes // 1024} KiB rewritten each turn, growth from {turns[0]} "
        f"to {turns[1]:,} turns (exponent: 0 flat, 1 linear, 2 quadratic):"
    )
    yield ""
    added = 4 * (turns[1] - turns[0]) / 1000
    rows = [
        ["", f"{turns[0]} turns, s", f"{turns[1]:,} turns, s", "exponent", "ms per 1,000 checkpoints more"]
    ]
    costs = [(f"{name}, own", median(small.own[name]), median(large.own[name])) for name in COMMANDS]
    for way in (way for way in small.walks if way in large.walks):
        before, after = (median(run.wall for run in each.walks[way]) for each in (small, large))
        costs.append((f"walk {way}, whole", before, after))
    for label, before, after in costs:
        exponent = f"{math.log(after / before, factor):.2f}" if min(before, after) > NOISE else "–"
        more = f"{(after - before) / added * 1000:.0f}"
        rows.append([label, f"{before:.3f}", f"{after:.3f}", exponent, more])
    yield from _markdown(rows)


def size_effect(small: Measured, large: Measured) -> Iterator[str]:
    """What a larger value costs each command, on as many turns."""
    shapes = [each.store.shape for each in (small, large) if isinstance(each.store.shape, Shape)]
    sizes = [f"{shape.value_bytes // 1024} KiB" for shape in shapes]
    yield f"{small.store.backend}, {shapes[0].turns:,} turns, the value that each turn rewrites:"
    yield ""
    rows = [["command", *(f"{size}, own s" for size in sizes), *(f"{size}, CPU s" for size in sizes)]]
    for name in COMMANDS:
        own = [f"{median(each.own[name]):.3f}" for each in (small, large)]
        cpu = [f"{median(run.cpu for run in each.commands[name]):.3f}" for each in (small, large)]
        rows.append([name, *own, *cpu])
    yield from _markdown(rows)


def _figures(runs: Sequence[Run]) -> tuple[str, str, str]:
    walls = [run.wall for run in runs]
    wall = f"{median(walls):.3f} ({min(walls):.3f}–{max(walls):.3f})"
    return wall, f"{median(run.cpu for run in runs):.3f}", f"{max(run.peak for run in runs):.0f}"


def _megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f}"


def _mark(text: str, missed: bool) -> str:
    return f"{text} !" if missed else text


def _markdown(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    dashes = ["-" * (width if column == 0 else width - 1) for column, width in enumerate(widths)]
    for row in (rows[0], dashes, *rows[1:]):
        first = row[0].ljust(widths[0])
        if row is dashes:
            yield f"| {first} | " + " | ".join(f"{dash}:" for dash in dashes[1:]) + " |"
        else:
            rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            yield f"| {first} | " + " | ".join(rest) + " |"

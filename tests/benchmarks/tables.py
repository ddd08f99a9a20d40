"""The benchmark's figures as Markdown tables, with the targets beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from measuring import COMMANDS, Backend, Measured, Run

OWN_TARGET, LOG_TARGET = 0.25, 0.4
"""Seconds that a command may take beyond an empty program, and that the log of a key may."""
PEAK_TARGETS: Mapping[Backend, int] = {"SQLite": 70, "PostgreSQL": 90}
"""MiB."""
RATIO_TARGET = 25
"""How many times as fast as walking ``saver.list``, on 500 turns of 20 KiB."""
NOISE = 0.02
"""Seconds of own cost below which an exponent would be one of noise."""


def table(measured: Measured) -> Iterator[str]:
    """One store's figures as a Markdown table; ``!`` marks what misses its target."""
    store = measured.store
    peak_target = PEAK_TARGETS[store.backend]
    listed = [run.wall for run in measured.walks.get("list", [])]
    history = [run.wall for run in measured.walks.get("history", [])]
    yield (
        f"{store.backend}, {store.shape.turns:,} turns, {store.shape.turns * 4:,} checkpoints, "
        f"{store.shape.value_bytes // 1024} KiB rewritten each turn, {store.size / 1e6:,.0f} MB:"
    )
    yield ""
    head = [
        "command",
        "wall s (min–max)",
        "CPU s",
        f"peak MiB (≤ {peak_target})",
        f"own s (≤ {OWN_TARGET}, log {LOG_TARGET})",
    ]
    head += [f"× saver.list (≥ {RATIO_TARGET})"] if listed else []
    head += ["× get_state_history"] if history else []
    rows = [head, ["empty program", *_figures(measured.baseline), *[""] * (len(head) - 4)]]
    for name, runs in measured.commands.items():
        wall, cpu, peak = _figures(runs)
        own = median(measured.own[name])
        row = [" ".join(COMMANDS[name]), wall, cpu, _mark(peak, float(peak) > peak_target)]
        row += [_mark(f"{own:.3f}", own > (LOG_TARGET if name == "log" else OWN_TARGET))]
        if listed:
            ratio = median(listed) / median(run.wall for run in runs)
            # The target is for a thread of 500 turns: on a short one, starting Python is most of either.
            row += [_mark(f"{ratio:.0f}", ratio < RATIO_TARGET and store.shape.turns >= 500)]
        row += [f"{median(history) / median(run.wall for run in runs):.0f}"] if history else []
        rows.append(row)
    for way, label in (("list", "walk saver.list"), ("history", "walk get_state_history")):
        if way in measured.walks:
            rows.append([label, *_figures(measured.walks[way]), *[""] * (len(head) - 4)])
    yield from _markdown(rows)


def growth(small: Measured, large: Measured) -> Iterator[str]:
    """How cost grows with the number of turns: the exponent e in cost ~ turns ** e."""
    factor = large.store.shape.turns / small.store.shape.turns
    yield (
        f"{small.store.backend}, growth from {small.store.shape.turns} to {large.store.shape.turns:,} turns "
        "(exponent: 0 flat, 1 linear, 2 quadratic):"
    )
    yield ""
    rows = [["", f"{small.store.shape.turns} turns, s", f"{large.store.shape.turns:,} turns, s", "exponent"]]
    costs = [(f"{name}, own", median(small.own[name]), median(large.own[name])) for name in COMMANDS]
    for way in (way for way in small.walks if way in large.walks):
        before, after = (median(run.wall for run in each.walks[way]) for each in (small, large))
        costs.append((f"walk {way}, whole", before, after))
    for label, before, after in costs:
        exponent = f"{math.log(after / before, factor):.2f}" if min(before, after) > NOISE else "–"
        rows.append([label, f"{before:.3f}", f"{after:.3f}", exponent])
    yield from _markdown(rows)


def size_effect(small: Measured, large: Measured) -> Iterator[str]:
    """What a larger value costs each command."""
    sizes = [f"{each.store.shape.value_bytes // 1024} KiB" for each in (small, large)]
    yield f"{small.store.backend}, {small.store.shape.turns} turns, the value that each turn rewrites:"
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

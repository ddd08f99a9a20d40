"""Values that sibling branches share although each wrote its own, because a writer gave both the same version.

LangGraph.js counts versions by whole numbers, so two branches of one checkpoint count alike. Where values stand in rows
of their own by channel and version, the second branch's is not stored (``checkpoint-postgres``, ``ON CONFLICT DO
NOTHING``).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from turnstate.history.thread import History

_Versions = Mapping[str, str]


def shared_values(history: History) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """(channel, version) → the checkpoints that each made it, in id order, wherever several did."""
    forest, store = history.forest, history.store
    if not store.shares_values or not any(len(found) > 1 for found in forest.children.values()):
        return {}
    head = store.versions(history.thread, history.ns, [forest.head]).get(forest.head, {})
    if not any(version.isdecimal() for version in head.values()):
        return {}
    versions = store.versions(history.thread, history.ns, list(forest.rows))
    makers: dict[tuple[str, str], list[str]] = {}
    for row in sorted(forest.rows.values(), key=lambda row: row.id):
        before: _Versions = versions.get(row.parent, {}) if row.parent else {}
        if row.parent and row.parent not in forest.rows:
            continue
        for channel, version in versions.get(row.id, {}).items():
            if version.isdecimal() and before.get(channel) != version:
                makers.setdefault((channel, version), []).append(row.id)
    return {made: tuple(rows) for made, rows in makers.items() if len(rows) > 1}


def shared_with(history: History, channel: str, checkpoint: str) -> tuple[str, ...]:
    """The checkpoints on other branches that wrote the version of a row's channel before the row's own line did."""
    shared = shared_values(history)
    if not shared:
        return ()
    versions = history.store.versions(history.thread, history.ns, [checkpoint]).get(checkpoint, {})
    own = {row.id for row in history.line.rows}
    makers = shared.get((channel, versions.get(channel, "")), ())
    return tuple(takewhile(lambda id: id not in own, makers))

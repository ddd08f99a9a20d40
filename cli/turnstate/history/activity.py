"""When a thread was active, told from as little of it as will do."""

from __future__ import annotations

from datetime import datetime

from turnstate.history.ids import id_time
from turnstate.history.times import parse_time
from turnstate_backends.interface import Store, ThreadRow


def span_of(store: Store, row: ThreadRow) -> tuple[datetime | None, datetime | None]:
    """When the first and the last checkpoint of a thread were made, in whichever namespace.

    The least and the greatest id tell, where ids are made of time. Others need not sort by it (``"10"`` comes before
    ``"2"``), so then every row is asked for what is stored in it.
    """

    def by_id(checkpoint: str) -> datetime | None:
        return id_time(checkpoint) or parse_time(checkpoint)  # before LangGraph 0.2 an id was a time stamp

    first, last = by_id(row.first), by_id(row.last)
    if first is not None and last is not None:
        return first, last
    times = [
        found
        for ns in row.namespaces
        for ids in [[checkpoint.id for checkpoint in store.checkpoints(row.id, ns)]]
        for stored in [store.times(row.id, ns, ids)]
        for id in ids
        if (found := by_id(id) or parse_time(stored.get(id, "")))
    ]
    return min(times, default=None), max(times, default=None)

"""``turnstate`` for a running event loop: its functions by the same names, to be awaited."""

from turnstate.library.aio import diff, gaps, keys, log, open_store, read, threads, turns

__all__ = ["diff", "gaps", "keys", "log", "open_store", "read", "threads", "turns"]

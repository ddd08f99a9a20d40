"""Opening a store by its address: the one place that knows which backend reads which kind.

A backend and its driver are imported only when a store of its kind is opened.
"""

from __future__ import annotations

from collections.abc import Callable

from turnstate_backends.address import PostgresAddress, SaverAddress, parse
from turnstate_backends.interface import Store, StoreError


def open_store(
    text: str,
    *,
    schema: str | None = None,
    if_cut: Callable[[StoreError], object] | None = None,
    apart: bool = True,
) -> Store:
    """Open the store at an address, importing its backend and driver only now.

    Args:
        text: Any address that :func:`parse` reads.
        schema: The PostgreSQL schema of the tables; found through the search path when None.
        if_cut: See :func:`turnstate_backends.sqlite.open_sqlite`.
        apart: Of a saver, see :func:`turnstate_backends.usercode.guarded`.

    Raises:
        StoreError: The address cannot be read, or the store cannot be opened.
    """
    address = parse(text)
    if isinstance(address, PostgresAddress):
        from turnstate_backends.postgres import open_postgres

        return open_postgres(address, schema)
    if schema is not None:
        raise StoreError(
            f"a schema was given for {'a saver' if isinstance(address, SaverAddress) else 'a SQLite file'}",
            "only PostgreSQL databases have schemas",
            "Leave the schema out.",
        )
    if isinstance(address, SaverAddress):
        from turnstate_backends.saver import open_saver

        return open_saver(address, apart=apart)
    from turnstate_backends.sqlite import open_sqlite

    return open_sqlite(address.path, if_cut=if_cut)

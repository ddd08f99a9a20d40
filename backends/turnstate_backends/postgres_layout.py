"""Which of the known layouts a PostgreSQL store has, found in the catalogue, as parts of statements.

Knows tables and columns, and no row of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from psycopg import sql

from turnstate_backends.interface import StoreError

# The catalogue shows every table to every role, whatever it may read; information_schema does not.
LAYOUT: Final = """
select n.nspname, c.relname,
       array(select a.attname::text from pg_catalog.pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
       pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
       pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           and pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
       pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relname = any(%s) and c.relkind in ('r', 'p', 'v', 'm', 'f')
"""

_REQUIRED: Final = {
    "checkpoints": {"thread_id", "checkpoint_ns", "checkpoint", "metadata"},
    "checkpoint_blobs": {"thread_id", "checkpoint_ns", "channel", "type", "blob"},
    "checkpoint_writes": {
        "thread_id",
        "checkpoint_ns",
        "checkpoint_id",
        "task_id",
        "idx",
        "channel",
        "type",
        "blob",
    },
}
TABLES: Final = tuple(_REQUIRED)

_FULL: Final = {
    "id": "c.checkpoint_id",
    "parent": "c.parent_checkpoint_id",
    "same_version": "b.version = v.version",
    "version": "b.version",
}
# ShallowPostgresSaver: one row per namespace, its blobs overwritten in place.
_SHALLOW: Final = {
    "id": "(c.checkpoint ->> 'id')",
    "parent": "null::text",
    "same_version": "true",
    "version": "null::text",
}


class _Table(Struct, frozen=True):
    """One of the store's tables as the catalogue has it."""

    columns: frozenset[str]
    usable: bool
    readable: bool
    rank: int | None


def layout(rows: Sequence[tuple[Any, ...]], display: str, schema: str | None) -> Mapping[str, sql.Composable]:
    """The parts of the statements that depend on the store, from the rows of LAYOUT."""
    schemas: dict[str, dict[str, _Table]] = {}
    for nspname, relname, columns, usable, readable, rank in rows:
        schemas.setdefault(nspname, {})[relname] = _Table(frozenset(columns), usable, readable, rank)
    ranks = {name: tables["checkpoints"].rank for name, tables in schemas.items() if "checkpoints" in tables}
    if schema is None:
        schema = min(
            (name for name, rank in ranks.items() if rank is not None),
            key=lambda name: ranks[name] or 0,
            default=None,
        )
    if schema is None or "checkpoints" not in schemas.get(schema, {}):
        elsewhere = sorted(name for name in ranks if name != schema)
        raise StoreError(
            f"no LangGraph store in {display}",
            f"the schema {schema!r} has no table checkpoints"
            if schema is not None
            else "no schema on the search path has a table checkpoints",
            f"There is one in {', '.join(map(repr, elsewhere))}: choose it with --schema."
            if elsewhere
            else "Check the database name; the saver's setup() creates the tables.",
        )
    tables = schemas[schema]
    _refuse_other_layouts(tables, display, schema)
    parts = _SHALLOW if "checkpoint_id" not in tables["checkpoints"].columns else _FULL
    has_path = "task_path" in tables["checkpoint_writes"].columns
    quoted = schema.replace("%", "%%")  # psycopg reads placeholders inside quoted names too
    return {
        "checkpoints": sql.Identifier(quoted, "checkpoints"),
        "blobs": sql.Identifier(quoted, "checkpoint_blobs"),
        "writes": sql.Identifier(quoted, "checkpoint_writes"),
        "path": sql.SQL("w.task_path" if has_path else "''::text"),
        **{name: sql.SQL(text) for name, text in parts.items()},
    }


def _refuse_other_layouts(tables: Mapping[str, _Table], display: str, schema: str) -> None:
    if absent := [name for name in TABLES if name not in tables]:
        raise StoreError(
            f"no LangGraph store in {display}",
            f"the schema {schema!r} has {', '.join(sorted(tables))}, but not {', '.join(absent)}",
            "Choose another schema with --schema, or check the database name.",
        )
    for name, required in _REQUIRED.items():
        columns = tables[name].columns
        shallow = "checkpoint_id" not in tables["checkpoints"].columns
        if not shallow:
            required = required | {
                "checkpoints": {"parent_checkpoint_id"},
                "checkpoint_blobs": {"version"},
            }.get(name, set())
        if not required <= columns or (shallow and name == "checkpoint_blobs" and "version" in columns):
            raise StoreError(
                f"the store in {display} has a layout that is not known",
                f"{schema}.{name} has the columns {', '.join(sorted(columns))}",
                "turnstate reads the tables of PostgresSaver (Python, JavaScript) and ShallowPostgresSaver.",
            )
    denied = [name for name in TABLES if not tables[name].readable]
    if denied:
        usable = tables[denied[0]].usable
        raise StoreError(
            f"the store in {display} may not be read by this role",
            f"it has no SELECT on {', '.join(f'{schema}.{name}' for name in denied)}"
            if usable
            else f"it has no USAGE on the schema {schema}",
            f"GRANT USAGE ON SCHEMA {schema} and GRANT SELECT ON {', '.join(TABLES)} to it.",
        )

"""The stores that older and newer LangGraph releases left, ready to be opened. See ``fixtures/releases``.

Nothing here knows turnstate.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

FOLDER = Path(__file__).parents[1] / "fixtures/releases"
TRUTH: dict[str, Any] = json.loads((FOLDER / "truth.json").read_text(encoding="utf-8"))
IDS: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*/ids.json"))
}
"""Release → backend → conversation → the checkpoints that LangGraph named: ``ends``, ``branches``, ``namespaces``."""

STORES = [(release, backend) for release, backends in IDS.items() for backend in backends]


@dataclass(frozen=True, slots=True)
class Cell:
    """One recorded store.

    Attributes:
        release: Of LangGraph; ``js-…`` of LangGraph.js.
        backend: ``sqlite`` or ``postgres``.
        address: Where a copy of it was laid.
    """

    release: str
    backend: str
    address: str

    def ids(self, conversation: str) -> dict[str, list[str]]:
        """The checkpoints that LangGraph named when the conversation was held."""
        found: dict[str, list[str]] = IDS[self.release][self.backend][conversation]
        return found


def unpack(release: str, folder: Path) -> Path:
    """The SQLite file of a release, in a folder of the caller's."""
    path = folder / f"{release}.db"
    path.write_bytes(lzma.decompress((FOLDER / release / "store.db.xz").read_bytes()))
    return path


def restore(release: str, dsn: str) -> None:
    """Lay the PostgreSQL dump of a release into an empty database.

    Left out are ``psql``'s own commands, and a setting that servers before 17 do not have.
    """
    dump = lzma.decompress((FOLDER / release / "store.sql.xz").read_bytes()).decode()
    lines = [line for line in dump.splitlines() if not line.startswith(("\\", "SET transaction_timeout"))]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("\n".join(lines).encode())

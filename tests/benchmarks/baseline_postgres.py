"""The program of :mod:`baseline`, which also loads psycopg and connects: what reaching any database costs."""

from __future__ import annotations

import psycopg
import typer
from baseline import app


@app.callback()
def options(store: str = typer.Option("")) -> None:
    """Connect to the store, and ask it nothing."""
    psycopg.connect(store).close()


if __name__ == "__main__":
    app()

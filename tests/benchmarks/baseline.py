"""A Typer program with as many commands as turnstate has, which do nothing: what starting any such program costs."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.callback()
def options(store: str = typer.Option("")) -> None:
    """Take the store, and leave it alone."""


@app.command()
def threads(
    limit: int = typer.Option(0, "--limit"),
    as_json: bool = typer.Option(False, "--json"),
    as_lines: bool = typer.Option(False, "--jsonl"),
) -> None:
    """Do nothing."""


@app.command()
def turns(thread: str, as_json: bool = typer.Option(False, "--json")) -> None:
    """Do nothing."""


@app.command()
def keys(
    thread: str, turn: int = typer.Option(-1, "--turn"), as_json: bool = typer.Option(False, "--json")
) -> None:
    """Do nothing."""


@app.command()
def show(
    thread: str,
    key: str,
    turn: int = typer.Option(-1, "--turn"),
    as_json: bool = typer.Option(False, "--json"),
) -> None:
    """Do nothing."""


@app.command()
def log(thread: str, key: str = typer.Argument(""), as_json: bool = typer.Option(False, "--json")) -> None:
    """Do nothing."""


@app.command()
def diff(thread: str, key: str = typer.Argument("")) -> None:
    """Do nothing."""


@app.command()
def gaps(
    thread: str = typer.Argument(""),
    limit: int = typer.Option(0, "--limit"),
    as_json: bool = typer.Option(False, "--json"),
    as_lines: bool = typer.Option(False, "--jsonl"),
) -> None:
    """Do nothing."""


@app.command()
def branches(thread: str, as_json: bool = typer.Option(False, "--json")) -> None:
    """Do nothing."""


@app.command()
def record(thread: str, to: str = typer.Option(""), force: bool = typer.Option(False, "--force")) -> None:
    """Do nothing."""


@app.command()
def check(file: str = typer.Argument(""), accept: bool = typer.Option(False, "--accept")) -> None:
    """Do nothing."""


@app.command()
def report(thread: str, html: str = typer.Option(""), force: bool = typer.Option(False, "--force")) -> None:
    """Do nothing."""


@app.command()
def serve(host: str = typer.Option("127.0.0.1"), port: int = typer.Option(0)) -> None:
    """Do nothing."""


@app.command()
def mcp(host: str = typer.Option("127.0.0.1"), port: int = typer.Option(0)) -> None:
    """Do nothing."""


if __name__ == "__main__":
    app()

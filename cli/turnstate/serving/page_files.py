"""The page's files, as they lie in the package; the server gives them out, and a report holds them."""

from __future__ import annotations

from importlib import resources

KINDS = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
"""Name → media type."""


def page_file(name: str) -> str:
    """The text of one of :data:`KINDS`."""
    return resources.files("turnstate.serving").joinpath("page", name).read_text("utf-8")

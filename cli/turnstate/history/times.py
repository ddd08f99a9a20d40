"""Moments as text: ISO 8601, always UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: str) -> datetime | None:
    """An ISO 8601 moment; UTC where it names no zone. None when it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # a zone can push the first and the last day out of the calendar
        return None


def iso(moment: datetime) -> str:
    """A moment as every report writes it: ``2026-01-31T12:00:00.123456Z``."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")

"""The two ways in which what was asked ends without an answer, whoever asked."""

from __future__ import annotations


class Refused(Exception):
    """It cannot be answered as it was asked: what, why and what to do, one line each."""

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint


class Missed(Exception):
    """What was asked about is not in the store: an outcome and its words.

    Attributes:
        outcome: As in :data:`turnstate.history.reading.Outcome`.
        message: In words.
        fields: What is known besides, by the names that documents give it.
    """

    def __init__(self, outcome: str, message: str, **fields: object) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.fields = fields

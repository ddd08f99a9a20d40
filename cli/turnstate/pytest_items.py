"""What the pytest plugin makes: test items of a file's expectations, and states that assert when they are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from turnstate.checking.expectations import Expectation, ExpectationFile, FileFlawed
from turnstate.checking.forms import expected_form
from turnstate.checking.judge import Finding, Result, compared, found_by
from turnstate.commands.address import redacted
from turnstate.commands.checks import Checker, address_of, load
from turnstate.commands.exits import Refused
from turnstate.history.jsonform import jsonable, room_for_depth
from turnstate.history.keys import AmbiguousKey
from turnstate.history.places import Miss, turn_place
from turnstate.history.reading import Reading, read
from turnstate.pytest_plugin import store_option
from turnstate.render.checks import failure_text
from turnstate.render.text import one_line
from turnstate_backends.interface import StoreError


class ExpectationsFile(pytest.File):
    """A ``turnstate*.toml`` file; one without expectations has no items."""

    _checker: Checker | None = None

    def collect(self) -> Iterator[ExpectationItem]:
        names: dict[str, int] = {}
        for expectation in self._loaded().expectations:
            name = one_line(expectation.name)
            names[name] = names.get(name, 0) + 1
            unique = name if names[name] == 1 else f"{name} ({names[name]})"
            yield ExpectationItem.from_parent(self, name=unique, expectation=expectation)

    def _loaded(self) -> ExpectationFile:
        try:
            root = self.config.rootpath
            within = self.path.is_relative_to(root)
            return load(self.path, str(self.path.relative_to(root) if within else self.path))
        except FileFlawed as flawed:
            lines = (f"{p.file}:{p.line}:{p.column}: {p.what}. {p.hint}" for p in flawed.problems)
            raise self.CollectError("\n".join(map(one_line, lines))) from None
        except Refused as refusal:
            raise self.CollectError(f"{refusal.what}: {refusal.why}") from None

    def judge(self, expectation: Expectation) -> Result:
        """Whether an expectation holds; the file's stores stay open until its last item is done."""
        if self._checker is None:
            self._checker = Checker()
        try:
            return self._checker.judge(expectation, address_of(self.path, store_option(self.config)))
        except Refused as refusal:
            return Result(expectation, "error", message=f"{refusal.what}: {refusal.why}", hint=refusal.hint)

    def teardown(self) -> None:
        if self._checker is not None:
            self._checker.__exit__(None, None, None)
            self._checker = None


class ExpectationItem(pytest.Item):
    """One expectation as a test."""

    def __init__(self, *, expectation: Expectation, **more: Any) -> None:
        super().__init__(**more)
        self.expectation = expectation

    def runtest(self) -> None:
        assert isinstance(self.parent, ExpectationsFile)
        result = self.parent.judge(self.expectation)
        if result.status != "holds":
            raise ExpectationFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, ExpectationFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.expectation.line - 1, self.name


class ExpectationFailed(AssertionError):
    """An expectation does not hold, or it cannot be told whether it does."""

    def __init__(self, result: Result) -> None:
        super().__init__(redacted(failure_text(result)))


def state_of(
    store: str,
    thread: str,
    key: str,
    *,
    turn: int = -1,
    at_start: bool = False,
    query: str | None = None,
    tolerance: float | None = None,
    ns: str = "",
    branch: str | None = None,
    messages: str = "messages",
    turns_by: str | None = None,
    reducer: str | None = None,
) -> State:
    """What a key holds as of a turn, read anew.

    Args:
        store: The store's address.
        thread: ``thread_id``.
        key: A channel, an entry of a mapping channel, or ``channel:entry``.
        turn: From 1; -1 is the last turn, 0 the state before the first question.
        at_start: As the turn began.
        query: A JMESPath expression into the value.
        tolerance: How far numbers may lie apart and be equal.
        ns: ``checkpoint_ns``.
        branch: A checkpoint whose line is meant.
        messages: The channel that holds the conversation.
        turns_by: ``questions`` or ``inputs``.
        reducer: As ``--reducer``.

    Raises:
        pytest.fail.Exception: The store cannot be read, or the names do not say what is meant.
    """
    __tracebackhide__ = True
    table: dict[str, Any] = {"thread": thread, "key": key, "ns": ns, "messages": messages}
    table |= {"branch": branch, "turns_by": turns_by}
    try:
        with Checker(reducer=reducer) as checker:
            history = checker.history(store, table)
            if isinstance(history, Miss):
                reading = Reading(history.outcome, key, history.message)
            else:
                reading = read(history, key, turn_place(history, turn, at_start=at_start))
    except (StoreError, Refused) as error:
        pytest.fail(redacted(f"{error.what}: {error.why}\n{error.hint}"), pytrace=False)
    except AmbiguousKey as error:
        pytest.fail(f"{key!r} is an entry of several channels: {', '.join(error.names)}", pytrace=False)
    about = {"thread": thread, "ns": ns, "key": key, "turn": turn if reading.turn is None else reading.turn}
    return State(about | ({"at_start": True} if at_start else {}), reading, query, tolerance)


class State:
    """A key as of a turn. A comparison asserts: it raises ``AssertionError`` where it does not hold.

    ``==`` and ``!=`` compare as ``turnstate check`` does: 1, 1.0, true and "1" differ. What compares itself, such as
    ``pytest.approx``, is let. ``in`` is its ``contains``.

    Attributes:
        reading: The read and its outcome.
    """

    def __init__(
        self, about: dict[str, Any], reading: Reading, query: str | None, tolerance: float | None
    ) -> None:
        self.reading = reading
        self._about = about
        with room_for_depth():
            self._found = found_by(reading, query)
        self._tolerance = tolerance

    @property
    def outcome(self) -> str:
        """``value``, ``no_such_turn``, ``not_yet_written``, …"""
        return self.reading.outcome

    @property
    def checkpoint(self) -> str | None:
        """The checkpoint that was read."""
        return self.reading.checkpoint

    @property
    def written_in(self) -> tuple[int, ...]:
        """All turns that wrote the key."""
        return self.reading.turns_written

    @property
    def written_by(self) -> str | None:
        """The node that wrote the value."""
        return self.reading.written.node if self.reading.written else None

    @property
    def value(self) -> Any:
        """The value in the form of ``--json``.

        Raises:
            AssertionError: There is none.
        """
        __tracebackhide__ = True
        if not self._found.is_value:
            self._fail(Finding("outcome", "value", self._found, False))
        return self._found.form

    def matches(self, pattern: str) -> bool:
        """Whether the text has a part that matches a regular expression; asserts it."""
        __tracebackhide__ = True
        return self._holds("matches", pattern)

    def __eq__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("equals", expected)

    def __ne__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("not_equals", expected)

    def __contains__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("contains", expected)

    def __lt__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("less_than", expected)

    def __le__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("at_most", expected)

    def __ge__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("at_least", expected)

    def __gt__(self, expected: object) -> bool:
        __tracebackhide__ = True
        return self._holds("more_than", expected)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> NoReturn:
        raise TypeError("nothing is compared: write assert_state(…) == value, or ask for its .outcome")

    def __repr__(self) -> str:
        return f"<state of {self._expectation('outcome', None).about}: {self.outcome}>"

    def _holds(self, condition: str, expected: object) -> bool:
        __tracebackhide__ = True
        try:
            form = expected_form(expected)
        except TypeError:
            return self._compares_itself(condition, expected)
        if not self._found.is_value:
            self._fail(Finding(condition, form, self._found, False))
        with room_for_depth():
            finding = compared(condition, form, self._found, self._tolerance)
        return finding.holds or self._fail(finding)

    def _compares_itself(self, condition: str, expected: Any) -> bool:
        __tracebackhide__ = True
        held = {"equals": expected.__eq__, "not_equals": expected.__ne__}.get(condition)
        if held is not None and self._found.is_value and held(self._found.form) is True:
            return True
        return self._fail(Finding(condition, jsonable(repr(expected)), self._found, False))

    def _fail(self, finding: Finding) -> NoReturn:
        __tracebackhide__ = True
        reading = self.reading
        expectation = self._expectation(finding.condition, finding.expected)
        raise ExpectationFailed(
            Result(expectation, "fails", (finding,), reading.turn, reading.checkpoint, reading)
        )

    def _expectation(self, condition: str, expected: Any) -> Expectation:
        return Expectation("value", {**self._about, condition: expected}, "", 0, 0)

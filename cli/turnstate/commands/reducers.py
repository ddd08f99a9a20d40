"""``--reducer CHANNEL=RULE,…``: how a channel that is kept as deltas adds up, where the user says so.

A rule is one of turnstate's own, or ``module:function``. The latter is the only case in which turnstate imports code
that it does not come with, and only what the command line names: nothing that a store says leads here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from turnstate.commands.address import redacted
from turnstate.commands.exits import Refused

if TYPE_CHECKING:
    from turnstate.history.accumulate import Rule

_OPTION = "'--reducer'"


def rules(given: str | Sequence[str] | None) -> Mapping[str, Rule]:
    """The rule of each channel that is named.

    Args:
        given: ``CHANNEL=RULE``, separated by commas, as typed, once or several times. A channel may hold a ``=``: the
            last one parts.

    Raises:
        typer.BadParameter: One is not of that form, names no rule, or a channel a second time.
        Refused: A function cannot be imported.
    """
    found: dict[str, Rule] = {}
    joined = given if isinstance(given, str) else ",".join(given or ())
    for text in joined.split(",") if joined else ():
        channel, _, name = text.rpartition("=")
        if not channel or not name:
            raise typer.BadParameter(f"{text!r} is not CHANNEL=RULE.", param_hint=_OPTION)
        if channel in found:
            raise typer.BadParameter(f"{channel!r} is given twice.", param_hint=_OPTION)
        found[channel] = _rule(name)
    return found


def _rule(name: str) -> Rule:
    from turnstate.history.accumulate import RULES, called

    module, colon, function = name.partition(":")
    if colon and module and function:
        return called(name, _imported(name, module, function))
    if name not in RULES:
        known = ", ".join(RULES)
        raise typer.BadParameter(f"{name!r} is neither {known} nor module:function.", param_hint=_OPTION)
    return RULES[name]


def _imported(name: str, module: str, function: str) -> Callable[[Any, Sequence[Any]], Any]:
    from turnstate.history.accumulate import Unfit
    from turnstate_backends.usercode import Unimported, guarded, imported

    try:
        found = imported(module, function)
    except Unimported as error:
        raise Refused(
            f"the reducer {name} cannot be imported", str(error), "Give module:function as Python imports it."
        ) from None
    if not callable(found):
        raise Refused(f"{name} is no function", f"it is a {type(found).__name__}", "Name a function.")

    def reducer(old: Any, writes: Sequence[Any]) -> Any:
        with guarded(lambda why: Unfit(redacted(f"{name} raised {why}"))):
            return found(old, writes)

    return reducer

"""``inspect_state`` as a LangChain tool. LangGraph is imported when one is made: reading a store does without."""

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from turnstate.agent.inspecting import Inspection, text_of
from turnstate.agent.past import Past
from turnstate.agent.tool_state import MESSAGES, counted_turn
from turnstate.library.protocol import ThreadHistory

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

# Annotations stay objects in this module: LangGraph finds what it must inject by looking at them.

_DESCRIPTION = """Read what this conversation's state holds under a key, now or as an earlier turn ended.

A turn is a question of the user and everything up to the next one, counted from 1. A later turn may have rewritten a
key; the answer then says so, and how to read the earlier value. To compare what two turns found, read the key once for
each turn, and check written_in_turn of both answers.

The answer is JSON; its outcome says what it is: value; keys (a listing); no_such_key; not_yet_written; no_such_turn
(turns_so_far says how many there are); turn_no_longer_retained (retained_turns says which can be read);
no_turn_history; key_not_allowed; bad_path or bad_pattern (correct it and ask again). Never make up a value that an
answer does not hold. A long value comes as an outline; read parts of it with path or pattern.

Args:
    key: Name of the key. "*" lists all keys, a glob such as "gazet/*" some of them.
    pattern: Regular expression (Python). Only the lines of the value that match are given, with their numbers.
    path: JMESPath into the value, such as areas[0].name or areas[?size > `10`].name. A name that is no plain word
        stands in double quotes: "my-key".sub.
    turn: Number of a turn: the value as that turn ended. Leave it out for the present value.
"""


def make_inspect_state(allowed_keys: Iterable[str], history: ThreadHistory | None = None) -> "BaseTool":
    """The tool ``inspect_state(key, pattern=None, path=None, turn=None)`` for an agent's own state.

    It is asynchronous, and given the graph's state and the run's configuration by LangGraph (``ToolNode``); the model
    sees neither. The thread is the run's ``configurable.thread_id``. Its answers are JSON of at most
    :data:`turnstate.agent.inspecting.MOST_CHARACTERS` characters.

    Args:
        allowed_keys: The keys that may be read: channels, entries of mapping channels (``gazet/get_aoi/bbox``),
            ``channel:entry``, and shell-style globs of these. A channel's name allows its entries too.
        history: What tells the state as earlier turns ended; without it only the present can be read.

    Raises:
        TypeError: ``allowed_keys`` is no list of texts, or ``history`` is no :class:`ThreadHistory`.
        ImportError: LangGraph is not installed.
    """
    allowed = () if isinstance(allowed_keys, str) else tuple(allowed_keys)
    if isinstance(allowed_keys, str) or not all(isinstance(name, str) for name in allowed):
        raise TypeError("allowed_keys is a list of names and globs, not one text")
    if history is not None and (isinstance(history, type) or not isinstance(history, ThreadHistory)):
        raise TypeError("history has no method snapshots(thread_id)")
    try:
        from langchain_core.runnables import RunnableConfig
        from langchain_core.tools import StructuredTool
        from langgraph.prebuilt import InjectedState
    except ImportError as error:
        raise ImportError("make_inspect_state needs LangGraph: pip install 'turnstate[langgraph]'") from error

    async def inspect_state(
        key: str,
        config: RunnableConfig,
        state: Annotated[Any, InjectedState],
        pattern: str | None = None,
        path: str | None = None,
        turn: int | None = None,
    ) -> str:
        past, why = _past(history, config, state)
        inspection = Inspection(state, allowed, past, why)
        return text_of(await inspection.answer(key, pattern or None, path or None, turn))

    @functools.wraps(inspect_state)
    def not_synchronous(*args: Any, **kwargs: Any) -> str:
        raise NotImplementedError(
            "inspect_state is asynchronous, as histories are: "
            "run the graph with ainvoke or astream, not with invoke or stream"
        )

    return StructuredTool.from_function(
        not_synchronous,
        inspect_state,
        name="inspect_state",
        description=_DESCRIPTION,
        parse_docstring=False,
    )


def _past(history: ThreadHistory | None, config: "RunnableConfig", state: Any) -> tuple[Past | None, str]:
    if history is None:
        return None, "no history of turns was given to this tool"
    thread = (config.get("configurable") or {}).get("thread_id")
    if thread is None:
        return None, "the run has no thread_id"
    channel = getattr(history, "counts_messages_in", MESSAGES)
    counted = None if channel is None else counted_turn(state, messages=channel)
    return Past(history, str(thread), config, counted), ""

"""A store whose every text tries to become markup, script, an address or a template."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

MARK = "document.documentElement.dataset.owned=1"
TEXTS = (
    f"<script>{MARK}</script>",
    f"</script><script>{MARK}</script>",
    f"<!--<script>{MARK}//",
    f"<img src=x onerror={MARK}>",
    f"\"><svg onload='{MARK}'>",
    f"' autofocus onfocus={MARK} x='",
    f"javascript:{MARK}",
    f"{{{{{MARK}}}}} ${{{MARK}}} <%= {MARK} %>",
    f"\u2028{MARK}\u2029\u202e&lt;b&gt;&#x3c;",
    "</title></textarea></style><base href=//evil.example><meta http-equiv=refresh content=0>",
)
THREADS = (TEXTS[1], "a/b c/../d", "..", ".", "", "%2F?x=1#y", "håndbold:ö", "*[a]?")
KEYS = (*TEXTS, "..", ".", "", "a/../b", "x?y#z", "50%", "*", "k*")


class State(TypedDict, total=False):
    """All texts: as questions, as names of entries, and as values."""

    messages: Annotated[list[Any], add_messages]
    found: dict[str, str]


def record(path: Path) -> None:
    """Threads named by :data:`THREADS`, each with two turns that write all :data:`KEYS`."""

    def write(state: State) -> State:
        turn = len(state["messages"])
        return {"found": {key: f"{text} {turn}" for key, text in zip(KEYS, TEXTS * 2, strict=False)}}

    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State)
        graph.add_node("write", write)
        graph.add_edge(START, "write")
        graph.add_edge("write", END)
        app = graph.compile(checkpointer=saver)
        for thread in THREADS:
            for text in TEXTS[:2]:
                app.invoke(
                    {"messages": [HumanMessage(text)]},
                    {"configurable": {"thread_id": thread}},
                    durability="exit",
                )

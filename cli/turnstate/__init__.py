"""Read a LangGraph checkpoint store by turns."""

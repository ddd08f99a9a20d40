"""What an agent itself asks of its state: a tool that reads keys, and the channel in which tools publish them.

Only :mod:`turnstate.agent.inspect_tool` and :mod:`turnstate.agent.live` know LangChain and LangGraph.
"""

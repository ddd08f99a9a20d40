"""JMESPath into a value. Pure functions over plain data; see https://jmespath.org for the language."""

from __future__ import annotations

from typing import Any

from turnstate_backends.values import Tagged


class QueryError(Exception):
    """An expression that cannot be read, or not be applied to a value; the text says why, in one line."""


def compiled(query: str) -> Any:
    """An expression, to be given to :func:`selected`.

    Raises:
        QueryError: It is none.
    """
    import jmespath

    try:
        return jmespath.compile(query)
    except jmespath.exceptions.JMESPathError as error:
        raise QueryError(" ".join(str(error).split())) from None


def selected(expression: Any, value: Any) -> Any:
    """What an expression selects of a value; None where it selects nothing, or a null.

    Raises:
        QueryError: It asks for what the value does not have.
    """
    import jmespath

    try:
        return expression.search(queryable(value))
    except (jmespath.exceptions.JMESPathError, TypeError, ValueError) as error:
        raise QueryError(" ".join(str(error).split())) from None


def queryable(value: Any) -> Any:
    """A value as a JMESPath expression looks into it: an instance is its fields, every name is text."""
    if isinstance(value, Tagged):
        return queryable(value.value)
    if isinstance(value, list | tuple):
        return [queryable(item) for item in value]
    if isinstance(value, dict):
        return {str(name): queryable(item) for name, item in value.items()}
    return value

"""numpy arrays as nested lists, from the four parts LangGraph stores, without numpy.

It knows dtype strings (the array interface protocol's ``typestr``) and memory order, and nothing of
payloads. Nothing is allocated before the stored shape was checked against the stored bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any

_DIMENSIONS = 64  # numpy 2 allows no more
_NUMBERS = {
    "b1": "?",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
}
_COMPLEX = {"c8": "f", "c16": "d"}


def ndarray(dtype: Any, shape: Any, order: Any, buffer: Any) -> dict[str, Any]:
    """The fields of one stored ``numpy.ndarray``.

    Args:
        dtype: ``dtype.str``, such as ``"<f4"``; the first character is the byte order.
        shape: Length of each dimension; empty for a zero-dimensional array.
        order: ``"C"`` or ``"F"``.
        buffer: The elements' bytes in that order.

    Returns:
        ``{"dtype", "shape", "data"}``. ``data`` nests one list per dimension (a complex number is
        ``[real, imaginary]``), or is the stored bytes for dtypes that are not read (records, objects,
        dates, long doubles).

    Raises:
        ValueError: The parts do not describe an array; the message says which.
    """
    if not isinstance(dtype, str) or not isinstance(buffer, bytes) or order not in ("C", "F"):
        raise ValueError("not the parts of an array")
    if not isinstance(shape, list) or len(shape) > _DIMENSIONS:
        raise ValueError("not the shape of an array")
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError("not the shape of an array")
    size = _item_size(dtype)
    if size is None:
        return {"dtype": dtype, "shape": shape, "data": buffer}
    if prod(shape) * size != len(buffer):
        raise ValueError(f"its shape and dtype do not match its {len(buffer)} bytes")
    items: Sequence[Any] = _items(dtype, size, buffer)
    if not shape:
        data: Any = items[0]
    elif not items:
        data = []  # any other dimension may claim a billion rows of nothing
    else:
        data = _nest(items, shape, _strides(shape, order), 0, 0)
    return {"dtype": dtype, "shape": shape, "data": data}


def _item_size(dtype: str) -> int | None:
    """Bytes of one element; None for a dtype that is not read."""
    code = dtype[1:]
    if dtype[:1] not in ("<", ">", "|", "="):
        return None
    if code in _NUMBERS or code in _COMPLEX:
        return int(code[1:])
    length = code[1:]
    if code[:1] in ("S", "U") and length.isascii() and length.isdigit() and len(length) < 10:
        # A width of 0 makes every shape fit no bytes, so the shape could not be checked.
        return int(length) * (4 if code[0] == "U" else 1) or None
    return None


def _items(dtype: str, size: int, buffer: bytes) -> Sequence[Any]:
    end = ">" if dtype[0] == ">" else "<"
    code = dtype[1:]
    if code in _NUMBERS:
        return struct.unpack(f"{end}{len(buffer) // size}{_NUMBERS[code]}", buffer)
    if code in _COMPLEX:
        parts = struct.unpack(f"{end}{2 * len(buffer) // size}{_COMPLEX[code]}", buffer)
        return [list(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    chunks = [buffer[start : start + size] for start in range(0, len(buffer), size)]
    if code[0] == "S":
        return [chunk.rstrip(b"\0") for chunk in chunks]
    codec = "utf-32-be" if end == ">" else "utf-32-le"
    return [chunk.decode(codec, "surrogatepass").rstrip("\0") for chunk in chunks]


def _strides(shape: list[int], order: str) -> list[int]:
    """Elements from one index to the next, by dimension."""
    if order == "F":
        return [prod(shape[:axis]) for axis in range(len(shape))]
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _nest(items: Sequence[Any], shape: list[int], strides: list[int], axis: int, start: int) -> list[Any]:
    length, stride = shape[axis], strides[axis]
    if axis == len(shape) - 1:
        return list(items[start : start + length * stride : stride])
    return [_nest(items, shape, strides, axis + 1, start + index * stride) for index in range(length)]

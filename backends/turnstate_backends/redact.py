"""Payloads without what must not leave: each thing replaced by a placeholder, everything else byte for byte.

A payload goes in and a payload comes out, the same one where nothing in it had to go. Class names and the fields by
which LangGraph finds its rows are left alone. Nothing is imported or built. A payload that cannot be looked into is
replaced as a whole where the user asked for anything to go, and where it shows a secret.
"""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from turnstate_backends import detectors, packed, payload
from turnstate_backends.encryption import is_sealed, unsealed
from turnstate_backends.instances import is_secret
from turnstate_backends.packed import Damage, Ext
from turnstate_backends.trees import (
    Closed,
    Node,
    Pairs,
    Raw,
    from_json,
    from_msgpack,
    json_of,
    to_json,
    to_msgpack,
)
from turnstate_backends.values import Stored

Detector = Literal["key", "pattern", "secret class", "secret key", "token", "e-mail", "phone", "unreadable"]

_PLACEHOLDER = re.compile(r"\[redacted:[0-9a-f]{12}\]")
_DIGITS = 12
_NO_CONTENT = ("null", "empty")
_CONTENT_OF_STATE = ("channel_values", "pending_sends")
_OWN_METADATA = re.compile(
    r"source|step|parents|run_id|thread_id|checkpoint_(?:ns|id)|counters_since_delta_snapshot|langgraph_.*|created_by"
)
_CONSTRUCTOR = ("lc", "type", "id")
_HIDING = (b"\\u", b"<U", b">U", b'"fromhex"', b'"Uint8Array"')
_LEVELS = (
    2  # of msgpack that are read at once: the channels of a checkpoint, each of which then comes by itself
)
_REMEMBERED = (
    64 << 20
)  # bytes of instances whose outcome is kept: neighbouring checkpoints share most of theirs


class Rules(Struct, frozen=True):
    """What has to go.

    Attributes:
        keys: Names of channels, mapping entries or fields whose value goes, or patterns (``*``, ``?``, ``[abc]``);
            case does not count.
        patterns: What goes wherever it stands in a text or a number.
        secrets: Secrets go: ``SecretStr`` and its kind, fields named like one, tokens of known form.
        personal: E-mail addresses and telephone numbers go.
    """

    keys: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    secrets: bool = True
    personal: bool = False

    @property
    def asked(self) -> bool:
        """Whether anything has to go beside secrets."""
        return bool(self.keys or self.patterns or self.personal)


class _Within(Struct, frozen=True):
    """Under a name or in a class whose every text goes."""

    detector: Detector
    numbers: bool


class Found(Struct):
    """What went.

    Attributes:
        places: How often, by detector and the name that it stood under.
        distinct: How many different things.
        names: Thread ids, channels and other names that LangGraph needs, which hold what should go, and stay.
        sealed: Encrypted payloads that were copied unopened.
        opened: Encrypted payloads that are now stored in clear.
        unmet: Of the keys and patterns that were asked for, those that nothing has matched: perhaps mistyped.
    """

    places: Counter[tuple[Detector, str]] = field(default_factory=Counter)
    distinct: set[str] = set()
    names: set[str] = set()
    sealed: int = 0
    opened: int = 0
    unmet: set[str] = set()


class Redactor:
    """Replaces what some rules name, equal things by equal placeholders.

    Args:
        rules: What has to go.
        salt: Decides the placeholders: without it nobody can try out which text a placeholder stands for.
    """

    def __init__(self, rules: Rules, salt: bytes) -> None:
        self.found = Found(unmet={*rules.keys, *(pattern.pattern for pattern in rules.patterns)})
        self._rules = rules
        self._salt = salt
        self._globs = tuple(key.casefold() for key in rules.keys)
        self._traces = detectors.TraceFilter()
        self._known: dict[
            tuple[bytes, int | None, _Within | None, str], tuple[bytes | None, Counter[tuple[Detector, str]]]
        ] = {}
        self._known_bytes = 0

    def value(self, stored: Stored, key: str) -> Stored:
        """A payload without what has to go.

        Args:
            stored: Whole.
            key: The channel that it fills.
        """
        return self._payload(stored, lambda node: self._under(key, node, None, key), key, levels=0)

    def state(self, stored: Stored) -> Stored:
        """A ``checkpoint`` payload likewise; versions, times and ids in it stay."""
        return self._payload(stored, self._in_state, "checkpoint", levels=_LEVELS)

    def metadata(self, data: bytes | None) -> bytes | None:
        """The metadata of a checkpoint likewise, JSON; what LangGraph itself put there stays."""
        if data is None:
            return None
        return self._payload(Stored("json", data, len(data)), self._in_metadata, "metadata").data

    def name(self, text: str) -> None:
        """Note a name that has to stay, if anything in it should go."""
        if any(True for _ in self._spans(text)):
            self.found.names.add(text)

    # Payloads.

    def _payload(
        self, stored: Stored, change: Callable[[Node], Node], key: str, *, levels: int = 0
    ) -> Stored:
        if is_sealed(stored):
            opened = unsealed(stored) if self._rules.asked else stored
            if is_sealed(opened):
                self.found.sealed += 1
                return stored
            self.found.opened += 1
            stored = replace(opened, encrypted=False)
        if stored.type in _NO_CONTENT or not self._may_hold(stored, key):
            return stored
        try:
            return self._changed(stored, change, levels)
        except (Damage, ValueError, RecursionError):
            return self._opaque(stored, key)

    def _changed(self, stored: Stored, change: Callable[[Node], Node], levels: int) -> Stored:
        kind = payload.encoding(stored)
        if kind in ("bytes", "bytearray"):
            data = change(stored.data)
            if not isinstance(data, bytes):  # all of it went
                data = data.encode()
        elif kind == "json":
            tree, errors = json_of(stored.data)
            changed = change(tree)
            if changed is tree:
                return stored
            data = to_json(changed, escape=errors == "surrogatepass").encode("utf-8", errors)
        elif kind == "msgpack":
            tree = from_msgpack(stored.data, levels)
            changed = change(tree)
            if changed is tree:
                return stored
            data = to_msgpack(changed)
        else:
            raise Damage("no such payload type is known")
        return replace(stored, data=data, size=len(data))

    def _opaque(self, stored: Stored, key: str) -> Stored:
        """What cannot be looked into, which goes as a whole, unless only secrets have to and none shows."""
        if not self._rules.asked and not self._shows(stored.data):
            return stored
        text = self._placeholder(stored.data, "unreadable", key)
        data = to_json(text).encode() if stored.type == "json" else to_msgpack(text)
        return Stored(stored.type if stored.type == "json" else "msgpack", data, len(data))

    def _may_hold(self, stored: Stored, key: str) -> bool:
        """Whether the bytes are worth reading: also where an escape or bytes in JSON, UTF-16, or an array of text may
        hide something."""
        if self._rules.asked or not self._rules.secrets:
            return self._rules.asked
        data = stored.data
        hides = any(sign in data for sign in _HIDING) or (stored.type == "json" and b"\0" in data)
        return hides or detectors.names_secret(key) is not None or self._traces.passes(data)

    # Trees. Each gives the very node that it was given where nothing in it had to go.

    def _in_state(self, tree: Node) -> Node:
        if not isinstance(tree, Pairs) or not any(key == "channel_values" for key, _ in tree):
            return self._node(tree, None, "checkpoint")
        return _pairs(
            tree, lambda key, item: (key, self._channels(key, item) if key in _CONTENT_OF_STATE else item)
        )

    def _channels(self, name: str, node: Node) -> Node:
        if not isinstance(node, Pairs):
            return self._node(node, None, name)
        return _pairs(node, lambda key, item: (key, self._under(key, item, None, _text(key))))

    def _in_metadata(self, tree: Node) -> Node:
        if not isinstance(tree, Pairs):
            return self._node(tree, None, "metadata")
        return _pairs(
            tree,
            lambda key, item: (key, item) if _OWN_METADATA.fullmatch(key) else self._entry(key, item, None),
        )

    def _entry(self, key: Node, item: Node, within: _Within | None) -> tuple[Node, Node]:
        shown = self._node(key, None, "a name")
        name = key if isinstance(key, str) else ""
        return shown, self._under(name, item, within, shown if isinstance(shown, str) else "")

    def _under(self, name: str, node: Node, within: _Within | None, key: str) -> Node:
        """What stands under a name."""
        if self._globs and (met := self._keys_met(name.casefold())):
            self.found.unmet.difference_update(met)
            if isinstance(node, Raw) and node.token in (b"null", b"\xc0"):
                return node
            return self._gone(node, "key", key)
        if within is None and self._rules.secrets and (kind := detectors.names_secret(name)):
            within = _Within("secret key", numbers=kind == "any")
        if within is None and self._rules.personal and detectors.names_person(name):
            within = _Within("phone" if "mail" not in name.casefold() else "e-mail", numbers=True)
        return self._node(node, within, key)

    def _node(self, node: Node, within: _Within | None, key: str) -> Node:
        if isinstance(node, str):
            return self._leaf(node, within, key)
        if isinstance(node, bytes):
            text = _text(node)
            changed = self._leaf(text, within, key)
            return node if changed is text else changed.encode("utf-8", "surrogateescape")
        if isinstance(node, Raw):
            return self._number(node, within, key)
        if isinstance(node, Closed):
            return self._closed(node, within, key)
        if isinstance(node, Pairs):
            return self._mapping(node, within, key)
        if isinstance(node, Ext):
            return self._extension(node, within, key)
        changed_items = [self._node(item, within, key) for item in node]
        return node if _same(changed_items, node) else changed_items

    def _mapping(self, node: Pairs, within: _Within | None, key: str) -> Node:
        fields = {k: v for k, v in node if isinstance(k, str)}
        if "lc" in fields and isinstance(fields.get("id"), list):
            names = fields["id"]
            if self._rules.secrets and names and isinstance(names[-1], str) and is_secret(names[-1]):
                within = _Within("secret class", numbers=True)
            if (held := _bytes_in(fields)) is not None:
                changed = self._node(held, within, key)
                return node if changed is held else _with_bytes(node, changed)
            return _pairs(node, lambda k, v: (k, v) if k in _CONSTRUCTOR else (k, self._node(v, within, key)))
        named = fields.get("name", fields.get("key"))  # {"name": "api_key", "value": …}
        if within is None and self._rules.secrets and isinstance(named, str) and "value" in fields:
            kind = detectors.names_secret(named)
            if kind:
                hidden = _Within("secret key", numbers=kind == "any")
                return _pairs(
                    node,
                    lambda k, v: (
                        (k, self._node(v, hidden, named)) if k == "value" else self._entry(k, v, None)
                    ),
                )
        return _pairs(node, lambda k, v: self._entry(k, v, within))

    def _keys_met(self, name: str) -> list[str]:
        pairs = zip(self._rules.keys, self._globs, strict=True)
        return [key for key, glob in pairs if fnmatchcase(name, glob) or name == glob]

    def _number(self, node: Raw, within: _Within | None, key: str) -> Node:
        if not node.number:
            return node
        if within is not None and within.numbers:
            return self._placeholder(node.number.encode(), within.detector, key)
        if met := [pattern.pattern for pattern in self._rules.patterns if pattern.search(node.number)]:
            self.found.unmet.difference_update(met)
            return self._placeholder(node.number.encode(), "pattern", key)
        return node

    def _extension(self, node: Ext, within: _Within | None, key: str) -> Node:
        """An instance, a delta's snapshot or an array; what is no text in it stays."""
        data = self._once((node.data, node.code, within, key), lambda: self._opened(node, within, key))
        if data is None:
            return node
        return Ext(node.code, data) if data else self._mark(node.data)

    def _closed(self, node: Closed, within: _Within | None, key: str) -> Node:
        """What was not read yet, and may be what another checkpoint held too."""

        def changed() -> bytes | None:
            token = node.token
            if within is None and not self._may_hold(Stored("msgpack", token, len(token)), key):
                return None
            tree = from_msgpack(token)
            changed = self._node(tree, within, key)
            return None if changed is tree else to_msgpack(changed)

        token = self._once((node.token, None, within, key), changed)
        return node if token is None else Closed(token)

    def _once(
        self, at: tuple[bytes, int | None, _Within | None, str], change: Callable[[], bytes | None]
    ) -> bytes | None:
        """What becomes of some bytes under a name, worked out when they are first met; None where they stay."""
        if (known := self._known.get(at)) is None:
            outside, self.found.places = self.found.places, Counter()
            try:
                known = change(), self.found.places
            finally:
                self.found.places = outside
            if self._known_bytes > _REMEMBERED:
                self._known.clear()
                self._known_bytes = 0
            self._known[at] = known
            self._known_bytes += len(at[0])
        data, places = known
        self.found.places += places
        return data

    def _opened(self, node: Ext, within: _Within | None, key: str) -> bytes | None:
        """The content of an extension without what has to go; nothing at all where the whole of it has to, and None
        where nothing has."""
        if node.code == packed.TIMESTAMP:
            return None
        try:
            parts = (
                from_msgpack(node.data) if packed.CLASS_OF_ONE <= node.code <= packed.DELTA_SNAPSHOT else None
            )
        except Damage:
            parts = None
        if node.code == packed.DELTA_SNAPSHOT and parts is not None:
            changed = self._node(parts, within, key)
        elif isinstance(parts, list) and len(parts) > 2 and node.code != packed.ARRAY:
            name = parts[1] if isinstance(parts[1], str) else ""
            if self._rules.secrets and is_secret(name):
                within = _Within("secret class", numbers=True)
            argument = self._node(parts[2], within, key)
            changed = parts if argument is parts[2] else [*parts[:2], argument, *parts[3:]]
        else:
            is_array = isinstance(parts, list) and node.code == packed.ARRAY
            if within is None and not self._shows(node.data) and (is_array or not self._rules.asked):
                return None
            self._count(node.data, within.detector if within else "unreadable", key)
            return b""
        return None if changed is parts else to_msgpack(changed)

    def _shows(self, data: bytes) -> bool:
        """Whether something that should go shows in bytes whose parts are not known, also four bytes a letter."""
        if self._rules.secrets and detectors.shows_secret(data):
            return True
        return any(True for text in (_text(data), _text(data.replace(b"\0", b""))) for _ in self._spans(text))

    # Texts.

    def _leaf(self, text: str, within: _Within | None, key: str) -> str:
        if within is not None:
            if not text or _PLACEHOLDER.fullmatch(text):
                return text
            return self._placeholder(text.encode("utf-8", "surrogateescape"), within.detector, key)
        return self._marked(self._in_json(text, key), key)

    def _in_json(self, text: str, key: str) -> str:
        """A text that is JSON itself, such as the arguments of a tool call."""
        if not text.lstrip().startswith(("{", "[")) or not text.rstrip().endswith(("}", "]")):
            return text
        try:
            tree = from_json(text)
            changed = self._node(tree, None, key)
            return text if changed is tree else to_json(changed, escape=False)
        except (ValueError, RecursionError):
            return text

    def _marked(self, text: str, key: str) -> str:
        """A text with what has to go in it replaced; of what overlaps, the whole stretch."""
        spans = sorted(self._spans(text))
        if not spans:
            return text
        kept = [found.span() for found in _PLACEHOLDER.finditer(text)]
        parts, at = [], 0
        for start, end, detector in _merged(spans):
            if any(start < last and first < end for first, last in kept):
                continue
            mark = self._placeholder(text[start:end].encode("utf-8", "surrogateescape"), detector, key)
            parts += [text[at:start], mark]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _spans(self, text: str) -> Iterator[tuple[int, int, Detector]]:
        if self._rules.secrets:
            yield from ((*span, "token") for span in detectors.secrets_in(text))
        if self._rules.personal:
            yield from ((*span, "e-mail") for span in detectors.emails_in(text))
            yield from ((*span, "phone") for span in detectors.phones_in(text))
        for pattern in self._rules.patterns:
            for found in pattern.finditer(text):
                if found[0]:
                    self.found.unmet.discard(pattern.pattern)
                    yield *found.span(), "pattern"

    # Placeholders.

    def _gone(self, node: Node, detector: Detector, key: str) -> Node:
        if isinstance(node, str) and _PLACEHOLDER.fullmatch(node):
            return node
        mark = self._placeholder(_canonical(node), detector, key)
        return mark.encode() if isinstance(node, bytes) else mark

    def _placeholder(self, content: bytes, detector: Detector, key: str) -> str:
        self._count(content, detector, key)
        return self._mark(content)

    def _count(self, content: bytes, detector: Detector, key: str) -> None:
        self.found.places[detector, key] += 1
        self.found.distinct.add(self._mark(content))

    def _mark(self, content: bytes) -> str:
        return f"[redacted:{hmac.new(self._salt, content, sha256).hexdigest()[:_DIGITS]}]"


def _pairs(node: Pairs, change: Callable[[Node, Node], tuple[Node, Node]]) -> Pairs:
    changed = Pairs(change(key, item) for key, item in node)
    same = all(a is c and b is d for (a, b), (c, d) in zip(changed, node, strict=True))
    return node if same else changed


def _bytes_in(fields: Mapping[str, Node]) -> bytes | None:
    """The bytes that JSON has as a constructor call: ``bytes.fromhex("…")``, or ``Uint8Array.from([…])`` of
    LangGraph.js; None where it is another call."""
    match fields.get("method"), fields.get("args"):
        case "fromhex", [str(digits)]:
            with suppress(ValueError):
                return bytes.fromhex(digits)
        case "from", [list(numbers)] if fields["id"] == ["Uint8Array"]:
            with suppress(AttributeError, ValueError):
                return bytes(int(each.number) for each in numbers)
    return None


def _with_bytes(node: Pairs, data: bytes) -> Pairs:
    """The same call with other bytes."""
    hex_digits = any(key == "method" and item == "fromhex" for key, item in node)
    argument = data.hex() if hex_digits else [Raw(b"%d" % byte, str(byte)) for byte in data]
    return Pairs((key, [argument] if key == "args" else item) for key, item in node)


def _same(changed: Sequence[Node], node: Sequence[Node]) -> bool:
    return all(a is b for a, b in zip(changed, node, strict=True))


def _merged(spans: Iterable[tuple[int, int, Detector]]) -> list[tuple[int, int, Detector]]:
    """Stretches in order, those that overlap made one."""
    merged: list[tuple[int, int, Detector]] = []
    for start, end, detector in spans:
        if merged and start < merged[-1][1]:
            first, last, earlier = merged[-1]
            merged[-1] = first, max(last, end), earlier
        else:
            merged.append((start, end, detector))
    return merged


def _text(data: Node) -> str:
    return data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else str(data)


def _canonical(node: Node) -> bytes:
    """Bytes that are equal for equal values, whatever payload they stand in and in whichever order a mapping or a set
    gives its members."""
    if isinstance(node, str):
        return node.encode("utf-8", "surrogateescape")
    if isinstance(node, bytes):
        return node
    if isinstance(node, Raw):
        return node.number.encode() or node.token
    if isinstance(node, Closed):
        return _canonical(from_msgpack(node.token))
    if isinstance(node, Pairs):
        return b"{%b}" % b",".join(sorted(b"%b:%b" % (_sized(k), _sized(v)) for k, v in node))
    if isinstance(node, Ext):
        try:
            parts = from_msgpack(node.data)
        except (Damage, RecursionError):
            return b"ext%d%b" % (node.code, node.data)
        if (
            isinstance(parts, list)
            and parts[:2] in (["builtins", "set"], ["builtins", "frozenset"])
            and len(parts) > 2
        ):
            members = parts[2] if isinstance(parts[2], list) else []
            return b"set<%b>" % b",".join(sorted(map(_sized, members)))
        return b"ext%d%b" % (node.code, _sized(parts))
    return b"[%b]" % b",".join(map(_sized, node))


def _sized(node: Node) -> bytes:
    content = _canonical(node)
    return b"%d:%b" % (len(content), content)

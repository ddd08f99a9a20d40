"""What looks like a secret or like personal data, by the name that it stands under or by its own form.

Each form is looked for in text. Only what is sure enough to be replaced unasked stands among the secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_WORD = re.compile(r"[^a-z0-9]+")

# Names as words that are joined by _, whatever joins them as stored.
_SECRET = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|passphrase|passcode|secret|credential|private_key)s?(?:_|$)"
)
_SECRET_TEXT = re.compile(
    r"(?:^|_)(?:(?:api|access|auth|account|encryption|signing|session|storage|master|client|license|ssh|aes)_?keys?"
    r"|(?:access|refresh|auth|id|bearer|api|session|csrf|bot|device|user)_tokens?|authorization|set_cookie|cookies?"
    r"|connection_string|database_url|dsn|bearer|jwt)(?:_|$)"
    r"|(?<!pad)(?<!eos)(?<!bos)(?<!unk)(?<!sep)(?<!cls)(?<!mask)(?<!stop)(?<!page)(?<!end)(?<!start)_token$|^token$"
)
_PERSONAL = re.compile(r"(?:^|_)(?:e_?mail|phone|telephone|mobile|msisdn)(?:_address|_number|_no|s)?$")

# A run that something must follow has an end: a text of nothing but beginnings would be searched from each to its end.
# The first part of a token that carries a chain of certificates (RFC 7515, x5c) is of 10,000 characters and more.
_TOKEN = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[\w-]{8,16384}+\.[\w-]{4,}\.[\w-]*"
    r"|\b[srp]k-[\w-]{16,}|\b[rsp]k_(?:live|test)_\w{10,}|\bgh[opsru]_\w{20,}|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"
    r"|\bhf_\w{20,}|\bnpm_\w{30,}|\bpypi-[\w-]{30,}|\bSG\.[\w-]{16,}\.[\w-]{16,}|\blsv2_[ps][tk]_\w{20,}"
    r"|\bdop_v1_\w{40,}|\btvly-[\w-]{16,}|\bgsk_\w{20,}|\bxai-\w{20,}|\bpplx-\w{20,}|\bwhsec_\w{16,}",
    re.DOTALL,
)
_BEARER = re.compile(r"\bbearer\s+(?=[\w.~+/-]*\d)([\w.~+/-]{16,}=*)", re.IGNORECASE)
_IN_URL = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")
_ASSIGNED = re.compile(
    r"\b(?:pass(?:word|wd|phrase)|pwd|secret|api[ _-]?key|access[ _-]?key|secret[ _-]?key|client[ _-]?secret"
    r"|(?:access|auth|refresh|api|bearer)[ _-]?token)"
    r"""["']?\s*[:=]\s*(?:"([^"\\]{3,})"|'([^'\\]{3,})'|([^\s"',;&(){}\[\]<>]{3,}))""",
    re.IGNORECASE,
)
_WITHIN_BYTES = tuple(
    re.compile(form.pattern.replace(r"\b", ""), form.flags) for form in (_TOKEN, _BEARER, _IN_URL, _ASSIGNED)
)
_EMAIL = re.compile(r"[\w.%+'-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(
    r"(?<![\w.+/-])(?!\d{4}-\d\d-\d\d)(?!\d{1,3}(?:\.\d{1,3}){3}(?![\d.]))"
    r"(?:\+\d[\d ().-]{6,18}\d|0\d{8,10}"
    r"|\(\d{1,4}\)[ .-]?\d{2,4}(?:[ .-]\d{2,4}){1,3}|\d{2,4}(?:[ .-]\d{2,4}){2,4})(?![\w-]|\.\d)"
)
_DIGITS_OF_A_PHONE = range(7, 16)

# What every secret that a name or a form tells has in it, boundaries left out, whichever payload type it stands in: of
# bytes as _FOLDED has them. Each begins with a letter of its own, by which the search passes over others quickly.
_TRACES = re.compile(
    rb"pass|pwd|secret|credential|key|token|authori|cookie|connection|database|dsn|bearer|jwt|eyj"
    rb"|sk[-_]|rk[-_]|pk[-_]|gh[opsru]_|github_pat|glpat-|xox[abeoprs]-|akia|asia|aiza|ya29|hf_|npm_|pypi-|sg\."
    rb"|lsv2_|dop_v1|tvly-|gsk_|xai-|pplx-|whsec_|://[^\s/:@\xc7]*(?:[:\xc7]|\Z)"
)
_CUT = b"\xc7"  # where pieces begin: an extension in msgpack, after an object in JSON
_FOLDED = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\xc8}", b"abcdefghijklmnopqrstuvwxyz\xc7\xc7")
_REMEMBERED = 64 << 20  # bytes


class TraceFilter:
    """Tells payloads that can hold no secret. What it has seen of one it does not search again in the next:
    neighbouring checkpoints share most of theirs."""

    def __init__(self) -> None:
        self._clean: set[bytes] = set()
        self._bytes = 0

    def passes(self, data: bytes) -> bool:
        """Whether a secret may stand in a payload; never false where one does."""
        pieces = set(data.translate(_FOLDED).split(_CUT)) - self._clean
        unseen = _CUT.join(pieces)
        if _TRACES.search(unseen):
            return True
        if self._bytes > _REMEMBERED:
            self._clean.clear()
            self._bytes = 0
        self._clean |= pieces
        self._bytes += len(unseen)
        return False


@lru_cache(maxsize=4096)
def names_secret(name: str) -> str | None:
    """``"any"`` where a field of this name holds a secret, ``"text"`` where a number in it may be a count."""
    words = _words(name)
    if _SECRET.search(words):
        return "any"
    return "text" if _SECRET_TEXT.search(words) else None


@lru_cache(maxsize=4096)
def names_person(name: str) -> bool:
    """Whether a field of this name holds an address or a number to reach somebody."""
    return _PERSONAL.search(_words(name)) is not None


def secrets_in(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets of known form stand in a text."""
    yield from (found.span() for found in _TOKEN.finditer(text))
    for form in (_BEARER, _IN_URL, _ASSIGNED):
        for found in form.finditer(text):
            group = found.lastindex or 0
            yield found.span(group)


def shows_secret(data: bytes) -> bool:
    """Whether a secret of known form shows in bytes whose parts are not known, also two or four bytes a letter. What
    stands before it may be a length that looks like a letter."""
    texts = (each.decode("ascii", "surrogateescape") for each in (data, data.replace(b"\0", b"")))
    return any(form.search(text) for text in texts for form in _WITHIN_BYTES)


def emails_in(text: str) -> Iterator[tuple[int, int]]:
    """Where e-mail addresses stand in a text."""
    if "@" in text:
        yield from (found.span() for found in _EMAIL.finditer(text))


def phones_in(text: str) -> Iterator[tuple[int, int]]:
    """Where telephone numbers stand in a text; a date, an IP address or an id is none."""
    for found in _PHONE.finditer(text):
        if sum(sign.isdigit() for sign in found[0]) in _DIGITS_OF_A_PHONE:
            yield found.span()


def _words(name: str) -> str:
    return _NO_WORD.sub("_", _CAMEL.sub("_", name).lower()).strip("_")

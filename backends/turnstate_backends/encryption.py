"""Encrypted payloads, opened with the key that LangGraph itself takes from the environment.

The only place that knows the key; no message here holds any of it. Backends pass every payload of a row through
:func:`unsealed`, so that whoever looks into one need not know that it was encrypted. The library is imported when
there are an encrypted payload and a key for it.

Format: ``langgraph.checkpoint.serde.encrypted.EncryptedSerializer.from_pycryptodome_aes``: the type ends in
``+aes``, and nonce (16 bytes), tag (16 bytes) and ciphertext follow each other; AES in EAX mode.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from turnstate_backends.values import Stored

KEY_VARIABLE = "LANGGRAPH_AES_KEY"

_KEY_SIZES = (16, 24, 32)
_NONCE = 16
_TAG = 16


class Sealed(Exception):
    """A payload that stays encrypted; ``str()`` says why."""


def is_sealed(stored: Stored) -> bool:
    """Whether the payload is encrypted as it stands here."""
    return stored.type is not None and "+" in stored.type


def has_key() -> bool:
    """Whether a key is given, so that a head of an encrypted payload is worth reading whole."""
    return bool(os.environ.get(KEY_VARIABLE))


def unsealed(stored: Stored, head: int | None = None) -> Stored:
    """A payload as it was before it was encrypted, where the key opens it; else as it is.

    Args:
        stored: A whole payload; a head of an encrypted one cannot be opened.
        head: Give only so many of its first bytes.
    """
    if is_sealed(stored):
        try:
            stored = opened(stored)
        except Sealed:
            stored = replace(stored, encrypted=True)
    if head is None or len(stored.data) <= head:
        return stored
    return replace(stored, data=stored.data[:head])


def sealed(stored: Stored) -> Stored:
    """A payload that was opened here, encrypted again with the same key."""
    from Crypto.Cipher import AES

    cipher = AES.new(os.fsencode(os.environ[KEY_VARIABLE]), AES.MODE_EAX, nonce=os.urandom(_NONCE))
    ciphertext, tag = cipher.encrypt_and_digest(stored.data)
    data = cipher.nonce + tag + ciphertext
    return Stored(f"{stored.type}+aes", data, len(data), encrypted=True)


def opened(stored: Stored) -> Stored:
    """An encrypted payload as it was before.

    Raises:
        Sealed: It cannot be opened here.
    """
    kind, cipher = (stored.type or "").split("+", 1)
    if cipher != "aes":
        raise Sealed(f"{cipher or 'the cipher'} is no cipher that is known here")
    key = os.fsencode(os.environ.get(KEY_VARIABLE, ""))
    if not key:
        raise Sealed(f"{KEY_VARIABLE} is not set")
    if len(key) not in _KEY_SIZES:
        raise Sealed(f"{KEY_VARIABLE} holds no AES key: that has 16, 24 or 32 bytes")
    if not stored.complete:
        raise Sealed("not read whole")
    if stored.size < _NONCE + _TAG:
        raise Sealed("cut short: nonce and tag take 32 bytes")
    data = _decrypted(key, stored.data)
    return Stored(kind, data, len(data), encrypted=True)


def _decrypted(key: bytes, sealed: bytes) -> bytes:
    try:
        from Crypto.Cipher import AES

        mode = AES.MODE_EAX
    except ImportError:
        raise Sealed("pycryptodome, which opens it, is not installed: pip install 'turnstate[aes]'") from None
    except (
        OSError,
        AttributeError,
    ):  # its compiled part is missing; the package it was made from, or another
        raise Sealed(
            "what is installed as Crypto is no working pycryptodome: pip install --force-reinstall pycryptodome"
        ) from None
    nonce, tag, ciphertext = sealed[:_NONCE], sealed[_NONCE : _NONCE + _TAG], sealed[_NONCE + _TAG :]
    try:
        return AES.new(key, mode, nonce=nonce).decrypt_and_verify(ciphertext, tag)
    except ValueError:
        raise Sealed(
            f"the key in {KEY_VARIABLE} does not open it: another key wrote it, or its bytes were changed"
        ) from None

"""No user name, password or token leaves the process in a log, a message, a param or an artifact."""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/\s?#'\"]*@")
_SECRET_WORD = r"(?:[A-Za-z0-9_.-]*(?:password|passwd|secret|token|api[_-]?key|credential)s?)"
_ASSIGNED = re.compile(
    rf"(?P<key>(?<![A-Za-z0-9_.-]){_SECRET_WORD}[\"']?\s*[=:]\s*)"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'&,;}]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<key>\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
_KNOWN = re.compile(r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,})\b")
_SECRET_KEY = re.compile(rf"{_SECRET_WORD}\Z", re.IGNORECASE)
# Words of the field that end like a secret: prev_token, duplicate_token, trust … are not credentials.
_HARMLESS = re.compile(
    r"(?:(?:prev|duplicate|special|bos|eos|pad|first|last|next|n)_)?tokens?\"?'?\Z", re.IGNORECASE
)


def mask(text: str) -> str:
    """Replace credentials in free text by ``***``: URL user info, ``password=…``, bearer and hub tokens."""
    text = _USERINFO.sub(lambda m: f"{m['scheme']}{MASK}@", text)
    text = _BEARER.sub(lambda m: m["key"] + MASK, text)
    text = _KNOWN.sub(MASK, text)
    return _ASSIGNED.sub(_mask_assigned, text)


def _mask_assigned(match: re.Match[str]) -> str:
    name = re.split(r"[=:]", match["key"])[0].strip()
    return match[0] if _HARMLESS.fullmatch(name) else match["key"] + MASK


def mask_tree(value: Any, key: str = "") -> Any:
    """``mask`` for every text in nested mappings and lists; values of secret-named keys go as a whole."""
    if isinstance(value, Mapping):
        return {str(k): mask_tree(v, str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [mask_tree(v, key) for v in value]
    if isinstance(value, str):
        secret = bool(value) and _SECRET_KEY.search(key) is not None and not _HARMLESS.fullmatch(key)
        return MASK if secret else mask(value)
    return value

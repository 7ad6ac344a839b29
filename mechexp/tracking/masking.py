"""No user name, password or token leaves the process in a log, a message, a param or an artifact."""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
# Tokens are also what language models read: only names that speak of access are secrets (hf_token, not
# prev_token, target_token or n_tokens).
_NAME = (
    r"(?:[a-z0-9_.-]*(?:password|passwd|secret|secrets|api[_-]?key|access[_-]?key|credential|credentials)"
    r"|(?:[a-z0-9_.-]*(?:hf|hub|access|auth|api|bearer|refresh|github|gh|tracking|session)[_-])?token)"
)
_SECRET_KEY = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"(?P<key>(?<![A-Za-z0-9_.-]){_NAME}[\"']?\s*[=:]\s*)"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'&,;}]+)",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/\s?#'\"]*@")
_BEARER = re.compile(r"(?P<key>\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
_KNOWN = re.compile(r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,})\b")


def mask(text: str) -> str:
    """Replace credentials in free text by ``***``: URL user info, ``password=…``, bearer and hub tokens."""
    text = _USERINFO.sub(lambda m: f"{m['scheme']}{MASK}@", text)
    text = _BEARER.sub(lambda m: m["key"] + MASK, text)
    text = _KNOWN.sub(MASK, text)
    return _ASSIGNED.sub(lambda m: m["key"] + MASK, text)


def mask_tree(value: Any, key: str = "") -> Any:
    """``mask`` for every text in nested mappings and lists; values of secret-named keys go as a whole."""
    if isinstance(value, Mapping):
        return {str(k): mask_tree(v, str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [mask_tree(v, key) for v in value]
    if isinstance(value, str):
        return MASK if value and _SECRET_KEY.fullmatch(key) else mask(value)
    return value

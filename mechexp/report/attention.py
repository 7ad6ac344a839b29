"""Where picked heads look: the last token's attention as shaded text, and whole patterns to choose from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mechexp.tracking.results import CellFiles

SHADE = "0, 114, 178"  # Okabe and Ito's blue, from white: lightness carries the amount
STRONGEST = ("primary", "secondary", "interferer")
DARK = 550  # thousandths of attention from which text on the shade is white


@dataclass(frozen=True)
class Token:
    """One token of a prompt, as a head sees it.

    Attributes:
        text: The token.
        names: Named positions that stand here.
        per_mille: Attention to it, in thousandths.
    """

    text: str
    names: tuple[str, ...]
    per_mille: int

    @property
    def style(self) -> str:
        """Background and text colour."""
        ink = "#fff" if self.per_mille >= DARK else "inherit"
        return f"background: rgba({SHADE}, {self.per_mille / 1000:.3f}); color: {ink}"


def strips(files: CellFiles, screen: str) -> list[dict[str, Any]]:
    """The attention of the last token of the first kept prompt, a strip a picked head of a screen.

    Returns:
        ``head``, ``tokens``, ``named`` (attention to each named position, in percent, largest first); none
        where no patterns were kept.
    """
    patterns = files.patterns
    if not patterns or not patterns["prompts"]:
        return []
    picked = [f"L{layer}H{head}" for layer, head in files.screens[screen]["heads"]]
    prompt, places = patterns["prompts"][0], {h: i for i, h in enumerate(patterns["heads"])}
    return [_strip(head, prompt, patterns["per_mille"][places[head]][0]) for head in picked if head in places]


def _strip(head: str, prompt: Mapping[str, Any], rows: list[list[int]]) -> dict[str, Any]:
    last = rows[-1]
    names = _names(prompt)
    tokens = [
        Token(t, names.get(i, ()), v) for i, (t, v) in enumerate(zip(prompt["tokens"], last, strict=True))
    ]
    named = {name: last[at] / 10 for name, at in prompt["positions"].items() if name != "end"}
    named = {"first token": last[0] / 10, **named} if 0 not in prompt["positions"].values() else named
    return {"head": head, "tokens": tokens, "named": sorted(named.items(), key=lambda pair: -pair[1])}


def _names(prompt: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """Named positions by token; ``end`` is the last one and needs no name."""
    found: dict[int, tuple[str, ...]] = {}
    for name, at in prompt["positions"].items():
        if name != "end":
            found[at] = (*found.get(at, ()), name)
    return found


def explorer(files: CellFiles) -> dict[str, Any] | None:
    """What the page needs to show any kept pattern, and the one that it shows first; None without patterns.

    The first is the best head of the screen with the strongest label, on the first prompt.
    """
    patterns = files.patterns
    if not patterns or not patterns["prompts"]:
        return None
    heads, first = patterns["heads"], _first(files)
    prompts = [
        {**p, "names": {str(at): " ".join(names) for at, names in _names(p).items()}}
        for p in patterns["prompts"]
    ]
    return {
        "heads": [{"name": h, "screens": _screens_of(files, h)} for h in heads],
        "prompts": [{**p, "text": "".join(p["tokens"])} for p in prompts],
        "first": first,
        "rows": patterns["per_mille"][first][0],
        "data": {
            "prompts": [{"tokens": p["tokens"], "names": p["names"]} for p in prompts],
            "per_mille": patterns["per_mille"],
        },
    }


def _first(files: CellFiles) -> int:
    """Index of the best head of the screen with the strongest label, among those kept."""
    assert files.patterns is not None
    kept: list[str] = files.patterns["heads"]

    def strength(row: Mapping[str, Any]) -> int:
        return STRONGEST.index(row["taxonomy"]) if row["taxonomy"] in STRONGEST else len(STRONGEST)

    names = [f"L{a}H{b}" for row in sorted(files.screens.values(), key=strength) for a, b in row["heads"]]
    return next((kept.index(name) for name in names if name in kept), 0)


def _screens_of(files: CellFiles, head: str) -> list[str]:
    return [n for n, row in files.screens.items() if head in {f"L{a}H{b}" for a, b in row["heads"]}]

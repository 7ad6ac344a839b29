"""A user's own prompts, read from a JSONL file that is not trusted: nothing is run, sizes are limited.

One JSON object a line: ``prompt``, ``target`` and ``distractor`` (a text or a list of texts, taken as they
stand), and optionally ``counterfactual``, ``spans`` (``{name: [start, end]}`` in characters), ``template``
and ``half``. The ``prompts.jsonl`` that a run leaves is such a file, and gives the same prompts and halves.
"""

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mechexp.config import TaskConfig
from mechexp.errors import UserError
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary

MAX_BYTES = 64 * 2**20
MAX_LINE = 2**16
MAX_LINES = 100_000
MAX_ANSWERS = 1_000

REQUIRED = ("prompt", "target", "distractor")
OPTIONAL = ("counterfactual", "spans", "template", "half")
FORMAT = '{"prompt": "…", "target": " a", "distractor": " b"}'


@dataclass
class CustomConfig(TaskConfig):
    """Options of ``task=custom``.

    Attributes:
        path: The JSONL file.
    """

    name: str = "custom"
    n: int = -1
    path: str = ""


def make_texts(cfg: CustomConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """The prompts of the file, in its order; with ``task.n`` a seeded sample of them.

    Raises:
        UserError: The file cannot be used; names file and line.
    """
    rows = list(_rows(Path(_path(cfg))))
    seen: dict[str, str] = {}
    for place, text, _ in rows:
        if text.prompt in seen:
            raise UserError(
                f"the prompt is the same as in {seen[text.prompt]}", where=place, expected="each prompt once"
            )
        seen[text.prompt] = place
    if len(rows) < 2:
        raise UserError("the file has a single prompt", where=rows[0][0], expected="at least two")
    n = wanted(cfg.n, len(rows), task=cfg.name)
    picked = [rows[i] for i in sorted(rng.permutation(len(rows))[:n])]
    notes = () if len(picked) == len(rows) else (f"{len(picked)} of the file's {len(rows)} prompts are used",)
    where = tuple(row[0] for row in picked)
    half = _halves(tuple(row[2] for row in picked), where, cfg.split)
    return Texts(tuple(row[1] for row in picked), notes, where, half)


def _path(cfg: CustomConfig) -> str:
    if not cfg.path:
        raise UserError("no file of prompts is given", where="task=custom", expected="task.path=FILE")
    return cfg.path


def _halves(half: tuple[str, ...], where: tuple[str, ...], split: bool) -> tuple[str, ...]:
    """The halves the file fixes; none where it fixes none or no split is wanted."""
    if not split or not any(half) or set(half) == {"both"}:
        return ()
    for place, name in zip(where, half, strict=True):
        if name not in ("screen", "test"):
            raise UserError(
                f'"half" is {name!r}, while other lines say which half they belong to'
                if name
                else '"half" is missing, while other lines have it',
                where=place,
                expected='"screen" or "test" in every line, or "half" in none',
            )
    if len(set(half)) < 2:
        raise UserError(
            f'all prompts say "half": "{half[0]}"',
            where=where[0],
            expected='prompts of both halves, or "half" in no line',
        )
    return half


def _rows(path: Path) -> Iterator[tuple[str, TextPrompt, str]]:
    """Place, prompt and half of each line."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UserError("not a file", where=str(path), expected="a JSONL file")
        if status.st_size > MAX_BYTES:
            raise UserError(
                f"the file has {status.st_size} bytes", where=str(path), expected=f"at most {MAX_BYTES}"
            )
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the prompts: {error}", where=str(path)) from error
    if not any(line.strip() for line in lines):
        raise UserError(
            "the file has no prompts", where=str(path), expected=f"one JSON object a line: {FORMAT}"
        )
    if len(lines) > MAX_LINES:
        raise UserError(f"the file has {len(lines)} lines", where=str(path), expected=f"at most {MAX_LINES}")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}:{number}"
            row = _parse(line, where)
            yield where, _prompt(row, where), _text(row, "half", where) if "half" in row else ""


def _parse(line: bytes, where: str) -> dict[str, Any]:
    """The line as a JSON object with known fields only."""
    if len(line) > MAX_LINE:
        raise UserError(f"the line has {len(line)} bytes", where=where, expected=f"at most {MAX_LINE}")
    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=_no_twice)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error}", where=where, expected=FORMAT) from error
    if not isinstance(row, dict):
        raise UserError(f"a JSON {type(row).__name__}, not an object", where=where, expected=FORMAT)
    for name in REQUIRED:
        if name not in row:
            raise UserError(f'the field "{name}" is missing', where=where, expected=FORMAT)
    unknown = sorted(set(row) - {*REQUIRED, *OPTIONAL})
    if unknown:
        raise UserError(
            f'unknown field "{unknown[0]}"', where=where, expected=f"only {', '.join((*REQUIRED, *OPTIONAL))}"
        )
    return row


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the name "{twice}" stands twice in one object')
    return row


def _prompt(row: dict[str, Any], where: str) -> TextPrompt:
    prompt = _text(row, "prompt", where)
    target, distractor = _answers(row, "target", where), _answers(row, "distractor", where)
    both = sorted(set(target) & set(distractor))
    if both:
        raise UserError(f"{both[0]!r} is target and distractor", where=where, expected="answers that differ")
    counterfactual = _text(row, "counterfactual", where) if row.get("counterfactual") is not None else None
    if counterfactual == prompt:
        raise UserError(
            "the counterfactual is the prompt itself", where=where, expected="a changed prompt, or none"
        )
    return TextPrompt(
        prompt=prompt,
        target=target,
        distractor=distractor,
        counterfactual=counterfactual,
        spans=_spans(row.get("spans", {}), prompt, where),
        template=_text(row, "template", where) if "template" in row else "",
    )


def _text(row: dict[str, Any], name: str, where: str) -> str:
    return _checked(row[name], f'"{name}"', where)


def _checked(value: object, name: str, where: str) -> str:
    """``value`` if it is a text that is not empty and can be written as UTF-8."""
    if not isinstance(value, str) or not value:
        raise UserError(f"{name} is {_short(value)}", where=where, expected="a text that is not empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"{name} holds half a character: {error.reason}", where=where) from error
    return value


def _answers(row: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = row[name]
    answers = value if isinstance(value, list) else [value]
    if not 1 <= len(answers) <= MAX_ANSWERS:
        raise UserError(f'"{name}" has {len(answers)} answers', where=where, expected=f"1 to {MAX_ANSWERS}")
    found = tuple(_checked(answer, f'"{name}"', where) for answer in answers)
    if len(set(found)) < len(found):
        raise UserError(f'"{name}" names an answer twice', where=where, expected="each answer once")
    return found


def _spans(value: object, prompt: str, where: str) -> dict[str, tuple[int, int]]:
    """Named stretches of the prompt.

    ``end`` is refused: it is the last token, always.
    """
    if not isinstance(value, dict):
        raise UserError(f'"spans" is {_short(value)}', where=where, expected='{"name": [start, end]}')
    spans = {}
    for name, span in value.items():
        _checked(name, "the name of a span", where)
        if name == "end":
            raise UserError(
                'a span is named "end"', where=where, expected="another name: end is the last token"
            )
        if not isinstance(span, list) or len(span) != 2 or any(type(edge) is not int for edge in span):
            raise UserError(
                f"span {name!r} is {_short(span)}", where=where, expected="[start, end] in characters"
            )
        start, end = span
        if not 0 <= start < end <= len(prompt):
            raise UserError(
                f"span {name!r} = [{start}, {end}] lies outside the prompt",
                where=where,
                expected=f"0 ≤ start < end ≤ {len(prompt)}",
            )
        spans[name] = (start, end)
    return spans


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:60] + "…"


TASKS.register("custom")(Task("custom", CustomConfig, make_texts))

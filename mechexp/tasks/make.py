"""From a task's options and a tokenizer to a PromptSet that keeps the tokenization contract."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mechexp.config import TaskConfig
from mechexp.errors import UserError
from mechexp.tasks.prompts import PromptSet, TextPrompt
from mechexp.tasks.sampling import halves
from mechexp.tasks.task import TASKS, Texts
from mechexp.tasks.tokenization import IN_ANSWER, Codec
from mechexp.tasks.vocabulary import Vocabulary, some
from mechexp.tasks.words import LEXICON, Lexicon

Answers = list[dict[str, int | None]]


def make_texts(cfg: TaskConfig, vocabulary: Vocabulary | None = None) -> Texts:
    """The prompts of a task as text; without a vocabulary no tokenizer has a say.

    Args:
        cfg: The task's options; ``cfg.name`` says which task.
        vocabulary: Words that may be used.

    Raises:
        UserError: An option that cannot be met.
    """
    if cfg.seed < 0:
        raise UserError(f"task.seed={cfg.seed}", expected="0 or more")
    words_rng, _ = _streams(cfg.seed)
    return TASKS[cfg.name].texts(cfg, vocabulary or Vocabulary(), words_rng)


def make_prompts(cfg: TaskConfig, tokenizer: Any, *, lexicon: Lexicon = LEXICON) -> PromptSet:
    """Make the prompts of a task for one tokenizer.

    Args:
        cfg: The task's options; ``cfg.name`` says which task.
        tokenizer: The model's transformers tokenizer.
        lexicon: Word lists to draw from.

    Returns:
        The prompts, in a seeded order, with halves assigned where ``cfg.split``.

    Raises:
        UserError: An option that cannot be met, too few usable words, or a user's prompt that breaks the
            contract ``ids(prompt + answer) == ids(prompt) + [answer id]``.
    """
    codec = Codec(tokenizer, prepend_bos=cfg.prepend_bos)
    excluded: frozenset[str] = frozenset()
    while True:
        vocabulary = Vocabulary(codec, lexicon, excluded)
        texts = make_texts(cfg, vocabulary)
        answers = codec.answer_ids(
            [t.prompt for t in texts.prompts], [(*t.target, *t.distractor) for t in texts.prompts]
        )
        if texts.where:
            _refuse_broken(texts, answers, codec)
            break
        texts, spoilt = _drop_broken(texts, answers)
        if not spoilt:
            break
        if spoilt <= excluded:
            raise UserError(
                f"the answers {some(sorted(spoilt))} are not one token after their prompts",
                where=f"task {cfg.name}, tokenizer {codec.name}",
                todo="choose another task or model",
            )
        excluded |= spoilt
    notes = [*texts.notes]
    if excluded:
        notes.append(f"words dropped that a prompt's end changes: {some(sorted(excluded))}")
    space = "as written" if texts.where else vocabulary.space
    return _assemble(cfg, texts, answers, codec, notes, space)


def _streams(seed: int) -> list[np.random.Generator]:
    """Two sources of randomness, for prompts and for halves: splitting or not leaves the prompts the same."""
    return np.random.default_rng(seed).spawn(2)


def _refuse_broken(texts: Texts, answers: Answers, codec: Codec) -> None:
    """A user's prompts are taken as they are or not at all."""
    for text, where, ids in zip(texts.prompts, texts.where, answers, strict=True):
        place = f"{where}; tokenizer {codec.name}"
        owner: dict[int | None, str] = {}
        for kind, words in (("target", text.target), ("distractor", text.distractor)):
            for word in words:
                if ids[word] is None:
                    raise UserError(
                        f"the {kind} {word!r} is not one token after this prompt",
                        where=place,
                        expected="tokens(prompt + answer) = tokens(prompt) + one known token",
                        todo=_hint(text.prompt, word, len(codec.encode([word])[0])),
                    )
                if ids[word] in owner:
                    raise UserError(
                        f"the {kind} {word!r} is the same token as {owner[ids[word]]!r}",
                        where=place,
                        expected="answers of one token each, all different",
                    )
                owner[ids[word]] = word


def _hint(prompt: str, word: str, alone: int) -> str:
    if prompt.endswith(" "):
        return "end the prompt without a space and start the answer with one"
    if not word.startswith(" ") and prompt[-1:].isalnum():
        return f"start the answer with a space ({' ' + word!r}): as written it continues the last word"
    return f"choose a word that is one token ({word!r} alone is {alone})"


def _drop_broken(texts: Texts, answers: Answers) -> tuple[Texts, frozenset[str]]:
    """Leave out answers that break the contract; words without which a prompt has no answer are returned."""
    prompts, dropped, spoilt = [], 0, set()
    for text, ids in zip(texts.prompts, answers, strict=True):
        target_ids = {ids[w] for w in text.target}
        target = tuple(w for w in text.target if ids[w] is not None)
        distractor = tuple(w for w in text.distractor if ids[w] is not None and ids[w] not in target_ids)
        if not target:
            spoilt |= {w.strip() for w in text.target}
        if not distractor:
            spoilt |= {w.strip() for w in text.distractor}
        dropped += len(text.target) + len(text.distractor) - len(target) - len(distractor)
        prompts.append(replace(text, target=target, distractor=distractor))
    notes = (f"{dropped} answers left out, not one token after their prompt",) if dropped else ()
    return replace(texts, prompts=tuple(prompts), notes=(*texts.notes, *notes)), frozenset(spoilt)


def _assemble(
    cfg: TaskConfig, texts: Texts, answers: Answers, codec: Codec, notes: list[str], space: str
) -> PromptSet:
    """Token ids, positions, halves and the contract of prompts whose answers are known to be sound."""
    prompts = texts.prompts
    ids = codec.encode([t.prompt for t in prompts])
    _refuse_twins(ids, texts, codec)
    positions = codec.locate([t.prompt for t in prompts], ids, [t.spans for t in prompts])
    changed = _counterfactuals(prompts, ids, codec, notes)
    if codec.unk is not None and (unknown := sum(codec.unk in row for row in ids)):
        notes.append(f"{unknown} of {len(prompts)} prompts hold words that the tokenizer does not know")
    if cfg.split:
        half = texts.half or halves([t.template for t in prompts], _streams(cfg.seed)[1])
    else:
        half = ("both",) * len(prompts)
    return PromptSet(
        task=cfg.name,
        texts=prompts,
        ids=tuple(codec.bos + row for row in ids),
        positions=tuple(positions),
        targets=tuple(_ids(t.target, known) for t, known in zip(prompts, answers, strict=True)),
        distractors=tuple(_ids(t.distractor, known) for t, known in zip(prompts, answers, strict=True)),
        counterfactual_ids=tuple(None if row is None else codec.bos + row for row in changed),
        half=half,
        notes=tuple(notes),
        contract=_contract(prompts, answers, codec, space),
    )


def _refuse_twins(ids: list[tuple[int, ...]], texts: Texts, codec: Codec) -> None:
    """Refuse prompts of no token, and different texts of the same tokens: halves would overlap."""
    seen: dict[tuple[int, ...], int] = {}
    for p, row in enumerate(ids):
        where = f"{texts.where[p] if texts.where else texts.prompts[p].prompt}; tokenizer {codec.name}"
        if not row:
            raise UserError("the prompt has no token", where=where)
        if row in seen:
            other = texts.where[seen[row]] if texts.where else texts.prompts[seen[row]].prompt
            raise UserError(f"the prompt has the same tokens as {other}", where=where)
        seen[row] = p


def _ids(words: tuple[str, ...], known: Mapping[str, int | None]) -> tuple[int, ...]:
    found = tuple(known[word] for word in words)
    assert None not in found, "an answer that breaks the contract was not dropped"
    return tuple(i for i in found if i is not None)


def _counterfactuals(
    prompts: tuple[TextPrompt, ...], ids: list[tuple[int, ...]], codec: Codec, notes: list[str]
) -> list[tuple[int, ...] | None]:
    """Ids of the counterfactual prompts; None where positions would not correspond."""
    given = [p for p, text in enumerate(prompts) if text.counterfactual is not None]
    encoded = codec.encode([str(prompts[p].counterfactual) for p in given])
    rows: list[tuple[int, ...] | None] = [None] * len(prompts)
    for p, row in zip(given, encoded, strict=True):
        rows[p] = row if len(row) == len(ids[p]) and row != ids[p] else None
    unusable = sum(rows[p] is None for p in given)
    if unusable:
        notes.append(
            f"{unusable} of {len(given)} counterfactuals not used: not as many tokens as their prompt"
        )
    return rows


def _contract(prompts: tuple[TextPrompt, ...], answers: Answers, codec: Codec, space: str) -> dict[str, Any]:
    """How text became tokens, for the record; ``answers`` maps each answer to the ids it has in this run."""
    ids: dict[str, set[int]] = {}
    for text, known in zip(prompts, answers, strict=True):
        for word in (*text.target, *text.distractor):
            ids.setdefault(word, set()).update(i for i in (known[word],) if i is not None)
    policy = {IN_ANSWER: "part of the answer's token", "as written": "as written"}
    return {
        "tokenizer": codec.name,
        "add_special_tokens": False,
        "prepend_bos": bool(codec.bos),
        "bos_ids": list(codec.bos),
        "leading_space": policy.get(space, "last token of the prompt"),
        "index_read": "end: the last token of the prompt",
        "joined": "ids(prompt + answer) == ids(prompt) + [answer id], checked for every answer",
        "answers": {word: sorted(found) for word, found in sorted(ids.items())},
    }

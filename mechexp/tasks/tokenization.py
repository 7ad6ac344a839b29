"""A tokenizer as tasks need it: text → ids without special tokens, one-token words, spans → positions.

Everything is judged by what the tokenizer makes of the *joined* text, never by a word tokenized alone: only
so are byte-level, SentencePiece-like and word-level tokenizers, with their different ideas of a space, alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mechexp.errors import UserError
from mechexp.tasks.filling import Span

Ids = tuple[int, ...]

IN_ANSWER = "answer"
IN_PROMPT = "prompt"


class Codec:
    """One tokenizer, with the settings that all prompts of a run share.

    Args:
        tokenizer: A transformers tokenizer, fast or slow.
        prepend_bos: Put the BOS token in front of every prompt.

    Attributes:
        name: What messages call the tokenizer.
        bos: The ids put in front of a prompt: one BOS token or nothing.

    Raises:
        UserError: BOS is asked for and the tokenizer has none.
    """

    def __init__(self, tokenizer: Any, *, prepend_bos: bool = False) -> None:
        self.tokenizer = tokenizer
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        self.unk: int | None = tokenizer.unk_token_id
        bos = tokenizer.bos_token_id
        if prepend_bos and bos is None:
            raise UserError(
                "the tokenizer has no BOS token",
                where=f"task.prepend_bos=true, tokenizer {self.name}",
                todo="leave task.prepend_bos=false",
            )
        self.bos: Ids = (int(bos),) if prepend_bos else ()

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text, without special tokens and without BOS."""
        if not texts:
            return []
        batch = self.tokenizer(
            list(texts), add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
        )
        return [tuple(int(i) for i in ids) for ids in batch["input_ids"]]

    def one_token(self, before: str, words: Sequence[str], *, space: str = IN_ANSWER) -> dict[str, int]:
        """Words that are exactly one token after ``before``, with that token's id.

        Args:
            before: The text in front of the word; "" for the start of a prompt.
            words: The candidates.
            space: Where a trailing space of ``before`` may go: into the word's token (``answer``), or it has
                to stay outside of it (``prompt``).
        """
        stem = before[:-1] if before.endswith(" ") and space == IN_ANSWER else before
        base, *joined = self.encode([stem, *(before + word for word in words)])
        base = base if stem else ()
        return {
            word: ids[-1]
            for word, ids in zip(words, joined, strict=True)
            if ids and ids[:-1] == base and ids[-1] != self.unk
        }

    def answer_ids(
        self, prompts: Sequence[str], answers: Sequence[Sequence[str]]
    ) -> list[dict[str, int | None]]:
        """Per prompt, the id of each answer; None for one that is not one known token once joined.

        The contract: ``encode(prompt + answer) == encode(prompt) + [id]``.
        """
        pairs = [(p, answer) for p, row in enumerate(answers) for answer in row]
        base = self.encode(prompts)
        joined = self.encode([prompts[p] + answer for p, answer in pairs])
        found: list[dict[str, int | None]] = [{} for _ in prompts]
        for (p, answer), ids in zip(pairs, joined, strict=True):
            fits = bool(ids) and ids[:-1] == base[p] and ids[-1] != self.unk
            found[p][answer] = ids[-1] if fits else None
        return found

    def locate(
        self, texts: Sequence[str], ids: Sequence[Ids], spans: Sequence[Mapping[str, Span]]
    ) -> list[dict[str, int]]:
        """Token position of each span: the last token that overlaps it, BOS counted; and ``end``.

        Args:
            texts: The prompts.
            ids: Their token ids, as `encode` gives them.
            spans: The named stretches of each, in characters.

        Raises:
            UserError: A span that no token overlaps, or a slow tokenizer whose tokens do not spell the text.
        """
        ends = [{"end": len(row) - 1 + len(self.bos)} for row in ids]
        if not any(spans):
            return ends
        if self.tokenizer.is_fast:
            batch = self.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
            edges = [[(int(a), int(b)) for a, b in row] for row in batch["offset_mapping"]]
        else:
            edges = [self._edges(text, row) for text, row in zip(texts, ids, strict=True)]
        return [
            {**{name: self._last(e, span, name, text) for name, span in named.items()}, **end}
            for text, named, e, end in zip(texts, spans, edges, ends, strict=True)
        ]

    def _last(self, edges: Sequence[Span], span: Span, name: str, text: str) -> int:
        start, end = span
        overlapping = [t for t, (a, b) in enumerate(edges) if a < end and b > start and a < b]
        if not overlapping:
            raise UserError(
                f"no token overlaps the span {name!r} = [{start}, {end}]",
                where=f"prompt {text!r}, tokenizer {self.name}",
                expected="a span of characters that the tokenizer keeps",
            )
        return overlapping[-1] + len(self.bos)

    def _edges(self, text: str, ids: Ids) -> list[Span]:
        """Characters each token covers, for tokenizers without offsets: decode longer and longer beginnings.

        Spaces are left out of the comparison, because slow tokenizers add and drop them when decoding.
        """
        solid = [i for i, char in enumerate(text) if not char.isspace()]
        wanted = "".join(text[i] for i in solid)
        seen, edges = 0, []
        for t in range(1, len(ids) + 1):
            spelt = "".join(self.tokenizer.decode(list(ids[:t]), clean_up_tokenization_spaces=False).split())
            if not wanted.startswith(spelt):
                # A token that ends inside a character decodes to U+FFFD; the one that completes it gets it.
                spelt = spelt.rstrip("\ufffd")
            if not wanted.startswith(spelt):
                raise UserError(
                    f"the tokens do not spell the prompt: {spelt!r}",
                    where=f"prompt {text!r}, tokenizer {self.name} (slow, without offsets)",
                    todo="use the model's fast tokenizer",
                )
            start = solid[seen] if seen < len(solid) else len(text)
            edges.append((start, solid[len(spelt) - 1] + 1) if len(spelt) > seen else (start, start))
            seen = max(seen, len(spelt))
        return edges

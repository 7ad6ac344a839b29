"""The word lists as one tokenizer allows them: what is not one token is dropped, counted and told."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from mechexp.errors import UserError
from mechexp.tasks.tokenization import IN_ANSWER, IN_PROMPT, Codec
from mechexp.tasks.words import LEXICON, Lexicon

SHOWN = 8


def some(words: Sequence[str]) -> str:
    """The first few words, for a message."""
    return ", ".join(words[:SHOWN]) + (", …" if len(words) > SHOWN else "")


class Vocabulary:
    """Words a task may use; collects notes on those it may not.

    Args:
        codec: The tokenizer; None accepts every word (texts for training a tokenizer or a model).
        lexicon: The word lists.
        excluded: Words that are not to be used, whatever the tokenizer says.

    Attributes:
        notes: What was dropped, as sentences.
    """

    def __init__(
        self, codec: Codec | None = None, lexicon: Lexicon = LEXICON, excluded: frozenset[str] = frozenset()
    ) -> None:
        self.codec, self.lexicon, self.excluded = codec, lexicon, excluded
        self.notes: list[str] = []

    @property
    def tokenizer_name(self) -> str:
        """What messages call the tokenizer."""
        return self.codec.name if self.codec else "(none)"

    @cached_property
    def space(self) -> str:
        """Leading-space policy: a space is part of the token after it (``answer``), or a token of its own.

        Taken from what the tokenizer does with most of our words; a tie goes to ``answer``.
        """
        if self.codec is None:
            return IN_ANSWER
        lists = (self.lexicon.names, self.lexicon.cities, *self.lexicon.series.values())
        probe = tuple(dict.fromkeys(chain.from_iterable(lists)))
        counts = {way: len(self.codec.one_token("to ", probe, space=way)) for way in (IN_ANSWER, IN_PROMPT)}
        return IN_PROMPT if counts[IN_PROMPT] > counts[IN_ANSWER] else IN_ANSWER

    def ask(self, prompt: str, answer: str) -> tuple[str, str]:
        """Split a text that ends with its answer in two, the space between them where the policy wants it."""
        if prompt.endswith(" ") and self.space == IN_ANSWER:
            return prompt[:-1], " " + answer
        return prompt, answer

    def fitting(self, words: Sequence[str], *befores: str) -> tuple[str, ...]:
        """The words that are one token, a different one each, after every text in ``befores``; in order."""
        left = [w for w in words if w not in self.excluded]
        for before in befores:
            if self.codec is None:
                break
            ids = self.codec.one_token(before, left, space=self.space)
            owner = {token: word for word, token in reversed(ids.items())}
            left = [w for w in left if w in ids and owner[ids[w]] == w]
        return tuple(left)

    def usable(self, name: str, words: Sequence[str], *befores: str) -> tuple[str, ...]:
        """`fitting`, with a note on what was dropped.

        Args:
            name: What messages call the list.
            words: The list.
            *befores: Texts that the task puts in front of such a word; "" is the start of a prompt.

        Raises:
            UserError: Fewer than two words are left.
        """
        left = self.fitting(words, *befores)
        self.tell_dropped(name, words, left)
        if len(left) < 2:
            raise UserError(
                f"only {len(left)} of the {len(words)} words of the list {name!r} are one token each",
                where=f"tokenizer {self.tokenizer_name}",
                expected="at least two",
                todo="choose another task or model, or write prompts that suit this tokenizer (task=custom)",
            )
        return left

    def tell_dropped(self, name: str, words: Sequence[str], left: Sequence[str]) -> None:
        """Note how many words of a list are not used, and which."""
        dropped = [w for w in words if w not in set(left)]
        if dropped:
            shown = some(dropped)
            self.notes.append(
                f"{name}: {len(dropped)} of {len(words)} words dropped, not one token each: {shown}"
            )

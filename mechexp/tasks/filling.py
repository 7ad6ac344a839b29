"""Fill a wording with words and note where each word stands."""

from string import Formatter

Span = tuple[int, int]


def fill(pattern: str, **words: str) -> tuple[str, dict[str, Span]]:
    """Put ``words`` into ``pattern``.

    Args:
        pattern: A text with fields such as ``{name_a}``, each at most once.
        **words: What stands in each field.

    Returns:
        The text, and for each field its ``(start, end)`` in characters.
    """
    text, spans = "", {}
    for literal, field, _, _ in Formatter().parse(pattern):
        text += literal
        if field is not None:
            spans[field] = (len(text), len(text) + len(words[field]))
            text += words[field]
    return text, spans

"""Errors that a user can cause, told in one message: what was found, where, what was expected, what to do."""


class UserError(Exception):
    """Bad input, an impossible request or a missing resource; shown without a traceback.

    Args:
        found: What was found, and what is wrong with it.
        where: File and line, config key or model it was found in.
        expected: What would have been accepted.
        todo: What the user can do now.
    """

    def __init__(self, found: str, *, where: str = "", expected: str = "", todo: str = "") -> None:
        self.found, self.where, self.expected, self.todo = found, where, expected, todo
        lines = [found]
        for label, text in (("Where", where), ("Expected", expected), ("What to do", todo)):
            if text:
                lines.append(f"  {label}: {text}")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a launcher's worker process (keyword arguments do not by default)."""
        return _rebuild, (type(self), self.found, self.where, self.expected, self.todo)


def _rebuild(kind: type[UserError], found: str, where: str, expected: str, todo: str) -> UserError:
    return kind(found, where=where, expected=expected, todo=todo)

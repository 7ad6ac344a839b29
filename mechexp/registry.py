"""Names that a config may use, mapped to the callables behind them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from mechexp.errors import UserError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A name → object table of one kind (task, screen, control …).

    Args:
        kind: The word used in error messages, e.g. ``"task"``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that enters its object under ``name``; a name can be taken only once."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return enter

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except KeyError:
            raise UserError(
                f"unknown {self.kind} {name!r}", expected=f"one of {', '.join(sorted(self._entries))}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

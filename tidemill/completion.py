"""What completion offers of what users hold: none of the names that other parts of tidemill use of it.

A shell asks ``dir`` of the object; Python's own prompt, and IPython without Jedi, of its class and of those above, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class _OfUsers(type):
    def __dir__(cls) -> list[str]:
        return _offered(cls, super().__dir__())


class OfUsers(metaclass=_OfUsers):
    """A class whose objects users hold: names in ``_between_layers`` are not offered to them."""

    __slots__ = ()

    _between_layers: ClassVar[frozenset[str]] = frozenset()

    def __dir__(self) -> list[str]:
        return _offered(type(self), super().__dir__())


def _offered(cls: Any, names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in cls._between_layers]

"""Modules for type hints alone, which are imported once hints are resolved: a start is faster without them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class Late(ModuleType):
    """A module that is imported when something of it is asked for, as ``typing.get_type_hints`` does."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what looks for marks in modules is not after what is in this one
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)

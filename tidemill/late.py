"""Modules for type hints alone, which are imported once hints are resolved: a start is faster without them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class Late(ModuleType):
    """A module that is imported when something of it is asked for, as ``typing.get_type_hints`` does.

    Where that needs a package that is not there, nothing is in it, as ``hasattr`` and the like expect; the error says
    what brings the package: ``needs``, as pip has it, or the package by its own name.
    """

    def __init__(self, name: str, needs: str | None = None) -> None:
        super().__init__(name)
        self._needs = needs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what looks for marks in modules is not after what is in this one
            raise AttributeError(name)
        try:
            return getattr(import_module(self.__name__), name)
        except ModuleNotFoundError as error:
            needs = self._needs or error.name
            msg = f"{self.__name__}.{name} needs {error.name}, which is not installed: pip install '{needs}'"
            raise AttributeError(msg, name=name, obj=self) from error

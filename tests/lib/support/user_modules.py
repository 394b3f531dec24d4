"""Modules as users write them, made of text, one after the other under the same name."""

from __future__ import annotations

import importlib
import itertools
import linecache
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = ["UserModules", "user_modules"]

_NUMBERS = itertools.count()


class UserModules:
    """A folder on the path of imports, with a module of functions and one of helpers, that can be written anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        number = next(_NUMBERS)
        self.name, self.helpers = f"user_functions_{number}", f"user_helpers_{number}"
        """`helpers` in a text is the module of helpers."""

    def write(self, functions: str, helpers: str = "") -> Any:
        """Return the module of functions as another process would import it after an edit."""
        for name, text in ((self.helpers, helpers), (self.name, functions)):
            (self.folder / f"{name}.py").write_text(text.replace("helpers", self.helpers))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        linecache.clearcache()
        return importlib.import_module(self.name)

    def without_source(self, functions: str) -> dict[str, Any]:
        """Return the functions as they are where nobody has the text, as in an interactive session."""
        found: dict[str, Any] = {"__name__": self.name}
        exec(compile(functions, "<session>", "exec"), found)  # noqa: S102 - it is ours
        return found


@pytest.fixture
def user_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserModules:
    """Modules of a user's that can be edited."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return UserModules(folder)

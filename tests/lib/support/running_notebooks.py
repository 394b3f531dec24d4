"""The notebooks, and what they show when they are run now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
ON_SPARK = ["4-flights-on-spark"]


def script() -> Any:
    """Return notebooks/execute.py as a module; without what it needs, skip the test."""
    pytest.importorskip("nbclient", reason="needs tidemill[docs]")
    spec: Any = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> Any:
    nbformat = pytest.importorskip("nbformat", reason="needs tidemill[docs]")
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def now_and_kept(name: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return what the cells of a notebook show now and what is kept in it, without those that vary."""
    execute = script()
    now, kept = execute.executed(NOTEBOOKS / f"{name}.ipynb"), read(name)
    same = [(a, b) for a, b in zip(now.cells, kept.cells, strict=True) if not execute.varies(b)]
    return [execute.shown(a) for a, _ in same], [execute.shown(b) for _, b in same]

"""The reference has all that is public, once, with a docstring, and its links lead somewhere."""

import importlib.util
import inspect
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.public_api import NAMED_AS_BUILTINS, public_api

import tidemill as tm
from tidemill import algorithms

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def reference() -> Any:
    spec: Any = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def titles(reference):
    return Counter(e.title for found in reference.entries().values() for top in found for e in (top, *top.members))


def test_every_public_name_is_there_once(titles):
    modules = {name: getattr(tm, name) for name in tm.__all__ if inspect.ismodule(getattr(tm, name))}
    assert {"errors", "graphs", "testing"} <= set(modules)
    names = {*tm.__all__, *NAMED_AS_BUILTINS, *algorithms.__all__} - set(modules)
    names |= {name for module in modules.values() for name in module.__all__}
    assert {name: titles[name] for name in names if titles[name] != 1} == {}


def test_every_function_has_a_heading(reference):
    assert {reference._family(e.value) for e in reference.entries()["functions"]} <= set(reference.FAMILIES)


def test_every_public_member_is_there_once(titles):
    members = {line.partition("(")[0] for line in public_api() if not line.startswith("tm.")}
    assert {name: titles[name] for name in members if titles[name] != 1} == {}


@pytest.mark.slow
def test_links_within_the_reference_lead_to_entries(reference):
    pages = reference.pages()
    anchors = {name: set(re.findall(r"\{#([\w-]+)\}$", text, re.MULTILINE)) for name, text in pages.items()}
    for name, text in pages.items():
        for page, anchor in re.findall(r"\]\(((?:\w+\.md)?)#([\w-]+)\)", text):
            assert anchor in anchors[f"reference/{page}" if page else name], f"{name}: {page}#{anchor}"


def test_a_name_that_has_no_page_is_found(reference):
    with pytest.raises(AssertionError, match=r"has no page: name one in docs/reference\.py"):
        reference.page_of("elsewhere", Counter)


def test_an_example_is_fenced_and_names_are_links(reference):
    text = "Return it; see `advance`.\n\n>>> 1 + 1\n2\n\nMore."
    made = reference.markdown(text, "run", {"Run.advance": "run.md#run-advance"}, "Run.insert")
    assert made.split("\n\n") == [
        "Return it; see [`advance`](#run-advance).",
        "```pycon\n>>> 1 + 1\n2\n```",
        "More.",
    ]


@pytest.mark.slow
def test_an_attribute_has_its_type_and_what_is_said_of_it(reference):
    assert reference.attribute(tm.StepInfo, "number") == ("int", "")
    assert reference.attribute(tm.Schema, "names") == ("tuple[str, ...]", "The columns' names, in order.")
    assert reference.attribute(tm.StepInfo, "nothing") == ("", "")
    shown = reference.pages()["reference/run.md"]
    assert "Attributes: `frontiers: Mapping[str, Antichain]`, " in shown


def test_everything_but_attributes_is_explained(reference):
    entries = [e for found in reference.entries().values() for top in found for e in (top, *top.members)]
    explained = {e.title for e in entries if reference._doc(reference._function(e.value))}
    modules = {e.title for e in entries if inspect.ismodule(e.value)}
    assert {e.title for e in entries if not e.of} - explained - modules == set()

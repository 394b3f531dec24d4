"""A user's function that is not what it was when the state was made is noticed, and nothing else is.

The kind: whatever a function depends on changes between two runs, its name does not. What the state holds was given by
the one, what is taken back is worked out by the other, and rows stay behind for ever. Each part that a function is made
of is changed here, for each operator that takes one, each way to go on from state; and each change that is none.
"""

import ast
import json
import re
import sys
import warnings
from pathlib import Path

import pytest
from support.user_modules import user_modules  # noqa: F401 - a fixture

import tidemill as tm
from tidemill.algorithms import combine, interval_sum
from tidemill.dataflow import code_digests
from tidemill.dataflow.code_digests import CodeDigest
from tidemill.dataflow.function_prints import FunctionPrint
from tidemill.errors import GraphError, StateError
from tidemill.expressions.schema import Schema

HELPERS = """
RATE = 3
def twice(x):
    return x * 2
def thrice(x):
    return twice(x) + x * RATE // RATE
class Scale:
    by = 2
    def __init__(self, more): self.more = more
    def of(self, x): return x * self.by + self.more
"""
FUNCTIONS = """
import functools
import helpers
from helpers import thrice, Scale

TABLE = {"a": 1, "b": [1, 2, {3, 4}]}
scale = Scale(5)

def of_constant(x, by=1, *, more=0):
    return x + 1 + by + more

def of_table(x):
    return x + TABLE["a"]

def of_helper(x):
    return thrice(x)

def of_module(x):
    return helpers.twice(x) + helpers.RATE

def importing(x):
    from helpers import twice
    return twice(x)

def of_object(x):
    return scale.of(x)

def around(by):
    def inner(x):
        return x + by
    return inner

def wrapped(function):
    @functools.wraps(function)
    def inner(*given):
        return function(*given)
    return inner

@wrapped
def decorated(x):
    return x + 7

@functools.lru_cache
def cached(x):
    return x + 8

inner = around(4)
method = scale.of
partial = functools.partial(of_constant, by=6)
first, second = lambda x: x + 10, lambda x: x + 20

class Called:
    def __init__(self, by): self.by = by
    def __call__(self, x): return self.inner(x) + self.by
    def inner(self, x): return x - 1
called = Called(9)
"""
CHANGES = [
    # the function, what in the text becomes what, and what the message says of it
    ("of_constant", "x + 1 + by", "x + 2 + by", "its code changed"),
    ("of_constant", "x + 1 + by", "x - 1 + by", "its code changed"),
    ("of_constant", "by=1,", "by=2,", "its default of 'by' changed"),
    ("of_constant", "more=0", "more=5", "its default of 'more' changed"),
    ("of_table", '"a": 1', '"a": 2', "its global 'TABLE' changed"),
    ("of_table", "{3, 4}", "{3, 5}", "its global 'TABLE' changed"),
    ("of_helper", "twice(x) + x *", "twice(x) - x *", "the code of 'thrice' changed"),
    ("of_helper", "return x * 2", "return x * 3", "the code of 'twice' changed"),
    ("of_helper", "RATE = 3", "RATE = 4", "the global 'RATE' of 'thrice' changed"),
    ("of_module", "return x * 2", "return x * 3", "the code of 'twice' changed"),
    ("of_module", "RATE = 3", "RATE = 4", "its global '.*RATE' changed"),
    ("importing", "return x * 2", "return x * 3", "the code of 'twice' changed"),
    ("of_object", "scale = Scale(5)", "scale = Scale(6)", "its global 'scale' changed"),
    ("of_object", "by = 2", "by = 3", "its global 'scale' changed"),
    ("of_object", "x * self.by", "x + self.by", "the code of 'Scale.of' changed"),
    ("inner", "around(4)", "around(5)", "its variable 'by' changed"),
    ("inner", "return x + by\n    return", "return x - by\n    return", "its code changed"),
    ("decorated", "x + 7", "x + 6", "the code of 'decorated' changed"),
    ("cached", "x + 8", "x + 9", "its code changed"),
    ("method", "Scale(5)", "Scale(6)", "its state changed"),
    ("partial", "by=6", "by=7", "its state changed"),
    ("partial", "x + 1 + by", "x + 2 + by", "its code changed"),
    ("first", "x + 10", "x + 11", "its code changed"),
    ("second", "x + 20", "x + 21", "its code changed"),
    ("called", "Called(9)", "Called(8)", "its state changed"),
    ("called", "x - 1", "x - 2", "the code of 'Called.inner' changed"),
]
NO_CHANGES = [
    ("def of_constant", "# lines move\n\n\ndef of_constant"),
    ("return x * 2", "'''Twice.'''\n    return x * 2  # it is"),
    ("def of_table(x):", "def of_table(x: int) -> int:\n    '''Words.'''"),
    ("x + 1 + by + more", "(x + 1 +\n            by + more)"),
    ('{"a": 1, "b": [1, 2, {3, 4}]}', '{"b": [1, 2, {4, 3}], "a": 1}'),
    ("RATE = 3", "OTHER, RATE = 4, 1 + 2"),
    ("def twice", "def nobody(x): return 4\ndef twice"),
    ("from helpers import thrice, Scale", "from helpers import Scale, thrice"),
]
OPERATORS = {
    "map_rows": lambda x, f, **v: x.map_rows(Mapped(f), {"y": "int64"}, **v),
    "flat_map": lambda x, f, **v: x.flat_map(FlatMapped(f), {"y": "int64"}, **v),
    "reduce": lambda x, f, **v: x.group_by("k").reduce(Reduced(f), {"y": "int64"}, **v),
    "threshold": lambda x, f, **v: x.threshold(Counted(f), **v),
    "delay": lambda x, f, **v: x.delay(Moved(f), **v),
    "combine.by": lambda x, f, **v: interval_sum(
        x, x.select(low="k", high="k + 5"), index="k", total=combine.by(Combined(f), "k", **v)
    ),
}


class Given:
    """A callable that makes of a function of numbers what an operator takes."""

    def __init__(self, function):
        self.function = function


class Mapped(Given):
    def __call__(self, row):
        return (self.function(row.k),)


class FlatMapped(Given):
    def __call__(self, row):
        return [(self.function(row.k),)]


class Reduced(Given):
    def __call__(self, key, rows):
        return [((self.function(key[0]),), 1)]


class Counted(Given):
    def __call__(self, row, count):
        return abs(self.function(count)) if count else 0


class Moved(Given):
    def __call__(self, time):
        return time + abs(self.function(time))


class Combined(Given):
    def __call__(self, one, other):
        return max(self.function(one), other)


def a_flow(function, operator="map_rows", **version):
    flow = tm.Dataflow("changing")
    x = flow.input("x", {"k": "int64"})
    flow.output("y", OPERATORS[operator](x, function, **version))
    return flow


def make(flow, tmp_path, how):
    """Have a run leave its state."""
    with flow.start(tm.Embedded(tmp_path / "state")) if how == "folder" else flow.start() as run:
        run.insert("x", [(1,), (2,)])
        run.advance()
        if how != "folder":
            run.save(tmp_path / "saved")


def go_on(flow, tmp_path, how):
    """Return a run that goes on with it."""
    if how == "folder":
        return flow.start(tm.Embedded(tmp_path / "state"), migrate="refuse")
    return tm.load(tmp_path / "saved", flow)


def print_of(module, name):
    """What is known of a function, as it is read from where it was written down."""
    return FunctionPrint.listed(json.loads(json.dumps(FunctionPrint.of(getattr(module, name), None).listing())))


@pytest.mark.parametrize(("name", "was", "is_", "said"), CHANGES)
def test_whatever_a_function_is_made_of(user_modules, name, was, is_, said):  # noqa: F811
    """Code, constants, defaults, variables around it, globals, helpers, classes: a change of each, and where it is."""
    before = print_of(user_modules.write(FUNCTIONS, HELPERS), name)
    after = print_of(user_modules.write(FUNCTIONS.replace(was, is_), HELPERS.replace(was, is_)), name)
    assert FUNCTIONS.replace(was, is_) + HELPERS.replace(was, is_) != FUNCTIONS + HELPERS
    assert re.fullmatch(said, before.difference(after) or "the same")
    assert print_of(user_modules.write(FUNCTIONS, HELPERS), name).difference(before) is None


@pytest.mark.parametrize(("was", "is_"), NO_CHANGES)
def test_what_changes_nothing(user_modules, was, is_):  # noqa: F811
    """Lines, comments, documentation, annotations, orders of no meaning: the same for every function."""
    names = sorted({name for name, *_ in CHANGES})
    module = user_modules.write(FUNCTIONS, HELPERS)
    before = {name: print_of(module, name) for name in names}
    assert not any(p.unknown for p in before.values())
    module = user_modules.write(FUNCTIONS.replace(was, is_), HELPERS.replace(was, is_))
    assert FUNCTIONS.replace(was, is_) + HELPERS.replace(was, is_) != FUNCTIONS + HELPERS
    assert {name: before[name].difference(print_of(module, name)) for name in names} == dict.fromkeys(names)


def test_what_an_object_has_computed_of_itself_is_no_change():
    """A schema's hash and the results of cached properties are kept with it: "its variable 'schema' changed"."""
    schema = Schema.of({"a": "int64", "b": "list<string>"})

    def renamed(row):
        return dict(zip(schema.names, row, strict=True))

    before = FunctionPrint.of(renamed, None)
    assert {schema: [column.dtype.arrow for column in schema]}
    assert renamed((1, ())) == {"a": 1, "b": ()}
    assert before.difference(FunctionPrint.of(renamed, None)) is None
    schema = Schema.of({"a": "int64", "c": "list<string>"})
    assert before.difference(FunctionPrint.of(renamed, None)) == "its variable 'schema' changed"


@pytest.mark.parametrize("how", ["folder", "file"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_and_way_to_go_on(operator, how, user_modules, tmp_path):  # noqa: F811
    """A durable run went on and mixed both; `tm.load` left a count of -1."""
    make(a_flow(user_modules.write(FUNCTIONS, HELPERS).of_helper, operator), tmp_path, how)
    edited = a_flow(user_modules.write(FUNCTIONS, HELPERS.replace("x * 2", "x * 4")).of_helper, operator)
    said = (
        r"test_changed_functions.py:\d+\): the function '.*' is not what it was: the code of 'twice' changed.*version="
    )
    with pytest.raises(StateError, match=said):
        go_on(edited, tmp_path, how)
    same = a_flow(user_modules.write("# the same\n" + FUNCTIONS, HELPERS).of_helper, operator)
    with go_on(same, tmp_path, how) as run:
        run.delete("x", [(1,), (2,)])
        run.advance_to(100)
        assert not run.snapshot("y").counts()


@pytest.mark.parametrize("how", ["folder", "file"])
def test_a_function_that_only_looks_on_may_change(how, user_modules, tmp_path):  # noqa: F811
    def looking_on(function):
        flow = tm.Dataflow()
        flow.output("y", flow.input("x", {"k": "int64"}).inspect(function))
        return flow

    text = "def look(row, time, diff): return 1"
    make(looking_on(user_modules.write(text).look), tmp_path, how)
    with go_on(looking_on(user_modules.write(text.replace("1", "2")).look), tmp_path, how) as run:
        assert len(run.snapshot("y")) == 2


def test_a_file_is_looked_through_once_for_all_its_functions(user_modules, monkeypatch):  # noqa: F811
    module = user_modules.write("\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(30)))
    walked, walk = [], ast.walk
    monkeypatch.setattr(ast, "walk", lambda tree: walked.append(tree) or walk(tree))
    prints = [FunctionPrint.of(getattr(module, f"f{i}"), None) for i in range(30)]
    assert len(walked) == 1
    assert len({code.tree for its in prints for code in its.codes.values()}) == 30


def test_a_file_that_was_edited_after_it_was_imported(user_modules):  # noqa: F811
    """The tree of the text that is there now is not that of the function: it was taken for it, and so was the next."""
    module = user_modules.write(FUNCTIONS, HELPERS)
    edited = FUNCTIONS.replace("x + 1 + by", "x + 2 + by")
    Path(module.__file__).write_text(edited)
    before = print_of(module, "of_constant")
    assert before.codes["its code"].tree is None
    assert before.difference(print_of(user_modules.write(edited, HELPERS), "of_constant")) == "its code changed"


def test_without_source(user_modules):  # noqa: F811
    """In an interactive session there is only bytecode, which is compared as long as Python is the same."""
    text = "def f(x, by=3):\n    return x + 1\ng = lambda x: f(x)"
    found = [user_modules.without_source(t) for t in (text, text, text.replace("x + 1", "x - 1"))]
    same, again, other = [FunctionPrint.of(names["g"], None) for names in found]
    assert same.codes["its code"].tree is None
    assert same.difference(again) is None
    assert same.difference(other) == "the code of 'f' changed"


def another_python(monkeypatch):
    """Have every bytecode be another one, as the next version of Python has it."""
    of_this = code_digests._bytecode
    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-999")
    monkeypatch.setattr(code_digests, "_bytecode", lambda code: "another " + of_this(code))


@pytest.mark.parametrize("how", ["folder", "file"])
def test_a_new_version_of_python_alone_refuses_nothing(how, user_modules, tmp_path, monkeypatch):  # noqa: F811
    """And what changed with it is found by the source; where there is none that is said, and what else is known."""
    make(a_flow(user_modules.write(FUNCTIONS, HELPERS).of_helper), tmp_path, how)
    another_python(monkeypatch)
    with pytest.raises(StateError, match="the code of 'twice' changed"):
        go_on(a_flow(user_modules.write(FUNCTIONS, HELPERS.replace("x * 2", "x * 4")).of_helper), tmp_path, how)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go_on(a_flow(user_modules.write(FUNCTIONS, HELPERS).of_helper), tmp_path, how).close()


def test_a_new_version_of_python_without_source(user_modules, tmp_path, monkeypatch):  # noqa: F811
    text = "BY = 1\ndef f(x):\n    return x + BY"
    make(a_flow(user_modules.without_source(text)["f"]), tmp_path, "folder")
    another_python(monkeypatch)
    with pytest.raises(StateError, match="the global 'BY' of 'f' changed"):
        go_on(a_flow(user_modules.without_source(text.replace("1", "2"))["f"]), tmp_path, "folder")
    with pytest.warns(RuntimeWarning, match="nobody can tell whether the code of 'f' is what it was .* version="):
        go_on(a_flow(user_modules.without_source(text)["f"]), tmp_path, "folder").close()


SAMPLES = '''
from __future__ import annotations
def a(x: int, *args: "str", k: float = 3, **kw) -> list[int]:
    """Doc."""
    with open("a") as f, open("b"):
        pass
    try:
        return [z for z in range(x) if (w := z) > 3 and f"{z!r:>{x}}a" "b" f"{y=} {{}} {x:%Y-%m-%d}{x:}"]
    except (ValueError, TypeError) as e:
        raise KeyError(f"{e}{x + 1}") from e
def b(r):
    match r:
        case {"a": [1, *rest], **more} if rest: return more
        case str() | None: return u"x" "" if False else ()
        case _: return lambda q, /, p=2: (yield)
    class C(list):
        z: int = 3
        @property
        def f(self) -> int:
            "doc"
            return 1_000 + 0x1f - 1e3 + 3j
    async def g():
        async for i in r: await i
        return {**r, 1: 2}, {*r}, r[1:2, ...], not r, -0.0
    return f'{r!s}' 'a' + f"{'a' 'b'}" + f"{r:{r}.{r}}" + f"" + f"{1}{2}"
c = lambda v: v.k + 1
d, e = (lambda v: lambda x: x + v), lambda v: v
g = d(1)
'''
TREES = {
    "a": "8f3122c5e69ab6d9d5b26265604ea0a7",
    "b": "18fdd4f6bd924132ad2ce463f0ad9ce5",
    "c": "6bd05213b7bceae6c5804fc7a24ae24f",
    "d": "f12bc707c0629c78471df3a47536262b",
    "e": "2edbeffc2e4cbb23df21003b1cc1a30d",
    "g": "71f35c32b438ec9947be9cbf7d163cb6",
}


def test_every_python_gives_the_same_trees(user_modules):  # noqa: F811
    """These are what 3.11, 3.12 and 3.13 give, whose trees differ in what is empty and in the pieces of f-strings."""
    module = user_modules.write(SAMPLES)
    functions = {name: getattr(module, name) for name in TREES}
    assert {n: CodeDigest.of(f.__code__, f.__globals__).tree for n, f in functions.items()} == TREES


@pytest.mark.parametrize("how", ["folder", "file"])
def test_a_version_decides(how, user_modules, tmp_path):  # noqa: F811
    """Given there and here it is all that counts; one that is new says nothing of what was before it."""
    first = user_modules.write(FUNCTIONS, HELPERS).of_helper
    other = user_modules.write(FUNCTIONS, HELPERS.replace("x * 2", "x * 4")).of_helper
    make(a_flow(first, version=1), tmp_path, how)
    go_on(a_flow(other, version="1"), tmp_path, how).close()
    with pytest.raises(StateError, match="it was version='1', and is '2'"):
        go_on(a_flow(first, version=2), tmp_path, how)
    undecided = {"folder": first, "file": other}[how]  # a folder knows what went on with it last
    with pytest.raises(StateError, match="the code of 'twice' changed"):
        go_on(a_flow(undecided), tmp_path, how)


def test_a_version_is_given_to_a_function_that_is_the_same(user_modules, tmp_path):  # noqa: F811
    """The way out of a function that was rewritten and gives the same: once with the old one, then with the new."""
    first = user_modules.write(FUNCTIONS, HELPERS).of_helper
    other = user_modules.write(FUNCTIONS, HELPERS.replace("x * 2", "x + x")).of_helper
    make(a_flow(first), tmp_path, "folder")
    with pytest.raises(StateError, match="the code of 'twice' changed"):
        go_on(a_flow(other, version="1"), tmp_path, "folder")
    go_on(a_flow(first, version="1"), tmp_path, "folder").close()
    with go_on(a_flow(other, version="1"), tmp_path, "folder") as run:
        run.delete("x", [(1,), (2,)])
        run.advance()
        assert not run.snapshot("y").counts()


def test_what_cannot_be_compared_is_said(tmp_path):
    """A thing that nobody can look into may be another the next time: a version says whether it is."""
    thing = (i for i in range(3))

    def f(x):
        return x + (thing is None)

    with pytest.warns(
        RuntimeWarning, match=r"map_rows .*: nobody can tell whether the variable 'thing' of .* version="
    ):
        make(a_flow(f), tmp_path, "folder")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(a_flow(f, version=1), tmp_path / "other", "folder")


def test_state_of_before_functions_were_compared(user_modules, tmp_path, monkeypatch):  # noqa: F811
    """It is gone on from, and from then on they are."""
    first = user_modules.write(FUNCTIONS, HELPERS).of_helper
    other = user_modules.write(FUNCTIONS, HELPERS.replace("x * 2", "x * 4")).of_helper
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.renderer.durable.step_log.require_same_functions", lambda *_: None)
        make(a_flow(first), tmp_path, "folder")
    go_on(a_flow(first), tmp_path, "folder").close()
    with pytest.raises(StateError, match="the code of 'twice' changed"):
        go_on(a_flow(other), tmp_path, "folder")


@pytest.mark.parametrize("wrong", [True, 1.5, ["1"]])
def test_what_is_no_version(wrong):
    with pytest.raises(GraphError, match="expected a text or a whole number"):
        a_flow(abs, version=wrong)

r"""Regular expressions: RE2 where it means what Java does, PCRE2 within a limit of steps elsewhere.

The kind of defect: a pattern or a text for which matching takes longer than anybody waits, with the run's threads and
Ctrl-C held up. What is tested is that both engines are told the same, and that none goes on for ever.
"""

from __future__ import annotations

import pickle
import re
import threading

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start

import tidemill as tm
from tidemill.errors import ExpressionError, SchemaError, StepError
from tidemill.expressions.binding import bind
from tidemill.expressions.functions import searches
from tidemill.expressions.functions.regular_expressions import read_pattern
from tidemill.expressions.functions.searches import Search, ends_in_a_line_end, extracted, found, replaced
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.rewriting import can_fail
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

SCHEMA = Schema.of({"s": "string"})
ONES = ["a", "b", "A", r"\n", "\n", ".", "[ab]", "[^a]", r"\w", r"\s", r"\S", r"\W", r"\d", r"[^\s]", r"[a-c\n]", r"\r",
        "é", "[b-é]", r"\x61", "[A-b]", r"\.", "_", "[^b-]", r"[\]\\-]"]  # fmt: skip
PLACES = ["^", "$", r"\b", r"\B", r"\A"]
TIMES = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}", "++", "*+", "{0}"]


def parts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    either = st.lists(st.lists(inner, max_size=3).map("".join), min_size=1, max_size=3).map("|".join)
    groups = st.builds(lambda kind, text: f"{kind}{text})", st.sampled_from(["(", "(", "(?:", "(?=", "(?!"]), either)
    return st.builds(lambda part, times: part + times, groups | st.sampled_from(ONES), st.sampled_from(["", *TIMES]))


PATTERNS = st.builds(
    lambda flags, some: flags + "".join(some),
    st.sampled_from(["", "", "(?i)", "(?s)", "(?is)"]),
    st.lists(st.recursive(st.sampled_from([*ONES, *PLACES]), parts, max_leaves=8), max_size=4),
)
TEXTS = st.lists(st.text("aabbAé _.\n\r\u2028", max_size=7), min_size=1, max_size=25)


@examples(60)
@given(PATTERNS, TEXTS)
def test_both_engines_mean_the_same(pattern: str, texts: list[str]) -> None:
    """What is given to RE2 is what PCRE2 finds: whether there is a match, its groups, and replaced."""
    read = read_pattern(pattern)
    for search in (found(pattern), replaced(pattern, "<$0>"), *(extracted(pattern, g) for g in range(read.groups + 1))):
        if search.in_re2 is None:
            continue
        at_end = ends_in_a_line_end(pa.array(texts)).to_pylist()
        for text, ends, value in zip(texts, at_end, search.in_re2(pa.array(texts)).to_pylist(), strict=True):
            if not (search.at_end and ends):
                assert value == search.in_pcre(text), text


PARTS = ["a-c", "X-Z", "A-b", "k", "S", r"\d", r"\W", r"\S", r"\s", r"\n", r"\x61-\u0066", "é-ü", r"\]", r"\-", ".$", " -/", "Z-a",
         "\n", "\u2028", r"a\Db", r"y-z\s_"]  # fmt: skip
ALONE = [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "k", "S", "é", r"\x4b", r"\u004b", r"\$", "-", r"\t"]
CHARACTERS = [chr(c) for c in [*range(0x180), 0x212A, 0x2028, 0x1F600]]


@pytest.mark.parametrize("flag", ["", "(?i)"])
@pytest.mark.parametrize("pattern", [*ALONE, *(f"[{p}]" for p in PARTS), *(f"[^{p}]" for p in PARTS)])
def test_characters_are_spelled_out_right(flag: str, pattern: str) -> None:
    """Python means the same by these: letters that have a case are ASCII's, and so are digits and blanks."""
    in_python = re.compile(flag + pattern, re.ASCII)
    search = found(flag + pattern)
    assert search.in_re2 is not None
    expected = [in_python.search(c) is not None for c in CHARACTERS]
    assert search.in_re2(pa.array(CHARACTERS)).to_pylist() == expected
    assert [search.in_pcre(c) for c in CHARACTERS] == expected


def test_nulls_stay_null() -> None:
    values = pa.array(["a", None, "b"])
    for search, expected in ((found("a"), [True, None, False]), (extracted("(a)", 1), ["a", None, ""])):
        assert search.in_re2 is not None
        assert search.in_re2(values).to_pylist() == expected


IN_RE2 = [
    "a.b",
    r"\s+|[ab]{1,2}(?:x)",
    r"[^\S]",
    r"(?i)a[b-d]\w",
    "^(a+)+$",
    r"\bß\b",
    "(?s).*",
    r"\x41\u00e9",
    "(a|b)*",
]
NOT_IN_RE2 = ["(?=a)", "(?<!a)b", r"(a)\1", "a++", "a?+", r"\B", r"(?:(?:a{99}){99}){99}"]


@pytest.mark.parametrize("pattern", IN_RE2)
def test_what_goes_to_re2(pattern: str) -> None:
    assert found(pattern).in_re2 is not None


@pytest.mark.parametrize("pattern", NOT_IN_RE2[:-1])
def test_what_does_not(pattern: str) -> None:
    assert found(pattern).in_re2 is None


@pytest.mark.parametrize(
    ("search", "why"),
    [
        (extracted("(a?)*", 0), "loops go round empty"),
        (extracted("(a|b)*", 1), "the group is in a loop"),
        (replaced("a*", "x"), "empty matches are replaced elsewhere"),
        (replaced("(a|b)+", "$1"), "the group is in a loop"),
    ],
)
def test_what_goes_only_in_part(search: Search, why: str) -> None:
    assert search.in_re2 is None, why


SLOW = ["^(a+)+$", "(a|a)*c", "(a|aa)+$", "(.*)(.*)(.*)(.*)(.*)[^a]", "(x+x+)+y|(a*)*b"]
LOOKING = ["(?=(a|a)*$)b|(?=(a+)+$)c", r"^(?:(a+)+\1)+$", "(?<!b)(a|aa)+[cd]", "((?!x)a|(?!y)a)+[yz]"]


@pytest.mark.parametrize("pattern", SLOW)
def test_what_re2_takes_is_answered_for_any_text(pattern: str) -> None:
    """These try some 2^5,000 ways where each is tried. (The run of a rule that backtracks would not end here.)"""
    text = "a" * 5_000 + "!"
    tree = bind(tm.col("s").rlike(pattern), SCHEMA)
    expected = pattern.endswith("[^a]")
    assert evaluate(tree, (text,)) is expected
    assert compile_scalar(tree)([pa.array([text, None])], 2).to_pylist() == [expected, None]
    replace = bind(tm.regexp_replace("s", pattern, "x"), SCHEMA)
    if found(pattern).in_re2 is not None and replaced(pattern, "x").in_re2 is not None:
        assert len(compile_scalar(replace)([pa.array([text])], 1)[0].as_py()) == (1 if expected else len(text))


@pytest.mark.parametrize("pattern", LOOKING)
def test_what_looks_back_and_forth_has_a_limit(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps are too many each time, on each engine; the text names the pattern, the row and what to do."""
    monkeypatch.setattr(searches, "_STEPS", 100_000)
    tree = bind(tm.col("s").rlike(pattern), SCHEMA)
    text = "a" * 60 + "!"
    assert can_fail(tree)
    with pytest.raises(ExpressionError) as expected:
        evaluate(tree, (text,))
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(tree)([pa.array(["a", text])], 2)
    assert str(caught.value) == str(expected.value)
    assert caught.value.row_index == 1
    assert repr(pattern) in str(caught.value)
    assert "needs more than 106,400 steps for 'aaa" in str(caught.value)
    assert "do without look-around, back-references" in str(caught.value)


def test_the_end_of_a_last_line_has_a_limit_too() -> None:
    assert not found("^(a+)+$")("a" * 28 + "!")
    assert found("^(a+)+$")("aa\r\n")
    assert not found("^a\r$")("a\r\n")
    assert can_fail(bind(expr("s rlike 'a$'"), SCHEMA))
    assert not can_fail(bind(expr("s rlike 'a'"), SCHEMA))
    with pytest.raises(FailureError, match="steps"):
        found("^(a+)+$")("a" * 60 + "!\n")


def test_places_to_go_back_to_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "_MEMORY", 1 << 10)
    with pytest.raises(FailureError, match="needs more than 1 MiB for 'aaa.*100,000 characters"):
        found("(?=(a|b)*c)")("a" * 100_000)


def test_long_texts_have_more_steps() -> None:
    assert found("(?<=b)c")("a" * 3_000_000 + "bc")


def test_a_step_that_takes_too_long_names_the_row(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on: its threads are not held up, and the row can be taken back."""
    monkeypatch.setattr(searches, "_STEPS", 100_000)
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"i": "int64", "s": "string"}).filter("s rlike '(?=(a|a)*b?$)[ab]'"))
    bad = (2, "a" * 60 + "!")
    with start(flow, engine) as run:
        run.insert("x", [(1, "aab"), bad])
        with pytest.raises(StepError) as caught:
            run.advance_to(1)
        assert caught.value.row == bad
        assert "steps" in str(caught.value)
        run.delete("x", [bad])
        run.advance_to(1)
        assert list(run.snapshot("y")) == [(1, "aab")]


def test_threads_and_errors_go_on() -> None:
    """Patterns are shared by threads, and what is wrong with a row can be sent to another process."""
    search, answers = found("(?=(ab)+c)a"), list[bool]()
    threads = [
        threading.Thread(target=lambda: answers.extend(search("ab" * k + "c") for k in range(9))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 4 + [True] * 32
    error = ExpressionError("too many steps", "s RLIKE 'a'")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(("pattern", "why"), [
    ("(" * 2_000 + "a" + ")" * 2_000, "its groups are nested more than 200 deep"), (r"(?i)(a)\1", "goes back to a group"),
    (r"\ud83d", "half a character"), (r"[\ud800-\udfff]", "half a character"), (")", "unbalanced parenthesis"),
    ("(" * 150, "missing ), unterminated subpattern"), (NOT_IN_RE2[-1], "regular expression is too large"),
])  # fmt: skip
def test_what_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bind(tm.col("s").rlike(pattern), SCHEMA)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 4_200


def test_many_groups_side_by_side() -> None:
    pattern = "(a)" * 2_000
    tree = bind(tm.regexp_extract("s", pattern, 1_999), SCHEMA)
    assert compile_scalar(tree)([pa.array(["a" * 2_000, "a"])], 2).to_pylist() == ["a", ""]

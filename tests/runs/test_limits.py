"""What is too large, too deep or not there is an error of ours, at the user's line where it is built.

The kind of defect: an error of a library's (Arrow's, NumPy's, Python's) that comes through as it is, or much later than
the line that is wrong, or after minutes.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.running import new_flow, start

import tidemill as tm
from tidemill import cli
from tidemill.errors import ExpressionError, SchemaError, StateError, StepError
from tidemill.expressions.binding import bind
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.rewriting import can_fail
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import STRING, dtype
from tidemill.renderer.embedded.expressions import evaluator
from tidemill.renderer.embedded.operators.join import JoinOperator
from tidemill.renderer.reference import evaluation
from tidemill.renderer.reference.expressions import evaluate
from tidemill.renderer.reference.rules import RULES

HALF = "\ud800"
DIGITS = "9" * 5_000
SCHEMA = {"s": "string", "k": "int64", "day": "date"}


def given() -> Any:
    return new_flow().input("x", SCHEMA)


BUILT: dict[str, tuple[Callable[[], Any], str]] = {
    "half a character": (lambda: given().with_columns(y=tm.lit(HALF)), r"'\ud800' has half a character at 0"),
    "in SQL text": (lambda: given().filter(f"s = 'a{HALF}'"), "has half a character at 1"),
    "in a list": (lambda: given().filter(tm.col("s").isin(["a", HALF])), "half a character"),
    "in a pattern": (lambda: given().filter(tm.col("s").like(HALF)), "half a character"),
    "for NULL": (lambda: given().fill_null(HALF), "half a character"),
    "a column's name": (lambda: given().rename({"s": HALF}), "half a character"),
    "an input's column": (lambda: new_flow().input("x", {HALF: "int64"}), "half a character"),
    "digits": (lambda: given().filter(f"k < {DIGITS}"), "has more than 38 digits"),
    "negative": (lambda: given().filter(f"k < -{DIGITS}"), "has more than 38 digits"),
    "a fraction": (lambda: given().filter(f"k < 1.{DIGITS}"), "has more than 38 digits"),
    "an int": (lambda: given().filter(tm.col("k") < 10**5_000), "has more than 38 digits"),
    "a Decimal": (lambda: given().filter(tm.col("k") < decimal.Decimal("1e999999")), "has more than 38 digits"),
    "an argument": (lambda: given().filter(f"substring(s, {DIGITS}) = 'a'"), "has more than 38 digits"),
    "a frame": (lambda: given().with_columns(n=f"sum(k) over (order by k rows {DIGITS} preceding)"), "no bound of a frame"),
    "an interval": (lambda: given().filter(f"day + interval '{DIGITS}' day > day"), "is no interval"),
    "a longer one": (lambda: given().filter(f"day + interval '{DIGITS}-1' year to month > day"), "is no interval"),
    "a float": (lambda: given().with_columns(y="1e400"), "`1e400` is beyond the range of float64"),
    "a negative one": (lambda: given().with_columns(y="-1e400D"), "is beyond the range of float64"),
    "a huge one": (lambda: given().with_columns(y="1e999999999"), "is beyond the range of float64"),
    "a type's digits": (lambda: new_flow().input("x", {"a": f"decimal({DIGITS})"}), "is not a column type"),
    "lists of lists": (lambda: new_flow().input("x", {"a": "list<" * 5_000 + "int" + ">" * 5_000}), "at most 100 deep"),
    "groups": (lambda: given().filter(tm.col("s").rlike("(" * 2_000 + ")" * 2_000)), "nested more than 200 deep"),
    "a long pattern": (lambda: given().filter(tm.col("s").rlike("[a]" * 50_000)), "has 150,000 characters, more than 50,000"),
    "a wide text": (lambda: given().with_columns(y="lpad(s, 300000000, 'x')"), "300,000,000 characters are too many"),
    "on the right": (lambda: given().with_columns(y=tm.rpad("s", 2_000_000_000, "ab")), "are too many"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", BUILT)
def test_building(case: str) -> None:
    build, message = BUILT[case]
    with pytest.raises(SchemaError) as caught:
        build()
    assert message in str(caught.value)
    assert len(str(caught.value)) < 4_500
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_what_is_just_within() -> None:
    found = given().select(
        a="1.7976931348623157e308", b="-1e-400", c="'\U0001f600'", d=f"{'0' * 400}7", e="lpad(s, 300000000, '')",
        f="9" * 38, g="cast('Infinity' as double)",
    )  # fmt: skip
    types = ["float64", "float64", "string", "decimal(1,0)", "string", "decimal(38,0)", "float64"]
    assert [str(f.dtype) for f in found.schema] == types


def test_a_text_that_would_be_too_long(engine: str) -> None:
    """It is an error of the row, before there is anything; in CASE, only of those that need it."""
    flow = new_flow()
    repeated = flow.input("x", {"s": "string"}).select(n="length(case when s = 'abc' then repeat(s, 100000000) end)")
    flow.output("y", repeated)
    with start(flow, engine) as run:
        run.insert("x", [("abcd",), ("abc",)])
        with pytest.raises(ExpressionError, match="would have more than 268,435,456 characters") as caught:
            run.advance_to(1)
        assert caught.value.row == ("abc",)
        run.delete("x", [("abc",)])
        run.advance_to(1)
        assert list(run.snapshot("y")) == [(None,)]


def test_texts_that_may_be_too_long() -> None:
    schema = Schema.of({"s": "string"})
    trees = [bind(tm.repeat("s", times), schema) for times in (-1, 1, 2)]
    assert [can_fail(tree) for tree in trees] == [False, False, True]
    assert evaluate(bind(tm.lpad("s", 7, "abc"), schema), ("xy",)) == "abcabxy"


def test_texts_that_are_too_long_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses what might not fit: fewer rows at a time often do; else the error is of a row."""

    def rule(_bound: Any) -> Any:
        def apply(value: pa.Array) -> pa.Array:
            if len(value) > 2 or "x" in value.to_pylist():
                msg = "Result might not fit in requested binary/string array."
                raise pa.ArrowCapacityError(msg)
            return value

        return apply

    monkeypatch.setitem(evaluator.RULES, "reverse", rule)
    tree = bind(tm.reverse("s"), Schema.of({"s": "string"}))
    values = ["a", None, "c", "d", "e", "f", "g"]
    run = evaluator.compile_scalar(tree)
    assert run([pa.array(values)], 7).to_pylist() == values
    with pytest.raises(ExpressionError, match="add up to more than 2 GiB") as caught:
        run([pa.array([*values, "x", "y"])], 9)
    assert caught.value.row_index == 7


def out_of_memory(*_given: Any) -> Any:
    msg = "Unable to allocate 11.9 GiB"
    raise MemoryError(msg)


def test_memory_that_runs_out_names_the_operator(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = new_flow()
    a, b = (flow.input(name, {"k": "int64", name: "int64"}) for name in "ab")
    flow.output("y", a.join(b, on="k"))
    with start(flow, engine) as run:
        run.insert("a", [(1, 1)])
        run.insert("b", [(1, 1)])
        with monkeypatch.context() as patched:
            patched.setattr(JoinOperator, "run", out_of_memory)
            patched.setattr(evaluation, "RULES", Refusing(RULES))
            with pytest.raises(StepError, match="Unable to allocate 11.9 GiB.*: filter before it") as caught:
                run.advance_to(1)
        assert "Join" in str(caught.value.operator)
        run.advance_to(1)
        assert list(run.snapshot("y")) == [(1, 1, 1)]


class Refusing:
    """The reference engine's rules, where there is no memory for joins."""

    def __init__(self, rules: Any) -> None:
        self.rules = rules

    def of(self, node: Any) -> Any:
        return out_of_memory if node.kind == "Join" else self.rules.of(node)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    flow = new_flow()
    flow.output("y", flow.input("x", SCHEMA))
    with pytest.raises(StateError, match=r"nowhere is not there: expected a file written by run\.save"):
        tm.load(tmp_path / "nowhere", flow)


@pytest.mark.parametrize("content", ["[" * 200_000, '{"a":' * 200_000, "", "\0"])
def test_exploring_what_is_no_record(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    path.write_text(content)
    assert cli.main(["explore", str(path)]) == 1
    assert "is no record of a run: expected" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["double", "decimal(10,2)", "bigint", "timestamp", "date", "boolean"])
def test_long_texts_that_are_no_numbers(to: str) -> None:
    """Some 10^10 ways of taking the digits would take an hour."""
    for text in ("1" * 300_000 + "x", "." * 300_000, "0x" + "1" * 300_000, "1." * 100_000):
        with pytest.raises(FailureError, match="does not fit"):
            cast_value(text, STRING, dtype(to))

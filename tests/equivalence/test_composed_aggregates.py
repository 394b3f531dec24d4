"""Aggregates made of others are, after each change, what plain Python makes of the rows; on all engines the same."""

from __future__ import annotations

import functools
import math
import operator
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import assert_same, examples, new_flow, start

import tidemill as tm

SCHEMA = {"k": "int64", "x": "int64", "f": "float64", "s": "string"}
Rows = list[tuple[Any, ...]]
FLOATS = (0.1, 0.25, -3.5, 1e9, 1e9 + 1, 1e-9, 7.0)


def known(rows: Rows, place: int = 1) -> list[Any]:
    return sorted(r[place] for r in rows if r[place] is not None)


def exactly(values: list[Any]) -> list[Fraction]:
    return [Fraction(v) for v in values]


def at_share(rows: Rows, place: int, share: Fraction) -> float | None:
    values = exactly(known(rows, place))
    if not values:
        return None
    at = share * (len(values) - 1)
    low = math.floor(at)
    return float(values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low]))


def most_often(rows: Rows, *, last: bool) -> int | None:
    counts = Counter(known(rows))
    most = [v for v, n in counts.items() if n == max(counts.values())]
    return (max if last else min)(most, default=None)


def pairs(rows: Rows) -> tuple[list[Fraction], list[Fraction]]:
    both = [r for r in rows if r[1] is not None and r[2] is not None]
    return exactly([r[2] for r in both]), exactly([r[1] for r in both])


def products(ys: list[Fraction], xs: list[Fraction]) -> Fraction:
    mean_y, mean_x = sum(ys) / len(ys), sum(xs) / len(xs)
    return Fraction(sum((y - mean_y) * (x - mean_x) for y, x in zip(ys, xs, strict=True)))


def of_pairs(compute: Callable[..., Any], least: int = 1) -> Callable[[Rows], float | None]:
    def run(rows: Rows) -> float | None:
        ys, xs = pairs(rows)
        found = compute(ys, xs) if len(ys) >= least else None
        return None if found is None else float(found)

    return run


def slope(ys: list[Fraction], xs: list[Fraction]) -> Fraction | None:
    return products(ys, xs) / products(xs, xs) if products(xs, xs) else None


def intercept(ys: list[Fraction], xs: list[Fraction]) -> Fraction | None:
    found = slope(ys, xs)
    return None if found is None else (sum(ys) - found * sum(xs)) / len(ys)


def r2(ys: list[Fraction], xs: list[Fraction]) -> Fraction | None:
    yy, xx = products(ys, ys), products(xs, xs)
    return None if not xx else Fraction(1) if not yy else products(ys, xs) ** 2 / (yy * xx)


def correlation(ys: list[Fraction], xs: list[Fraction]) -> float | None:
    found = r2(ys, xs)
    return None if found is None or not products(ys, ys) else math.copysign(math.sqrt(found), products(ys, xs))


def population(rows: Rows, place: int = 2) -> Fraction | None:
    values = exactly(known(rows, place))
    return products(values, values) / len(values) if values else None


def ends(rows: Rows, *, last: bool) -> Any:
    some = [r for r in rows if r[2] is not None]
    return (max if last else min)(some, key=lambda r: (r[2], r[1] or 0), default=(None,) * 4)[2]


CASES: dict[str, tuple[Any, Callable[[Rows], Any]]] = {
    "median": (tm.median("f"), lambda rows: at_share(rows, 2, Fraction(1, 2))),
    "percentile": (tm.percentile("x", 0.3), lambda rows: at_share(rows, 1, Fraction(3, 10))),
    "from the greatest": (tm.percentile("f", 0.1, descending=True), lambda rows: at_share(rows, 2, Fraction(9, 10))),
    "percentile_disc": (
        tm.percentile_disc("s", 0.5),
        lambda rows: v[(len(v) + 1) // 2 - 1] if (v := known(rows, 3)) else None,
    ),
    "no share": (tm.percentile_disc("x", 0), lambda rows: min(known(rows), default=None)),
    "mode": (tm.mode("x"), functools.partial(most_often, last=False)),
    "greatest mode": (tm.mode("x", descending=True), functools.partial(most_often, last=True)),
    "string_agg": (tm.string_agg("s", "+"), lambda rows: "+".join(known(rows, 3)) or None),
    "once": (tm.string_agg("s", distinct=True), lambda rows: "".join(sorted(set(known(rows, 3)))) or None),
    "collect_list": (tm.collect_list("x"), lambda rows: tuple(known(rows))),
    "collect_set": (tm.collect_set("x"), lambda rows: tuple(sorted(set(known(rows))))),
    "filtered": (tm.collect_set("x").filter("x > 1"), lambda rows: tuple(sorted({v for v in known(rows) if v > 1}))),
    "in an expression": (tm.median("x") * 2 + tm.count(), lambda rows: None if (m := at_share(rows, 1, Fraction(1, 2))) is None else m * 2 + len(rows)),
    "any_value": (tm.any_value("x"), lambda rows: min(known(rows), default=None)),
    "count_if": (tm.count_if("x > 1"), lambda rows: sum(v > 1 for v in known(rows))),
    "min_by": (tm.min_by("f", "f"), functools.partial(ends, last=False)),
    "max_by": (tm.max_by("f", "f"), functools.partial(ends, last=True)),
    "bit_and": (tm.bit_and("x"), lambda rows: functools.reduce(operator.and_, v) if (v := known(rows)) else None),
    "bit_or": (tm.bit_or("x"), lambda rows: functools.reduce(operator.or_, v) if (v := known(rows)) else None),
    "bit_xor": (tm.bit_xor("x"), lambda rows: functools.reduce(operator.xor, v) if (v := known(rows)) else None),
    "sum of distinct": (tm.sum("x", distinct=True), lambda rows: sum(set(v)) if (v := known(rows)) else None),
    "avg of distinct": (tm.avg("f", distinct=True), lambda rows: math.fsum(set(v)) / len(set(v)) if (v := known(rows, 2)) else None),
    "several columns": (
        tm.count_distinct("x", "s"),
        lambda rows: len({(r[1], r[3]) for r in rows if r[1] is not None and r[3] is not None}),
    ),
    "covar_pop": (tm.covar_pop("f", "x"), of_pairs(lambda ys, xs: products(ys, xs) / len(ys))),
    "covar_samp": (tm.covar_samp("f", "x"), of_pairs(lambda ys, xs: products(ys, xs) / (len(ys) - 1), least=2)),
    "corr": (tm.corr("f", "x"), of_pairs(correlation)),
    "regr_slope": (tm.regr_slope("f", "x"), of_pairs(slope)),
    "regr_intercept": (tm.regr_intercept("f", "x"), of_pairs(intercept)),
    "regr_r2": (tm.regr_r2("f", "x"), of_pairs(r2)),
    "regr_sxy": (tm.regr_sxy("f", "x"), of_pairs(products)),
    "regr_count": (tm.regr_count("f", "x"), lambda rows: len(pairs(rows)[0])),
    "regr_avgx": (tm.regr_avgx("f", "x"), of_pairs(lambda _, xs: sum(xs) / len(xs))),
    "regr_avgy": (tm.regr_avgy("f", "x"), of_pairs(lambda ys, _: Fraction(float(sum(ys))) / len(ys))),
}  # fmt: skip
NEARLY: dict[str, tuple[Any, Callable[[Rows], Any]]] = {
    "var_pop": (tm.var_pop("f"), population),
    "stddev_pop": (tm.stddev_pop("f"), lambda rows: None if (v := population(rows)) is None else math.sqrt(v)),
    "var_pop of whole numbers": (tm.var_pop("x"), lambda rows: population(rows, 1)),
    "regr_sxx": (tm.regr_sxx("f", "x"), of_pairs(lambda _, xs: products(xs, xs))),
    "regr_syy": (tm.regr_syy("f", "x"), of_pairs(lambda ys, _: products(ys, ys))),
}
"""Those that are rounded more than once."""


def history(dice: random.Random) -> list[tuple[Rows, Rows]]:
    there: Rows = []
    found = []
    for _ in range(4):
        coming = [
            (
                dice.randint(0, 1),
                dice.choice([None, 1, 2, 2, 3, 7]),
                dice.choice([None, *FLOATS]),
                dice.choice([None, "a", "b", "b", "cc"]),
            )
            for _ in range(dice.randint(1, 6))
        ]
        leaving = dice.sample(there, min(len(there), dice.randint(0, 4)))
        for row in leaving:
            there.remove(row)
        there += coming
        found.append((coming, leaving))
    return found


@pytest.mark.parametrize("keys", [("k",), ()], ids=["groups", "all"])
def test_after_each_change_what_plain_python_makes_of_the_rows(engine: Any, keys: tuple[str, ...]) -> None:
    flow = new_flow()
    x = flow.input("x", SCHEMA)
    cases = CASES | NEARLY
    asked = {f"c{i}": aggregate for i, (aggregate, _) in enumerate(cases.values())}
    flow.output("out", (x.group_by(*keys) if keys else x).agg(**asked))
    there: Rows = []
    with start(flow, engine) as run:
        for coming, leaving in history(random.Random(5)):
            run.insert("x", coming)
            run.delete("x", leaving)
            run.advance()
            for row in leaving:
                there.remove(row)
            there += coming
            groups = {k: [r for r in there if r[0] == k] for k in {r[0] for r in there}} if keys else {None: there}
            found = {row[0] if keys else None: row[len(keys) :] for row in run.snapshot("out")}
            assert set(found) == set(groups)
            for key, rows in groups.items():
                for (name, (_, oracle)), value in zip(cases.items(), found[key], strict=True):
                    expected = oracle(rows)
                    if name in NEARLY and expected is not None:
                        expected = pytest.approx(float(expected), rel=4e-16, abs=0)
                    assert value == expected, (name, rows)


SOME = {name: aggregate for name, (aggregate, _) in (CASES | NEARLY).items()}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_engines_agree_at_every_time(part: int) -> None:
    asked = {f"c{i}": aggregate for i, aggregate in enumerate(SOME.values()) if i % 4 == part}

    @examples(8)
    @given(tm.testing.updates(SCHEMA, non_negative=True), st.sampled_from([("k",), ()]))
    def check(updates: Any, keys: tuple[str, ...]) -> None:
        assert_same(
            "embedded",
            lambda x: [(x.group_by(*keys) if keys else x).agg(**asked)],
            {"x": updates},
            schema={"x": SCHEMA},
        )

    check()


def test_conditions_one_after_the_other_all_have_to_hold() -> None:
    flow = tm.Dataflow()
    x = flow.constant({"x": "int64"}, [(1,), (2,), (3,), (None,)])
    both = tm.count().filter("x > 1").filter(tm.col("x") < 3)
    flow.output("out", x.agg(n=both, s=tm.min_by("x", "x").filter("x > 1"), r=tm.regr_count("x", "x").filter("x <> 2")))
    assert list(flow.start().snapshot("out")) == [(1, 2, 2)]
    assert repr(tm.median("x").filter("x > 1")) == "MEDIAN(x) FILTER (WHERE x > 1)"


def test_over_windows_that_move() -> None:
    flow = tm.Dataflow()
    x = flow.input("x", {"t": "int64", "x": "int64"})
    last_three = tm.Window.order_by("t").rows_between(-2, 0)
    calls = {
        "median": tm.median("x").over(last_three), "once": tm.sum("x", distinct=True).over(last_three),
        "joined": tm.array_join(tm.split(tm.string_agg("cast(x as string)", ",").over(last_three), ","), "+"),
    }  # fmt: skip
    flow.output("out", x.select("t", **calls))
    run = flow.start()
    run.insert("x", [(1, 5), (2, 5), (3, 2), (4, 9)])
    run.advance()
    run.delete("x", [(2, 5)])
    run.advance()
    assert list(run.snapshot("out")) == [(1, 5.0, 5, "5"), (3, 3.5, 7, "5+2"), (4, 5.0, 16, "5+2+9")]


def test_outside_of_agg_it_is_no_expression_of_a_row() -> None:
    flow = tm.Dataflow()
    x = flow.input("x", {"x": "int64"})
    with pytest.raises(
        tm.errors.SchemaError, match="column `x` is neither a key|an aggregate is no function of one row"
    ):
        x.select(m=tm.median("x"))

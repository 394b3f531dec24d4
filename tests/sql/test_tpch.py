"""The 22 queries of TPC-H, as written, are what DuckDB gives: after load, and as rows of every table come and go."""

import decimal
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support.tpch import tables as generated
from support.tpch_queries import QUERIES

import tidemill as tm

NAMES = ("lineitem", "orders", "customer", "supplier", "nation", "region", "part", "partsupp")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return generated(tmp_path_factory.mktemp("tpch"), 0.004, *NAMES)


def in_common(value, other):
    """A number with as many places as both systems give: where ours is a decimal and DuckDB's a float, ours."""
    if isinstance(value, decimal.Decimal) and isinstance(other, (float, decimal.Decimal)):
        exponents = [int(v.as_tuple().exponent) for v in (value, other) if isinstance(v, decimal.Decimal)]
        return decimal.Decimal(other).quantize(decimal.Decimal(1).scaleb(max(exponents)), decimal.ROUND_HALF_UP)
    return other


def same(ours, theirs):
    if isinstance(ours, decimal.Decimal):
        common = in_common(ours, theirs)
        return ours.quantize(common, decimal.ROUND_HALF_UP) == common
    return ours == theirs if not isinstance(ours, float) else abs(ours - theirs) <= 1e-9 * abs(theirs)


def rows(snapshot):
    return sorted(snapshot.elements(), key=lambda row: tuple((v is None, str(v)) for v in row if not is_number(v)))


def is_number(value):
    return isinstance(value, (float, decimal.Decimal))


def compare(number, ours, theirs):
    assert len(ours) == len(theirs), number
    for a, b in zip(rows(Counter(dict(ours))), rows(Counter(theirs)), strict=True):
        assert all(map(same, a, b)), (number, a, b)


def test_queries_of_tpch_are_kept_up_to_date(tables):
    random = np.random.default_rng(0)
    flow = tm.Dataflow("tpch")
    for name in NAMES:
        flow.input(name, tables[name].schema)
    for number, text in QUERIES.items():
        flow.output(f"q{number}", flow.sql(text, "duckdb"))
    there = {name: random.random(tables[name].num_rows) < 0.9 for name in NAMES}
    seen = Counter()
    with flow.start() as run, duckdb.connect() as judge:
        for epoch in range(3):
            for name in NAMES:
                table, before = tables[name], there[name]
                after = before if epoch == 0 else before ^ (random.random(len(before)) < 0.03)
                run.insert(name, table.filter(pa.array(after & ~before if epoch else after)))
                run.delete(name, table.filter(pa.array(before & ~after)))
                judge.register(name, table.filter(pa.array(after)))
                there[name] = after
            run.advance()
            for number, text in QUERIES.items():
                theirs = judge.execute(text).fetchall()
                ours = run.snapshot(f"q{number}").counts()
                assert sum(ours.values()) == len(theirs), number
                compare(number, ours, theirs)
                seen[number] += len(theirs)
    assert len(seen) == 22

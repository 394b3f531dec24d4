"""Large partitions in ranges of their order: tasks, run here without a session, and Spark's sharing out."""

import datetime as dt
import functools
import itertools
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import cases
from support.running import examples
from support.window_nodes import Nodes, outcome

import tidemill as tm
from tidemill.boundary.results import arrow_table
from tidemill.dataflow.nodes import Input, Reduce
from tidemill.testing import all_at_once, check_equivalent

pytest.importorskip("pyspark", reason="needs tidemill[spark]")


from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.embedded.kernels.codec import Interner, encode_column
from tidemill.renderer.embedded.windows.affected import Reach
from tidemill.renderer.embedded.windows.range_partitions import requested_summaries
from tidemill.renderer.spark import large_windows
from tidemill.renderer.spark.keyed_tasks import KeyedKernel, layout_of
from tidemill.renderer.spark.large_windows import LargestPartition, read_by_calls, surroundings
from tidemill.renderer.spark.range_tasks import RangeKernel, RangeValuesKernel, row_order
from tidemill.renderer.spark.row_tasks import row_task
from tidemill.renderer.spark.tasks import run_kernel


def divisible(schema, calls, *, added=False):
    """The windows of calls that may be cut into ranges, with a function that makes their rows of the input's.

    With ``added``, of rows to which a column was added, which is not in the hash that breaks ties then.
    """
    engine, flow = Nodes(), tm.Dataflow()
    rows = flow.input("x", schema)
    rows = rows.with_columns(more="n + 1") if added else rows
    flow.output("y", rows.with_columns(**calls))
    flow.start(engine)
    for node in engine.nodes:
        if not isinstance(node, Reduce) or not large_windows.is_divisible(node):
            continue
        (source,) = node.inputs
        (given_to,) = source.inputs or (None,)
        if isinstance(given_to, Input):
            yield node, functools.partial(made_wide, source, given_to.schema)


def made_wide(source, schema, rows):
    """Rows with counts as what the windows are given, in one batch."""
    table = arrow_table(schema, list(rows))
    columns = [*table.columns, pa.array([0] * len(rows)), pa.array(list(rows.values()))]
    batch = pa.table(columns, [*(f"c{i}" for i in range(table.num_columns)), "t0", "d"]).combine_chunks()
    made = [b.drop_columns(["t0"]) for b in row_task(source, 1)(iter(batch.to_batches()))]
    return pa.Table.from_batches(made)


def in_ranges(node, lines, cuts):
    """Lines by range: cut where told, in the order, as Spark does it."""
    interner, schema, windows = Interner(), node.inputs[0].schema, node.logic
    codes = [encode_column(lines.column(f"c{i}"), t, interner) for i, t in enumerate(schema.dtypes)]
    reach, order = Reach.of(windows, schema.dtypes), row_order(windows, schema.dtypes, interner)
    if reach.peers or order.row:
        order.columns, order.row = order.columns[: len(windows.order)], []
    keys = [
        (tuple(repr(lines.column(f"c{k}")[i].as_py()) for k in node.keys), order.key([int(c[i]) for c in codes]))
        for i in range(lines.num_rows)
    ]
    groups = [
        list(some) for _, some in itertools.groupby(sorted(range(len(keys)), key=keys.__getitem__), keys.__getitem__)
    ]
    number, found = 0, {}
    for some, cut in zip(groups, itertools.cycle(cuts)):
        number += cut
        found.setdefault(number, []).extend(some)
    for number, some in found.items():
        table = lines.take(pa.array(some))
        yield table.append_column("range", pa.array([number] * len(some), pa.int32()))


def computed(node, lines, cuts, times, *, inserted=False):
    """What the tasks make of lines cut into ranges."""
    ranges = list(in_ranges(node, lines, cuts))
    requested = requested_summaries(node.logic, node.inputs[0].schema.dtypes)
    given_to = read_by_calls(node, node.logic) if inserted else tuple(range(len(node.inputs[0].schema)))
    say = RangeKernel(node, given_to, len(times), requested, 1000)
    said = [line for r in ranges for b in run_kernel(say, iter(r.to_batches())) for line in b.to_pylist()]
    found = surroundings(node, said, given_to)
    if found is None:
        return None
    kernel = RangeValuesKernel(node, tuple(times), given_to, found)
    return [batch for r in ranges for batch in run_kernel(kernel, iter(r.combine_chunks().to_batches()))]


def at_versions(lines, numbers):
    """Lines, each since a version, of which numbers are given in turn."""
    return lines.append_column("version", pa.array(itertools.islice(itertools.cycle(numbers), len(lines)), pa.int32()))


def one_task(node):
    """The task for whole partitions."""
    kernel = KeyedKernel(node, layout_of(node), 1, (), Antichain.minimum(1), Antichain(), time=(0,))
    return functools.partial(run_kernel, kernel)


def once(node, lines):
    return outcome(one_task(node), lines.to_batches())


class InRanges:
    """The tasks, as one that is given all lines."""

    def __init__(self, node, *how, **options):
        self._made = lambda lines: computed(node, lines, *how, **options)

    def __call__(self, batches):
        return iter([b.drop_columns(["t0"]) for b in self._made(pa.Table.from_batches(batches))])


CUTS = st.lists(st.booleans(), min_size=1, max_size=9)


@examples(60, least=60)
@given(cases(), CUTS, st.booleans(), st.booleans())
def test_rows_in_ranges_have_the_values_of_whole_partitions(case, cuts, inserted, added):
    schema, rows, calls = case
    rows = dict.fromkeys(rows, 1) if inserted else rows
    for node, wide in divisible(schema, calls, added=added) if rows else ():
        lines = wide(rows)
        made = outcome(InRanges(node, cuts, [(0,)], inserted=inserted), at_versions(lines, [0]).to_batches())
        expected = once(node, lines)
        assert made == expected or (isinstance(made, str) and isinstance(expected, str))


@pytest.mark.parametrize("call", [tm.row_number(), tm.lag("x"), tm.list("x")], ids=lambda call: type(call).__name__)
def test_rows_in_ranges_that_tie_are_in_the_order_that_they_had_before_columns_were_added(call):
    schema = {"k": "string", "t": "int64", "x": "int64", "n": "int32"}
    window = tm.Window.partition_by("k").order_by("t").rows_between(-1, 0)
    nodes = list(divisible(schema, {"c": call.over(window)}, added=True))
    for node, wide in nodes:
        assert node.logic.hashed == (0, 1, 2, 3)
        lines = wide({("a", t, x, x % 5): 1 for t in (1, 2) for x in range(12)})
        made = outcome(InRanges(node, [False], [(0,)]), at_versions(lines, [0]).to_batches())
        assert made == once(node, lines)
    assert nodes


@examples(60, least=60)
@given(cases(), CUTS, st.lists(st.integers(0, 2), min_size=1, max_size=9), st.booleans())
def test_each_version_of_rows_in_ranges_has_what_differs_from_the_one_before(case, cuts, versions, stored):
    schema, rows, calls = case
    for node, wide in divisible(schema, calls) if rows else ():
        lines = at_versions(wide(rows), versions)
        gone = lines.slice(0, 2)  # in the last version
        lines = pa.concat_tables([lines, at_versions(with_counts(gone, -1).drop_columns(["version"]), [2])])
        try:
            expected = [counted(node, lines.filter(pc.less_equal(lines["version"], v))) for v in (0, 1, 2)]
        except tm.errors.TidemillError:
            continue
        changes = [Counter(), Counter(), Counter()]
        for batch in computed(node, lines, cuts, [None if stored else (0,), (1,), (2,)]):
            for row in batch.to_pylist():
                time, count = row.pop("t0"), row.pop("d")
                changes[time][repr(row)] += count
        assert not (stored and changes[0])
        for version in range(bool(stored), 3):
            difference = Counter(expected[version])
            difference.subtract(expected[version - 1] if version else {})
            assert without_zeros(changes[version]) == without_zeros(difference)


def without_zeros(counts):
    return {row: count for row, count in counts.items() if count}


def with_counts(lines, sign):
    return lines.set_column(lines.column_names.index("d"), "d", pc.multiply(lines["d"], sign))


def counted(node, lines):
    """The rows with values of whole partitions, with their counts; or an error."""
    found = Counter()
    if lines.num_rows:
        batches = list(one_task(node)(iter(lines.drop_columns(["version"]).to_batches())))
        for row in (row for b in batches for row in b.to_pylist()):
            count = row.pop("d")
            found[repr(row)] += count
    return found


SCHEMA = {"k": "string", "t": "timestamp", "x": "float64", "n": "int64"}
TEXT = "k string, t timestamp_ntz, x double, n bigint"
AT = [dt.datetime(2024, 3, day) for day in range(1, 9)]
W = tm.Window.partition_by("k").order_by(tm.desc("t"))
CALLS = {
    "near": tm.sum("x").over(W.rows_between(-2, 1)),
    "before": tm.lag("n", 2, -1).over(W),
    "known": tm.lag("x", ignore_nulls=True).over(W),
    "place": tm.rank().over(W),
    "dense": tm.dense_rank().over(W),
    "tile": tm.ntile(3).over(W),
    "so_far": tm.sum("x").over(W.rows_between(tm.UNBOUNDED, 0)),
    "rest": tm.min("n").over(W.range_between(0, tm.UNBOUNDED)),
    "first": tm.first_value("k").over(W.rows_between(tm.UNBOUNDED, 0)),
    "days": tm.count().over(W.range_between(tm.interval(days=-1), 0)),
    "groups": tm.max("n").over(W.groups_between(-1, 1).exclude("ties")),
}


def flow_of_calls():
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA)
    flow.output("near", x.with_columns(**{name: CALLS[name] for name in ("near", "before", "so_far")}))
    flow.output("all", x.with_columns(**CALLS, number=tm.row_number().over(tm.Window.order_by("x"))))
    return flow


def rows_of(dice, count):
    """Rows of a large partition, of one whose key is NULL, and of a small one, with ties and NULLs."""
    days = [None, *(dt.datetime(2024, 3, day, 12) for day in range(1, 9))]
    values = [None, 0.1, 1e20, -2.0, 7.5]
    keys = ["a", "a", None, "b"][: 4 if count > 12 else 3]
    return [(dice.choice(keys), dice.choice(days), dice.choice(values), dice.randrange(5)) for _ in range(count)]


@pytest.fixture
def cut(monkeypatch):
    """How often partitions were cut into ranges; of ten rows they are large, and a range has about six."""
    made = []
    in_ranges = large_windows.in_ranges

    def noted(*given, **options):
        found = in_ranges(*given, **options)
        made.append(found is not None)
        return found

    monkeypatch.setattr(large_windows, "in_ranges", noted)
    monkeypatch.setattr(large_windows, "LARGE", 10)
    monkeypatch.setattr(large_windows, "RANGE_ROWS", 6)
    monkeypatch.setattr(large_windows, "MOST_BESIDE", 1 / 6)
    return made


@pytest.mark.parametrize("several_times", [False, True])
def test_a_rendering_shares_large_partitions_out(spark, cut, several_times):
    dice = random.Random(8)
    rows = rows_of(dice, 60)
    updates = [(row, i % 3 * several_times, 1 + i % 2) for i, row in enumerate(rows)]
    updates += [(row, 2 * several_times, -1) for row in rows[:4]]
    check_equivalent(flow_of_calls(), {"x": updates}, engines=["reference", "spark"], batchings=[all_at_once])
    assert cut == [True, True, True]


def test_a_large_step_shares_large_partitions_out(spark, tmp_path, cut):
    dice = random.Random(9)
    there: list[Any] = []
    with (
        flow_of_calls().start(tm.Reference()) as right,
        flow_of_calls().start(tm.Spark(spark, tmp_path, in_driver=5)) as run,
    ):
        for count in (40, 12, 2, 15):
            rows = rows_of(dice, count)
            gone, there = there[:3], there[3:] + rows
            right.insert("x", rows)
            run.insert("x", spark.createDataFrame(rows, TEXT) if count > 5 else rows)
            for each in (right, run):
                each.delete("x", gone)
                each.advance()
            for name in ("near", "all"):
                assert sorted(map(repr, run.changes(name))) == sorted(map(repr, right.changes(name)))
                assert sorted(map(repr, run.snapshot(name))) == sorted(map(repr, right.snapshot(name)))
    assert len(cut) >= 7
    assert all(cut)


def test_partitions_are_counted_again_when_they_may_have_grown_large(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(large_windows, "LARGE", 35)
    asked, sizes = [], []
    ask, count = LargestPartition.may_be_large, large_windows.updates_of_largest
    monkeypatch.setattr(LargestPartition, "may_be_large", lambda *given: asked.append(ask(*given)) or asked[-1])
    monkeypatch.setattr(large_windows, "updates_of_largest", lambda *given: sizes.append(count(*given)) or sizes[-1])
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", SCHEMA).with_columns(before=tm.lag("n").over(W)))
    with flow.start(tm.Reference()) as right, flow.start(tm.Spark(spark, tmp_path, in_driver=5)) as run:
        for step in range(5):
            rows = [(key, AT[step], 0.5, i) for key in "ab" for i in range(8)]
            right.insert("x", rows)
            run.insert("x", spark.createDataFrame(rows, TEXT))
            for each in (right, run):
                each.advance()
            assert sorted(map(repr, run.changes("y"))) == sorted(map(repr, right.changes("y")))
    assert asked == [False, False, False, True]
    assert sizes == [24, 32, 40]


def test_partitions_are_counted_again_though_all_together_have_not_grown(monkeypatch):
    """One may have grown as much as others have lost in the meantime."""
    monkeypatch.setattr(large_windows, "LARGE", 100)
    monkeypatch.setattr(large_windows, "is_divisible", lambda _: True)
    sizes = iter([60, 90, 120])
    monkeypatch.setattr(large_windows, "updates_of_largest", lambda *_: next(sizes))
    partitions = LargestPartition()
    node: Any = None
    found = [partitions.may_be_large(node, node, node, before, 30) for before in (120, 120, 120, 120)]
    assert found == [False, False, False, True]
    assert partitions.largest == 120


def test_rows_that_look_at_many_others_are_of_one_task(spark, cut, monkeypatch):
    monkeypatch.setattr(large_windows, "MOST_BESIDE", 4)
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA)
    flow.output("y", x.with_columns(near=tm.sum("n").over(W.rows_between(-9, 0))))
    rows = [(row, 0, 1) for row in rows_of(random.Random(8), 60)]
    check_equivalent(flow, {"x": rows}, engines=["reference", "spark"], batchings=[all_at_once])
    assert cut == [False]


def test_errors_are_those_of_partitions_in_one_task(spark, cut):
    flow = tm.Dataflow()
    w = tm.Window.partition_by("k").order_by("t")
    flow.output("y", flow.input("x", SCHEMA).with_columns(tile=tm.ntile("n").over(w)))
    rows = [("a", dt.datetime(2024, 3, 1 + i), 0.5, int(i != 9)) for i in range(20)]
    with pytest.raises(tm.errors.ExpressionError, match=r"0.5, 0\): 0: .*ntile"):
        tm.render(flow, spark, {"x": spark.createDataFrame(rows, TEXT)})["y"].collect()
    counted = [(*row, -1 if i == 9 else 1) for i, row in enumerate(rows)]
    with pytest.raises(tm.errors.NegativeCountError, match="has the count -1"):
        tm.render(flow, spark, {"x": spark.createDataFrame(counted, TEXT + ", diff bigint")})["y"].collect()
    assert cut == [True, True, False]  # what may be no error is looked at twice


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (tm.lag("x", 2), True),
        (tm.lag("x", "n"), False),
        (tm.max("n"), True),
        (tm.max("x"), False),
        (tm.first_value("x"), True),
    ],
)
def test_partitions_are_not_divided_where_ranges_cannot_know_what_rows_look_at(call, expected):
    """How far rows of other ranges look, or how their texts compare."""
    schema = {"t": "int64", "x": "string", "n": "int64"}
    assert len(list(divisible(schema, {"c": call.over(tm.Window.order_by("t"))}))) == expected

"""Decimals of more than 18 digits, short ones as they are and large ones by number: through every operator the same."""

import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import embedded, examples, start

import tidemill as tm
from tidemill.expressions.schema import Schema
from tidemill.renderer.durable import spill_files
from tidemill.renderer.embedded import interned
from tidemill.renderer.embedded.interned import InternedSweeper
from tidemill.renderer.embedded.kernels import codec, long_decimals
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.reduce import group_rows
from tidemill.renderer.embedded.trace import ordered_groups, spine

SCHEMA = {"k": "int64", "d": "decimal(38,3)", "e": "decimal(38,3)", "s": "string"}
EXACT = decimal.Context(prec=60)
EDGES = [sign * (1 << bits) + more for bits in (0, 61, 62, 63, 64, 100) for sign in (-1, 1) for more in (-1, 0, 1)]
LARGEST = 10**33  # the average of such decimals still fits its type
UNSCALED = st.sampled_from([*EDGES, 0, LARGEST, -LARGEST]) | st.integers(-LARGEST, LARGEST) | st.integers(-3000, 3000)
VALUES = st.none() | UNSCALED.map(lambda v: decimal.Decimal(v).scaleb(-3, EXACT))
ROWS = st.tuples(st.integers(0, 2), VALUES, VALUES, st.sampled_from("ab"))

OUTPUTS = ["filter", "map", "join", "outer", "distinct", "group", "ends", "keys", "top", "last", "windows", "ranges"]


@st.composite
def updates(draw):
    """Rows that come, and some of them that go again, so that no count is ever negative."""
    found = []
    for row, at in draw(st.lists(st.tuples(ROWS, st.integers(0, 3)), min_size=1, max_size=8)):
        found.append((row, at, draw(st.integers(1, 2))))
        if draw(st.booleans()):
            found.append((row, at + draw(st.integers(0, 2)), -1))
    return found


def flow_of_everything():
    flow = tm.Dataflow("long decimals")
    x = flow.input("x", SCHEMA)
    window = tm.Window().partition_by("k").order_by("d", tm.desc("e"), "s")
    flow.output("filter", x.filter("d > e or d = 4611686018427387.904"))
    flow.output("map", x.select("k", m="-d", least="least(d, e)", t="cast(d as string)"))
    flow.output("join", x.join(x.select(f="e", t="s"), on={"d": "f"}))
    flow.output("outer", x.select("k", "d").join(x.select("e"), on={"d": "e"}, how="full"))
    flow.output("distinct", x.select("d").distinct())
    flow.output(
        "group",
        x.group_by("k").agg(
            n=tm.count("d"), s=tm.sum("d"), a=tm.avg("e"), v=tm.variance("d"), c=tm.count_distinct("d"), x=tm.max("e")
        ),
    )
    flow.output("ends", x.group_by("s").agg(least=tm.min("d"), greatest=tm.max("d"), all=tm.list("e", order_by="d")))
    flow.output("keys", x.group_by("d").agg(n=tm.count(), s=tm.sum("e")))
    flow.output("top", x.group_by("k").top_k(2, order_by=[tm.desc("d"), "e"]))
    flow.output("last", x.group_by("s").top_k(1, order_by=[tm.asc("d", nulls="last")]))
    flow.output(
        "windows",
        x.with_columns(
            s=tm.sum("d").over(window.rows_between(-1, 0)),
            a=tm.avg("d").over(window),
            m=tm.max("e").over(window.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
            r=tm.rank().over(window),
            p=tm.lag("d").over(window),
        ),
    )
    near = tm.Window().partition_by("k").order_by("d").range_between(-1, 1)
    far = tm.Window().order_by(tm.desc("d")).range_between(-decimal.Decimal("4611686018427387.9"), 0)
    flow.output("ranges", x.with_columns(near=tm.count().over(near), far=tm.sum("e").over(far)))
    return flow


class Spilling:
    """Runs in folders, which hold nothing in memory from step to step."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.count = folder, 0

    def start(self, plan, keep):
        self.count += 1
        return tm.Embedded(self.folder / str(self.count), in_memory=0, checkpoint_every=2).start(plan, keep)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def large(request, monkeypatch):
    """A few rows, and a few groups, go through all that many would; and interned values go as soon as they may."""
    if request.param:
        monkeypatch.setattr(group_rows, "LARGE_FROM", -1)
        for limit in ("SLACK", "SKIP_FROM", "SCAN"):
            monkeypatch.setattr(ordered_groups, limit, 0)
        monkeypatch.setattr(spine, "TAIL", 2)
        monkeypatch.setattr(codec, "FEW", 0)
        monkeypatch.setattr(InternedSweeper, "sweep_if_due", InternedSweeper.sweep)
    return request.param


@pytest.mark.slow
def test_every_operator_gives_what_the_specification_says(large):
    @examples(25)
    @given(updates())
    def check(given_updates):
        tm.testing.check_equivalent(flow_of_everything(), {"x": given_updates})

    check()


@pytest.mark.slow
def test_nothing_changes_where_all_is_spilled(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(spill_files, "PAGE", 2)

    @examples(6)
    @given(updates())
    def check(given_updates):
        engines: list[Any] = ["reference", Spilling(tmp_path_factory.mktemp("state"))]
        tm.testing.check_equivalent(flow_of_everything(), {"x": given_updates}, engines=engines)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["saved", "folder"])
def test_a_run_goes_on_with_them(tmp_path_factory, how):
    def fed(run, given_updates, first, last):
        run.update("x", [u for u in given_updates if first <= u[1] < last])
        run.advance_to(last)

    def ended(run):
        return {name: run.snapshot(name) for name in OUTPUTS}

    @examples(8)
    @given(updates())
    def check(given_updates):
        folder = tmp_path_factory.mktemp("state")
        engine = tm.Embedded(folder / "run", checkpoint_every=2) if how == "folder" else "embedded"
        with start(flow_of_everything(), "reference") as run:
            fed(run, given_updates, 0, 9)
            expected = ended(run)
        with start(flow_of_everything(), engine) as run:
            fed(run, given_updates, 0, 1)
            fed(run, given_updates, 1, 2)
            run.compact()
            if how == "saved":
                run.save(folder / "saved")
        again = (
            tm.load(folder / "saved", flow_of_everything()) if how == "saved" else flow_of_everything().start(engine)
        )
        with again:
            fed(again, given_updates, 2, 9)
            assert ended(again) == expected

    check()


@given(st.lists(st.none() | UNSCALED, max_size=300))
def test_codes_have_the_order_of_the_values(values):
    interner = codec.Interner()
    (dtype,) = Schema.of({"d": "decimal(38,3)"}).dtypes
    given_decimals = [None if v is None else long_decimals.decimal_of(v, 3) for v in values]
    codes = codec.encode_column(pa.array(given_decimals, dtype.arrow), dtype, interner)
    one_by_one = [NULL if v is None else codec.encoder(dtype, interner)(v) for v in given_decimals]
    assert codes.tolist() == one_by_one
    assert codec.decode_column(codes, dtype, interner).to_pylist() == given_decimals
    ranks, leading = (of(codes, dtype, interner).tolist() for of in (codec.order_ranks, codec.leading_numbers))
    least_first = sorted(range(len(values)), key=lambda i: (values[i] is not None, values[i] or 0))
    for i, j in zip(least_first, least_first[1:], strict=False):
        assert (ranks[i] < ranks[j]) == (values[i] != values[j])
        if values[i] is not None:
            assert leading[i] <= leading[j]
            assert leading[j] == codec.leading_number_of(codes.item(j), dtype, interner)


def test_short_values_are_not_interned():
    flow = flow_of_everything()
    with flow.start() as run:
        run.insert("x", [(1, decimal.Decimal(i), decimal.Decimal(-i), "a") for i in range(100)])
        run.advance()
        held = {type(v) for v in embedded(run).compiled.interner.values()}
        assert int not in held
        run.insert("x", [(1, decimal.Decimal(2**70), None, "a")])
        run.advance()
        assert [v for v in embedded(run).compiled.interner.values() if isinstance(v, int)]


def test_large_values_are_let_go_of(monkeypatch):
    """And those that are still there, some in lists, are not."""
    monkeypatch.setattr(interned, "_FEW", 0)
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "d": "decimal(38,0)"})
    flow.output("all", x.group_by("k").agg(all=tm.list("d")), changes=False)
    with flow.start() as run:
        for i in range(200):
            run.insert("x", [(0, decimal.Decimal(2**70 + i))])
            if i >= 2:
                run.delete("x", [(0, decimal.Decimal(2**70 + i - 2))])
            run.advance()
        run.compact()
        assert embedded(run).compiled.interner.live <= 10
        assert list(run.snapshot("all")) == [(0, (decimal.Decimal(2**70 + 198), decimal.Decimal(2**70 + 199)))]


def test_the_users_precision_does_not_matter():
    """A regression: Python's decimals were scaled by the digits of whoever called."""
    flow = tm.Dataflow()
    x = flow.input("x", {"d": "decimal(18,2)", "D": "decimal(38,2)"})
    flow.output("x", x)
    row = (decimal.Decimal("1234567890123456.78"), decimal.Decimal("123456789012345678901234567890.12"))
    with flow.start() as run, decimal.localcontext(prec=6):
        run.insert("x", [row])
        run.advance()
        assert list(run.snapshot("x")) == [row]

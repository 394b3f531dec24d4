"""Tables of Iceberg: read by snapshots, whatever was done to their files; written once for each refresh."""

from collections import Counter

import pyarrow as pa
import pytest
from support.lakes import ORDERS, orders

import tidemill as tm
from tidemill.errors import ViewError
from tidemill.views.journal import RefreshJournal

pytest.importorskip("pyiceberg", reason="needs tidemill[iceberg]")
pytest.importorskip("sqlalchemy", reason="needs tidemill[iceberg]")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # of pyiceberg's


class Lake:
    def __init__(self, folder):
        from pyiceberg.catalog import load_catalog

        self.folder = folder
        self.where = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
        self.catalog = load_catalog("lake", **self.where)
        self.catalog.create_namespace("shop")
        self.catalog.create_table("shop.orders", schema=ORDERS)

    @property
    def orders(self):
        return self.catalog.load_table("shop.orders")

    def rows(self, name):
        return Counter(
            tuple(row.values()) for row in self.catalog.load_table(f"shop.{name}").scan().to_arrow().to_pylist()
        )

    def views(self):
        views = tm.Views(self.folder / "state")
        rows = views.source("orders", tm.iceberg("shop.orders", catalog="lake", **self.where))
        sums = rows.group_by("region").agg(total=tm.sum("amount"))
        views.view("sums", sums, to=tm.iceberg("shop.sums", catalog="lake", **self.where), key="region")
        views.view("log", rows, to=tm.iceberg("shop.log", catalog="lake", **self.where), write="changelog")
        return views

    def check(self):
        rows = self.rows("orders")
        sums = Counter()
        for (_, region, amount), times in rows.items():
            sums[region] += amount * times
        assert self.rows("sums") == Counter((region, sums[region]) for region in {r for _, r, _ in rows})
        log = Counter()
        for (*row, change, _), times in self.rows("log").items():
            log[tuple(row)] += times if change == "insert" else -times
        assert +log == rows


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_a_refresh_reads_the_files_that_came_and_went(lake):
    with lake.views() as views:
        views.refresh()  # of a table without snapshots
    lake.orders.append(orders((1, "north", 1), (2, "south", 2), (3, "south", 3)))
    with lake.views() as views:
        assert views.refresh().read == {"orders": 3}
        lake.check()
        lake.orders.append(orders((4, "west", 4)))
        lake.orders.delete("id = 2")
        done = views.refresh()
        assert done.read == {"orders": 6}  # the one that came, three that went with their file, two that stay
        assert done.views["log"].changed == 2
        lake.check()
    with lake.views() as views:
        assert not views.refresh().is_new
        lake.orders.overwrite(orders())
        views.refresh()
        lake.check()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ["append", "overwrite", "done"])
def test_a_refresh_that_was_cut_off_is_gone_on_with(lake, monkeypatch, name, after):
    from pyiceberg.table import Table

    lake.orders.append(orders((1, "north", 1)))
    with lake.views() as views:
        views.refresh()
    lake.orders.append(orders((2, "south", 2)))
    owner = RefreshJournal if name == "done" else Table
    whole = getattr(owner, name)

    def ends(*given, **named):
        if after:
            whole(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as cutting, lake.views() as views:
        cutting.setattr(owner, name, ends)
        with pytest.raises(KeyboardInterrupt):
            views.refresh()
    lake.orders.append(orders((3, "south", 3)))
    for _ in range(2):
        with lake.views() as views:
            views.refresh()
    lake.check()


def test_what_somebody_else_did_is_refused(lake):
    lake.orders.append(orders((1, "north", 1)))
    first = lake.orders.current_snapshot().snapshot_id
    with lake.views() as views:
        views.refresh()
        lake.catalog.load_table("shop.sums").append(pa.table({"region": ["x"], "total": [1]}))
        lake.orders.append(orders((2, "south", 2)))
        with pytest.raises(ViewError, match=r"iceberg\('shop.sums', catalog='lake'\): somebody else wrote .*append"):
            views.refresh()
        views.refresh(full=["sums"])
        lake.check()
    lake.orders.manage_snapshots().rollback_to_snapshot(first).commit()
    with lake.views() as views:
        with pytest.raises(ViewError, match=r"it was rolled back, or its snapshots have expired; .*full=True"):
            views.refresh()
        views.refresh(full=True)
        lake.check()
    with pytest.raises(ViewError, match="there is no such table"):
        tm.Views(lake.folder / "other").source("x", tm.iceberg("shop.x", catalog="lake", **lake.where))


def test_other_columns_are_refused(lake):
    lake.orders.append(orders((1, "north", 1)))
    with lake.views() as views:
        views.refresh()
    with tm.Views(lake.folder / "state") as views:
        rows = views.source("orders", tm.iceberg("shop.orders", catalog="lake", **lake.where))
        views.view("sums", rows.select("id"), to=tm.iceberg("shop.sums", catalog="lake", **lake.where))
        with pytest.raises(ViewError, match="has the columns region, total, and the view id: give it another table"):
            views.refresh()


def test_a_changelog_whose_snapshots_expired_is_gone_on_with(lake):
    lake.orders.append(orders((1, "north", 1)))
    with lake.views() as views:
        views.refresh()
        lake.orders.append(orders((2, "south", 2)))
        views.refresh()
        log = lake.catalog.load_table("shop.log")
        log.overwrite(log.scan().to_arrow())  # stands for upkeep, which leaves the rows as they are
        log = lake.catalog.load_table("shop.log")
        current = log.current_snapshot().snapshot_id
        old = [snapshot.snapshot_id for snapshot in log.snapshots() if snapshot.snapshot_id != current]
        log.maintenance.expire_snapshots().by_ids(old).commit()
        before = lake.rows("log")
        views.refresh()
        assert lake.rows("log") == before
        lake.orders.append(orders((3, "west", 3)))
        views.refresh()
        assert lake.rows("log") - before == Counter([(3, "west", 3, "insert", 4)])
        lake.check()
        assert not views.refresh().is_new


def test_other_types_and_names_without_a_namespace_are_refused(lake):
    lake.orders.append(orders((1, "north", 1)))
    with lake.views() as views:
        views.refresh()
    with tm.Views(lake.folder / "other") as views:
        rows = views.source("orders", tm.iceberg("shop.orders", catalog="lake", **lake.where))
        sums = rows.select("region", total="'many'")
        views.view("sums", sums, to=tm.iceberg("shop.sums", catalog="lake", **lake.where))
        with pytest.raises(ViewError, match=r"(?s)does not take the view: .*total.*give it another table"):
            views.refresh()
    with pytest.raises(ViewError, match=r"iceberg\('sums', .*expected a name with that of its namespace"):
        tm.iceberg("sums", catalog="lake")

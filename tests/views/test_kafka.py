"""Topics of Kafka as sources: each message counts once, whatever became of a refresh, and what is lost is not passed over."""

import contextlib
import itertools
import re
import sys
from collections import Counter
from decimal import Decimal
from typing import Any, cast

import confluent_kafka
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kafka import Cluster
from support.lakes import Cut, cut

import tidemill as tm
from tidemill.cli import main
from tidemill.errors import ViewError
from tidemill.views.journal import RefreshJournal

COLUMNS = {"id": "int64", "region": "string", "amount": "decimal(9, 2)"}
FORMATS = ["json", "upsert", "op", "debezium", "maxwell", "delta"]
NUMBERS = itertools.count()
KAFKA = "tidemill.views.kafka_topics._Kafka"


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


class Topic:
    """A topic of a cluster, and a view of its rows in the state alone."""

    def __init__(self, cluster, folder, **options):
        self.cluster, self.name, self.options = cluster, f"orders{next(NUMBERS)}", options
        self.state = folder / self.name
        cluster.make(self.name)

    def put(self, *values, **where):
        self.cluster.put(self.name, *values, **where)

    def views(self, key=None, schema=COLUMNS, **options):
        views = tm.Views(self.state)
        topic = tm.kafka(self.cluster.servers, self.name, **{**self.options, **options})
        views.view("orders", views.source("orders", topic, key=key, schema=schema))
        return views

    def refreshed(self, key=None, full=False, **options):
        """Return what a refresh does, and the rows that there are then."""
        with self.views(key, **options) as views:
            done = views.refresh(full=full)
            return done, Counter(views.snapshot("orders"))


def row(id_, region="north", amount=1):
    return {"id": id_, "region": region, "amount": amount}


def test_a_refresh_reads_what_came_since_the_last(cluster, tmp_path, monkeypatch):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1), row(2, None, 2.5), partition=0)
    topic.put(row(1), {**row(3), "more": [1]}, partition=3)
    done, rows = topic.refreshed()
    assert done.read == {"orders": 4}
    assert "source orders: 4 rows, offsets {'0': 2, '1': 0, '2': 0, '3': 2}" in str(done)
    assert rows == {(1, "north", 1): 2, (2, None, Decimal("2.5")): 1, (3, "north", 1): 1}
    topic.put({"id": 4}, partition=1)
    with topic.views() as views:
        assert "source orders: kafka(" in views.status()
        assert "has news" in views.status()
    done, rows = topic.refreshed()
    assert done.read == {"orders": 1}
    assert rows[4, None, None] == 1
    monkeypatch.setattr(f"{KAFKA}._messages", lambda *_, **__: pytest.fail("messages were read"))
    monkeypatch.setattr(tm.Dataflow, "start", lambda *_, **__: pytest.fail("the run was started"))
    with topic.views() as views:
        assert not views.refresh().is_new


def message(written_as, before, after):
    """Return a change of a row as a format has it, None where it has no such."""
    kept = after or before
    return {
        "json": after,
        "upsert": after,
        "op": {"op": "upsert", **after} if after else {"op": "D", "id": kept["id"]},
        "debezium": {"op": "u" if before and after else "c" if after else "d", "before": before, "after": after},
        "maxwell": {"type": "update" if before and after else "insert" if after else "delete", "data": kept},
        "delta": {"_change_type": "update_postimage" if after else "delete", **kept},
    }[written_as]


HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 5), st.none() | st.tuples(st.sampled_from(["north", None]), st.integers(-3, 9))),
        st.sampled_from(["refresh", "cut", "full"]),
    ),
    max_size=20,
)


@pytest.mark.slow
@pytest.mark.parametrize("written_as", FORMATS)
@settings(max_examples=15)
@given(history=HISTORIES)
def test_every_refresh_holds_what_the_messages_come_to(cluster, tmp_path_factory, written_as, history):
    """With JSON rows are added; of the other formats the key says the partition, but 5, which moves among them."""
    topic = Topic(cluster, tmp_path_factory.mktemp("topic"), format=written_as)
    key = None if written_as == "json" else "id"
    rows, held = Counter[Any](), dict[int, Any]()
    for moment, step in enumerate([*history, "refresh"]):
        if step == "cut":
            with pytest.MonkeyPatch.context() as cutting, topic.views(key) as views:
                cut(
                    cutting,
                    *[(RefreshJournal, "begin"), (tm.Run, "deliver"), (RefreshJournal, "done")][moment % 3],
                    after=moment % 2,
                )
                with contextlib.suppress(Cut):  # with nothing new nothing is begun
                    views.refresh()
        elif isinstance(step, str):
            topic.refreshed(key, full=step == "full")  # first what a refresh that was cut off had planned
            assert topic.refreshed(key)[1] == (rows if key is None else Counter(held.values()))
            assert not topic.refreshed(key)[0].is_new
        elif step[1] is not None or (key and step[0] in held):
            id_, to = step
            before = row(*held[id_]) if id_ in held else None
            after = None if to is None else row(id_, *to)
            partition = moment % 4 if id_ == 5 else id_ % 4
            topic.put(message(written_as, before, after), key={"id": id_}, partition=partition, moment=moment + 1)
            held[id_] = (id_, *to) if to else None
            if to is None:
                del held[id_]
            else:
                rows[held[id_]] += 1


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(RefreshJournal, "begin"), (tm.Run, "deliver"), (RefreshJournal, "done"), (tm.Views, "_tidy")],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_a_refresh_that_was_cut_off_reads_the_same_again(  # noqa: PLR0917 - of pytest
    cluster, tmp_path, monkeypatch, owner, name, after
):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1))
    topic.refreshed()
    topic.put(row(2), partition=1)
    with monkeypatch.context() as cutting, topic.views() as views:
        cut(cutting, owner, name, after=after)
        with pytest.raises(Cut):
            views.refresh()
    topic.put(row(3), partition=1)  # waits where the offsets had been fixed
    _, rows = topic.refreshed()
    is_fixed = (name, after) not in {("begin", False), ("done", True), ("_tidy", False), ("_tidy", True)}
    assert sorted(id_ for id_, *_ in rows.elements()) == ([1, 2] if is_fixed else [1, 2, 3])
    _, rows = topic.refreshed()
    assert sorted(id_ for id_, *_ in rows.elements()) == [1, 2, 3]


def test_the_keys_of_messages_say_those_of_rows(cluster, tmp_path):
    topic = Topic(cluster, tmp_path, format="upsert")
    topic.put({"region": "a"}, None, {"region": "b"}, key=b"1", partition=1)
    topic.put({"id": 2, "amount": "1.25"}, key={"id": 2, "more": 0})
    topic.put(row(3), row(4))
    topic.put(None, key={"payload": {"id": 4}, "schema": {}})
    assert topic.refreshed("id")[1] == {(1, "b", None): 1, (2, None, Decimal("1.25")): 1, (3, "north", 1): 1}
    texts = Topic(cluster, tmp_path, format="upsert")
    texts.put({"n": 1}, key=b"a b")
    texts.put({"n": 2}, key="a b")
    texts.put({"n": 3}, key=b"7")
    with texts.views("name", {"name": "string", "n": "int64"}) as views:
        views.refresh()
        assert sorted(views.snapshot("orders")) == [("7", 3), ("a b", 2)]


def test_json_with_a_key_takes_the_last_row_of_each(cluster, tmp_path):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1, "first"), row(1, "last"), row(2))
    assert topic.refreshed("id")[1] == {(1, "last", 1): 1, (2, "north", 1): 1}


def test_a_partition_that_is_new_is_read_from_its_beginning(cluster, tmp_path, monkeypatch):
    """The cluster's topics do not grow: the last partition is kept from the first refresh."""
    topic = Topic(cluster, tmp_path)
    topic.put(row(1))
    topic.put(row(2), row(3), partition=3)
    kinds = type(tm.kafka("", ""))
    with monkeypatch.context() as fewer:
        whole = kinds.version

        def without_the_last(source, last):
            version = whole(source, last)
            del version["offsets"]["3"]
            return version

        fewer.setattr(kinds, "version", without_the_last)
        assert topic.refreshed()[0].read == {"orders": 1}
    assert topic.refreshed()[0].read == {"orders": 2}


def refused(topic, key=None, **options):
    with topic.views(key, **options) as views, pytest.raises(ViewError) as caught:
        views.refresh()
    return str(caught.value)


@pytest.mark.parametrize(
    ("written_as", "value", "text"),
    [("json", b"{", "message 1: .* is not JSON"), ("upsert", row("x"), "row 1 .*column id: .* is not a valid int64")],
)
def test_a_message_that_does_not_fit_refuses_the_refresh_and_may_be_passed_over(
    cluster, tmp_path, written_as, value, text
):
    topic = Topic(cluster, tmp_path, format=written_as)
    by = None if written_as == "json" else "id"
    topic.put(row(7), value, partition=1)
    assert re.search(rf"kafka\('[\d.:]+', 'orders\d+'\), partition 1, {text}.*skip=\[\(1, 1\)\]", refused(topic, by))
    assert topic.refreshed(by, skip=[(1, 1)])[1] == {(7, "north", 1): 1}


@pytest.mark.slow
def test_a_message_that_empties_the_table_is_refused(cluster, tmp_path):
    """Other partitions do not say when that was."""
    topic = Topic(cluster, tmp_path, format="debezium")
    topic.put(b'{"op": "t"}', partition=1)
    assert re.search(r"partition 1, message 0: op 't' empties the table.*skip=\[\(1, 0\)\]", refused(topic, "id"))
    assert topic.refreshed("id", skip=[(1, 0)])[1] == {}


def test_messages_that_are_gone_before_they_are_read_are_refused(cluster, tmp_path):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1))
    topic.refreshed()
    topic.put(*[row(id_, "x" * 900_000) for id_ in range(2, 12)])  # of a partition the cluster keeps 5 MB
    assert "messages of partition 0 from 1 on are gone before they were read: read what it has now" in refused(topic)
    done, rows = topic.refreshed(full=True)
    assert 0 < done.read["orders"] < 10
    assert (11, "x" * 900_000, 1) in rows


def test_a_topic_that_is_another_one_is_refused(cluster, tmp_path, monkeypatch):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1), row(2))
    topic.refreshed()
    topic.cluster = Cluster()
    topic.put(*map(row, range(5)))
    assert "it was made anew, or is of another cluster: read what it has now with views.refresh(full=True)" in refused(
        topic
    )
    assert topic.refreshed(full=True)[0].read == {"orders": 5}
    for id_, text in [("a", None), ("b", "it was made anew, or is of another cluster")]:
        monkeypatch.setattr(f"{KAFKA}._topic_id", lambda *_, id_=id_: id_)  # this cluster tells none
        topic.put(row(6))
        if text is None:
            topic.refreshed()
        else:
            assert text in refused(topic)


def test_a_partition_that_ends_before_what_was_read_is_refused(cluster, tmp_path, monkeypatch):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1), row(2))
    topic.refreshed()
    monkeypatch.setattr("confluent_kafka.Consumer", Shortened)
    assert "partition 0 ends at 1, and was known up to 2: it was made anew, or cut off: read what" in refused(topic)


class Shortened(confluent_kafka.Consumer):
    def get_watermark_offsets(self, *given):
        low, high = super().get_watermark_offsets(*given)
        return low, max(high - 1, 0)


def test_a_topic_that_is_not_there_is_refused(cluster, tmp_path):
    topic = Topic(cluster, tmp_path)
    topic.name = "none"
    assert "'none'): Broker: Unknown topic or partition" in refused(topic)


def test_a_cluster_that_does_not_answer_is_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("tidemill.views.kafka_topics._PATIENCE", 0.2)
    topic = Topic(cluster, tmp_path)
    topic.cluster = type("Gone", (), {"servers": "127.0.0.1:1"})
    assert "Failed to get metadata: " in refused(topic, options={"log_level": 2})


def test_declarations_that_cannot_be_are_refused(tmp_path):
    with tm.Views(tmp_path / "state") as views:
        cases: list[Any] = [
            (tm.kafka("db:1", "a"), {}, r"kafka\('db:1', 'a'\): messages do not say what columns .*schema="),
            (tm.kafka("db:1", "a", format="upsert"), {"schema": COLUMNS}, r"expected key="),
            (
                tm.kafka("db:1", "a", format="op"),
                {"schema": {"op": "string", "id": "int64"}, "key": "id"},
                "'op' is a column of the source",
            ),
        ]
        for topic, declared, text in cases:
            with pytest.raises(ViewError, match=text):
                views.source("a", topic, **declared)
    with pytest.raises(ViewError, match=r"format='upset': did you mean 'upsert'"):
        tm.kafka("db:1", "a", format=cast("Any", "upset"))


class Told:
    """A consumer that is told what a real broker would tell it, of one partition: messages, and ends."""

    def __init__(self, events):
        self._events = iter(events)

    def __call__(self, settings):
        assert settings["auto.offset.reset"] == "error"
        return self

    def assign(self, partitions):
        assert [(p.partition, p.offset) for p in partitions] == [(0, 2)]

    def poll(self, _seconds):
        return next(self._events)

    def close(self):
        pass


class Event:
    """A message, or an error where there is one."""

    def __init__(self, offset, code=None):
        self._offset, self._error = offset, None if code is None else confluent_kafka.KafkaError(code)

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def error(self):
        return self._error

    def timestamp(self):
        return 1, 0

    def key(self):
        return None

    value = key


END = confluent_kafka.KafkaError._PARTITION_EOF


@pytest.mark.parametrize(
    ("events", "offsets"),
    [
        ([Event(2), Event(4)], [2, 4]),  # what was between is compacted away
        ([Event(2), Event(5)], [2]),  # so is the last one, and another has come since
        ([Event(2), Event(5, END)], [2]),  # the last ones are marks of transactions, or of ones that were aborted
        ([Event(6, END)], []),
        ([Event(2), Event(4, END)], "messages of partition 0 from 2 on are gone before"),
        (
            [Event(2, confluent_kafka.KafkaError._AUTO_OFFSET_RESET)],
            "messages of partition 0 from 2 on are gone before",
        ),
        ([Event(2), Event(3, confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED)], "authorization failed"),
        ([Event(2), None], "nothing came for 30 seconds: refresh again"),
    ],
)
def test_a_partition_is_read_up_to_the_offset_where_it_ended(monkeypatch, events, offsets):
    monkeypatch.setattr("confluent_kafka.Consumer", Told(events))
    topic: Any = tm.kafka("db:1", "a")
    reading = topic._messages({0: (2, 5)}, from_first=False)
    if isinstance(offsets, list):
        assert [message.offset for message in reading] == offsets
    else:
        with pytest.raises(ViewError, match=offsets):
            list(reading)


def test_a_file_of_views_refreshes_by_the_shell(cluster, tmp_path, capsys):
    topic = Topic(cluster, tmp_path)
    topic.put(row(1), row(2))
    file = tmp_path / "views.py"
    file.write_text(
        f"import tidemill as tm\nviews = tm.Views({str(tmp_path / 'shell')!r})\n"
        f"orders = views.source('orders', tm.kafka({cluster.servers!r}, {topic.name!r}), schema={COLUMNS!r})\n"
        "views.view('n', orders.agg(n=tm.count()))\n"
    )
    assert main(["views", str(file), "--refresh"]) == 0
    assert "source orders: 2 rows, offsets {'0': 2, " in capsys.readouterr().out


def test_the_library_is_named_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with tm.Views(tmp_path / "state") as views:
        views.view("a", views.source("a", tm.kafka("db:1", "a"), schema=COLUMNS))
        with pytest.raises(ViewError, match=r"tm.kafka needs the library confluent_kafka: .*'tidemill\[kafka\]'"):
            views.refresh()

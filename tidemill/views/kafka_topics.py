"""Topics of Kafka, by the library ``confluent-kafka``: a source whose versions are offsets by partitions."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs
import pyarrow as pa

from tidemill.boundary.messages import MESSAGE_FORMATS, InputColumns, changes_of
from tidemill.boundary.results import arrow_table
from tidemill.errors import RowError, ViewError, did_you_mean
from tidemill.expressions.schema import Schema
from tidemill.views.stores import Source, Version, library_of

MessageFormat: TypeAlias = Literal["json", "upsert", "op", "debezium", "maxwell", "delta"]
_PATIENCE: Final = 30.0
"""How many seconds a cluster may take for an answer."""
_AT_ONCE: Final = 1 << 16
"""How many rows are handed on at once where their order does not matter."""
_Row: TypeAlias = tuple[Any, ...]


@attrs.frozen
class _Message:
    partition: int
    offset: int
    moment: int
    key: bytes | None
    value: bytes | None


class _Kafka(Source):
    """A topic of Kafka: see `kafka`. A version says which topic it is, and at which offset each partition ends."""

    def __init__(
        self,
        servers: str,
        topic: str,
        format: str,  # noqa: A002 - as users say
        skip: Collection[tuple[int, int]],
        options: Mapping[str, Any],
    ) -> None:
        self._servers, self._topic, self._format = servers, topic, format
        self._skip, self._options = frozenset(skip), options
        self._columns = InputColumns(Schema(()), ())
        self.needs_key = format != "json"
        if format not in MESSAGE_FORMATS:
            msg = f"{self}, format={format!r}: {did_you_mean(str(format), MESSAGE_FORMATS)}"
            raise ViewError(msg)

    def __repr__(self) -> str:
        return f"kafka({self._servers!r}, {self._topic!r})"

    def keep_in(self, _folder: Path, key: Sequence[str]) -> None:
        self._key = tuple(key)

    def read_as(self, schema: Schema) -> None:
        if self._format == "op" and "op" in schema:
            msg = f"{self}, format='op': 'op' is a column of the source, and says what is done with its rows"
            raise ViewError(msg)
        self._columns = InputColumns(schema, self._key)

    def schema(self) -> pa.Schema:
        msg = f"{self}: messages do not say what columns there are: give them as views.source(..., schema={{...}})"
        raise ViewError(msg)

    def identity(self) -> str:
        return f"the topic {self._topic!r}, format={self._format!r}"  # servers come and go; `version` has the rest

    def version(self, last: Version | None, /) -> Version:
        with self._consumer() as (kafka, consumer):
            cluster = consumer.list_topics(self._topic, _PATIENCE)
            topic = cluster.topics[self._topic]
            if topic.error is not None:
                raise kafka.KafkaException(topic.error)
            offsets = {}
            for partition in sorted(topic.partitions):
                _, end = consumer.get_watermark_offsets(kafka.TopicPartition(self._topic, partition), _PATIENCE)
                offsets[str(partition)] = end  # of what is committed, where the consumer reads that
            topic_id = self._topic_id(kafka, cluster) or (last and last["topic"])
            return {"cluster": cluster.cluster_id, "topic": topic_id, "offsets": offsets}

    def changes(self, since: Version | None, until: Version) -> Iterator[tuple[pa.Table, int]]:
        self._require_same(until, self.version(until))  # it may be long since that was fixed
        begun = {}
        if since is not None:
            self._require_same(since, until)
            begun = since["offsets"]
        new = {int(p): (begun.get(p, 0), end) for p, end in until["offsets"].items() if begun.get(p, 0) < end}
        messages = self._messages(new, from_first=since is None)
        yield from self._last_of_keys(messages) if self._key else self._all(messages)

    def _require_same(self, before: Version, after: Version) -> None:
        if any(before[k] not in {None, after[k]} for k in ("cluster", "topic")):
            what = "it was made anew, or is of another cluster"
            raise self._lost(what)
        for partition, was in before["offsets"].items():
            if (end := after["offsets"].get(partition, 0)) < was:
                what = f"partition {partition} ends at {end}, and was known up to {was}: it was made anew, or cut off"
                raise self._lost(what)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _all(self, messages: Iterable[_Message]) -> Iterator[tuple[pa.Table, int]]:
        rows: list[_Row] = []
        for message in messages:
            rows += [row for _, row in self._done(message)]
            if len(rows) >= _AT_ONCE:
                yield arrow_table(self._columns.schema, rows), 1
                rows.clear()
        yield arrow_table(self._columns.schema, rows), 1

    def _last_of_keys(self, messages: Iterable[_Message]) -> Iterator[tuple[pa.Table, int]]:
        """Yield the rows of keys that are gone, and those of others; the order is that of each partition, and of time.

        A key's messages are in one partition, unless there were fewer of these before.
        """
        partitions: dict[int, list[_Message]] = {}
        for message in messages:
            partitions.setdefault(message.partition, []).append(message)
        at = [self._columns.schema.names.index(k) for k in self._key]
        last: dict[_Row, tuple[bool, _Row]] = {}
        for message in heapq.merge(*(partitions[p] for p in sorted(partitions)), key=attrgetter("moment")):
            for puts, row in self._done(message):
                last[tuple(row[i] for i in at)] = puts, row
        for sign in (-1, 1):
            yield arrow_table(self._columns.schema, [row for puts, row in last.values() if puts == (sign > 0)]), sign

    def _done(self, message: _Message) -> list[tuple[bool, _Row]]:
        """Return the rows that a message puts or deletes."""
        partition, offset = message.partition, message.offset
        if (partition, offset) in self._skip:
            return []
        where = f"{self}, partition {partition}"
        try:
            found = list(changes_of(self._format, (message.key, message.value), self._columns, offset, where))
        except RowError as error:
            msg = f"{error}: declare the source as messages are, or pass over this one: skip=[({partition}, {offset})]"
            raise ViewError(msg).about(column=error.column, row=error.row) from error
        if any(done == "truncate" for done, _ in found):
            msg = f"{where}, message {offset}: op 't' empties the table, and other partitions do not say when"
            raise ViewError(f"{msg}: begin again with another topic, or pass over it: skip=[({partition}, {offset})]")
        return [(done == "upsert", row) for done, row in found]

    # -- the cluster --------------------------------------------------------------------------------------------------

    def _messages(self, new: Mapping[int, tuple[int, int]], *, from_first: bool) -> Iterator[_Message]:
        """Yield the messages of partitions from one offset to another, or from the first that is still there."""
        with self._consumer() as (kafka, consumer):
            ends = {p: end for p, (_, end) in new.items()}
            begins = {p: kafka.OFFSET_BEGINNING if from_first else begin for p, (begin, _) in new.items()}
            consumer.assign([kafka.TopicPartition(self._topic, p, begin) for p, begin in begins.items()])
            while ends:
                found = consumer.poll(_PATIENCE)
                if found is None:
                    msg = f"{self}: nothing came for {_PATIENCE:.0f} seconds: refresh again when the cluster answers"
                    raise ViewError(msg)
                partition, offset, error = found.partition(), found.offset(), found.error()
                name = "" if error is None else error.name()
                if name not in {"", "_PARTITION_EOF", "_AUTO_OFFSET_RESET"}:
                    raise kafka.KafkaException(error)
                if (end := ends.get(partition)) is None:  # what has come since waits
                    continue
                if name == "_AUTO_OFFSET_RESET" or (name and offset < end):
                    what = (
                        f"messages of partition {partition} from {new[partition][0]} on are gone before they were read"
                    )
                    raise self._lost(what)
                if not name and offset < end:
                    _, moment = found.timestamp()
                    yield _Message(partition, offset, moment, found.key(), found.value())
                if offset >= end - 1:
                    del ends[partition]

    @contextlib.contextmanager
    def _consumer(self) -> Iterator[tuple[Any, Any]]:
        """Give the library and a consumer that is of no group: offsets are kept with the views."""
        kafka = library_of("confluent_kafka", "kafka")
        own = {"bootstrap.servers": self._servers, "enable.auto.commit": False, "enable.partition.eof": True}
        quiet = {"group.id": "tidemill", "error_cb": lambda _: None}  # a server of many may be down
        try:
            settings = {**quiet, **self._options, **own, "auto.offset.reset": "error"}
            with contextlib.closing(kafka.Consumer(settings)) as consumer:
                yield kafka, consumer
        except kafka.KafkaException as error:
            msg = f"{self}: {error.args[0].str()}"
            raise ViewError(msg) from error

    def _topic_id(self, kafka: Any, cluster: Any) -> str | None:
        """Return what tells the topic from another one of its name, made later, where there is somebody to ask."""
        if cluster.controller_id not in cluster.brokers:
            return None
        admin = library_of("confluent_kafka.admin", "kafka")
        client = admin.AdminClient({**self._options, "bootstrap.servers": self._servers})
        (told,) = client.describe_topics(kafka.TopicCollection([self._topic]), request_timeout=_PATIENCE).values()
        return str(told.result().topic_id)

    def _lost(self, what: str) -> ViewError:
        return ViewError(f"{self}: {what}: read what it has now with views.refresh(full=True)")


def kafka(
    servers: str,
    topic: str,
    *,
    format: MessageFormat = "json",  # noqa: A002 - as `Run.apply` says
    skip: Collection[tuple[int, int]] = (),
    options: Mapping[str, Any] | None = None,
) -> Source:
    """Return a topic of Kafka as a source for `Views`: a refresh reads the messages up to where each partition ends.

    Values are JSON, their columns those of ``views.source(..., schema=)``. Of ``format="json"`` each is a row more, or
    with ``key=`` takes the place of that with its key; columns that are not there are NULL. ``"upsert"`` also takes
    columns of the key from the message's key, and without a value deletes: compacted topics. ``"debezium"``,
    ``"maxwell"``, ``"delta"`` and ``"op"`` are change feeds as `Run.apply` reads them. All but JSON need ``key=``.

    Offsets are kept with the views, and committed nowhere. Of transactions those that are committed are read. A message
    that does not fit refuses the refresh and is named; ``skip`` are pairs of a partition and an offset to pass over.
    ``options`` are what librdkafka takes, such as ``{"security.protocol": "SSL"}``; they are not written down anywhere.
    Needs ``pip install 'tidemill[kafka]'``.

    Cost: of the messages since the last refresh, which are held in memory where there is a key.
    """
    return _Kafka(servers, topic, format, skip, options or {})

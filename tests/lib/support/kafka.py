"""A cluster of Kafka in the process, which librdkafka has for tests: topics have four partitions, made when asked for.

It knows no topics that are deleted or grow, no ids of topics, and of transactions no marks. A real one can be had from
neither Debian nor PyPI.
"""

import json
from typing import Any

import pytest


def as_bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes | None) else json.dumps(value).encode()


class Cluster:
    """One that is there as long as this object is."""

    def __init__(self) -> None:
        kafka = pytest.importorskip("confluent_kafka", reason="needs tidemill[kafka]")
        self._producer = kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 2})
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{b.host}:{b.port}" for b in brokers)

    def make(self, topic: str) -> None:
        self._producer.list_topics(topic, 10)

    def put(self, topic: str, *values: Any, key: Any = None, partition: int = 0, moment: int = 0) -> None:
        """Write messages: objects as JSON, bytes as they are, None as no value."""
        for value in values:
            self._producer.produce(
                topic, as_bytes(value), as_bytes(key), partition=partition, timestamp=moment, on_delivery=_require
            )
        assert self._producer.flush(10) == 0


def _require(error: Any, _message: Any) -> None:
    assert error is None, error

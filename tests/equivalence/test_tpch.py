"""The queries of TPC-H that are measured give what DuckDB gives: loaded, and as orders come and go."""

from itertools import islice

import pytest

from benchmarks.engines import Engine
from benchmarks.engines.embedded import Embedded
from benchmarks.engines.recomputed import Recomputed
from benchmarks.joins import LocalByDeltas, LocalByTwo
from benchmarks.measure import digest
from benchmarks.workloads.tpch import Large, Local, Pricing, Profit, Unshipped


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", [Pricing, Unshipped, Local, LocalByDeltas, LocalByTwo, Profit, Large], ids=lambda q: q.name
)
def test_queries_of_tpch_are_kept_up_to_date(query):
    workload = query(0.01)
    engines: list[Engine] = [Embedded(workload), Recomputed(workload)]
    tables = workload.tables()
    for engine in engines:
        engine.load(tables)
    for changes in [[], *islice(workload.bulk_changes(tables, 1_000), 3)]:
        for engine in engines:
            engine.prepare(changes)
            engine.step(changes)
        ours, theirs = (digest(engine.contents()) for engine in engines)
        assert ours == theirs
        assert ours["rows"] or query is Large  # of so few orders none need be large
    for engine in engines:
        engine.close()

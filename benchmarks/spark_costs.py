"""What work on files of state costs, what the driver keeps of each and reads of keys: to reckon with larger ones."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.runner import Figures
from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import INT64
from tidemill.renderer.durable.checksums import Checksums
from tidemill.renderer.durable.file_work import TOGETHER
from tidemill.renderer.durable.spill_files import (
    Layout,
    Pages,
    SpilledBatch,
    SpillFile,
    merged,
    sorted_file,
    write_block,
)
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction


def spark_costs(*, rows: int) -> Figures:
    """Processor time of one file of so many rows of two numbers: sorted, merged with as many, checked.

    In this process, one thread; ``kept`` is what a checkpoint says of the file, in bytes.
    """
    pa.set_cpu_count(1)
    rng, layout = np.random.default_rng(1), Layout((0,), (INT64, INT64), 1, 1, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = []
        for number in range(2):
            path = folder / f"given-{number}.parquet"
            pq.write_table(pa.table({"v0": rng.integers(0, 100_000, rows), "v1": rng.integers(0, 1000, rows)}), path)
            sums = _timed(lambda path=path: Checksums.of(path))  # type: ignore[misc]
            given.append(SpillFile(path.name, rows, sorted=False, checksums=sums[1], constants=(("t0", 0), ("w0", 1))))
        size = given[0].checksums.size
        sorting = [_timed(lambda i=i: sorted_file(folder / f"run-{i}", layout, folder, [given[i]])) for i in range(2)]  # type: ignore[misc]
        runs = [found for _, found in sorting]
        opening = _timed(lambda: [Pages(folder, run) for run in runs])
        merging = _timed(lambda: merged(folder / "merged", layout, opening[1], 2 * rows, Antichain([0])))
        pages = sum(len(of.all()) for of in opening[1])
        listing = json.dumps(runs[0].listing())
        parsing = _timed(lambda: SpillFile.listed(json.loads(listing)))
    return {
        "spark_costs": {
            f"{rows} rows": {
                "sorted_us_a_row": 1e6 * sorting[1][0] / rows,
                "merged_us_a_row": 1e6 * merging[0] / (2 * rows),
                "checked_ms_a_mb": 1e3 * sums[0] / (size / 1e6),
                "bytes_a_row": runs[0].checksums.size / rows,
                "opened_us_a_page": 1e6 * opening[0] / pages,
                "kept_bytes_a_mb": len(listing) / (runs[0].checksums.size / 1e6),
                "listed_us": 1e6 * parsing[0],
            }
        }
    }


def spark_keys(*, rows: Sequence[int], times: int) -> Figures:
    """Processor time to read 1,000 scattered keys of an arrangement of so many rows, one a key, that is on the disk.

    In files of at most four million rows, in one thread. The first time their indexes are looked at; then the median of
    so many times, each with other keys. What was written is in the system's cache of files.
    """
    pa.set_cpu_count(1)
    return {"spark_keys": {f"{many} rows": _keys_of(many, times) for many in rows}}


def _keys_of(rows: int, times: int) -> Figures:
    rng, since = np.random.default_rng(1), Antichain([0])
    with tempfile.TemporaryDirectory() as folder:
        store = SpillFolder(Path(folder), 1, Interner(), durable=False)
        spilled = store.beneath("keys", Spine(UpdateLayout((0,), (INT64, INT64), 1, 1), lambda: since, Transaction()))
        for start in range(0, rows, TOGETHER):
            many = min(TOGETHER, rows - start)
            same = [np.zeros(many, np.int64), np.ones(many, np.int64)]
            block = np.stack([np.arange(start, start + many), rng.integers(0, 1000, many), *same])
            file = write_block(store.new_path("keys"), spilled.layout, block, store.interner)
            spilled.add(SpilledBatch((file,)))
        found = []
        for _ in range(times + 1):
            keys = rng.integers(0, rows, (1, 1000))
            found.append(1e3 * _timed(lambda keys=keys: spilled.loaded(keys))[0])  # type: ignore[misc]
        return {
            "files": spilled.batches,
            "first_ms": found[0],
            "ms": statistics.median(found[1:]),
            "least_ms": min(found[1:]),
            "held_rows": spilled.in_memory,
            "bytes_a_row": sum(spilled.on_disk.values()) / rows,
        }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    found = work()
    return process_time() - start, found

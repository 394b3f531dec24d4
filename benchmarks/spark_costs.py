"""What work on files of state costs an executor, and what the driver keeps of each: to reckon with larger ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
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
from tidemill.renderer.durable.spill_files import Layout, Pages, SpillFile, merged, sorted_file


def spark_costs(*, rows: int) -> Figures:
    """Processor time of one file of so many rows of two numbers: sorted, merged with as many, checked, a page read.

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
        pages = opening[1][0]
        some = pages.all()[:: max(1, len(pages.all()) // 100)]
        reading = _timed(lambda: [pages.read([page]) for page in some])
        listing = json.dumps(runs[0].listing())
        parsing = _timed(lambda: SpillFile.listed(json.loads(listing)))
    return {
        "spark_costs": {
            f"{rows} rows": {
                "sorted_us_a_row": 1e6 * sorting[1][0] / rows,
                "merged_us_a_row": 1e6 * merging[0] / (2 * rows),
                "checked_ms_a_mb": 1e3 * sums[0] / (size / 1e6),
                "bytes_a_row": runs[0].checksums.size / rows,
                "opened_us_a_page": 1e6 * opening[0] / (2 * len(pages.all())),
                "read_ms_a_page": 1e3 * reading[0] / len(some),
                "kept_bytes_a_mb": len(listing) / (runs[0].checksums.size / 1e6),
                "listed_us": 1e6 * parsing[0],
            }
        }
    }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    found = work()
    return process_time() - start, found

"""What a load of many rows takes of memory at most: pages that are had for the first time are half of what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 3_000_000
LOAD = f"""
from pathlib import Path
import numpy as np
import pyarrow as pa
import tidemill as tm

def most():  # by the status: the usage begins with the peak of the process that started this one
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

keys = np.random.default_rng(1).integers(0, {ROWS} // 10, {ROWS})
flow = tm.Dataflow()
flow.output("n", flow.input("rows", {{"k": "int64"}}).group_by("k").agg(n=tm.count()))
with flow.start() as run:
    run.insert("rows", pa.table({{"k": [1]}}))
    run.advance()
    table = pa.table({{"k": keys}})
    before = most()
    run.insert("rows", table)
    run.advance()
    print((most() - before) / {ROWS})
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the most memory is told in other units elsewhere")
def test_counts_by_a_number_take_less_than_thirty_bytes_a_row():
    """The number itself, and what there is of each of the groups: no time, no count, no number of the group."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 30


WINDOWS = """
from benchmarks.large_partitions import held_by_windows

print(held_by_windows("W4", 1, 0)["peak"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system tells no peak of its own elsewhere")
def test_a_load_of_windows_takes_less_than_145_bytes_a_row():
    """Rows and values by partition, the answer, and the input, which stays until the step is done: little besides."""
    command = [sys.executable, "-c", WINDOWS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert float(done.stdout) < 145

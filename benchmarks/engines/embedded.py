"""tidemill's embedded engine: a step is ``insert`` or ``delete`` and ``advance``, reading is ``changes`` as Arrow."""

from typing import Any

import pyarrow.compute  # noqa: F401 - memory is counted from after the imports

import tidemill as tm
import tidemill.renderer.embedded.executor
from benchmarks.workload import Change, Row, Tables, Workload


class Embedded:
    version = tm.__version__

    def __init__(self, workload: Workload) -> None:
        self.run = workload.tidemill(tm).start()
        self.outputs = list(workload.asked)
        self.put = self.run.insert if workload.key is None else self.run.upsert

    def load(self, tables: Tables) -> None:
        for name, table in tables.items():
            self.put(name, table)
        self.run.advance()

    def prepare(self, changes: list[Change]) -> None:
        pass

    def step(self, changes: list[Change]) -> None:
        for change in changes:
            put = self.put if change.sign > 0 else self.run.delete
            put(change.table, change.rows)
        self.run.advance()

    def read(self) -> Any:
        return [self.run.changes(output).to_arrow() for output in self.outputs]

    def contents(self) -> list[Row]:
        return [row for output in self.outputs for row in self.run.snapshot(output)]

    def state_rows(self) -> int:
        return self.run.metrics().state_rows

    def answer_rows(self) -> int:
        return sum(o.state_rows for o in self.run.metrics() if o.kind == "Output")

    def close(self) -> None:
        self.run.close()


engine = Embedded

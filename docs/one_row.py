"""Draw docs/pictures/one-row.svg, the way of one changed row through a large dataflow: ``python docs/one_row.py``.

The dataflow is the 22 queries of TPC-H at once, the run is real. The picture moves by CSS of its own, wherever it is
shown; for readers who ask for less motion it stands still, all of the way lit. Needs ``tidemill[test]``, and a minute.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import attrs
import numpy as np
import pyarrow as pa

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
import tidemill as tm  # noqa: E402
from benchmarks.tpch_sql import NAMES  # noqa: E402 - of this checkout
from benchmarks.workloads.tpch import generated  # noqa: E402
from benchmarks.workloads.tpch_queries import QUERIES  # noqa: E402

PICTURE: Final = ROOT / "docs" / "pictures" / "one-row.svg"
SCALE, TRIES, SEED = 0.1, 40, 1
WIDTH, HEIGHT = 800, 500
SHOWN: Final = 544, 340
"""How large it is shown where there is room: what comes after it is to be on the first screen, too."""
LEFT, RIGHT, TOP, BOTTOM = 24, 728, 56, 392
"""Where the first layer is and the last, and between which lines boxes are."""
SECONDS: Final = 9
BEGIN, ARRIVE, FADE = 0.06, 0.55, 0.93
"""Parts of the time: the row sets out, its way ends, the light goes out."""
HIDDEN, DRAWN = "stroke-dashoffset:1;opacity:1", "stroke-dashoffset:0;opacity:1"
STYLE: Final = """<style>
text{font:500 28px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#e8f1f5}
text.answer{font-weight:700;fill:#7fe3a4}text.from{font-weight:700;fill:#ffb757}
.way path{fill:none;stroke:#ffb757;stroke-width:2;stroke-dasharray:1;animation-timing-function:linear}
.work{fill:#ffb757}.stop{fill:#12212a;stroke:#ffb757;stroke-width:2}circle.answer{fill:#7fe3a4}
</style>"""


@attrs.frozen
class Step:
    """What happened in one step: which operators read from which, in an order in which inputs come first."""

    reads: Mapping[int, Sequence[int]]
    answers: Mapping[int, str]
    """The operators that give results, by what is written beside them."""
    work: Mapping[int, tuple[int, int]]
    """The operators that had work: how many rows came in, and how many went out."""
    changed: str
    """What is written beside the input that changed."""
    rows: int
    """How many there are in all inputs."""


def measured() -> Step:
    """Return what happens as the price of one line item changes: of some tried, the one that reaches most answers."""
    with tempfile.TemporaryDirectory() as folder:
        tables = generated(Path(folder), SCALE, *NAMES)
    flow = tm.Dataflow("tpch")
    for name, rows in tables.items():
        flow.input(name, rows.schema)
    for number, query in QUERIES.items():
        flow.output(f"Q{number}", flow.sql(query, dialect="duckdb"))
    found: list[tuple[int, Step]] = []
    with flow.start() as run:
        run.log_events(limit=1, rows=0)
        for name, rows in tables.items():
            run.insert(name, rows)
        run.advance()
        names = {node.id: name for name, node in run.graph.outputs.items()}
        reads = {node.id: [i.id for i in node.inputs] for node in run.graph.nodes}
        lines = tables["lineitem"]
        for place in np.random.default_rng(SEED).integers(lines.num_rows, size=TRIES):
            old = lines.slice(int(place), 1)
            for gone, come in ((old, dearer(old)), (dearer(old), old)):
                run.delete("lineitem", gone)
                run.insert("lineitem", come)
                run.advance()
                answers = sum(len(run.changes(name)) > 0 for name in names.values())
                work = {i: (w.records_in, w.records_out) for i, w in run.events[-1].operators.items()}
                step = Step(reads, names, work, "One line item", sum(t.num_rows for t in tables.values()))
                found.append((answers, step))
    return max(found[1:], key=lambda one: one[0])[1]


def dearer(row: pa.Table) -> pa.Table:
    """Return a line item at another price."""
    index = row.schema.get_field_index("l_extendedprice")
    field = row.schema.field(index)
    return row.set_column(index, field, pa.array([row.column(index)[0].as_py() + 1], field.type))


def layers(reads: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the layer of each operator: what nothing reads in the last, others right before what reads them first."""
    depth: dict[int, int] = {}
    for node, inputs in reads.items():
        depth[node] = 1 + max((depth[i] for i in inputs), default=-1)
    last = max(depth.values())
    found: dict[int, int] = {}
    for node in reversed(reads):
        readers = [found[n] for n, inputs in reads.items() if node in inputs]
        found[node] = 0 if not depth[node] else min(readers, default=last + 1) - 1
    return {node: min(found[node], last) for node in reads}


def places(reads: Mapping[int, Sequence[int]], layer: Mapping[int, int]) -> dict[int, float]:
    """Return the height of each operator: near what it is joined to, with room between those of a layer."""
    joined: dict[int, list[int]] = {node: list(inputs) for node, inputs in reads.items()}
    for node, inputs in reads.items():
        for i in inputs:
            joined[i].append(node)
    rows: dict[int, list[int]] = {}
    for node, at in layer.items():
        rows.setdefault(at, []).append(node)
    y = {n: TOP + (k + 0.5) * (BOTTOM - TOP) / len(row) for row in rows.values() for k, n in enumerate(row)}
    for sweep in range(60):
        for at in sorted(rows, reverse=bool(sweep % 2)):
            wish = {n: sum(y[j] for j in joined[n]) / len(joined[n]) if joined[n] else y[n] for n in rows[at]}
            row = sorted(rows[at], key=lambda n: (wish[n], n))
            room = min(22, (BOTTOM - TOP) / len(row))
            low = TOP + room / 2
            for k, node in enumerate(row):
                y[node] = max(low, min(wish[node], BOTTOM - room / 2 - (len(row) - 1 - k) * room))
                low = y[node] + room
    return y


def picture(step: Step) -> str:
    """Return the picture of a step."""
    layer = layers(step.reads)
    height, last = places(step.reads, layer), max(layer.values())
    at = {node: (round(LEFT + place * (RIGHT - LEFT) / last), round(height[node])) for node, place in layer.items()}
    when = [BEGIN + (ARRIVE - BEGIN) * place / last for place in range(last + 1)]
    edges = {(i, node): curve(at[i], at[node]) for node, inputs in step.reads.items() for i in inputs}
    lit = [(i, node) for i, node in edges if node in step.work and step.work.get(i, (0, 0))[1]]
    ways = [f'<path class="e{layer[i]}-{layer[n]}" pathLength="1" d="{edges[i, n]}"/>' for i, n in lit]
    moments = sorted({(layer[i], layer[node]) for i, node in lit})
    begin = at[min(step.work)][0]
    total, spent = told(step)
    w, h = WIDTH, HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{SHOWN[0]}" height="{SHOWN[1]}">',
            f"<title>{escape(total)} {escape(spent)}</title>",
            STYLE,
            "<style>@media (prefers-reduced-motion:no-preference){",
            f".way path,circle,text{{animation-duration:{SECONDS}s;animation-iteration-count:infinite}}",
            *(frames(f"n{n}", when[n], "opacity:0", "opacity:1") for n in range(last + 1)),
            *(frames(f"e{a}-{b}", when[a], HIDDEN, DRAWN, when[b]) for a, b in moments),
            frames("end", ARRIVE + 0.02, "opacity:0", "opacity:1"),
            "}</style>",
            f'<rect width="{w}" height="{h}" rx="12" fill="#12212a"/>',
            f'<path d="{"".join(edges.values())}" fill="none" stroke="#2c4352"/>',
            f'<path d="{"".join(f"M{x - 3} {y - 3}h6v6h-6z" for x, y in at.values())}" fill="#4d6b7c"/>',
            f'<g class="way">{"".join(ways)}</g>',
            *(dot(step, node, layer[node], *at[node]) for node in sorted(step.work)),
            f'<text class="from" x="{begin - 8}" y="{TOP - 20}">{escape(step.changed)} changes</text>',
            f'<text x="{LEFT - 8}" y="{h - 54}">{escape(total)}</text>',
            f'<text class="end" x="{LEFT - 8}" y="{h - 20}">{escape(spent)}</text>',
            "</svg>\n",
        ]
    )


def curve(a: tuple[int, int], b: tuple[int, int]) -> str:
    """Return the way of an edge."""
    middle = (a[0] + b[0]) // 2
    return f"M{a[0]} {a[1]}C{middle} {a[1]} {middle} {b[1]} {b[0]} {b[1]}"


def dot(step: Step, node: int, layer: int, x: int, y: int) -> str:
    """Return what stands for an operator that had work: hollow where the change ends, with its name at an answer."""
    if node in step.answers:
        label = f'<text class="answer n{layer}" x="{x + 12}" y="{y + 9}">{escape(step.answers[node])}</text>'
        return f'<circle class="answer n{layer}" cx="{x}" cy="{y}" r="5"/>{label}'
    kind = "work" if step.work[node][1] else "stop"
    return f'<circle class="{kind} n{layer}" cx="{x}" cy="{y}" r="{5 if kind == "work" else 4}"/>'


def told(step: Step) -> tuple[str, str]:
    """Return what is written below the picture."""
    read = sum(rows for rows, _ in step.work.values())
    answers = sum(node in step.work for node in step.answers)
    return (
        f"{len(step.answers)} queries, {len(step.reads)} operators, {step.rows:,} rows.",
        f"{len(step.work)} operators work, on {read} rows; {answers} answers change.",
    )


def frames(name: str, begin: float, off: str, on: str, end: float = 0) -> str:
    """Return the style of a class of what appears, stays, and goes out with all the rest."""
    shown = max(begin + 0.01, end)
    out = f"{FADE:.0%}{{{on}}}{FADE + 0.04:.0%},100%{{opacity:0}}"
    return f".{name}{{animation-name:{name}}}@keyframes {name}{{0%,{begin:.1%}{{{off}}}{shown:.1%},{out}}}"


if __name__ == "__main__":
    PICTURE.write_text(picture(measured()), encoding="utf-8")

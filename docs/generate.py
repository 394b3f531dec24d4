"""Write the tables of docs/{architecture,benchmarks,model,windows,guides/sql}.md anew: ``python docs/generate.py``.

And the picture of packages, drawn by docs/packages.py. Packages and imports come from the source, operators from the
node classes and the engines' tables of rules, laws from the tests marked with them; what window functions take from
asking them, figures from what was measured.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"

sys.path[:0] = [str(ROOT / "tests" / "lib"), str(DOCS)]
import packages as packages_picture  # noqa: E402 - beside this file
from support.imports import modules, package  # noqa: E402 - beside the tests that read imports

import tidemill as tm  # noqa: E402
from tidemill.algorithms.lowering.window_sums.summaries import summary  # noqa: E402
from tidemill.dataflow import nodes  # noqa: E402
from tidemill.errors import SchemaError  # noqa: E402
from tidemill.expressions.schema import Schema  # noqa: E402
from tidemill.expressions.windows.binding import bind_windows  # noqa: E402
from tidemill.expressions.windows.bound import AggregateCall, ValueCall  # noqa: E402
from tidemill.expressions.windows.calls import calls_in, holds_its_frame  # noqa: E402
from tidemill.expressions.windows.functions import RANKINGS  # noqa: E402
from tidemill.sql.dialects import DIALECTS  # noqa: E402

ENGINES: Final = {
    "reference": ("tidemill.renderer.reference.evaluation", "RULES"),
    "embedded": ("tidemill.renderer.embedded.compile", "FACTORIES"),
    "Spark": ("tidemill.renderer.spark.step", "_RULES"),
}
"""Where an engine's rules are, by node class."""

ON_SPARK: Final = {
    "Map": "Spark's expressions; the kernels for those it computes otherwise",
    "Filter": "Spark's expressions; the kernels for those it computes otherwise",
    "FlatMap": "Python, on whole partitions",
    "Inspect": "Python, on whole partitions",
    "Join": "Spark's join",
    **dict.fromkeys(("OuterJoin", "SemiJoin", "AntiJoin"), "Spark's join, of rows without times; else lowered"),
    "Reduce": "Spark's `groupBy` and windows for exact sums and window calls; the kernels otherwise",
    "Retime": "Spark's arithmetic by fixed steps; Python by a function",
    "Threshold": "Spark's `groupBy` and windows for distinct at ordered times; the kernels otherwise",
}
"""How Spark runs what is not just passed on, united or filtered by it."""


def generated(text: str, tables: Iterable[Callable[[], Iterator[str]]]) -> str:
    """Return a page with what lies between its markers made anew."""
    for table in tables:
        name = table.__name__
        begin, end = f"<!-- {name}: written by docs/generate.py -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        assert found, f"the page lacks {begin}"
        text = "\n".join([before + begin.strip(), *table(), end + rest.partition(end)[2]])
    return text


def packages() -> Iterator[str]:
    """Return a table of packages: what is in each, by the first sentence of its docstring."""
    yield "| package | |"
    yield "|---|---|"
    for name in sorted({package(module) for module in modules()}):
        source = modules()[name.replace("/", ".")].read_text()
        yield f"| `{name}` | {_first(ast.get_docstring(ast.parse(source)) or '')} |"


def operators() -> Iterator[str]:
    """Return a table of operators and engines: which runs what itself, and which runs what it is lowered to."""
    rules: dict[str, Mapping[type, Any]] = {
        engine: getattr(importlib.import_module(module), name) for engine, (module, name) in ENGINES.items()
    }
    yield f"| operator | | {' | '.join(ENGINES)} |"
    yield f"|---|---|{'---|' * len(ENGINES)}"
    for node in _classes(nodes.Node):
        primitive = node.__module__ == nodes.__name__
        how = {engine: "itself" if primitive or node in found else "lowered" for engine, found in rules.items()}
        if how["Spark"] == "itself":
            how["Spark"] = ON_SPARK.get(node.__name__, "itself")
        yield f"| `{node.__name__}` | {_first(inspect.getdoc(node) or '')} | {' | '.join(how.values())} |"


def laws() -> Iterator[str]:
    """Return a table of laws, each with the tests that are marked with it."""
    yield "| law | checked by |"
    yield "|---|---|"
    for law, tests in _laws().items():
        yield f"| {law} | {', '.join(tests)} |"


def _laws() -> dict[str, list[str]]:
    """Return the laws, each with links to the tests that are marked with it."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test in ast.parse(path.read_text()).body:
            for mark in getattr(test, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.law":
                    link = f"[{test.name}](../{path.relative_to(ROOT).as_posix()})"  # type: ignore[attr-defined]
                    found.setdefault(ast.literal_eval(mark.args[0]), []).append(link)
    return found


def meanings() -> Iterator[str]:
    """Return a table of operators: what each gives."""
    yield "| operator | gives |"
    yield "|---|---|"
    for node in _classes(nodes.Node):
        yield f"| `{node.__name__}` | {_first(inspect.getdoc(node) or '')} |"


def law_texts() -> Iterator[str]:
    """Return the laws as a list."""
    for law in _laws():
        yield f"- {law}"


def one_row() -> Iterator[str]:
    """Return a table of epochs of one row, measured with all engines."""
    yield from _measured("embedded", "epochs")


def windows_in_order() -> Iterator[str]:
    """Return a table of epochs of one row through window calls."""
    yield from _measured("windows_in_order", "epochs")


def large_tables() -> Iterator[str]:
    """Return a table of epochs of a thousand rows in large tables."""
    yield from _measured("tables", "batches")


def _measured(name: str, kind: str) -> Iterator[str]:
    """Return a table of what was measured: a line a workload, a column an engine."""
    measured = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())[kind]
    found = [m for m in measured if m["scale"] == 1]
    engines = {
        "tidemill": "tidemill", "pathway": "Pathway", "duckdb": "DuckDB, anew", "duckdb1": "with one thread",
    }  # fmt: skip
    engines = {engine: label for engine, label in engines.items() if any(m["engine"] == engine for m in found)}
    yield f"| | work | load | memory | {' | '.join(engines.values())} |"
    yield f"|---|---|--:|--:|{'--:|' * len(engines)}"
    for workload in dict.fromkeys(m["workload"] for m in found):
        by_engine = {m["engine"]: m for m in found if m["workload"] == workload}
        own = by_engine["tidemill"]
        medians = [by_engine[e]["epoch_ms"]["median"] if "epoch_ms" in by_engine.get(e, {}) else None for e in engines]
        shown = ["" if ms is None else f"{ms:.2g} ms" if ms < 10 else f"{ms:,.0f} ms" for ms in medians]  # noqa: PLR2004
        held = f"{own['memory_mb']:,.0f} MB"
        yield f"| {workload} | {own['title']} | {own['load_s']:.2g} s | {held} | {' | '.join(shown)} |"


def window_functions() -> Iterator[str]:
    """Return a table of window functions: what each takes, and what is added up for it as sums over the order."""
    yield "| function | frame | `FILTER` | `DISTINCT` | `IGNORE NULLS` | under `prefix_sum` |"
    yield "|---|---|---|---|---|---|"
    places = {name: (getattr(tm, name), ["x"] * (name in ("lag", "lead"))) for name in (*RANKINGS, "lag", "lead")}
    places["ntile"] = (tm.ntile, [4])
    values = {name: (getattr(tm, name), ["x"]) for name in ("first_value", "last_value")} | {
        "nth_value": (tm.nth_value, ["x", 2])
    }
    named = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "variance", "stddev", "list", "count_distinct")
    by = {name: (getattr(tm, name), ["x", "t"]) for name in ("min_by", "max_by")}
    aggregates = {name: (getattr(tm, name), ["b" if name.startswith("bool") else "x"]) for name in named}
    for name, (make, arguments) in (places | values | aggregates | by).items():
        frame = "none" if name in places else "any"
        yield f"| `{name}` | {frame} | {' | '.join(_taken(make, arguments))} | {_summed(make(*arguments))} |"


BY_T: Final = tm.Window.partition_by("k").order_by("t")
RANKED: Final = {
    "dense_rank": "peer groups", "percent_rank": "rows, and all of them", "cume_dist": "rows, and all of them",
    "ntile": "rows, and all of them", "lag": "the last value; from two rows off a search by counts",
    "lead": "a search by counts",
}  # fmt: skip


def _taken(make: Callable[..., Any], arguments: Sequence[Any]) -> Iterator[str]:
    """Return whether a function takes FILTER, DISTINCT and IGNORE NULLS."""
    for call in (
        lambda: make(*arguments).filter("b").over(BY_T),
        lambda: make(*arguments).over(BY_T, distinct=True),
        lambda: make(*arguments, ignore_nulls=True).over(BY_T),
    ):
        try:
            call()
        except (TypeError, SchemaError):
            yield "no"
        else:
            yield "yes"


def _summed(function: Any) -> str:
    """Return what is added up for a function."""
    (made,) = calls_in(function.over(BY_T))
    if holds_its_frame(made):
        return "recomputed"
    schema = Schema.of({"k": "int64", "t": "int64", "x": "int64", "b": "bool"})
    (bound,) = bind_windows([("y", made)], schema)
    (call,) = bound.windows.calls
    if not isinstance(call, (AggregateCall, ValueCall)):
        return RANKED.get(call.function, "rows")
    summed = summary(call, tuple(name for name, _ in bound.columns))
    return f"`combine.{summed.combination.name}`, {'row by row' if summed.by_row else 'peers first'}"


def sql_functions() -> Iterator[str]:
    """Return a table of the functions and aggregates that dialects have, beside the window functions of all of them."""
    yield "| dialects | functions |"
    yield "|---|---|"
    lists = {name: dialect.functions for name, dialect in DIALECTS.items() if dialect.functions is not None}
    having: dict[tuple[str, ...], list[str]] = {}
    for function in sorted(frozenset().union(*lists.values())):
        having.setdefault(tuple(n for n, known in lists.items() if function in known), []).append(function)
    for some in sorted(having, key=len, reverse=True):
        shown = "all of these" if len(some) == len(lists) else ", ".join(f"`{n}`" for n in some)
        yield f"| {shown} | {', '.join(f'`{f}`' for f in having[some])} |"


def _classes(of: type) -> list[type]:
    """Return the classes of nodes that graphs are made of, in the order in which they are defined."""
    for module in ("tidemill.dataflow.composites",):
        if importlib.util.find_spec(module):
            importlib.import_module(module)
    own = (cls for cls in of.__subclasses__() if cls.__module__.startswith("tidemill."))  # tests define some, too
    below = {cls.__name__: cls for cls in own}.values()  # attrs makes classes anew, and the first may still be there
    return [leaf for cls in below for leaf in (_classes(cls) or [cls])]


def _first(docstring: str) -> str:
    """Return the first sentence, on one line."""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return paragraph.split(". ")[0].removesuffix(".").replace("``", "`").replace("|", "\\|")


PAGES: Final = {
    DOCS / "architecture.md": (packages, operators, laws),
    DOCS / "model.md": (meanings, law_texts),
    DOCS / "benchmarks.md": (one_row, windows_in_order, large_tables),
    DOCS / "windows.md": (window_functions,),
    DOCS / "guides" / "sql.md": (sql_functions,),
}

PICTURES: Final = {DOCS / "pictures" / "packages.svg": lambda: packages_picture.picture(packages_picture.imports())}

if __name__ == "__main__":
    for path, picture in PICTURES.items():
        path.write_text(picture())
    for page, tables in PAGES.items():
        page.write_text(generated(page.read_text(), tables))

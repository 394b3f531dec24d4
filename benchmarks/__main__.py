"""The command: ``python -m benchmarks [NAME ...] [size=value ...] [--json FILE]``; ``--list`` says what there is.

Names are those of the table, or of workloads; without a name, all workloads are measured.
"""

import argparse
import ast
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.runner import machine, page, rounded, text_table
from benchmarks.table import TABLE


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What tidemill costs, next to others.")
    parser.add_argument("asked", nargs="*", metavar="NAME or size=value")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--list", action="store_true", help="say what there is, with sizes and who it is compared with")
    options = parser.parse_args()
    if options.list:
        lines = [[name, b.what, b.against, _sizes(b.sizes)] for name, b in TABLE.items()]
        print(text_table(["", "what", "compared with", "sizes"], lines, left=4))
        return
    given = [pair.partition("=") for pair in options.asked if "=" in pair]
    names = [name for name in options.asked if "=" not in name]
    in_table = [name for name in names if name in TABLE]
    workloads = [name for name in names if name not in TABLE]
    results: dict[str, Any] = {"machine": machine()}
    print(f"machine: {results['machine']}\n")
    for name in [*in_table, *(["workloads"] if workloads or not names else [])]:
        benchmark = TABLE[name]
        sizes = {**benchmark.sizes, **({"names": workloads} if name == "workloads" and workloads else {})}
        if unknown := [size for size, _, _ in given if size not in sizes]:
            parser.error(f"{name} has no size {', '.join(unknown)}: there are {_sizes(sizes)}")
        sizes |= {size: _value(text) for size, _, text in given}
        module, _, function = benchmark.place.partition(":")
        found = rounded(getattr(import_module(f"benchmarks.{module}"), function)(**sizes))
        print(page(found, benchmark.columns), end="\n\n")
        results |= found
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if results.get("wrong"):
        sys.exit("answers differ")


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _sizes(sizes: Any) -> str:
    return " ".join(f"{name}={value!r}".replace(" ", "") for name, value in sizes.items())


if __name__ == "__main__":
    main()

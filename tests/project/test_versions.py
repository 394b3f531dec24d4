"""docs/compatibility.md says of versions what pyproject.toml does."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_oldest_versions_are_those_that_are_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["spark"]
    least = {"python": project["requires-python"].removeprefix(">=")}
    least |= {found[1]: found[2] for one in asked if (found := re.match(r"([\w-]+)>=([\d.]+)", one))}
    rows = re.findall(
        r"^\| ([\w, ]+?) \| ([\d., ]+) \| ([^|]+) \|$", (ROOT / "docs" / "compatibility.md").read_text(), re.MULTILINE
    )
    said = {n.lower(): v for names, versions, _ in rows for n, v in zip(names.split(", "), versions.split(", "))}
    assert {"python", "numpy", "pyarrow", "sqlglot", "pyspark", "pandas"} <= said.keys()
    assert {name: version for name, version in said.items() if least.get(name, version) != version} == {}
    newest = max(
        re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"])), key=lambda v: int(v.split(".")[1])
    )
    assert (newest, "3.13, tested") == ("3.13", rows[0][2])

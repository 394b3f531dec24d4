"""Folders of state whose paths mean something else to Spark, or to this process later: they are the same for all."""

import os

import pytest

import tidemill as tm


def build():
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).distinct())
    return flow


def taken(session, state, between=lambda: None):
    """Return how many rows there are after two large steps, the second on what the first left on the disk."""
    with build().start(tm.Spark(session, state, in_driver=2)) as run:
        for begin in (0, 3):
            run.insert("x", session.range(begin, begin + 6).toDF("i"))
            run.advance()
            between()
        if state:
            run.checkpoint()
        return run.snapshot("o").to_spark().count()


@pytest.mark.parametrize("name", ["{a,b} [x] a*b q? \\[ {", "co:lon 100%20 a#b k=1 é _x .y"], ids=["pattern", "uri"])
def test_names_of_folders_are_no_patterns(spark, tmp_path, name):
    """Spark takes paths to read for patterns, and Hadoop's are neither encoded nor plain."""
    assert taken(spark, tmp_path / name) == 9
    with build().start(tm.Embedded(tmp_path / name)) as run:
        assert len(run.snapshot("o")) == 9


def test_a_pattern_with_a_colon_is_refused(spark, tmp_path):
    """Hadoop cannot list such a folder."""
    with pytest.raises(tm.errors.EngineError, match=r"a:\{b\}/cold: Spark reads no path with a colon and one of"):
        taken(spark, tmp_path / "a:{b}")


@pytest.mark.parametrize(("scheme", "durable"), [("viewfs", True), ("hdfs", False)])
def test_sessions_whose_file_system_is_another(spark, tmp_path, scheme, durable):
    session = spark.newSession()
    session.conf.set("fs.defaultFS", f"{scheme}://nowhere/")
    session.conf.set("fs.viewfs.mounttable.nowhere.link./data", f"file://{tmp_path}/elsewhere")
    assert taken(session, tmp_path / "state" if durable else None) == 9


def test_a_relative_folder_is_where_it_was_named(spark, tmp_path, monkeypatch):
    """The JVM's working directory is that from when it was started, and this process may go on to another one."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert taken(spark, "state", between=lambda: os.chdir(tmp_path / "there")) == 9
    assert list((tmp_path / "there").iterdir()) == []


def test_what_is_missing_is_not_left_out(spark, tmp_path):
    """Sessions may say that missing files and damaged ones are passed over: not those of state."""
    session = spark.newSession()
    for setting in ("ignoreMissingFiles", "ignoreCorruptFiles"):
        session.conf.set(f"spark.sql.files.{setting}", "true")
    with build().start(tm.Spark(session, tmp_path, in_driver=2)) as run:
        for spoil in (lambda path: path.write_bytes(b"damaged"), lambda path: path.unlink()):
            run.insert("x", session.range(6).toDF("i"))
            for path in (tmp_path / "cold").glob("*input*"):
                spoil(path)
            with pytest.raises(Exception, match="FAILED_READ_FILE|Path does not exist"):
                run.advance()
            run.discard()
        run.advance()
        assert list(run.snapshot("o")) == []

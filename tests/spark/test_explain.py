"""flow.explain(spark=...): Spark's plan of each job of a rendering, without a job."""

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.renderer.spark import explain, frames


@pytest.fixture
def jobs(spark, request):
    """How many jobs there have been."""
    context = spark.sparkContext
    context.setJobGroup(request.node.name, "what the test asks for")
    yield lambda: len(context.statusTracker().getJobIdsForGroup(request.node.name))
    context.setLocalProperty("spark.jobGroup.id", None)


def routes():
    flow = new_flow()
    flights, start = flow.input("flights", KV), flow.input("start", {"v": "int64"})
    reached = start.iterate(
        lambda here: here.join(flights, on={"v": "k"}).select(v="v_right").concat(start).distinct(), name="routes"
    )
    flow.output("reached", reached)
    flow.output("sums", flights.group_by("k").agg(s=tm.sum("v")))
    flow.output("doubled", flights.join(start, on="v").map_rows(lambda row: (2 * row.k,), {"k": "int64"}))
    return flow


def sections(text):
    """The jobs' plans by the line above."""
    found = {}
    of_jobs = text[text.index("Spark's plan of each job") :]
    for line in of_jobs[of_jobs.index("\n#") + 1 :].splitlines():
        if line.startswith("#"):
            plans = found.setdefault(re.sub("^#[0-9]+ ", "", line), [])
            plans.append("")
        else:
            plans[-1] += line + "\n"
    return found


def test_every_job_has_its_plan(spark, jobs):
    flow = routes()
    text = flow.explain(spark=spark)
    assert jobs() == 0
    assert text.startswith(flow.explain(passes=True))
    assert "where few updates come into one, up to `in_driver=`, the driver takes it.\n#" in text
    plans = sections(text)
    assert list(plans) == [
        "Enter 'flights', in the first round of 'routes':",
        "Threshold, in each later round of 'routes':",
        "Feedback 'routes', in the first round of 'routes':",
        "Output 'reached':",
        "Output 'sums':",
        "Output 'doubled':",
    ]
    came, distinct = plans["Threshold, in each later round of 'routes':"]
    assert re.search(
        r"SortMergeJoin.*Inner\n(.*\n)*.*MapInArrow feedback_\d+_round_0(.*\n)*.*MapInArrow enter_\d+_round_0", came
    )
    assert re.search(r"MapInArrow run\(.*\n(.*\n)*.*MapInArrow threshold_\d+_round_1", distinct)
    (sums,) = plans["Output 'sums':"]
    assert "Window" in sums
    assert "MapInArrow input_0(" in sums
    assert "MapInArrow run(" not in sums
    (doubled,) = plans["Output 'doubled':"]
    assert re.search(r"MapInArrow task\(.*\n(.*\n)*.*SortMergeJoin", doubled)
    spark.range(3).count()
    assert jobs() > 0


def test_the_plans_are_of_the_passes_that_are_named(spark):
    flow = new_flow()
    flow.output("out", flow.input("a", KV).filter("k > 0").filter("v > 0").distinct())
    assert flow.explain(passes=False, spark=spark).startswith(flow.explain() + "\nSpark's plan")
    fused = flow.explain(passes=["fuse_linear"], spark=spark)
    assert fused.startswith(flow.explain(passes=["fuse_linear"]) + "\nSpark's plan")


def test_afterwards_jobs_are_run_again(spark, monkeypatch):
    flow = new_flow()
    flow.output("out", flow.input("a", KV).distinct())
    monkeypatch.setattr(explain, "_plan", lambda data: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        flow.explain(spark=spark)
    assert frames._instead.get() is None
    assert tm.render(flow, spark, {"a": spark.sql("SELECT 1L AS k, 2L AS v")})["out"].count() == 1


@pytest.mark.parametrize("coordinates", [1, 2])
def test_any_dataflow_has_plans_without_a_job(spark, jobs, coordinates):
    @settings(
        examples(8, least=8),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(case=tm.testing.dataflows(coordinates))
    def planned(case):
        text = case.flow.explain(spark=spark)
        outputs = [n for n, node in case.flow.graph.outputs.items() if f"Output {n!r}:" in text]
        assert outputs
        assert jobs() == 0

    planned()


def test_what_becomes_of_large_partitions_of_windows_is_said(spark, jobs):
    flow = new_flow()
    x, by_v = flow.input("x", KV), tm.Window.partition_by("k").order_by("v")
    flow.output("near", x.with_columns(before=tm.lag("v").over(by_v)))
    flow.output("all", x.with_columns(n=tm.count_distinct("v").over(by_v)))
    text = flow.explain(spark=spark)
    assert jobs() == 0
    said = [about for about, plans in sections(text).items() if "Partitions of more than 1,000,000 updates" in plans[0]]
    assert said == ["Reduce 'windowed':"]

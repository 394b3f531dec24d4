"""Figures for Prometheus: its text format, line by line."""

import re

import pytest

import tidemill as tm
from tidemill.errors import TidemillError

LINE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def parsed(text):
    """Return the samples by name and labels, and the types of the families; every line has to be of the format."""
    samples, types = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        elif not line.startswith("# HELP "):
            name, labels, value = LINE.fullmatch(line).groups()
            assert name in types
            key = name, tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
            assert key not in samples
            samples[key] = float(value)
    return samples, types


def test_each_figure_is_there_once():
    flow = tm.Dataflow("shop")
    x = flow.input("x", {"k": "string"})
    flow.output('odd "name"\\\n', x.count("n"))
    with flow.start() as run:
        run.insert("x", [("a",), ("b",), ("a",)])
        run.advance()
        metrics = run.metrics()
        samples, types = parsed(metrics.to_prometheus(job="nightly"))
    for o in metrics:
        name = o.name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        labels = (("job", "nightly"), ("operator", str(o.id)), ("kind", o.kind), ("name", name))
        assert samples["tidemill_operator_records_in_total", labels] == o.records_in
        assert samples["tidemill_operator_state_rows", labels] == o.state_rows
        assert samples["tidemill_operator_seconds_total", labels] == o.seconds
    assert samples["tidemill_memory_interned", (("job", "nightly"),)] == 2
    assert [v for (name, _), v in samples.items() if name == "tidemill_output_unread"] == [2]
    assert all((kind == "counter") == name.endswith("_total") for name, kind in types.items())
    assert parsed(metrics.to_prometheus())[1] == types


@pytest.mark.parametrize("label", ["operator", "a-b", "9"])
def test_labels_that_are_none(label):
    with tm.Dataflow().start() as run, pytest.raises(TidemillError, match="expected a label"):
        run.metrics().to_prometheus(**{label: "x"})

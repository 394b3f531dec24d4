"""The examples: that they run and show what they say, and that they are right, against plain Python and networkx."""

from __future__ import annotations

import datetime as dt
import importlib.util
import itertools
import random
import runpy
from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import at, examples

import tidemill as tm
from tidemill.demo.data import load as load_demo

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
ON_SPARK = ["streaming_flights"]
"""Those that are run with the tests of Spark, where there is a session."""
LATEST = 3
"""The last time of the random updates."""


def load(name):
    spec: Any = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(updates, time):
    """The rows at a time, each as often as it is there."""
    return list(Counter(at(updates, time)).elements())


def agrees(flow, updates, expected):
    """Both engines give the same in all batchings; run epoch by epoch, outputs hold at each what they ought to."""
    tm.testing.check_equivalent(flow, updates)
    with flow.start() as run:
        for name, triples in updates.items():
            run.update(name, triples)
        for time in range(LATEST + 1):
            run.advance_to(time + 1)
            wanted = expected(*(rows(triples, time) for triples in updates.values()))
            assert {name: run.snapshot(name).counts() for name in wanted} == wanted, f"at {time}"


def edges(a, b, nodes="abcdef", **options):
    """A strategy for the updates of a small graph."""
    columns = {a: "string", b: "string"}
    return tm.testing.updates(columns, non_negative=True, values={a: nodes, b: nodes}, latest=LATEST, **options)


# -- that they run, and are short -------------------------------------------------------------------------------------

SHOWN = {
    "balance": [
        "till     3       50      120\n",
        "till     3       50      30       (2, 1)  +1",
        "('till', 2, -30, -20)",
    ],
    "bitemporal": ["Oslo  60       (1, 1)  +1", "day 1, correction 1: ('Oslo', 60) ('Rome', 70)"],
    "circles": [
        "libc6      2\n",
        "99        94\n",
        "3     472\n",
        "libc6        150.877",
        "libc6         96.373   1     +1",
    ],
    "debian": ["insert gcc-12-base: 1014 changes", "3     703", "delete gcc-12-base: 1014 changes"],
    "even_odd": ["Dora  Ben\n", "Ann   Ann   1     -1", "Dora  Ben   2     +1"],
    "flight_facts": ["'American Airlines Inc.', '757-223', 'John F Kennedy Intl', 'Miami Intl'", "737-824  Newark"],
    "in_the_air": ["12:00 UTC: EWR 21 JFK 21 LGA 24\n", "15:00 UTC: EWR 49 JFK 49", "(904, ('EWR', 48))"],
    "k_core": ["Dora  2        1     -1", "Cem   3        2     +1"],
    "later_than_most": [
        "EWR     90\n",
        "EWR     239\n",
        "9 of the first day's are not later than most any more, by 12",
    ],
    "local_suppliers": ["VIETNAM    1000926.6999  0     +1", "CHINA   716271.4010  1     +1"],
    "pagerank": ["libc6            153.8", "libc6        153826428  1     -1"],
    "rolling_delays": ["5      12.5  0     +1", "35     19.0  2", "06:21:00  4\n", "06:03:00  LGA     9\n"],
    "scc": ["f     d      0     +1", "f     a      1     +1"],
    "sessions": ["bob   2026-01-01 11:05:00", "10:45:00  6       1     +1"],
    "triangles": ["libc6         4100\n", "nautilus     libselinux1   1   1     +1"],
    "why": [
        "libjack-jackd2-0',): 4 input rows suffice, none can be left out",
        "('gnome-shell', 'gir1.2-webkit2-4.1')  input 'depends'",
        "libc6',): an input row suffices",
        "libc6',): 2 input rows suffice",
        "input 'depends' has no row with depends_on = 'gnome'",
    ],
    "stable_matching": ["Ann      Law\n", "Ann      Sea     1     +1"],
}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ON_SPARK])
def test_it_runs_and_shows_a_result_and_a_change(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    positions = [printed.find(text) for text in SHOWN[name]]
    assert -1 not in positions, printed
    assert positions == sorted(positions), printed
    assert printed.count("\n") <= 40


@pytest.mark.parametrize("name", NAMES)
def test_it_has_at_most_forty_lines_and_says_what_it_shows(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert text.count("\n") <= 40
    assert max(map(len, text.splitlines())) <= 120
    assert ";" not in "".join(line.partition("#")[0] for line in text.split('"""')[2].splitlines())
    assert len(load(name).__doc__) > 200


def test_the_readme_names_each():
    text = (EXAMPLES / "README.md").read_text()
    assert sorted(line.split("](")[1].split(".py)")[0] for line in text.splitlines() if "](" in line) == NAMES


# -- that they are right ----------------------------------------------------------------------------------------------


@examples(20)
@given(edges("package", "depends_on"))
def test_triangles(found):
    def expected(needs):
        counts = Counter(needs)
        follow, most = Counter(), Counter()
        for (a, b), (x, c) in itertools.product(counts, counts):
            if x == b and (a, c) in counts:
                number = counts[a, b] * counts[b, c] * counts[a, c]
                follow[a, c] += number
                most[c] += number
        first = sorted(most.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        return {"follow": Counter((*key, n) for key, n in follow.items()), "most": Counter(first)}

    agrees(load("triangles").build(), {"needs": found}, expected)


@examples(20)
@given(
    tm.testing.updates(
        {"origin": "string", "hour": "int64", "minute": "int64", "dep_delay": "int64", "air_time": "int64"},
        non_negative=True,
        values={
            "origin": ["EWR", "JFK"],
            "hour": [0],
            "minute": [0, 2],
            "dep_delay": [-1, 1],
            "air_time": [1, 2, None],
        },
        latest=LATEST,
    )
)
def test_in_the_air(found):
    begin = dt.datetime(2013, 1, 1)
    given = [((o, 1, begin, minute, delay, flown), t, n) for (o, _, minute, delay, flown), t, n in found]
    flow = load("in_the_air").build()
    tm.testing.check_equivalent(flow, {"flights": given})
    with flow.start() as run:
        run.update("flights", given)
        for time in range(LATEST + 3):
            run.advance_to(time + 1)
            aloft = Counter(o for o, _, _, m, d, flown in rows(given, time) if flown and m + d <= time < m + d + flown)
            assert dict(run.snapshot("aloft")) == aloft, f"at {time}"


def components(graph_edges):
    graph = nx.DiGraph(graph_edges)
    label = {n: min(c) for c in nx.strongly_connected_components(graph) for n in c}
    on_cycles = Counter((a, b) for a, b in graph_edges if label[a] == label[b])
    return {"on_cycles": on_cycles, "components": Counter({(n, label[n]) for edge in on_cycles for n in edge})}


@pytest.mark.slow
@examples(20)
@given(edges("src", "dst", max_size=20))
def test_scc(found):
    agrees(load("scc").build(), {"edges": found}, components)


def test_scc_of_a_larger_graph_edge_by_edge():
    nodes, rng = [f"{n:02}" for n in range(40)], random.Random(3)
    there = [tuple(rng.choices(nodes, k=2)) for _ in range(50)]
    with load("scc").build().start() as run:
        run.insert("edges", there)
        for _ in range(25):
            run.advance()
            wanted = components(there)
            assert {name: run.snapshot(name).counts() for name in wanted} == wanted
            gone, new = there.pop(rng.randrange(len(there))), [tuple(rng.choices(nodes, k=2)) for _ in range(2)]
            run.delete("edges", [gone])
            run.insert("edges", new)
            there += new


def played(rounds):
    def play(links):
        degree = Counter(a for a, _ in links)
        nodes = {n for link in links for n in link}
        ranks = dict.fromkeys(nodes, 1_000_000)
        for _ in range(rounds):
            new = dict.fromkeys(nodes, 150_000)
            for a, b in links:
                new[b] += ranks[a] * 85 // (100 * degree[a])
            ranks = new
        return {"ranks": Counter(dict.fromkeys(ranks.items(), 1))}

    return play


@examples(20)
@given(edges("package", "depends_on"), st.integers(1, 4))
def test_pagerank(found, rounds):
    agrees(load("pagerank").build(rounds), {"edges": found}, played(rounds))


def test_pagerank_comes_near_to_the_solution_of_its_equation():
    size, rng = 30, random.Random(1)
    links = {(a, (a + step) % size) for a in range(size) for step in rng.sample(range(1, size), rng.randint(1, 5))}
    moves = np.zeros((size, size))
    for a, b in links:
        moves[b, a] = 0.85 / sum(1 for c, _ in links if c == a)
    wanted = np.linalg.solve(np.eye(size) - moves, np.full(size, 150_000))
    flow = load("pagerank").build(60)
    with flow.start() as run:
        run.insert("edges", [(f"{a:02}", f"{b:02}") for a, b in links])
        run.advance()
        ranks = [rank for _, rank in run.snapshot("ranks")]
    assert np.allclose(ranks, wanted, rtol=1e-3)


def teams(rivals):
    graph = nx.Graph(rivals)
    stuck, team = set(), {}
    for nodes in nx.connected_components(graph):
        part = graph.subgraph(nodes)
        if nx.number_of_selfloops(part) or not nx.is_bipartite(part):
            stuck |= nodes
            continue
        side = nx.bipartite.color(part)
        team |= {n: min(m for m in nodes if side[m] == side[n]) for n in nodes}
    return {"stuck": Counter((n,) for n in stuck), "teams": Counter(team.items())}


@pytest.mark.slow
@examples(20)
@given(edges("a", "b"))
def test_even_odd(found):
    agrees(load("even_odd").build(), {"rivals": found}, teams)


def totals(sales):
    revenue = defaultdict(int)
    for shop, amount in sales:
        revenue[shop] += amount
    return Counter(revenue.items())


ENTRIES = {"account": "string", "number": "int64", "amount": "int64"}
SALES = {"shop": "string", "amount": "int64"}


@examples(20)
@given(
    tm.testing.updates(SALES, 2, non_negative=True, latest=2, values={"shop": ["Oslo", "Rome"], "amount": [1, 5, 7]})
)
def test_bitemporal(found):
    flow = load("bitemporal").build()
    tm.testing.check_equivalent(flow, {"sales": found})
    with flow.start(keep=9) as run:
        run.update("sales", found)
        closed = set()
        for n in range(1, 4):  # n days with their first n - 1 corrections, or one day with one correction more
            run.advance_to(tm.Antichain([(n, 0), (0, n)]))
            closed |= {(d, c) for d in range(n) for c in range(n)}
            for time in closed:
                assert run.snapshot("revenue", at=time).counts() == totals(rows(found, time)), time


@examples(20)
@given(
    tm.testing.updates(
        ENTRIES,
        2,
        non_negative=True,
        latest=2,
        values={"account": ["till", "safe"], "number": [1, 2, 3], "amount": [1, -5, 7]},
    )
)
def test_balance(found):
    flow = load("balance").build()
    tm.testing.check_equivalent(flow, {"entries": found})
    with flow.start(keep=9) as run:
        run.update("entries", found)
        run.close_inputs()
        for time in itertools.product(range(3), repeat=2):
            assert run.snapshot("balances", at=time).counts() == balances(rows(found, time)), time


def balances(entries):
    """Each entry with the sum of those of its account up to its number."""
    return Counter(
        (account, number, amount, sum(a for of, n, a in entries if of == account and n <= number))
        for account, number, amount in entries
    )


NINE, MINUTE = dt.datetime(2026, 1, 1, 9), dt.timedelta(minutes=1)


@examples(25)
@given(
    found=tm.testing.updates(
        {"t": "timestamp", "origin": "string", "delay": "int64"},
        non_negative=True,
        values={"t": [NINE + m * MINUTE for m in (0, 4, 9, 12, 20, 21, 40, 60)], "origin": ["JFK", "LGA"]},
        latest=LATEST,
    )
)
def test_rolling_delays(found):
    """Engines agree on each row and when it is given."""
    flow = load("rolling_delays").build()
    tm.testing.check_equivalent(flow, {"flights": found})


@examples(20)
@given(
    tm.testing.updates(
        {"user": "string", "t": "timestamp"},
        non_negative=True,
        latest=LATEST,
        max_size=14,
        values={"user": ["ann", "bob"], "t": [NINE + m * MINUTE for m in (0, 20, 31, 55, 80, 105, 120, 121, 140, 171)]},
    )
)
def test_sessions(found):
    agrees(load("sessions").build(), {"clicks": found}, sessions)


def sessions(clicks):
    """Sessions, click by click in order."""
    found, last, start = defaultdict(list), {}, {}
    for user, t in sorted(set(clicks)):
        goes_on = user in last and t - last[user] <= 30 * MINUTE and t - start[user] <= 120 * MINUTE
        start[user], last[user] = (start[user] if goes_on else t), t
        found[user, start[user]].append(t)
    return {"sessions": Counter((*of, max(ts), len(ts)) for of, ts in found.items())}


def matched(wishes):
    """Gale and Shapley, with a queue of students who are free."""
    lists = defaultdict(list)
    for student, school, choice, rank in wishes:
        lists[student].append((choice, school, rank))
    left = {student: deque(sorted(wanted)) for student, wanted in lists.items()}
    holds, free = {}, list(left)
    while free:
        student = free.pop()
        if left[student]:
            _, school, rank = left[student].popleft()
            free += [max((rank, student), holds.get(school, (rank, student)))[1]] if school in holds else []
            holds[school] = min((rank, student), holds.get(school, (rank, student)))
    return {"matches": Counter((student, school) for school, (_, student) in holds.items())}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_stable_matching(seed):
    """Nobody is tied: all places and ranks are different numbers. Wishes come and go, and come again otherwise."""
    rng, size = random.Random(seed), 1 + seed % 4
    numbers = rng.sample(range(1000), 1000)
    found = []
    for student in "ABCD"[:size]:
        for school in "wxyz"[:size]:
            cuts = sorted(rng.sample(range(LATEST + 2), rng.randint(1, 3)))
            for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
                row = (student, school, numbers.pop(), numbers.pop())
                found += [(row, begin, 1)] + ([(row, end, -1)] if end is not None else [])
    agrees(load("stable_matching").build(), {"wishes": [u for u in found if u[1] <= LATEST]}, matched)
    for time in range(LATEST + 1):
        assert_stable(rows(found, time), dict(matched(rows(found, time))["matches"].keys()))


def assert_stable(wishes, school_of):
    """What the oracle gives is stable: no student and school prefer each other to what they have."""
    choice = {(student, school): c for student, school, c, _ in wishes}
    rank = {(student, school): r for student, school, _, r in wishes}
    student_of = {school: student for student, school in school_of.items()}
    for (student, school), place in choice.items():
        leaves = student not in school_of or place < choice[student, school_of[student]]
        takes = school not in student_of or rank[student, school] < rank[student_of[school], school]
        assert not (leaves and takes), (student, school)


def core(k):
    def expected(friends):
        graph = nx.Graph((a, b) for a, b in friends if a != b)
        return {"core": Counter(nx.k_core(graph, k).degree())}

    return expected


@examples(20)
@given(edges("a", "b", max_size=24), st.integers(1, 3))
def test_k_core(found, k):
    agrees(load("k_core").build(k), {"friends": found}, core(k))


def broken(depends, removed):
    graph = nx.DiGraph([(b, a) for a, b in depends])
    sources = {package for (package,) in removed}
    graph.add_nodes_from(sources)
    hops = nx.multi_source_dijkstra_path_length(graph, sources) if sources else {}
    return {"broken": Counter(hops.items()), "by_hops": Counter(Counter(hops.values()).items())}


@examples(20)
@given(
    edges("package", "depends_on", max_size=16),
    tm.testing.updates(
        {"package": "string"}, non_negative=True, values={"package": "abcdef"}, latest=LATEST, max_size=6
    ),
)
def test_debian(depends, removed):
    agrees(load("debian").build(), {"depends": depends, "removed": removed}, broken)


def test_circles_with_their_data():
    """As networkx has them, before a dependency goes, without it, and when it is back."""
    module = load("circles")
    table = pq.read_table(module.DEPENDS)
    depends = set(zip(*table.to_pydict().values(), strict=True))
    one = {("libc6", "libgcc-s1")}
    with module.build().start() as run:
        for change, rows in (run.insert, depends), (run.delete, one), (run.insert, one):
            change("depends", list(rows))
            depends = depends ^ rows if rows == one else depends
            run.advance()
            graph = nx.DiGraph(depends)
            core = nx.k_core(nx.Graph([d for d in depends if d[0] != d[1]]), 11)
            assert list(run.snapshot("core")) == [(len(core), max(degree for _, degree in core.degree()))]
            circles = Counter((min(c), len(c)) for c in nx.strongly_connected_components(graph) if len(c) > 1)
            assert run.snapshot("circles").counts() == circles
            hops = Counter(nx.single_source_shortest_path_length(graph, "gnome").values())
            assert dict(run.snapshot("hops")) == hops


def test_debian_with_its_data():
    table = pq.read_table(EXAMPLES / "data" / "debian-gnome.parquet")
    depends = list(zip(*table.to_pydict().values(), strict=True))
    rng = random.Random(2)
    gone = set()
    with load("debian").build().start() as run:
        run.insert("depends", table)
        for package in [*rng.sample(table["depends_on"].to_pylist(), 4), "libc6", "libgcc-s1", "libc6"]:
            (run.delete if package in gone else run.insert)("removed", [(package,)])
            gone ^= {package}
            run.advance()
            wanted = broken(depends, [(p,) for p in gone])
            assert {name: run.snapshot(name).counts() for name in wanted} == wanted


@examples(30)
@given(
    flights=tm.testing.updates({"id": "int64", "origin": "string", "delay": "int64"}, latest=LATEST, non_negative=True)
)
def test_later_than_most_are_those_above_the_mean(flights):
    def expected(rows):
        delays = [delay for _, _, delay in rows if delay is not None]
        late = [row for row in rows if row[2] is not None and row[2] > sum(delays) / len(delays)]
        return {"late": Counter(late), "by_origin": Counter(Counter(origin for _, origin, _ in late).items())}

    agrees(load("later_than_most").build(), {"flights": flights}, expected)


def test_flight_facts_are_those_that_duckdb_joins():
    duckdb = pytest.importorskip("duckdb")
    year = load_demo()
    flights, tables = year.flights.slice(100_000, 2_000), year.dimensions
    with load("flight_facts").build().start() as run, duckdb.connect() as db:
        for name, table in {"flights": flights, **tables}.items():
            run.insert(name, table)
            db.register(name, table)
        run.advance()
        expected = db.sql(
            "SELECT id, airline, model, leaves.airport, arrives.airport, wind_speed FROM flights "
            "LEFT JOIN airlines USING (carrier) LEFT JOIN planes USING (tailnum) "
            "LEFT JOIN airports leaves ON origin = leaves.faa LEFT JOIN airports arrives ON dest = arrives.faa "
            "LEFT JOIN weather ON flights.origin = weather.origin AND flights.time_hour = weather.time_hour"
        ).fetchall()
        assert run.snapshot("facts").counts() == Counter(expected)
        assert any(None in row for row in expected)

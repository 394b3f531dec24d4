"""The levels of a graph: boxes as users wrote it, few of them, and no way out of one and back."""

import cProfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pictures import FLOWS, large, left_joins, random_flow

import tidemill as tm
from tidemill.renderer.diagram.called import call_title, operator_title
from tidemill.renderer.diagram.levels import MOST, _contracted, levels_of


def inside(groups):
    """Of each group all operators in it, also those in groups inside."""
    found = {g.id: set(g.operators) for g in groups}
    for g in reversed(groups):
        if g.parent is not None:
            found[g.parent] |= found[g.id]
    return found


def tops(groups, group):
    """For each operator of a group the box that holds it there, or itself."""
    owner = {i: i for i in group.operators}
    for g in groups:
        if g.parent == group.id:
            owner |= dict.fromkeys(inside(groups)[g.id], g.id)
    return owner


def check(graph):
    """Check that every operator is in one box, and that no box can be left and come back to."""
    groups = levels_of(graph)
    assert sorted(i for g in groups for i in g.operators) == list(range(len(graph.nodes)))
    known = {g.id for g in groups}
    assert not known & set(range(len(graph.nodes)))
    for group in groups:
        owner = tops(groups, group)
        edges = {(owner[s.id], owner[n.id]) for n in graph.nodes if n.id in owner for s in n.inputs if s.id in owner}
        waits = {box: {a for a, b in edges if b == box and a != box} for box in owner.values()}
        while ready := [box for box, before in waits.items() if not before]:
            for box in ready:
                del waits[box]
            waits = {box: before - set(ready) for box, before in waits.items()}
        assert waits == {}, f"{group.title}: {waits} come out of each other"
    return groups


@pytest.mark.parametrize("name", FLOWS)
def test_every_operator_is_in_one_box_and_boxes_are_in_an_order(name):
    flow = FLOWS[name]()
    check(flow.graph)
    check(flow.start().graph)


@pytest.mark.parametrize("block", range(4))
def test_so_are_those_of_random_dataflows(block):
    for seed in range(10 * block, 10 * block + 10):
        check(random_flow(seed).start().graph)


def by_name():
    flow = tm.Dataflow("orders")
    orders = flow.input("orders", {"customer": "int64", "amount": "int64"})
    customers = flow.input("customers", {"customer": "int64", "name": "string"})
    named = orders.filter("amount > 0").join(customers, on="customer", how="left")
    flow.output("by_name", named.group_by("name").agg(total=tm.sum("amount")))
    return flow


def test_what_is_arranged_for_a_loop_is_in_the_box_of_what_it_arranges():
    graph = FLOWS["reachability"]().start().graph
    whole, *groups = check(graph)
    (flights,) = (g for g in groups if g.title == "flights")
    assert [graph.nodes[i].kind for i in flights.operators] == ["Input", "Map", "Arrange"]
    assert flights.result == graph.inputs["flights"].id
    assert {graph.nodes[i].kind for i in whole.operators} == {"Input", "Output"}


def test_a_call_is_one_box_called_as_users_wrote_it_with_its_line():
    groups = check(by_name().start().graph)
    assert [g.title for g in groups if g.kind == "call"] == ["left join customers", "group by name"]
    (join,) = (g for g in groups if g.title.startswith("left"))
    assert len(join.operators) > 10
    assert join.line.startswith("test_levels.py:")


def test_windows_and_single_operators_are_called_by_what_they_are_over():
    flow = FLOWS["windows"]()
    assert "window by k" in [g.title for g in levels_of(flow.start().graph)]
    assert [operator_title(n) for n in by_name().graph.nodes][:3] == ["orders", "customers", "filter amount > 0"]


def test_thirty_left_joins_are_thirty_boxes_in_a_few():
    groups = check(left_joins(30).start().graph)
    joins = [g for g in groups if g.kind == "call" and g.title.startswith("left join dim")]
    assert len(joins) == 30
    parts = [g for g in groups if g.kind == "part"]
    assert {g.parent for g in joins} == {g.id for g in parts}
    assert len(parts) < 10
    assert [g.title for g in parts][::4] == ["left join dim0..dim5", "left join dim24..dim29"]
    (block,) = (g for g in groups if g.kind == "block")
    assert block.title == "for i in range(count)"


def test_no_box_holds_more_than_can_be_seen():
    flow = large(1000)
    groups = check(flow.graph)
    assert any(g.title.startswith("lanes × ") for g in groups if g.kind == "part"), (
        "of one name as often as it is there"
    )
    for g in groups:
        if g.kind != "call":
            assert len(g.operators) + sum(other.parent == g.id for other in groups) <= MOST


def chains(x):
    late = x.filter("v > 3")
    return late.iterate(lambda here: here.filter("v < 9").concat(late).distinct(), name="chains")


def test_functions_statements_and_loops_are_boxes_where_there_is_much():
    flow = tm.Dataflow("parts")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    y = flow.input("y", {"k": "int64", "v": "int64"})
    flow.output("reached", chains(x))
    for i in range(12):
        total = x.filter(f"v > {i}").join(y, on="k").group_by("k").agg(v=tm.max("v"))
        flow.output(f"o{i}", total)
    groups = check(flow.graph)
    kinds = {(g.kind, g.title) for g in groups}
    assert ("function", "chains") in kinds
    assert ("loop", "chains") in kinds
    assert any(kind == "block" and title.startswith("for i in") for kind, title in kinds)


def test_without_a_text_boxes_are_by_the_outputs_that_need_them():
    flow = tm.Dataflow("typed")
    program = "x = flow.input('x', {'k': 'int64'})\n"
    program += "for o in 'abc':\n    y = x\n    for i in range(20): y = y.filter(f'k > {i}').distinct()\n"
    program += "    flow.output(o, y)\n"
    exec(compile(program, "<typed>", "exec"), {"flow": flow})
    groups = check(flow.graph)
    assert {g.title for g in groups if g.kind == "outputs"} == {"a", "b", "c"}


def test_joins_are_called_by_what_they_add():
    flow = tm.Dataflow()
    orders, products = (flow.input(name, {"id": "int64", name[0]: "int64"}) for name in ("orders", "products"))
    customers = flow.input("customers", {"id": "int64", "c": "int64"})
    known = orders.join(customers, on="id")
    priced = orders.join(products, on="id")  # what `orders` is arranged for is there already
    some = orders.join(customers.filter("c > 1"), on="id")
    lefts = orders.join(some, on="id", how="left")
    of_sql = flow.sql("select o.id from orders o join (select * from customers where c = 5) x on o.id = x.id")
    for i, rows in enumerate((known, priced, some, lefts, of_sql)):
        flow.output(f"out{i}", rows)
    built = [call_title(flow.graph, [n]) for n in flow.graph.nodes if n.kind == "OuterJoin"]
    assert built == ["left join some"]
    titles = [g.title for g in check(flow.start().graph) if g.kind == "call" and "join" in g.title]
    assert sorted(titles) == ["join customers"] * 3 + ["join products", "left join some"]


def test_joins_are_not_called_by_who_arranged_what_they_add_before():
    flow = tm.Dataflow()
    orders, returns, customers = (
        flow.input(name, {"c": "int64", name[0]: "int64"}) for name in ("orders", "returns", "xs")
    )
    buyers = orders.join(customers, on="c")
    unhappy = returns.join(customers, on="c")
    all_returns = returns.join(customers, on="c", how="left")
    for i, rows in enumerate((buyers, unhappy, all_returns)):
        flow.output(f"out{i}", rows)
    assert [operator_title(n) for n in flow.graph.nodes if "Join" in n.kind] == ["join xs", "join xs", "left join xs"]
    graph = flow.start().graph
    groups = check(graph)
    titles = [g.title for g in groups if g.kind == "call" and "join" in g.title]
    alone = [graph.nodes[i] for g in groups if g.kind != "call" for i in g.operators]
    titles += [operator_title(n) for n in alone if "Join" in n.kind]
    assert sorted(titles) == ["join xs", "join xs", "left join xs"]


def test_what_is_arranged_once_for_several_calls_makes_none_of_them_read_another():
    flow = tm.Dataflow()
    orders, returns, customers = (flow.input(n, {"c": "int64", n: "int64"}) for n in ("orders", "returns", "customers"))
    flow.output("buyers", orders.join(customers, on="c"))
    flow.output("unhappy", returns.join(customers, on="c", how="left"))
    graph = flow.start().graph
    (of,) = (
        g for g in check(graph) if "Arrange" in [graph.nodes[i].kind for i in g.operators] and g.title == "customers"
    )
    assert of.result == graph.inputs["customers"].id


def test_statements_that_alternate_cost_what_they_are():
    """Each was tried for all boxes of its statement before, with a search of the whole: 800 operators took 20 seconds."""

    def calls_of(n):
        flow = tm.Dataflow()
        rows = flow.input("x", {"a": "int64"})
        for i in range(n):
            kept = rows.filter(tm.col("a") > i)
            rows = kept.distinct()
        flow.output("out", rows)
        profile = cProfile.Profile()
        profile.runcall(levels_of, flow.graph)
        return sum(entry.callcount for entry in profile.getstats())

    calls_of(5)
    assert calls_of(200) < 2.5 * calls_of(100)


def test_a_block_around_sql_is_one_box_called_by_its_line():
    flow = tm.Dataflow()
    flow.sql("create table t (a bigint); create table u (a bigint, c bigint)")
    for i in range(14):
        flow.output(
            f"v{i}", flow.sql(f"select t.a, count(*) as n from t join u on t.a = u.a where c > {i} group by t.a")
        )
    blocks = [g for g in check(flow.graph) if g.kind == "block"]
    assert [g.title for g in blocks] == ["for i in range(14)"]


def test_boxes_know_what_leads_to_them_since_they_were_made():
    """What is put into a box later leads on to all behind it."""
    reads = {"a": [], "s": [], "b": ["a"], "a2": ["s"], "s2": ["b"]}
    assert _contracted(list(reads), reads, lambda item: item[0]) == [["s"], ["a", "a2"], ["b"], ["s2"]]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.integers(0, 11), max_size=3)), max_size=12))
def test_boxes_of_whatever_graph_are_in_an_order(drawn):
    keys = {i: key for i, (key, _) in enumerate(drawn)}
    reads = {i: sorted(s for s in sources if s < i) for i, (_, sources) in enumerate(drawn)}
    clusters = _contracted(list(keys), reads, keys.get)  # which is an error where a way leads out of one and back
    assert sorted(i for cluster in clusters for i in cluster) == list(keys)
    assert all(len({keys[i] for i in cluster}) == 1 for cluster in clusters)

"""What pictures are checked with: dataflows to draw, and a reading of the SVG that knows nothing of how it was made."""

import random
import re
import xml.etree.ElementTree as ET
from itertools import combinations

import tidemill as tm

ALLOWED = {"svg", "title", "rect", "g", "path", "text"}
"""Elements that every viewer of saved notebooks paints; `title` is a tooltip."""


def reachability():
    flow = tm.Dataflow("routes")
    flights = flow.input("flights", {"origin": "string", "dest": "string", "delay": "int64"})
    start = flow.input("start", {"airport": "string"})

    def step(here):
        return here.join(flights, on={"airport": "origin"}).select(airport="dest").concat(start).distinct()

    flow.output("reachable", start.iterate(step))
    return flow


def components():
    """Nested loops: edges are trimmed, and in each round labels are propagated."""
    flow = tm.Dataflow("components")
    edges = flow.input("edges", {"src": "int64", "dst": "int64"})

    def trim(kept):
        nodes = kept.select(node="src", label="src").distinct()

        def propagate(labels):
            moved = labels.join(kept, on={"node": "src"}).select(node="dst", label="label")
            return moved.concat(nodes).group_by("node").agg(label=tm.min("label"))

        labels = nodes.iterate(propagate)
        ends = kept.join(labels, on={"src": "node"}).join(labels, on={"dst": "node"})
        return ends.filter("label = label_right").select("src", "dst").distinct()

    flow.output("within", edges.distinct().iterate(trim))
    return flow


def fan_out(width=24):
    flow = tm.Dataflow("fan")
    x = flow.input("x", {"k": "int64", "v": "int64"})
    first, *others = [x.filter(f"v > {i}") for i in range(width)]
    flow.output("all", first.concat(*others))
    return flow


def left_joins(count=28):
    flow = tm.Dataflow("joins")
    x = flow.input("facts", {"k": "int64"} | {f"d{i}": "int64" for i in range(count)})
    for i in range(count):
        x = x.join(flow.input(f"dim{i}", {f"d{i}": "int64", f"name{i}": "string"}), on=f"d{i}", how="left")
    flow.output("wide", x)
    return flow


def even_and_odd():
    flow = tm.Dataflow("parity")
    edges = flow.input("edges", {"a": "int64", "b": "int64"})
    with flow.letrec(error_at=1000) as rec:
        odd = rec.declare("odd", {"a": "int64", "b": "int64"})
        even = rec.declare("even", {"a": "int64", "b": "int64"})
        rec.define("odd", edges.concat(edges.join(even, on={"b": "a"}).select("a", b="b_right")).distinct())
        rec.define("even", edges.join(odd, on={"b": "a"}).select("a", b="b_right").distinct())
    flow.output("odd", rec["odd"])
    return flow


def nested(depth=4):
    flow = tm.Dataflow("nested")
    x = flow.input("x", {"i": "int64"})

    def body(level):
        def inside(here):
            made = here.concat(x).distinct()
            return made.iterate(body(level - 1)) if level else made.filter("i > 0")

        return inside

    flow.output("y", x.iterate(body(depth - 1)))
    return flow


def no_operators():
    return tm.Dataflow("nothing")


def odd_names():
    """Names and texts that mean something to XML, and some that are long or cannot be printed."""
    flow = tm.Dataflow('a <b> & "c"')
    x = flow.input('<script>alert("x")</script>', {"a & b": "string", "long " * 20: "string"})
    flow.output("out\x07 ]]> ⟳ 表", x.filter("`a & b` < '<&>'"))
    return flow


def plain():
    flow = tm.Dataflow("late")
    flow.output("late", flow.input("flights", {"id": "int64", "delay": "int64"}).filter("delay > 15"))
    return flow


def windows():
    flow = tm.Dataflow("rolling")
    x = flow.input("x", {"k": "string", "t": "int64", "v": "int64"})
    w = tm.Window.partition_by("k").order_by("t")
    flow.output("y", x.with_columns(mean=tm.avg("v").over(w.rows_between(-4, 0)), place=tm.rank().over(w)))
    return flow


def two_coordinates():
    flow = tm.Dataflow("bitemporal", time=("event", "correction"))
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("sums", x.group_by("k").agg(total=tm.sum("v")).join(x.delay((1, 0)), on="k"))
    return flow


def two_loops_beside_each_other():
    flow = tm.Dataflow("beside")
    x = flow.input("x", {"i": "int64"})
    one = x.iterate(lambda here: here.concat(x).distinct())
    two = x.iterate(lambda here: here.concat(one).distinct())
    flow.output("both", one.concat(two, x))
    return flow


FLOWS = {
    f.__name__: f
    for f in (
        reachability, components, fan_out, left_joins, even_and_odd, nested, no_operators, odd_names, plain, windows,
        two_coordinates, two_loops_beside_each_other,
    )
}  # fmt: skip


def random_flow(seed, most=40):
    """A dataflow of loops in loops, joins far back, and what is read many times."""
    draw = random.Random(seed)
    flow = tm.Dataflow(f"random {seed}")
    columns = {"i": "int64"}
    known = [flow.input(f"in{i}", columns) for i in range(draw.randint(1, 3))]
    made = [0]

    def one(here, depth):
        made[0] += 1
        x = draw.choice(here)
        kind = draw.choice("ffccccddjjml" if depth < 3 and made[0] < most else "ffcccddjm")
        if kind == "f":
            return x.filter(f"i > {draw.randint(0, 9)}")
        if kind == "c":
            return x.concat(*[draw.choice(here) for _ in range(draw.choice([1, 1, 2, 5]))])
        if kind == "d":
            return x.distinct()
        if kind == "j":
            return x.join(draw.choice(here), on="i", how=draw.choice(["inner", "semi", "left"]))
        if kind == "m":
            return x.select(i=f"i + {draw.randint(1, 9)}")

        def body(variable):
            inside = [*here, variable]
            for _ in range(draw.randint(1, 6)):
                inside.append(one(inside, depth + 1))
            return inside[-1].concat(variable).distinct()

        return x.iterate(body)

    for _ in range(draw.randint(2, most // 3)):
        known.append(one(known, 0))
    for i, x in enumerate(draw.sample(known, min(3, len(known)))):
        flow.output(f"out{i}", x)
    return flow


def large(count: int = 1000) -> tm.Dataflow:
    """A dataflow of about so many operators: some lanes, which are joined now and then."""
    draw = random.Random(7)
    flow = tm.Dataflow("large")
    lanes = [flow.input(f"in{i}", {"i": "int64"}) for i in range(10)]

    def around(x):
        return lambda here: here.filter("i > 3").concat(x).distinct()

    while len(flow.graph.nodes) < count - 10:
        at = draw.randrange(10)
        x = lanes[at]
        step = draw.random()
        if step < 0.7:
            lanes[at] = x.filter(f"i > {draw.randint(0, 99)}")
        elif step < 0.9:
            lanes[at] = x.concat(lanes[(at + 1) % 10])
        else:
            lanes[at] = x.iterate(around(x))
    for i, x in enumerate(lanes):
        flow.output(f"out{i}", x)
    return flow


# -- reading SVG --------------------------------------------------------------------------------------------------


def elements(svg):
    """Each element's tag without its namespace, its attributes and its text."""
    return [(e.tag.split("}")[1], e.attrib, e.text or "") for e in ET.fromstring(svg).iter()]


def forbidden(svg):
    """What viewers of saved notebooks strip, where there is any."""
    found = [tag for tag, _, _ in elements(svg) if tag not in ALLOWED]
    for tag, attributes, _ in elements(svg):
        found += [
            f"{tag} {k}={v}"
            for k, v in attributes.items()
            if k in {"style", "class"} or "url(" in v or "href" in k or k.startswith("on")
        ]
    return found


def _numbers(element, *names):
    return tuple(float(element.get(name) or 0) for name in names)


def boxes_of(svg):
    """The rectangles of operators: those in a group, which has their tooltip."""
    found = []
    for group in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        rect = group.find("{http://www.w3.org/2000/svg}rect")
        found.append(_numbers(rect, "x", "y", "width", "height"))
    return found


def loops_of(svg):
    """The rectangles of loops: those outside of groups but for the ground and titles."""
    root = ET.fromstring(svg)
    rects = root.findall("{http://www.w3.org/2000/svg}rect")[1:]
    return [_numbers(r, "x", "y", "width", "height") for r in rects if r.get("fill") != "#ffffff"]


def labels_of(svg):
    """The rectangles of texts outside of boxes, a little smaller than they are."""
    found = []
    for text in ET.fromstring(svg).findall("{http://www.w3.org/2000/svg}text"):
        x, y, size = _numbers(text, "x", "y", "font-size")
        width = 0.45 * size * len(text.text or "")
        x -= width / 2 if text.get("text-anchor") == "middle" else 0
        found.append((x, y - 0.75 * size, width, 0.75 * size))
    return found


def ways_of(svg):
    """The points along each edge, close to each other."""
    for tag, attributes, _ in elements(svg):
        if tag == "path" and attributes["fill"] == "none":
            yield _points(attributes["d"])


def _points(d):
    found = []
    for command, numbers in re.findall(r"([MLC])([^MLC]*)", d):
        flat = [float(n) for n in numbers.split()]
        ends = list(zip(flat[::2], flat[1::2]))
        if command == "C":
            ends = [_bezier([found[-1], *ends], step / 12) for step in range(1, 13)]
        elif command == "L":
            (x0, y0), (x1, y1) = found[-1], ends[0]
            steps = max(1, int((abs(x1 - x0) + abs(y1 - y0)) / 6))
            ends = [(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(1, steps + 1)]
        found += ends
    return found


def _bezier(points, t):
    a, b, c, d = points
    s = 1 - t
    return tuple(s**3 * a[i] + 3 * s * s * t * b[i] + 3 * s * t * t * c[i] + t**3 * d[i] for i in (0, 1))


def overlap(one, other, apart=0.5):
    ax, ay, aw, ah = one
    bx, by, bw, bh = other
    return ax + aw > bx + apart and bx + bw > ax + apart and ay + ah > by + apart and by + bh > ay + apart


def overlapping(rectangles):
    """Pairs that overlap: those that begin far from each other are not looked at."""
    rows = sorted(rectangles)
    return [(a, b) for a, b in combinations(rows, 2) if b[0] < a[0] + a[2] and overlap(a, b)]


def inside(point, rectangle, within=0.6):
    x, y, width, height = rectangle
    return x + within < point[0] < x + width - within and y + within < point[1] < y + height - within


def wrong_in(svg):
    """What is wrong with a picture: boxes on each other, edges through boxes, labels on anything, loops that cross."""
    boxes, labels, loops = boxes_of(svg), labels_of(svg), loops_of(svg)
    wrong = [f"boxes overlap: {pair}" for pair in overlapping(boxes)]
    wrong += [f"labels overlap: {pair}" for pair in overlapping(labels)]
    wrong += [f"a label is on a box: {a, b}" for a in labels for b in boxes if overlap(a, b)]
    for way in ways_of(svg):
        wrong += [f"an edge through {box} at {p}" for box in boxes for p in way if inside(p, box)]
    for a, b in combinations(loops, 2):
        contains = [all(_within(one, other)) for one, other in ((a, b), (b, a))]
        if overlap(a, b) and not any(contains):
            wrong.append(f"loops cross: {a, b}")
    width, height = _numbers(ET.fromstring(svg), "width", "height")
    wrong += [f"outside: {b}" for b in [*boxes, *loops, *labels] if not all(_within(b, (0, 0, width, height)))]
    return wrong


def _within(one, other):
    ax, ay, aw, ah = one
    bx, by, bw, bh = other
    return ax >= bx, ay >= by, ax + aw <= bx + bw, ay + ah <= by + bh


def joins(count=6):
    """A run of so many left joins, in which one row has changed."""
    run = left_joins(count).start()
    run.log_events()
    for i in range(count):
        run.insert(f"dim{i}", [(j, f"n{j}") for j in range(3)])
    run.insert("facts", [(k, *[k % 4] * count) for k in range(8)])
    run.advance()
    run.delete("dim0", [(1, "n1")])
    run.insert("dim0", [(1, "another")])
    run.advance()
    return run

// The layout: each open box on its own, innermost first, so that it is one element of what is around it. As layout.py has
// it, for what is open now.
//
// Everything is measured across the flow and along it; a picture from left to right is one from top to bottom, turned.
// layoutOf(inside, sizeOf, down) lays out what treeOf(...).visible() gives: a box with `id`, `hasBorder`, its `boxes`
// (ids), its `ports` ({id, pinned}), the open ones inside (`opened`), `edges` [source, target] and `back` edges.

const LABEL = 16;
const ARROW = 12;
const CURVE = 26;
const TRACK = 9;
const PAD = 16;
const TITLE = 36; // how high a title is where it is highest, of those that can be read
const LARGE = 400; // elements from which on fewer sweeps have to do

function layoutOf(inside, sizes, down) {
  const done = inside.opened.map((inner) => layoutOf(inner, sizes, down));
  const ends = new Map(); // where edges leave and arrive, by ids: {element, offset, first, last, across}
  const elements = [];
  const arrivals = new Map();
  for (const [, target] of inside.edges) arrivals.set(target, (arrivals.get(target) || 0) + 1);

  for (const [id, pinned] of [...inside.boxes.map((b) => [b, 0]), ...inside.ports.map((p) => [p.id, p.pinned])]) {
    const { width, height, label } = sizes(id);
    let [across, along] = down ? [width, height] : [height, width];
    across = Math.max(across, Math.min(9 * ((arrivals.get(id) || 0) + 1), 400));
    const element = elementOf(Math.max(across, label ? (down ? 2 * (label + 3) : 2 * LABEL) : 0), along, { pinned });
    elements.push(element);
    ends.set(id, { element, offset: 0, first: 0, last: along, across, along, label });
  }
  const blocks = done.map((inner) => {
    const element = elementOf(inner.across, inner.along);
    elements.push(element);
    for (const { id, u, v, across, along, label } of inner.edgesOfBorder) {
      ends.set(id, { element, offset: u + across / 2 - inner.across / 2, first: v, last: v + along, across: 0, label });
    }
    return element;
  });

  // -- wires
  const edges = [];
  const wireOf = new Map();
  for (const [source, target, operators] of inside.edges) {
    const [from, to] = [ends.get(source), ends.get(target)];
    if (!from || !to || from.element === to.element) continue;
    if (!wireOf.has(source)) wireOf.set(source, { id: source, source: from.element, offset: from.offset, targets: [], bends: new Map() });
    wireOf.get(source).targets.push([to.element, edges.length]);
    edges.push([source, target, operators]);
  }
  const wires = [...wireOf.values()];
  const hasBorder = inside.hasBorder;
  const count = layered(elements, wires, hasBorder);
  const bends = bent(wires);
  joined(wires, new Map());
  const unordered = Array.from({ length: count }, () => []);
  for (const element of [...elements, ...bends]) unordered[element.layer].push(element);
  const isLarge = elements.length + bends.length > LARGE;
  const rows = ordered(unordered, isLarge ? 4 : 10);
  const ports = portsOf(wires, edges, ends);
  joined(wires, ports);
  placed(rows, isLarge ? 6 : 12);

  // -- across
  const all = rows.flat();
  const least = all.reduce((far, e) => Math.min(far, e.center - e.across / 2), Infinity);
  for (const e of all) e.center = Math.round(e.center - least + 0.01);
  const back = inside.back.filter(([s, t]) => ends.has(s) && ends.has(t)).map(([s, t]) => {
    const [first, last] = [ends.get(t).element.layer, ends.get(s).element.layer];
    return { source: s, target: t, reach: last - first, last };
  }).sort((a, b) => a.reach - b.reach || a.last - b.last || a.source - b.source);
  const tracksOut = new Map();
  const tracksIn = new Map();
  const listed = (map, key) => map.get(key) || map.set(key, []).get(key);
  for (const { source, target } of back) {
    listed(tracksOut, ends.get(source).element.layer).push(source);
    listed(tracksIn, ends.get(target).element.layer).push(target);
  }
  const title = inside.titleWidth || 0;
  let left = TRACK * back.length + (back.length ? 4 : 0) + (hasBorder ? PAD : 0);
  if (hasBorder && down) { // the title is on the border, beside what enters
    const begins = Math.min(title, ...rows[0].map((e) => e.center - e.across / 2));
    left = Math.max(left, (rows[0].length ? title + 14 : 0) - begins);
  } else if (hasBorder) left += TITLE + 4 - PAD;
  left = Math.round(left);
  let across = left + Math.max(0, ...all.map((e) => e.center + e.across / 2));
  if (hasBorder) across = Math.max(across + PAD, down ? title + 30 : 0);
  for (const e of all) e.center += left;

  // -- along
  const strips = new Map();
  for (const id of [...wireOf.keys(), ...back.map((b) => b.source)]) {
    const { label, element } = ends.get(id);
    if (label) strips.set(element.layer, Math.max(strips.get(element.layer) || 0, down ? LABEL : label));
  }
  let at = hasBorder ? 0 : 2;
  const bands = [];
  const curves = [];
  rows.forEach((row, layer) => {
    if (!layer) at += TRACK * listed(tracksIn, 0).length;
    const end = at + Math.max(0, ...row.map((e) => e.along));
    bands.push([at, end]);
    const begin = end + (strips.get(layer) || 0) + TRACK * listed(tracksOut, layer).length;
    const span = Math.max(0, ...row.map((e) => Math.max(0, ...e.below.map(([t, port, out]) => Math.abs(e.center + out - t.center - port)))));
    const close = begin + CURVE + Math.min(36, span / 12);
    curves.push([Math.round(begin), Math.round(close)]);
    at = Math.round(close + TRACK * listed(tracksIn, layer + 1).length + ARROW);
  });
  const lastRow = rows[rows.length - 1] || [];
  const leaves = lastRow.some((e) => e.pinned > 0);
  let along = bands.length ? bands[bands.length - 1][1] : 0;
  if (!hasBorder) along += strips.get(rows.length - 1) || 0;
  else if (rows.length && !leaves) along = Math.max(along, curves[curves.length - 1][0] + 6);
  along = Math.round(along);
  if (!down && hasBorder) along = Math.max(along, title + 60);

  // -- what comes out
  const boxes = [...ends].filter(([, end]) => end.element.across && !blocks.includes(end.element)).map(([id, end]) => {
    const [v0, v1] = bands[end.element.layer];
    const v = end.element.pinned ? v0 + (v1 - v0 - end.along) / 2 : v0;
    [end.first, end.last] = [v - v0, v - v0 + end.along];
    return { id, u: end.element.center - end.across / 2, v, across: end.across, along: end.along, label: end.label, pinned: end.element.pinned };
  });
  const border = borderOf(hasBorder, bands, rows, along, across, down, leaves);
  const titleBox = down ? [8, border.v - 9, title, 18] : [border.u - 9, border.v + 12, 18, title];
  const places = { ends, bands, curves, edges, ports };
  return {
    id: inside.id, across, along, border, title: titleBox, boxes,
    opened: done.map((inner, i) => ({ u: blocks[i].center - inner.across / 2, v: bands[blocks[i].layer][0], inner })),
    edges: [...wires.flatMap((wire) => [...waysOf(wire, places)]), ...back.map((b, lane) => wayBack(b, lane, left, tracksOut, tracksIn, places))],
    edgesOfBorder: boxes.filter((b) => b.pinned),
  };
}

// Give each edge its place at the box that it arrives at, in the order of where it comes from.
function portsOf(wires, edges, ends) {
  const arriving = new Map();
  for (const wire of wires) {
    for (const [target, number] of wire.targets) {
      const upper = wire.bends.get(target.layer - 1) || wire.source;
      const reader = edges[number][1];
      if (!arriving.has(reader)) arriving.set(reader, []);
      arriving.get(reader).push([upper.place, upper === wire.source ? wire.offset : 0, number]);
    }
  }
  const ports = new Map();
  for (const [reader, list] of arriving) {
    const end = ends.get(reader);
    list.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    const step = list.length > 1 ? Math.min(24, (end.across - 4) / (list.length + 1)) : 0;
    list.forEach(([, , number], i) => ports.set(number, end.offset + Math.max(0, step) * (i - (list.length - 1) / 2)));
  }
  return ports;
}

// Return where the border is: it goes through the middle of what enters and of what leaves.
function borderOf(hasBorder, bands, rows, along, across, down, leaves) {
  if (!hasBorder) return { u: 0, v: 0, across, along };
  let first = bands[0] || [0, 20];
  if (first[1] === first[0]) first = [0, 20]; // nothing enters
  const last = bands[bands.length - 1] || first;
  const begin = (first[0] + first[1]) / 2;
  const end = Math.max(leaves ? (last[0] + last[1]) / 2 : along, down ? along - 20 : 0);
  const top = down ? 0 : TITLE / 2;
  return { u: top, v: begin, across: across - top, along: end - begin };
}

// Iterate over the edges of a trunk: along it, to who reads.
function* waysOf(wire, { ends, bands, curves, edges, ports }) {
  const [at, first] = [wire.source.center + wire.offset, wire.source.layer];
  const trunk = [[at, bands[first][0]], [at, curves[first][0]]];
  for (const [layer, bend] of wire.bends) trunk.push([bend.center, curves[layer - 1][1]], [bend.center, curves[layer][0]]);
  for (const [target, number] of wire.targets) {
    const [source, reader, operators] = edges[number];
    trunk[0] = [at, bands[first][0] + ends.get(source).last];
    const [here, layer] = [target.center + ports.get(number), target.layer];
    const arrival = bands[layer][0] + ends.get(reader).first;
    const points = [...trunk.slice(0, 2 * (layer - first)), [here, curves[layer - 1][1]], [here, arrival]];
    yield { source, target: reader, operators, points: withoutRepeats(points), isBack: false };
  }
}

function wayBack({ source, target }, lane, left, tracksOut, tracksIn, { ends, bands, curves }) {
  const [end, into] = [ends.get(source).element, ends.get(target).element];
  const outside = left - 8 - TRACK * lane;
  const out = curves[end.layer][0] - TRACK * (tracksOut.get(end.layer).indexOf(source) + 0.5);
  const back = bands[into.layer][0] - ARROW - TRACK * (tracksIn.get(into.layer).indexOf(target) + 0.5);
  const points = [
    [end.center, bands[end.layer][0] + ends.get(source).last], [end.center, out], [outside, out], [outside, back],
    [into.center, back], [into.center, bands[into.layer][0] + ends.get(target).first],
  ];
  return { source, target, operators: new Set([source]), points, isBack: true };
}

// Return points without those in the middle of a straight line.
function withoutRepeats(points) {
  const kept = [points[0]];
  points.slice(1).forEach((here, i) => {
    const after = points[i + 2];
    if (!after || kept[kept.length - 1][0] !== here[0] || here[0] !== after[0]) kept.push(here);
  });
  return kept;
}

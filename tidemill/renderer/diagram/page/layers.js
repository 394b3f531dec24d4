// The layers of one box's inside: which element is in which, in what order, and how far across. As layers.py has it, but
// that elements joined to one other come along with that, so that chains are straight.
//
// An element is a box, an open box that is laid out already, or a bend of an edge that passes a layer. The edges of one
// source share their bends, so what many read is one trunk with branches.

const BEND = 6; // the room that an edge takes across where it passes a layer
const APART = 22; // between two elements of a layer; less beside a bend

function elementOf(across, along, { isBend = false, pinned = 0, layer = 0 } = {}) {
  return { across, along, isBend, pinned, layer, place: 0, center: 0, above: [], below: [] };
}

// Give every element its layer, after those that it reads; return how many layers there are.
function layered(elements, wires, hasBorder) {
  const readers = new Map(elements.map((e) => [e, []]));
  const waits = new Map(elements.map((e) => [e, 0]));
  for (const wire of wires) {
    for (const [target] of wire.targets) {
      readers.get(wire.source).push(target);
      waits.set(target, waits.get(target) + 1);
    }
  }
  const readsNothing = new Set(elements.filter((e) => !waits.get(e)));
  const first = hasBorder ? 1 : 0;
  for (const e of elements) e.layer = e.pinned < 0 ? 0 : first;
  const inOrder = [...readsNothing];
  for (let i = 0; i < inOrder.length; i++) {
    for (const target of readers.get(inOrder[i])) {
      target.layer = Math.max(target.layer, inOrder[i].layer + 1);
      waits.set(target, waits.get(target) - 1);
      if (!waits.get(target)) inOrder.push(target);
    }
  }
  let last = elements.reduce((most, e) => (e.pinned <= 0 ? Math.max(most, e.layer) : most), first);
  if (hasBorder) {
    last += 1;
    for (const e of elements) if (e.pinned > 0) e.layer = last;
  }
  for (const e of inOrder.reverse()) { // what reads nothing comes where it is read
    if (!readsNothing.has(e) || e.pinned || !readers.get(e).length) continue;
    e.layer = Math.max(e.layer, Math.min(...readers.get(e).map((t) => t.layer)) - 1);
  }
  return last + 1;
}

// Make the bends of wires that pass layers, and return them.
function bent(wires) {
  const bends = [];
  for (const wire of wires) {
    const end = Math.max(...wire.targets.map(([t]) => t.layer));
    wire.bends = new Map();
    for (let layer = wire.source.layer + 1; layer < end; layer++) {
      const bend = elementOf(BEND, 0, { isBend: true, layer });
      wire.bends.set(layer, bend);
      bends.push(bend);
    }
  }
  return bends;
}

// Have elements know what they are joined to in neighbouring layers, and where: at ports by the edges' numbers.
function joined(wires, ports) {
  const joins = [];
  for (const wire of wires) {
    const at = (layer) => (wire.bends.has(layer) ? [wire.bends.get(layer), 0] : [wire.source, wire.offset]);
    for (const [layer, bend] of wire.bends) joins.push([...at(layer - 1), bend, 0]);
    for (const [target, number] of wire.targets) joins.push([...at(target.layer - 1), target, ports.get(number) || 0]);
  }
  for (const [upper, , lower] of joins) [upper.below, lower.above] = [[], []];
  for (const [upper, out, lower, port] of joins) {
    upper.below.push([lower, port, out]);
    lower.above.push([upper, out, port]);
  }
}

// Return the layers in an order with few crossings: sorted by the middle of what each is joined to, in sweeps.
function ordered(rows, sweeps) {
  numbered(rows);
  let [best, fewest] = [rows.map((row) => [...row]), crossings(rows)];
  for (const turn of [1, -1]) {
    for (let sweep = 0; sweep < sweeps && fewest; sweep++) {
      sortRows(rows, turn, sweep % 2 === 0);
      const found = crossings(rows);
      if (found < fewest) [best, fewest] = [rows.map((row) => [...row]), found];
    }
  }
  numbered(best);
  return best;
}

function sortRows(rows, turn, down) {
  const inTurn = down ? rows.slice(1) : rows.slice(0, -1).reverse();
  for (const row of inTurn) {
    const keys = new Map(row.map((e) => [e, [middleOf(down ? e.above : e.below, e.place), turn * e.place]]));
    row.sort((a, b) => keys.get(a)[0] - keys.get(b)[0] || keys.get(a)[1] - keys.get(b)[1]);
    row.forEach((e, place) => { e.place = place; });
  }
}

function numbered(rows) {
  for (const row of rows) row.forEach((e, place) => { e.place = place; });
}

function middleOf(joins, otherwise) {
  if (!joins.length) return otherwise;
  return joins.reduce((sum, [e, off]) => sum + e.place + (e.across ? off / e.across : 0), 0) / joins.length;
}

// Return how many pairs of edges between neighbouring layers cross.
function crossings(rows) {
  let total = 0;
  for (const row of rows.slice(0, -1)) {
    const ends = [];
    for (const element of row) {
      for (const out of [...new Set(element.below.map((b) => b[2]))].sort((a, b) => a - b)) {
        const here = element.below.filter((b) => b[2] === out).map((b) => b[0].place).sort((a, b) => a - b);
        for (const end of here) total += ends.length - placeFor(ends, end);
        for (const end of here) ends.splice(placeFor(ends, end), 0, end);
      }
    }
  }
  return total;
}

// Return where a value belongs into sorted ones, after its equals.
function placeFor(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Give elements their centres: as near as may be to what they are joined to, in order and without overlap.
function placed(rows, sweeps) {
  for (const row of rows) {
    let at = 0;
    for (const e of row) {
      e.center = at + e.across / 2;
      at += e.across + APART;
    }
  }
  if (rows.length === 1) return;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const down = sweep % 2 === 0;
    const final = sweep >= sweeps - 2;
    for (const row of down ? rows : [...rows].reverse()) settle(row, wishesOf(row, down || final, !down || final));
  }
}

// Return for each element where it would like to be, and how much.
function wishesOf(row, above, below) {
  return row.map((e) => {
    let [total, weight] = [0, 0];
    for (const joins of [...(above ? [e.above] : []), ...(below ? [e.below] : [])]) {
      for (const [other, there, here] of joins) {
        const w = weightOf(e, other);
        total += w * (other.center + there - here);
        weight += w;
      }
    }
    return weight ? [total / weight, weight] : [e.center, 0.01];
  });
}

// How much two that are joined would like to be in line: what is joined to nothing else only comes along.
function weightOf(one, other) {
  if (one.isBend && other.isBend) return 6;
  return [one, other].some((e) => e.above.length + e.below.length === 1) ? 0.1 : 1;
}

// Put elements where the weighted squares of their distances from where they would like to be are least: neighbours
// that would be out of order are pooled at their mean.
function settle(row, wishes) {
  let room = 0;
  const [rooms, pools] = [[], []];
  row.forEach((e, place) => {
    if (place) {
      const before = row[place - 1];
      room += (before.across + e.across) / 2 + (before.isBend || e.isBend ? APART / 2 : APART);
    }
    rooms.push(room);
    pools.push([wishes[place][0] - room, wishes[place][1], 1]);
    while (pools.length > 1 && pools[pools.length - 2][0] >= pools[pools.length - 1][0]) {
      const [at, heavy, count] = pools.pop();
      const known = pools[pools.length - 1];
      known[0] = (known[0] * known[1] + at * heavy) / (known[1] + heavy);
      known[1] += heavy;
      known[2] += count;
    }
  });
  let place = 0;
  for (const [at, , count] of pools) for (let i = 0; i < count; i++, place++) row[place].center = at + rooms[place];
}

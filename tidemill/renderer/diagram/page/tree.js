// The tree of boxes: which of them are open, and what can be seen then.
//
// treeOf(data) knows operators and groups by their ids, which are of one sequence. A closed group stands for all that is
// inside; of an open one there is its border, through which edges go at ports; of loops, at what enters and leaves.

const MOST_BOXES = 40; // as many are to be seen at first, at most
const FEW_BOXES = 20; // up to so many, some boxes are opened and others beside them are not

function treeOf(data) {
  const operators = new Map(data.operators.map((o) => [o.id, o]));
  const groups = new Map(data.groups.map((g) => [g.id, { ...g, groups: [], depth: 0 }]));
  const rootId = data.groups[0].id;
  const parents = new Map();
  for (const g of groups.values()) {
    for (const id of g.operators) parents.set(id, g.id);
    if (g.parent === null) continue;
    parents.set(g.id, g.parent);
    groups.get(g.parent).groups.push(g.id);
    g.depth = groups.get(g.parent).depth + 1;
  }
  for (const g of [...groups.values()].reverse()) { // those inside come after those around
    g.all = [...g.operators, ...g.groups.flatMap((id) => groups.get(id).all)];
    g.hasLoop = g.kind === "loop" || g.groups.some((id) => groups.get(id).hasLoop);
    g.ends = g.all.map((id) => operators.get(id)).filter((o) => o.role === "end");
    g.isEnd = g.kind === "call" ? g.ends.length > 0
      : g.groups.every((id) => groups.get(id).isEnd) && g.operators.every((id) => operators.get(id).role === "end");
  }
  const told = new Map(); // what tells boxes of one name apart that are beside each other
  for (const g of groups.values()) if (g.kind !== "call") tellApart([...g.operators, ...g.groups]);
  const open = new Set([rootId]);
  const flat = new Set(); // open ones without a border: parts by place alone, where all that is beside them is open too

  function tellApart(ids) {
    const boxes = ids.filter((id) => !isChip(id)).map((id) => groups.get(id) ?? operators.get(id));
    const byTitle = new Map();
    for (const box of boxes) byTitle.set(box.title, [...(byTitle.get(box.title) || []), box]);
    for (const alike of byTitle.values()) {
      if (alike.length === 1) continue;
      const isOfLine = new Set(alike.map((box) => box.line)).size === alike.length && alike.every((box) => /:\d+$/.test(box.line));
      for (const box of alike) told.set(box.id, isOfLine ? box.line.match(/:\d+$/)[0] : `#${box.result ?? box.all[0]}`);
    }
  }

  // The title of a box, with its line where others beside it are called the same, or its number where these are of that line.
  function titleOf(id) {
    const { title } = groups.get(id) ?? operators.get(id);
    return told.has(id) ? `${title} ${told.get(id)}` : title;
  }

  function around(id) {
    const found = [];
    for (let g = parents.get(id); g !== undefined; g = parents.get(g)) if (!flat.has(g)) found.push(g);
    return found;
  }

  // The box that stands for an operator or a group: itself, or the outermost closed one around.
  function standsFor(id) {
    let found = id;
    for (let g = parents.get(id); g !== undefined; g = parents.get(g)) if (!open.has(g)) found = g;
    return found;
  }

  // How many boxes a group shows when it is opened.
  function size(g) {
    return g.operators.filter((id) => !isChip(id)).length + g.groups.length;
  }

  function isChip(id) {
    const role = operators.get(id)?.role;
    return role === "border" || role === "feedback";
  }

  // Open groups from the outermost on, those of inputs and outputs first: of one depth all, or while there are few
  // boxes, those for which `isRoom` says that there is room, and then nothing in these. No more boxes than `most` are to
  // be seen, and calls stay closed.
  function openUpTo(most, isRoom) {
    close();
    let seen = size(groups.get(rootId));
    let waiting = [...groups.get(rootId).groups];
    const opened = (wanted, asFlat = []) => {
      const more = wanted.reduce((sum, g) => sum + size(g) - 1, 0);
      if (seen + more > most) return false;
      for (const g of wanted) open.add(g.id);
      for (const g of asFlat) flat.add(g.id);
      if (isRoom()) {
        seen += more;
        return true;
      }
      for (const g of wanted) open.delete(g.id);
      for (const g of asFlat) flat.delete(g.id);
      return false;
    };
    while (waiting.length) {
      const rank = Math.min(...waiting.map(rankOf));
      const here = waiting.filter((id) => rankOf(id) === rank).map((id) => groups.get(id)).filter((g) => g.kind !== "call");
      waiting = waiting.filter((id) => rankOf(id) > rank);
      if (opened(here, here.filter((g) => g.kind === "part"))) waiting.push(...here.flatMap((g) => g.groups));
      else for (const g of here) if (seen < FEW_BOXES) opened([g]);
    }
  }

  function close() {
    open.clear();
    flat.clear();
    open.add(rootId);
  }

  function rankOf(id) {
    const { depth, isEnd } = groups.get(id);
    return depth - (isEnd ? 0.5 : 0);
  }

  function toggle(id) {
    if (!open.delete(id)) open.add(id);
  }

  function openAll() {
    flat.clear();
    for (const id of groups.keys()) open.add(id);
  }

  // Open all around something, so that it can be seen.
  function reveal(id) {
    for (const g of around(id)) open.add(g);
  }

  // -- what can be seen -------------------------------------------------------------------------------------------

  // Of an open group what layoutOf(...) wants to know.
  function visible(titleWidth) {
    const shown = new Map();
    const fill = (inside, g) => {
      for (const id of g.operators) {
        if (operators.get(id).role === "border") inside.ports.push({ id, pinned: operators.get(id).kind === "Enter" ? -1 : 1 });
        else inside.boxes.push(id);
      }
      for (const id of g.groups) {
        if (flat.has(id)) fill(inside, groups.get(id));
        else if (open.has(id)) inside.opened.push(made(groups.get(id)));
        else inside.boxes.push(id);
      }
      return inside;
    };
    const made = (g) => {
      shown.set(g.id, {
        id: g.id, hasBorder: g.id !== rootId, titleWidth: g.id === rootId ? 0 : titleWidth(g),
        boxes: [], ports: [], opened: [], edges: [], back: [], known: new Map(),
      });
      return fill(shown.get(g.id), g);
    };
    const whole = made(groups.get(rootId));
    for (const o of data.operators) {
      for (const source of o.reads) connect(shown, standsFor(source), standsFor(o.id), source);
      if (o.back !== null && standsFor(o.id) === o.id) {
        const target = standsFor(o.back);
        if (target !== o.id) shown.get(around(o.id)[0]).back.push([o.id, target]);
      }
    }
    return whole;
  }

  // Draw an edge through the borders of all groups between.
  function connect(shown, source, target, operator) {
    if (source === target) return;
    const up = pathOut(source, true);
    const down = pathOut(target, false);
    const meet = up.find((g) => down.includes(g));
    let end = source;
    for (const g of up.slice(0, up.indexOf(meet))) {
      const port = `${g}>${source}`;
      link(shown.get(g), end, port, operator);
      addPort(shown.get(g), { id: port, pinned: 1 });
      end = port;
    }
    let here = meet;
    for (const g of down.slice(0, down.indexOf(meet)).reverse()) {
      const port = `${source}>${g}`;
      link(shown.get(here), end, port, operator);
      addPort(shown.get(g), { id: port, pinned: -1 });
      [end, here] = [port, g];
    }
    link(shown.get(here), end, target, operator);
  }

  // The open groups around a box, from inside out: a chip on a loop's border belongs to both sides of it.
  function pathOut(id, isSource) {
    const found = around(id);
    const o = operators.get(id);
    const isOutside = o?.role === "border" && (o.kind === "Enter") !== isSource;
    return isOutside ? found.slice(1) : found;
  }

  // An edge knows the operators whose records go along it.
  function link(inside, source, target, operator) {
    const key = `${source} ${target}`;
    if (inside.known.has(key)) {
      inside.known.get(key)[2].add(operator);
      return;
    }
    const edge = [source, target, new Set([operator])];
    inside.known.set(key, edge);
    inside.edges.push(edge);
  }

  function addPort(inside, port) {
    if (inside.known.has(port.id)) return;
    inside.known.set(port.id, port);
    inside.ports.push(port);
  }

  return { operators, groups, rootId, open, around, standsFor, isChip, titleOf, openUpTo, toggle, openAll, reveal, visible };
}

// The picture: draws a dataflow that is laid out already, folds its loops, moves and zooms.
//
// picture(canvas, data, clicked) draws `data` (written by explorer_page.py) in an SVG element. `clicked(loop, operator)`
// is told what was clicked, by id, or null. What the picture shows of a moment is up to who calls `paint`.

const numerals = new Intl.NumberFormat("en"); // one for all: toLocaleString would make one each time

function numeral(n) {
  return numerals.format(n);
}

function counted(n, thing) {
  return `${numeral(n)} ${thing}${n === 1 ? "" : "s"}`;
}

function isInside(loops, loop, other) {
  for (let id = loop; id !== null; id = loops.get(id).parent) if (id === other) return true;
  return false;
}

function make(tag, attributes, parent, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

function picture(canvas, data, clicked) {
  "use strict";
  const FOLDED_ROOM = 46;
  const operators = new Map(data.operators.map((o) => [o.id, o]));
  const loops = new Map(data.loops.map((l) => [l.id, l]));
  const areRead = new Set(data.operators.flatMap((o) => (o.back === null ? o.reads : [...o.reads, o.id])));
  const folded = new Set();
  let drawn = null; // the elements of what is drawn: {operators, edges, counts}
  let view = { x: 0, y: 0, scale: 1 };

  // -- places ---------------------------------------------------------------------------------------------------

  // Where a loop's things are once some of the loops in it are folded: layers get shorter, and what follows moves up.
  function settled(layout) {
    const inside = layout.loops.map(([u, v, layer, inner]) => ({ u, v, layer, inner: settled(inner) }));
    const last = layout.bands[layout.bands.length - 1];
    if (folded.has(layout.id)) {
      const first = layout.bands[0][1];
      const along = Math.min(layout.along, Math.max(first, 20) + FOLDED_ROOM + last[1] - last[0]);
      const gone = layout.along - along;
      return { layout, along, inside: [], folded: true, map: (v) => (v >= last[0] ? v - gone : v) };
    }
    const cuts = [];
    layout.bands.forEach(([begin, end], layer) => {
      const here = inside.filter((i) => i.layer === layer);
      if (!here.some((i) => i.inner.along < i.inner.layout.along)) return;
      const boxes = layout.boxes.filter((b) => b[2] >= begin && b[2] < end);
      const needed = Math.max(...here.map((i) => i.inner.along), ...boxes.map((b) => b[2] + b[4] - begin), 0);
      if (needed < end - begin) cuts.push([begin + needed, end]);
    });
    const map = (v) => cuts.reduce((w, [a, b]) => w - Math.max(0, Math.min(v, b) - a), v);
    return { layout, along: map(layout.along), inside, folded: false, map };
  }

  function turned(u, v) {
    return data.down ? [u, v] : [v, u];
  }

  function round1(n) {
    return Math.round(n * 10) / 10;
  }

  function point(u, v) {
    const [x, y] = turned(u, v);
    return `${round1(x)} ${round1(y)}`;
  }

  // -- drawing --------------------------------------------------------------------------------------------------

  function draw() {
    const whole = settled(data.layout);
    const scene = make("g", {});
    const layers = ["loops", "edges", "boxes"].map((name) => make("g", { class: name }, scene));
    drawn = { operators: new Map(), edges: [], counts: new Map(), places: new Map(), stands: new Map(), loops: [] };
    drawLoop(whole, 0, 0, 0, layers);
    for (const { u, v, loop } of drawn.loops) drawEdges(loop, u, v, layers[1]);
    const size = turned(data.layout.across, whole.along);
    drawn.size = size;
    canvas.replaceChildren(scene);
    drawn.scene = scene;
    moveTo(view);
  }

  function drawLoop(loop, u, v, depth, layers) {
    drawn.loops.push({ u, v, loop });
    const { layout, map } = loop;
    if (depth) drawBorder(loop, u, v, depth, layers);
    for (const box of layout.boxes) {
      const role = operators.get(box[0]).role;
      if (!loop.folded || role === "border") drawBox(box, u + box[1], v + map(box[2]), layers[2]);
    }
    for (const { u: du, v: dv, inner } of loop.inside) drawLoop(inner, u + du, v + map(dv), depth + 1, layers);
  }

  function rectangle(u, v, across, along, rounding, parent) {
    const [x, y] = turned(u, v);
    const [width, height] = turned(across, along);
    return make("rect", { x: round1(x), y: round1(y), width: round1(width), height: round1(height), rx: rounding }, parent);
  }

  function drawBorder(loop, u, v, depth, layers) {
    const { layout, map } = loop;
    const [bu, bv, across, along] = layout.border;
    const group = make("g", { class: depth % 2 ? "loop" : "loop even" }, layers[0]);
    const end = loop.folded ? loop.along - (layout.along - bv - along) : map(bv + along);
    rectangle(u + bu, v + bv, across, end - bv, 8, group);
    const inside = data.operators.filter((o) => o.role !== "border" && isInside(loops, o.loop, layout.id)).length;
    const title = make("g", { class: "title", "data-loop": layout.id, tabindex: 0 }, layers[2]);
    const shown = loop.folded ? loops.get(layout.id).title.replace("⟳", "▸") : loops.get(layout.id).title;
    const [tu, tv, ta, tl] = layout.title;
    const rect = rectangle(u + tu, v + tv, ta, tl, 8, title);
    make("title", {}, title, loop.folded ? "unfold" : "fold");
    const x = Number(rect.getAttribute("x")) + Number(rect.getAttribute("width")) / 2;
    const y = Number(rect.getAttribute("y")) + 12;
    make("text", { x, y, "font-size": 10.5, "text-anchor": "middle", class: "name" }, title, shown);
    if (loop.folded) {
      const [mx, my] = turned(u + bu + across / 2, v + bv + (end - bv) / 2);
      make("text", { x: mx, y: my + 4, "font-size": 11, "text-anchor": "middle", class: "quiet" }, layers[2], counted(inside, "operator"));
    }
  }

  function drawBox([id, , , across, along], u, v, parent) {
    const o = operators.get(id);
    const group = make("g", { class: `operator ${o.role}`, "data-id": id }, parent);
    make("title", {}, group, `#${id} ${o.kind} ${o.name}\n${o.schema}`);
    const isChip = o.role === "border" || o.role === "feedback";
    rectangle(u, v, across, along, isChip ? 10 : 5, group);
    const [x, y] = turned(u, v);
    const [width] = turned(across, along);
    let line = isChip ? y : y + 4.5;
    let last = null;
    for (const [text, size, colour] of o.lines) {
      line += size + 3.5;
      const place = { x: round1(x + width / 2), y: round1(line), "font-size": size, "text-anchor": "middle" };
      last = make("text", { ...place, class: colour }, group, text);
    }
    if (o.records !== null && !isChip) drawn.stands.set(id, last); // its last line says where it is
    drawn.operators.set(id, group);
    drawn.places.set(id, { u: u + across / 2, v, end: v + along });
    if (areRead.has(id)) {
      const [cx, cy] = turned(u + across / 2, v + along);
      const [dx, dy] = data.down ? [5, 11] : [5, -4];
      drawn.counts.set(id, make("text", { x: round1(cx + dx), y: round1(cy + dy), class: "count" }, parent));
    }
  }

  function drawEdges(loop, u, v, parent) {
    if (loop.folded) return;
    for (const [source, target, isBack, flat] of loop.layout.edges) {
      const points = [];
      for (let i = 0; i < flat.length; i += 2) points.push([u + flat[i], v + loop.map(flat[i + 1])]);
      points[0][1] = drawn.places.get(source).end;
      points[points.length - 1][1] = drawn.places.get(target).v;
      const o = operators.get(source);
      const group = make("g", { class: `edge${isBack ? " back" : ""}${o.records === 0 ? " never" : ""}` }, parent);
      make("path", { d: way(points) }, group);
      const [x, y] = turned(...points[points.length - 1]);
      make("path", { class: "head", d: `M${round1(x)} ${round1(y)}${data.down ? "l-3.5 -7h7z" : "l-7 -3.5v7z"}` }, group);
      drawn.edges.push([source, group]);
    }
  }

  function way(points) {
    let [u, v] = points[0];
    let d = `M${point(u, v)}`;
    for (const [tu, tv] of points.slice(1)) {
      if (tu !== u && tv !== v) d += `C${point(u, (v + tv) / 2)} ${point(tu, (v + tv) / 2)} ${point(tu, tv)}`;
      else d += `L${point(tu, tv)}`;
      [u, v] = [tu, tv];
    }
    return d;
  }

  // -- one moment -----------------------------------------------------------------------------------------------

  // Show what a moment is like, of what is drawn already: `states` are classes of operators, `counts` what they sent,
  // `standsOf` what an operator's last line says.
  function paint({ isStepped, states, counts, standsOf }) {
    drawn.scene.classList.toggle("stepped", isStepped);
    for (const [id, group] of drawn.operators) {
      setClass(group, `operator ${operators.get(id).role} ${states.get(id)}`.trim());
    }
    for (const [source, group] of drawn.edges) {
      const isAlive = isStepped && counts.get(source) > 0;
      if (group.classList.contains("alive") !== isAlive) group.classList.toggle("alive", isAlive);
    }
    for (const [id, text] of drawn.counts) {
      const count = counts.has(id) ? numeral(counts.get(id)) : "";
      if (text.textContent !== count) text.textContent = count;
    }
    for (const [id, text] of drawn.stands) {
      const stands = standsOf(operators.get(id));
      if (text.textContent !== stands) text.textContent = stands;
    }
  }

  function setClass(element, wanted) {
    if (element.getAttribute("class") !== wanted) element.setAttribute("class", wanted);
  }

  // -- what people do -------------------------------------------------------------------------------------------

  function fold(loop) {
    if (!folded.delete(loop)) folded.add(loop);
    draw();
  }

  // Move to where the work is, if none of it can be seen.
  function follow() {
    const alive = [...drawn.operators].filter(([, group]) => group.classList.contains("alive")).map(([id]) => drawn.places.get(id));
    if (!alive.length) return;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const seen = alive.map((p) => turned(p.u, (p.v + p.end) / 2).map((c) => c * view.scale));
    if (seen.some(([x, y]) => x + view.x > 0 && x + view.x < width && y + view.y > 0 && y + view.y < height)) return;
    const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
    moveTo({ ...view, x: width / 2 - middle(seen.map((p) => p[0])), y: height / 2 - middle(seen.map((p) => p[1])) });
  }

  function moveTo(next) {
    view = next;
    drawn.scene.setAttribute("transform", `translate(${round1(view.x)} ${round1(view.y)}) scale(${view.scale})`);
  }

  function zoom(by, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.max(0.03, Math.min(6, view.scale * by));
    const grown = scale / view.scale;
    moveTo({ x: x - (x - view.x) * grown, y: y - (y - view.y) * grown, scale });
  }

  // The whole where that can be read, else its beginning, as wide as there is room.
  function fit() {
    const [width, height] = [canvas.clientWidth || 800, canvas.clientHeight || 500];
    const [w, h] = [drawn.size[0] + 24, drawn.size[1] + 24];
    const whole = Math.min(width / w, height / h, 1.25);
    const scale = whole > 0.6 ? whole : Math.max(whole, Math.min(width / w, height / h > 0.6 ? 1 : 0.8));
    const used = Math.min(scale, 1.25);
    moveTo({ x: Math.max(12, (width - drawn.size[0] * used) / 2), y: 12, scale: used });
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - place.left, event.clientY - place.top);
  }, { passive: false });
  const life = new AbortController(); // what is heard of the window is heard until then
  let grip = null; // where a drag began, and on what, which a window is not told of a shadow root; a click goes nowhere
  canvas.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, y: event.clientY, on: event.target, view, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const [dx, dy] = [event.clientX - grip.x, event.clientY - grip.y];
    grip.moved ||= Math.hypot(dx, dy) > 4;
    if (!grip.moved) return;
    canvas.classList.add("dragged");
    moveTo({ x: grip.view.x + dx, y: grip.view.y + dy, scale: grip.view.scale });
  }, { signal: life.signal });
  window.addEventListener("pointerup", () => {
    const was = grip;
    grip = null;
    canvas.classList.remove("dragged");
    if (!was || was.moved) return;
    const loop = was.on.closest(".title");
    const operator = was.on.closest(".operator");
    clicked(loop ? Number(loop.dataset.loop) : null, operator ? Number(operator.dataset.id) : null);
  }, { signal: life.signal });

  draw();
  fit();
  return { paint, fold, follow, fit, zoom, stop: () => life.abort() };
}

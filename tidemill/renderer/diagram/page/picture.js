// The picture: draws what is open of a dataflow, opens and closes boxes in place, and writes in each what there is room
// for: its name first, then its columns, its figures, its line; never in letters of less than 11 pixels.
//
// picture(canvas, map, data, tree, told) draws `data` (written by explorer_page.py). `told.clicked(id)` is told what was
// clicked, or null, `told.toggled()` that a box was opened or closed. What it shows of a moment is up to who calls `paint`.

const NOT_IN_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // halves of letters too
const LEAST_LETTERS = 11;
const WIDEST = 320;
const SHORT = new Intl.NumberFormat("en", { notation: "compact" });
const MOST_FLOWING = 60; // edges along which a flow is drawn: with more, browsers paint nothing else
const READABLE = 0.48; // the scale down to which names can be read in boxes
const LEAST_COUNTED = 0.6; // the scale down to which there is room for how many records went along an edge

function picture(canvas, map, data, tree, told) {
  "use strict";
  const { operators, groups } = tree;
  const ink = document.createElement("canvas").getContext("2d");
  const [plain, bold] = [new Map(), new Map()]; // how wide letters are, of their height
  let down = true;
  let drawn = null; // {scene, boxes, frames, edges, counts}; boxes, frames and counts know for which `scale` they are written
  let painted = null;
  let chosen = null;
  let isFresh = true; // as long as nobody has opened or closed anything
  let written = 0; // the scale that boxes were written for
  let isDense = false; // where boxes have room for their names, and for more only from near

  const views = viewOf(canvas, map, {
    moved: write,
    clicked: (target) => {
      const frame = target.closest("[data-group]");
      const box = target.closest(".operator");
      if (frame || target.closest(".more")) toggle(Number((frame || box).dataset.group ?? box.dataset.id));
      else told.clicked(box ? Number(box.dataset.id) : null);
    },
    resized: (untouched) => { if (untouched && isFresh) begin(); },
    boxes: () => drawn.boxes,
  });
  canvas.addEventListener("dblclick", (event) => {
    const box = event.target.closest(".operator.group");
    if (box) toggle(Number(box.dataset.id));
  });
  canvas.addEventListener("focusin", ({ target }) => {
    const box = drawn.boxes.get(Number(target.dataset.id));
    if (box && target.matches(":focus-visible")) views.bring([box]); // by keys: a pointer is where it can see
  });

  // -- what is written in boxes ---------------------------------------------------------------------------------

  // About as wide as a text is: its letters, each measured once.
  function widthOf(text, size, isBold) {
    const known = isBold ? bold : plain;
    let width = 0;
    for (const letter of text) {
      let one = known.get(letter);
      if (one === undefined) {
        ink.font = `${isBold ? "bold " : ""}100px Helvetica, Arial, sans-serif`;
        one = ink.measureText(letter).width / 100;
        known.set(letter, one);
      }
      width += one;
    }
    return width * size;
  }

  // As many figures as there is room for, of none its first digits alone; where there is room for none, the first one in short.
  function fitting(figures, size, room) {
    let found = figures;
    while (found && widthOf(found, size) > room) found = found.slice(0, Math.max(0, found.lastIndexOf(" · ")));
    const short = figures.split(" · ")[0].replace(/^[\d,]+/, (n) => SHORT.format(Number(n.replaceAll(",", ""))));
    return found || (widthOf(short, size) > room ? "" : short);
  }

  // As much of a text as there is room for: of what has parts, as many of them as can be.
  function clipped(text, size, room, isBold) {
    if (widthOf(text, size, isBold) <= room) return text;
    const whole = text.lastIndexOf(" · ");
    if (whole > 0) return clipped(text.slice(0, whole), size, room, isBold);
    const letters = [...text];
    const most = Math.floor((letters.length * (room - size)) / widthOf(text, size, isBold));
    return most < 2 ? "" : `${letters.slice(0, most).join("").trimEnd()}…`;
  }

  // As much of a title, with what tells it from others of its name.
  function clippedTitle(title, size, room) {
    const apart = title.match(/ [#:]\d+$/)?.[0] ?? "";
    if (widthOf(title, size, true) <= room) return title;
    const beginning = clipped(title.slice(0, title.length - apart.length), size, room - widthOf(apart, size, true), true);
    return beginning && beginning + apart;
  }

  function titleOf(id) {
    const group = groups.get(id);
    if (!group) {
      const o = operators.get(id);
      return tree.isChip(id) ? `${o.kind.toLowerCase()} ${o.name}`.trim() : tree.titleOf(id);
    }
    return group.kind === "loop" ? `⟳ ${tree.titleOf(id)}` : tree.titleOf(id);
  }

  // What a box is called where it is read aloud.
  function nameOf(id) {
    return `${groups.has(id) ? "closed box " : ""}${titleOf(id)}`;
  }

  // What a group says of inputs and outputs in it, as far as its title does not; of one alone, its columns.
  function endsOf({ ends, title }) {
    if (ends.length === 1) return `${ends[0].kind.toLowerCase()} · ${ends[0].columns}`;
    const count = (kind, said) => ends.filter((o) => o.kind === kind).length && counted(ends.filter((o) => o.kind === kind).length, said);
    return [count("Input", "input"), count("Output", "output")].filter((said) => said && !title.includes(said)).join(", ");
  }

  // The lines of a box, what matters most first; what is said of a moment comes between.
  function linesOf(id, figures) {
    const group = groups.get(id);
    if (tree.isChip(id)) return [titleOf(id)];
    const o = operators.get(group ? group.result ?? -1 : id);
    const columns = o ? o.columns : endsOf(group);
    const line = group ? `${group.line} · ${counted(group.all.length, "operator")}` : `${o.kind} · ${o.line}`;
    return [titleOf(id), columns, figures, line].filter(Boolean);
  }

  // The sign that opens a box, with one of the loops in it.
  function signsOf(group) {
    if (!group) return { signs: "", room: 0 };
    return group.kind !== "loop" && group.hasLoop ? { signs: "⟳+", room: 24 } : { signs: "+", room: 16 };
  }

  const hasFigures = data.operators.some((o) => o.records !== null);

  function sizeOf(id) {
    if (typeof id === "string") return { width: 8, height: 8, label: 0 };
    const label = hasFigures ? 34 : 0;
    if (tree.isChip(id)) return { width: Math.round(Math.min(WIDEST, widthOf(titleOf(id), LEAST_LETTERS / READABLE) + 24)), height: 23, label };
    const [title, ...others] = linesOf(id, painted?.figuresOf(id));
    const below = isDense ? 70 : Math.min(180, Math.max(hasFigures ? 130 : 100, ...others.map((t) => widthOf(t, 11) + 20)));
    const wide = widthOf(title, LEAST_LETTERS / (READABLE - 0.03), true) + 24; // a little further out, too
    return { width: Math.round(Math.max(below, Math.min(WIDEST, wide))), height: isDense ? 36 : 68, label };
  }

  // How wide a title is where it is widest, of those that can be read: its letters get no smaller on the screen.
  function titleWidth(group) {
    return Math.round(Math.min(WIDEST, (widthOf(`▾ ${titleOf(group.id)}`, LEAST_LETTERS, true) + 14) / READABLE));
  }

  // Write in what is seen as much as there is room for, and nothing in what is not: at each other scale browsers lay out
  // all letters anew. Before it moves, what is to be seen there is written too.
  function write(view, isToCome = false) {
    const isNear = written <= view.scale && view.scale < written * 1.08; // letters only grow between
    const scale = isNear ? written : view.scale < written ? view.scale * 0.97 : view.scale;
    const each = (places, fill, clear, renew) => {
      for (const [id, at] of places) {
        if (!views.sees(at, view)) {
          if (isToCome || !at.scale) continue;
          clear(at, id);
          at.scale = 0;
          continue;
        }
        if (renew && at.moment !== painted) renew(id, at);
        if (isToCome ? !at.scale : at.scale !== scale) {
          fill(id, at, scale);
          at.scale = scale;
        }
      }
    };
    const clearText = ({ text }) => set(text, { text: "" });
    each(drawn.boxes, writeBox, clearBox, renewBox);
    each(drawn.frames, writeTitle, clearText);
    each(drawn.counts, writeCount, clearText);
    if (isToCome) return;
    written = scale;
    drawn.scene.classList.toggle("dust", scale < 0.2);
  }

  function writeCount(id, { text, said, y }, scale) {
    const size = Math.ceil((100 * Math.max(LEAST_LETTERS, 11 * scale)) / scale) / 100;
    set(text, { text: scale < LEAST_COUNTED ? "" : said, "font-size": size, y: round1(down ? y + 3 + size : y - 4) });
  }

  // A title begins where its box does, and may be as long as most of that, or up to what enters beside it. Far out, where
  // the title of a box before it is in its place, it is not there.
  function writeTitle(id, frame, scale) {
    const { text, rect, title, corner: { x, y }, width: whole, room } = frame;
    const size = Math.max(LEAST_LETTERS, 12 * scale);
    const fitted = clippedTitle(title, size, room * scale - 14) || (whole * scale > 60 ? title[0] : "");
    const [width, height] = [(widthOf(fitted, size, true) + 14) / scale, (size + 6) / scale];
    const hides = (o) => o.scale === scale && o.tab && o.tab.x < x + width && x < o.tab.x + o.tab.width && Math.abs(o.tab.y - y) < height;
    const shown = [...drawn.frames.values()].some(hides) ? "" : fitted;
    frame.tab = shown ? { x, y, width } : null;
    set(rect, { visibility: shown ? "visible" : "hidden" }); // where there is no room for a letter, a tab would only hide what is behind
    set(rect, { x: round1(x), y: round1(y - height / 2), width: round1(width), height: round1(height) });
    place(text, shown, x + width / 2, y + (size * 0.35) / scale, size / scale);
  }

  function writeBox(id, box, scale) {
    const [wide, high] = [box.width * scale, box.height * scale];
    const known = signsOf(groups.get(id));
    const grown = isDense ? scale / 2 : scale; // letters, so that from near there is room for more of them
    const big = Math.max(LEAST_LETTERS, (tree.isChip(id) ? 11 : 13) * grown);
    const small = Math.max(LEAST_LETTERS, 11 * grown);
    const lines = linesOf(id, box.figures && fitting(box.figures, small, wide - 10 - known.room));
    const room = tree.isChip(id) ? high : high - 4;
    let fits = room < big ? 0 : 1 + Math.max(0, Math.floor((room - big * 1.3) / (small * 1.27)));
    fits = Math.min(fits, lines.length);
    const isTight = fits === 1 && widthOf(lines[0], big, true) > wide - 10 - known.room; // a name is more than the sign
    const { signs, room: ofSigns } = isTight ? { signs: "", room: 0 } : known;
    let y = box.y + (high - (big * 1.28 + (fits - 1) * small * 1.27)) / 2 / scale + big / scale;
    for (let i = 0; i < Math.max(fits, box.texts.length); i++) {
      const size = i ? small : big;
      const beside = i === fits - 1 ? ofSigns : 0;
      const fit = i || tree.isChip(id) ? clipped : clippedTitle;
      const text = i < fits ? fit(lines[i], size, wide - 10 - beside) : "";
      if (!box.texts[i]) box.texts[i] = make("text", { class: i ? "quiet" : tree.isChip(id) ? "chip" : "name", "text-anchor": "middle" }, box.group);
      place(box.texts[i], text, box.x + (box.width - beside / 2 / scale) / 2, y, size / scale);
      y += (small * 1.27) / scale;
    }
    if (box.more) {
      const size = Math.max(LEAST_LETTERS, 13 * scale);
      place(box.more.firstElementChild, wide > 40 && high > size ? signs : "", box.x + box.width - (ofSigns / 2 + 1) / Math.max(scale, 0.6), box.y + box.height - 5 / scale, size / scale);
    }
  }

  function clearBox(box, id) {
    for (const text of box.texts.splice(0)) text.remove();
    if (box.more) set(box.more.firstElementChild, { text: "" });
    set(box.group, { "aria-label": nameOf(id) }); // figures would stay those of this moment
    box.figures = box.moment = null;
  }

  function place(element, text, x, y, size) {
    set(element, text ? { text, x: round1(x), y: round1(y), "font-size": Math.ceil(size * 100) / 100 } : { text });
  }

  // -- drawing --------------------------------------------------------------------------------------------------

  function turned(u, v) {
    return down ? [u, v] : [v, u];
  }

  function rectangleOf(u, v, across, along) {
    const [x, y] = turned(u, v).map(round1);
    const [width, height] = turned(across, along).map(round1);
    return { x, y, width, height };
  }

  // Lay out what is open, in the direction in which more of it can be read.
  function laidOut() {
    const [first, other] = [true, false].map((way) => {
      const layout = layoutOf(tree.visible(titleWidth), sizeOf, way);
      const size = way ? [layout.across, layout.along] : [layout.along, layout.across];
      return { way, layout, size, scale: views.fitting(size) };
    });
    return other.scale > first.scale * 1.1 ? other : first;
  }

  function draw(before = null) {
    const found = laidOut();
    down = found.way;
    const scene = make("g", {});
    const layers = ["frames", "edges", "boxes"].map((name) => make("g", { class: name }, scene));
    drawn = { scene, boxes: new Map(), frames: new Map(), edges: [], counts: new Map(), size: found.size };
    drawInside(found.layout, 0, 0, 0, layers);
    for (const edge of drawn.edges) for (const id of edge.operators) drawn.counts.get(edge.source)?.of.add(id);
    for (const [id, count] of drawn.counts) {
      const result = groups.get(id)?.result;
      if (count.of.has(result)) count.of = new Set([result]); // what is kept of it besides is no more of it
    }
    rewrite(canvas, canvas.closest(".tidemill"), () => canvas.replaceChildren(scene));
    views.show(scene, found.size);
    if (painted) paint(painted);
    choose(chosen);
    if (before) animate(before);
  }

  function drawInside(layout, u, v, depth, layers) {
    if (depth) drawFrame(layout, u, v, depth, layers);
    for (const box of layout.boxes) drawBox(box, u, v, layers[2]);
    for (const edge of layout.edges) drawEdge(edge, u, v, layers[1]);
    for (const { u: du, v: dv, inner } of layout.opened) drawInside(inner, u + du, v + dv, depth + 1, layers);
  }

  function drawFrame(layout, u, v, depth, layers) {
    const { id, border, title: [tu, tv, ta, tl] } = layout;
    const group = groups.get(id);
    const frame = make("g", { class: `${group.kind}${depth % 2 ? "" : " even"} inside` }, layers[0]);
    make("rect", { ...rectangleOf(u + border.u, v + border.v, border.across, border.along), rx: 8 }, frame);
    const title = make("g", { class: "title", "data-group": id, tabindex: 0, role: "button", "aria-expanded": "true", "aria-label": `close ${titleOf(id)}` }, layers[2]);
    const rect = make("rect", { rx: 8 }, title);
    make("title", {}, title, `close ${titleOf(id)}, ${group.line}`);
    const text = make("text", { "text-anchor": "middle", class: "name" }, title);
    const at = rectangleOf(u + tu, v + tv, ta, tl);
    const around = rectangleOf(u + border.u, v + border.v, border.across, border.along);
    const beside = layout.boxes.filter((box) => down && box.pinned < 0).map((box) => u + box.u - at.x - 4);
    const room = Math.min(0.8 * around.width, ...beside);
    drawn.frames.set(id, { ...around, text, rect, title: `▾ ${titleOf(id)}`, room, corner: { x: at.x, y: at.y + at.height / 2 } });
  }

  function drawBox({ id, u, v, across, along, label, pinned }, du, dv, parent) {
    const at = rectangleOf(du + u, dv + v, across, along);
    if (typeof id === "string") {
      const [x, y] = [at.x + at.width / 2, at.y + at.height / 2];
      make("circle", { cx: x, cy: y, r: 3, class: pinned < 0 ? "port in" : "port" }, parent);
      return;
    }
    const [o, g] = [operators.get(id), groups.get(id)];
    const role = g ? `group ${g.kind}${g.isEnd ? " end" : g.ends.length ? " some" : ""}` : o.role;
    const group = make("g", { class: `operator ${role}`, "data-id": id, tabindex: 0, role: "button", "aria-label": nameOf(id) }, parent);
    if (g) {
      group.setAttribute("aria-expanded", "false");
      make("rect", { ...at, x: at.x + 3, y: at.y + 3, rx: 6, class: "deck" }, group);
    }
    make("rect", { ...at, rx: tree.isChip(id) ? 10 : 6, class: "body" }, group);
    if (role.endsWith(" some")) stripsOf(g, at, group);
    make("title", {}, group, g ? `${titleOf(id)}, ${g.line}\ndouble click or Enter opens it` : `#${id} ${o.kind} ${o.name}\n${o.line}\n${o.columns}`);
    const box = { ...at, group, texts: [], more: null, role, moment: null };
    if (g) {
      box.more = make("g", { class: "more" }, group);
      make("text", { "text-anchor": "middle" }, box.more);
    }
    drawn.boxes.set(id, box);
    if (label) {
      const [x, y] = turned(du + u + across / 2, dv + v + along);
      const text = make("text", { x: round1(x + 5), class: "count" }, parent);
      drawn.counts.set(id, { text, said: "", x, y, width: 60, height: 20, of: new Set() });
    }
  }

  // Where inputs or outputs are inside with others, the sides of a box at which records come in or go out have their colour.
  function stripsOf({ ends }, { x, y, width, height }, group) {
    const strip = (kind, isFirst) => {
      if (!ends.some((o) => o.kind === kind)) return;
      const at = down ? { x: x + 4, y: isFirst ? y + 1 : y + height - 6, width: width - 8, height: 5 }
        : { x: isFirst ? x + 1 : x + width - 6, y: y + 4, width: 5, height: height - 8 };
      make("rect", { ...at, class: "strip", rx: 2 }, group);
    };
    strip("Input", true);
    strip("Output", false);
  }

  function drawEdge(edge, u, v, parent) {
    const points = edge.points.map(([pu, pv]) => [u + pu, v + pv]);
    const isNever = hasFigures && [...edge.operators].every((id) => operators.get(id).records === 0);
    const group = make("g", { class: `edge${edge.isBack ? " back" : ""}${isNever ? " never" : ""}` }, parent);
    make("path", { d: way(points), class: "line" }, group);
    const [x, y] = turned(...points[points.length - 1]);
    if (typeof edge.target !== "string") make("path", { class: "head", d: `M${round1(x)} ${round1(y)}${down ? "l-4 -8h8z" : "l-8 -4v8z"}` }, group);
    drawn.edges.push({ ...edge, operators: [...edge.operators], group });
  }

  function way(points) {
    const point = (u, v) => turned(u, v).map(round1).join(" ");
    let [u, v] = points[0];
    let d = `M${point(u, v)}`;
    for (const [tu, tv] of points.slice(1)) {
      if (tu !== u && tv !== v) d += `C${point(u, (v + tv) / 2)} ${point(tu, (v + tv) / 2)} ${point(tu, tv)}`;
      else d += `L${point(tu, tv)}`;
      [u, v] = [tu, tv];
    }
    return d;
  }

  // Have boxes come from where they were, or from the box that they were in.
  function animate(before) {
    if (isStill() || drawn.boxes.size > 150 || !canvas.animate) return;
    const placeOf = (id) => before.boxes.get(id) || tree.around(id).map((g) => before.boxes.get(g)).find(Boolean);
    const options = { duration: 200, easing: "ease-out" };
    for (const [id, box] of drawn.boxes) {
      const was = placeOf(id);
      if (!was) box.group.animate([{ opacity: 0 }, { opacity: 1 }], options);
      else if (was.x !== box.x || was.y !== box.y) {
        box.group.animate([{ transform: `translate(${was.x - box.x}px, ${was.y - box.y}px)` }, { transform: "none" }], options);
      }
    }
    for (const edge of drawn.edges) edge.group.animate([{ opacity: 0 }, { opacity: 0, offset: 0.5 }, {}], options);
  }

  // -- one moment -----------------------------------------------------------------------------------------------

  // Show what a moment is like, of what is drawn already: `stateOf(id)` are the classes of a box, `counts` what operators
  // sent, `figuresOf(id)` what a box says of it.
  function paint(moment) {
    painted = moment;
    const { isStepped, stateOf, counts } = moment;
    drawn.scene.classList.toggle("stepped", isStepped);
    for (const [id, box] of drawn.boxes) box.isAlive = isStepped && stateOf(id).startsWith("alive");
    let alive = 0;
    for (const edge of drawn.edges) {
      const isAlive = isStepped && edge.operators.some((id) => counts.get(id) > 0);
      if (edge.isAlive !== isAlive) edge.group.classList.toggle("alive", isAlive);
      edge.isAlive = isAlive;
      alive += isAlive;
    }
    drawn.scene.classList.toggle("flowing", alive <= MOST_FLOWING);
    for (const count of drawn.counts.values()) {
      const known = [...count.of].filter((id) => counts.has(id));
      const said = known.length ? numeral(known.reduce((sum, id) => sum + counts.get(id), 0)) : "";
      if (said !== count.said) [count.said, count.scale] = [said, -1];
    }
    write(views.now());
    views.mark((id) => drawn.boxes.get(id).isAlive);
  }

  // Have a box that is seen, or is to come, be as it is at the moment that is painted.
  function renewBox(id, box) {
    box.moment = painted;
    set(box.group, { class: `operator ${box.role} ${painted.stateOf(id)}${id === chosen ? " chosen" : ""}` });
    const figures = painted.figuresOf(id);
    if (box.figures === figures) return;
    box.figures = figures;
    set(box.group, { "aria-label": figures ? `${nameOf(id)}, ${figures}` : nameOf(id) });
    if (box.scale) box.scale = -1; // to be written anew
  }

  // -- what people do -------------------------------------------------------------------------------------------

  // Light a box, and its ways in and out.
  function choose(id) {
    chosen = id === null ? null : tree.standsFor(id);
    for (const [one, box] of drawn.boxes) box.group.classList.toggle("chosen", one === chosen);
    const lit = new Set();
    const follow = (from, to, at) => drawn.edges.forEach((edge) => {
      if (edge[from] !== at || lit.has(edge)) return;
      lit.add(edge);
      if (typeof edge[to] === "string") follow(from, to, edge[to]);
    });
    if (chosen !== null) {
      follow("source", "target", chosen);
      follow("target", "source", chosen);
    }
    for (const edge of drawn.edges) edge.group.classList.toggle("lit", lit.has(edge));
  }

  // Open or close a box in place: what stands for it stays where it was on the screen, if there is room.
  function toggle(id) {
    const cornerOf = (one) => drawn.boxes.get(one) || drawn.frames.get(one)?.corner;
    const was = cornerOf(id);
    isFresh = false;
    tree.toggle(id);
    draw(drawn);
    const is = cornerOf(id) || was;
    const view = views.now();
    if (was) views.moveTo({ ...view, x: view.x + (was.x - is.x) * view.scale, y: view.y + (was.y - is.y) * view.scale });
    const opened = drawn.frames.get(id);
    if (opened) views.bringAll(opened, READABLE);
    const focused = canvas.querySelector(`[data-group="${id}"], .operator[data-id="${id}"]`);
    focused?.focus({ preventScroll: true });
    told.toggled();
  }

  // Show what is open anew, fitted.
  function redraw() {
    isFresh = false;
    isDense = false;
    drawFitted();
  }

  // Open as much as can be read in this window, in boxes as large as there is room for.
  function begin() {
    const isRoom = () => laidOut().scale >= READABLE;
    isDense = true;
    tree.openUpTo(MOST_BOXES, isRoom);
    isDense = false;
    isDense = !isRoom();
    drawFitted();
    isFresh = true;
  }

  function drawFitted() {
    draw();
    written = 0; // so that letters are as they should be at this scale
    views.moveTo(views.fitted(READABLE, firstBoxes()));
  }

  // Where the flow begins.
  function firstBoxes() {
    const boxes = [...drawn.boxes.values()];
    const along = down ? "y" : "x";
    const first = Math.min(...boxes.map((b) => b[along]));
    return boxes.filter((b) => b[along] < first + 1);
  }

  // Bring what is alive into view.
  function follow() {
    views.bring([...drawn.boxes.values()].filter((box) => box.isAlive));
  }

  // Open what is around something, and bring it into view.
  function reveal(id) {
    const isHidden = tree.standsFor(id) !== id;
    if (isHidden) {
      isFresh = false;
      tree.reveal(id);
      draw(drawn);
    }
    const box = drawn.boxes.get(id);
    if (box) views.bring([box]);
  }

  // What can be seen now as SVG that stands alone: colours as they are, whatever the theme.
  function toSvg() {
    const [width, height] = views.room();
    const copy = canvas.cloneNode(true);
    const [from, to] = [canvas, copy].map((root) => [...root.querySelectorAll("rect, path, circle, text")]);
    from.forEach((element, i) => {
      const style = getComputedStyle(element);
      for (const name of ["display", "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity", "font-weight", "vector-effect"]) to[i].setAttribute(name, style.getPropertyValue(name));
    });
    for (const element of copy.querySelectorAll("[class], [tabindex], [role]")) for (const name of ["class", "tabindex", "role"]) element.removeAttribute(name);
    copy.removeAttribute("class");
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` })) copy.setAttribute(name, value);
    copy.insertBefore(make("rect", { width, height, fill: getComputedStyle(canvas.closest(".tidemill")).backgroundColor }), copy.firstChild);
    return { text: new XMLSerializer().serializeToString(copy).replace(NOT_IN_XML, "\ufffd"), width, height };
  }

  begin();
  return { paint, toggle, redraw, begin, choose, follow, reveal, toSvg, fit: views.fit, zoom: views.zoom, stop: views.stop, scale: () => views.now().scale, size: () => drawn.size, edges: () => drawn.edges };
}

// What is seen of a picture: dragged, zoomed, thrown, brought into view; and a small map of the whole.
//
// viewOf(canvas, map, told) moves what `show` is given; `told.moved(view)` hears of each view but those that are only
// passed, `told.moved(view, true)` of one that it begins to move to, `told.clicked(target)` of clicks. Zooming by a wheel is to where the pointer is.

const LEAST = 0.03;
const FARTHEST = 0.2; // the scale to which it moves out by itself
const MOST_SCALE = 4;
const isStill = () => window.matchMedia?.("(prefers-reduced-motion: reduce)").matches; // no motion for those who ask

function make(tag, attributes, parent, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

// Set what of an element is not as it was set before; `text` is what is written in it.
function set(element, wanted) {
  const known = (element.known ||= {});
  for (const name in wanted) {
    if (known[name] === wanted[name]) continue;
    known[name] = wanted[name];
    if (name === "text") element.textContent = wanted[name];
    else element.setAttribute(name, wanted[name]);
  }
}

function round1(n) {
  return Math.round(n * 10) / 10;
}

const PRESSED = "[data-choose], [data-go], [data-sort], [data-only], [data-open], [data-round]";

// Rewrite what is in a part of the page. What had the focus has it afterwards, or where that is gone, the page: keys go on.
function rewrite(place, page, write) {
  const had = place.getRootNode().activeElement;
  if (had === place || !place.contains(had)) {
    write();
    return;
  }
  const keyOf = (element) => JSON.stringify((element.closest(PRESSED) ?? element).dataset);
  const key = keyOf(had);
  write();
  const same = [...place.querySelectorAll(had.tagName)].find((element) => keyOf(element) === key);
  (same ?? page).focus({ preventScroll: true });
}

function viewOf(canvas, map, told) {
  "use strict";
  const life = new AbortController(); // what is heard of the window is heard until then
  let view = { x: 0, y: 0, scale: 1 };
  let scene = null;
  let size = [1, 1];
  let gliding = 0;
  let untouched = true; // as long as nobody has moved it, it is fitted when its window changes

  function show(made, whole) {
    [scene, size] = [made, whole];
    drawMap();
    moveTo(view);
  }

  let measured = null; // until its window changes: to ask would lay out the page

  function room() {
    measured ||= [canvas.clientWidth || 800, canvas.clientHeight || 500];
    return measured;
  }

  function moveTo(next, isPassing = false) {
    view = next;
    if (!scene) return;
    set(scene, { transform: `translate(${round1(view.x)} ${round1(view.y)}) scale(${Math.round(view.scale * 1e4) / 1e4})` });
    if (!isPassing) told.moved(view);
    moveFrame();
  }

  // Move there in a moment's time.
  function glideTo(next) {
    cancelAnimationFrame(gliding);
    if (isStill()) {
      moveTo(next);
      return;
    }
    told.moved(next, true);
    const [from, begun] = [view, performance.now()];
    const on = (now) => {
      const t = Math.min(1, (now - begun) / 180);
      const part = 1 - (1 - t) ** 3;
      const between = (a, b) => a + (b - a) * part;
      const isPassing = t < 1;
      moveTo(isPassing ? { x: between(from.x, next.x), y: between(from.y, next.y), scale: between(from.scale, next.scale) } : next, isPassing);
      if (isPassing) gliding = requestAnimationFrame(on);
    };
    gliding = requestAnimationFrame(on);
  }

  function zoom(by, x = room()[0] / 2, y = room()[1] / 2) {
    untouched = false;
    cancelAnimationFrame(gliding);
    const scale = Math.max(LEAST, Math.min(MOST_SCALE, view.scale * by));
    const grown = scale / view.scale;
    moveTo({ x: x - (x - view.x) * grown, y: y - (y - view.y) * grown, scale });
  }

  // Whether any of a place is seen, or is about to be.
  function sees(place, { x, y, scale }) {
    const [width, height] = room();
    return place.x * scale + x < width + 60 && (place.x + place.width) * scale + x > -60
      && place.y * scale + y < height + 60 && (place.y + place.height) * scale + y > -60;
  }

  // The scale at which the whole can be seen.
  function fitting(whole = size) {
    const [width, height] = room();
    return Math.min(width / (whole[0] + 24), height / (whole[1] + 24), 1.25);
  }

  // The whole in the middle; where that would be smaller than `least`, what is around some boxes.
  function fitted(least = 0, boxes = []) {
    const scale = Math.max(fitting(), least);
    const around = (i, at, length) => {
      const [all, one] = [room()[i], size[i] * scale];
      if (one <= all) return (all - one) / 2;
      const middle = boxes.reduce((sum, b) => sum + b[at] + b[length] / 2, 0) / Math.max(1, boxes.length);
      return Math.max(all - one - 12, Math.min(12, all / 2 - middle * scale));
    };
    return { x: around(0, "x", "width"), y: around(1, "y", "height"), scale };
  }

  function fit() {
    untouched = true;
    glideTo(fitted());
  }

  // Move to where boxes are, if not all of them can be seen: as little as will do, out where they are far apart; where
  // that would leave nothing to read, to where most of them are together.
  function bring(boxes) {
    if (!boxes.length) return;
    const [width, height] = room();
    const bounds = (of) => {
      const [x, y] = ["x", "y"].map((at) => Math.min(...of.map((b) => b[at])));
      return { x, y, width: Math.max(...of.map((b) => b.x + b.width)) - x, height: Math.max(...of.map((b) => b.y + b.height)) - y };
    };
    const isSeen = (b) => b.x * view.scale + view.x >= 0 && (b.x + b.width) * view.scale + view.x <= width
      && b.y * view.scale + view.y >= 0 && (b.y + b.height) * view.scale + view.y <= height;
    let to = bounds(boxes);
    if (isSeen(to)) return;
    const scaleFor = (b) => Math.min(view.scale, width / (b.width + 40), height / (b.height + 40));
    if (scaleFor(to) < FARTHEST) {
      const [wide, high] = [width / FARTHEST - 40, height / FARTHEST - 40];
      const near = (b) => boxes.filter((o) => o.x >= b.x && o.y >= b.y && o.x + o.width <= b.x + wide && o.y + o.height <= b.y + high);
      const step = Math.ceil(boxes.length / 60);
      const groups = boxes.filter((_, i) => i % step === 0).map(near);
      to = bounds(groups.reduce((most, one) => (one.length > most.length ? one : most)));
    }
    const scale = Math.max(Math.min(view.scale, FARTHEST), scaleFor(to));
    glideTo({ x: width / 2 - (to.x + to.width / 2) * scale, y: height / 2 - (to.y + to.height / 2) * scale, scale });
  }

  // Move to where one thing is, if not all of it can be seen: no further out than `least`; then to its beginning.
  function bringAll(one, least) {
    const fits = (at, length, i, scale) => one[at] * scale + view[at] >= 0 && (one[at] + one[length]) * scale + view[at] <= room()[i];
    if (fits("x", "width", 0, view.scale) && fits("y", "height", 1, view.scale)) return;
    const [width, height] = room();
    const scale = Math.max(Math.min(view.scale, width / (one.width + 60), height / (one.height + 60)), Math.min(view.scale, least));
    const begin = (at, length, all) => (one[length] * scale < all ? (all - one[length] * scale) / 2 : 20) - one[at] * scale;
    untouched = false;
    glideTo({ x: begin("x", "width", width), y: begin("y", "height", height), scale });
  }

  // -- the map --------------------------------------------------------------------------------------------------

  let boxesOfMap = new Map();
  let frame = null;
  let mapScale = 1;

  function drawMap() {
    mapScale = Math.min(150 / (size[0] + 1), 110 / (size[1] + 1));
    map.setAttribute("viewBox", `0 0 ${round1(size[0] * mapScale)} ${round1(size[1] * mapScale)}`);
    map.style.width = `${round1(size[0] * mapScale)}px`;
    map.style.height = `${round1(size[1] * mapScale)}px`;
    map.replaceChildren();
    boxesOfMap = new Map();
    for (const [id, b] of told.boxes()) {
      boxesOfMap.set(id, make("rect", {
        x: round1(b.x * mapScale), y: round1(b.y * mapScale), width: Math.max(1, round1(b.width * mapScale)), height: Math.max(1, round1(b.height * mapScale)),
      }, map));
    }
    frame = make("rect", { class: "frame" }, map);
  }

  function moveFrame() {
    const [width, height] = room();
    const [w, h] = [width / view.scale, height / view.scale];
    const seesAll = view.x >= -1 && view.y >= -1 && view.x + size[0] * view.scale <= width + 1 && view.y + size[1] * view.scale <= height + 1;
    map.classList.toggle("gone", seesAll || width < 500);
    if (seesAll) return;
    const at = { x: -view.x / view.scale, y: -view.y / view.scale, width: w, height: h };
    for (const [name, value] of Object.entries(at)) set(frame, { [name]: round1(value * mapScale) });
  }

  // Show on the map which boxes are alive.
  function mark(isAlive) {
    for (const [id, rect] of boxesOfMap) set(rect, { class: isAlive(id) ? "alive" : "" });
  }

  const toMap = (event) => {
    if (!event.buttons) return;
    const place = map.getBoundingClientRect();
    const [x, y] = [(event.clientX - place.left) / mapScale, (event.clientY - place.top) / mapScale];
    const [width, height] = room();
    untouched = false;
    moveTo({ ...view, x: width / 2 - x * view.scale, y: height / 2 - y * view.scale });
  };
  map.addEventListener("pointerdown", toMap);
  map.addEventListener("pointermove", toMap);

  // -- what people do -------------------------------------------------------------------------------------------

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = canvas.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp((-event.deltaY * lines) / 400), event.clientX - place.left, event.clientY - place.top);
  }, { passive: false });

  const fingers = new Map(); // two of them zoom
  let grip = null; // where a drag began, and on what, which a window is not told of a shadow root; a click goes nowhere
  let speed = [0, 0];
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    cancelAnimationFrame(gliding);
    moveTo(view); // letters are written at the end of a glide, also of one that is cut short
    grip = { x: event.clientX, y: event.clientY, on: event.target, view, moved: false, at: performance.now() };
    speed = [0, 0];
  });
  window.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const before = fingers.get(event.pointerId);
    if (fingers.size === 2 && before) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const apart = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]);
      const place = canvas.getBoundingClientRect();
      zoom(apart([event.clientX, event.clientY]) / Math.max(1, apart(before)), other[0] - place.left, other[1] - place.top);
      grip.moved = true;
      grip.view = null;
    }
    if (before) fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.size > 1 || !grip.view) return;
    const [dx, dy] = [event.clientX - grip.x, event.clientY - grip.y];
    grip.moved ||= Math.hypot(dx, dy) > 4;
    if (!grip.moved) return;
    untouched = false;
    canvas.classList.add("dragged");
    const now = performance.now();
    const gone = Math.max(1, now - grip.at);
    const next = { x: grip.view.x + dx, y: grip.view.y + dy, scale: grip.view.scale };
    speed = [(next.x - view.x) / gone, (next.y - view.y) / gone];
    grip.at = now;
    moveTo(next);
  }, { signal: life.signal });
  const released = (event) => {
    fingers.delete(event.pointerId);
    const was = grip;
    if (fingers.size) return;
    grip = null;
    canvas.classList.remove("dragged");
    if (!was || event.type === "pointercancel") return;
    if (!was.moved) told.clicked(was.on);
    else if (was.view && performance.now() - was.at < 60 && !isStill()) throwOn(performance.now());
  };
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, released, { signal: life.signal });

  // Go on as it was going, slower and slower.
  function throwOn(before) {
    gliding = requestAnimationFrame((now) => {
      const gone = Math.max(0, now - before);
      speed = speed.map((v) => v * Math.exp(-gone / 120));
      if (Math.hypot(...speed) < 0.02) return;
      moveTo({ ...view, x: view.x + speed[0] * gone, y: view.y + speed[1] * gone });
      throwOn(now);
    });
  }

  const watched = new ResizeObserver(() => {
    measured = null;
    told.resized(untouched);
    moveTo(view);
  });
  watched.observe(canvas.parentElement); // what is in SVG has no size that it would tell

  // On paper there is what is drawn and seen, smaller where paper is.
  window.addEventListener("beforeprint", () => {
    const part = (at, i) => {
      const begin = Math.max(0, view[at] - 8);
      return [begin, Math.max(1, Math.min(room()[i], view[at] + size[i] * view.scale + 8) - begin)];
    };
    const [[x, width], [y, height]] = [part("x", 0), part("y", 1)];
    canvas.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
    canvas.style.maxWidth = `${width}px`;
  }, { signal: life.signal });
  window.addEventListener("afterprint", () => {
    canvas.removeAttribute("viewBox");
    canvas.style.maxWidth = "";
  }, { signal: life.signal });

  function stop() {
    life.abort();
    watched.disconnect();
    cancelAnimationFrame(gliding);
  }

  return { show, moveTo, zoom, fit, fitted, fitting, bring, bringAll, mark, room, sees, stop, now: () => view };
}

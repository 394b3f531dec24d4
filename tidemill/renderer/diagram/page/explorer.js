// The explorer: a picture, the times of a run, which it steps through, and a panel with what is known of a box.
//
// explore(root, data, ask) shows `data` (written by explorer_page.py) in an element. `ask(id, time)`, where there is one,
// asks for an operator's records, and answers with a promise of {columns, rows, note}. What is drawn changes one closed
// time at a time, and all at once.

const MOST_BARS = 400; // of iterations

function explore(root, data, ask) {
  "use strict";
  for (const o of data.operators) {
    for (const key of ["does", "schema", "line", "source"]) o[key] = data.texts[o[key]];
    o.all = [o.id]; // as a group has all that is inside
    o.names = data.columns[o.columns];
    o.columns = o.names.join(", ");
    o.text = [o.title, o.kind, o.name, o.columns, o.line, o.does].join(" ").toLowerCase();
  }
  for (const g of data.groups) g.line = data.texts[g.line];
  const tree = treeOf(data);
  const { operators, groups } = tree;
  const times = timesOf(data);
  const { moments } = times;
  let at = moments.length - 1; // which moment
  let round = -1; // which of its iterations; -1: all of them together
  let chosen = null; // the operator or the group whose details are shown
  let playing = null;
  let follows = true;
  let isTable = false;
  let asked = null; // the time that is asked for, where that is none of a moment's
  let subjectShown = null; // what the panel is of: "table", an id, or null
  let seen = null; // what is known of the moment: {counts, standing}

  // -- one moment -----------------------------------------------------------------------------------------------

  function show() {
    const moment = moments[at];
    const [counts, standing] = [times.countsAt(moment, round), times.standingOf(moment, asked ?? moment.user)];
    seen = { counts, standing };
    const apart = [...standing.values()].some((s) => s !== "passed");
    shown.paint({
      isStepped: !moment.isNow, counts,
      stateOf: (id) => stateOf(insideOf(id), moment, counts, standing),
      figuresOf: (id) => figuresOf(id, moment, counts, apart),
    });
    showBar(moment);
    showPanel();
  }

  const STANDINGS = ["", "passed", "waits", "holds"];

  function insideOf(id) {
    return (groups.get(id) ?? operators.get(id)).all;
  }

  // The classes of a box: whether any of its operators is alive, and the worst of where they are.
  function stateOf(ids, moment, counts, standing) {
    let [isAlive, worst] = [false, 0];
    for (const id of ids) {
      isAlive ||= counts.has(id) && (!moment.isNow || counts.get(id) > 0);
      worst = Math.max(worst, STANDINGS.indexOf(standing.get(id)));
    }
    return `${isAlive ? "alive " : ""}${STANDINGS[worst]}`;
  }

  // What a box says of the moment: what is held in it, what its result sent, how long it took; where it is, if it matters.
  function figuresOf(id, moment, counts, apart) {
    const ids = insideOf(id);
    if (operators.get(ids[0])?.records === null || !ids.length) return "";
    const work = data.steps[moment.step]?.operators;
    const sum = (f) => ids.reduce((total, one) => total + (f(one) || 0), 0);
    const held = sum((one) => times.heldAt(operators.get(one), moment));
    const seconds = sum((one) => (moment.isNow ? operators.get(one).seconds : work?.[one]?.seconds));
    const parts = [];
    if (held) parts.push(`${numeral(held)} held`);
    if (apart && !groups.has(id)) parts.push(`frontier ${times.frontierText(times.frontierOf(id, moment))}`);
    if (seconds) parts.push(seconds >= 0.0995 ? `${seconds.toFixed(1)} s` : `${(seconds * 1000).toFixed(seconds < 1e-4 ? 2 : 1)} ms`);
    return parts.join(" · ");
  }

  function sumsOf(g) {
    const moment = moments[at];
    if (operators.get(g.all[0])?.records === null || !g.all.length) return null;
    const sum = (f) => g.all.reduce((total, id) => total + (f(id) || 0), 0);
    return [["records sent inside", numeral(sum((id) => seen.counts.get(id)))], ["rows held", numeral(sum((id) => times.heldAt(operators.get(id), moment)))],
      ["seconds in all", sum((id) => operators.get(id).seconds).toFixed(4)]];
  }

  function showBar(moment) {
    slider.value = at;
    bar.querySelector(".times output").textContent = times.momentText(moment);
    const shown = round < 0 ? moment.rounds : [moment.rounds[round]];
    const which = round < 0 ? (moment.rounds.length > 1 ? `all ${moment.rounds.length} iterations` : "one iteration") : `iteration ${timeText(moment.rounds[round].time)}`;
    strip.querySelector("output").textContent = moment.rounds.length ? `${which}: ${counted(shown.reduce((sum, r) => sum + r.sent, 0), "record")} sent` : moment.isNow ? "iterations of loops are shown at each time: ◀" : "no iterations";
    if (strip.dataset.of !== String(at)) showStrip(strip, moment);
    const bars = strip.querySelector(".bars");
    const here = round < 0 ? null : bars.children[Math.floor(round / perBar(moment))];
    for (const one of bars.children) one.setAttribute("aria-pressed", one === here);
    if (!here) return;
    const begin = here.offsetLeft - bars.offsetLeft;
    if (begin < bars.scrollLeft || begin + here.offsetWidth > bars.scrollLeft + bars.clientWidth) bars.scrollLeft = begin - bars.clientWidth / 2;
  }

  // How many iterations one bar stands for.
  function perBar(moment) {
    return Math.ceil(moment.rounds.length / MOST_BARS);
  }

  // The iterations of a moment as bars, as high as there are records; a click goes there, keys go on inside of a bar.
  function showStrip(strip, moment) {
    strip.dataset.of = at;
    const pools = [];
    for (let i = 0; i < moment.rounds.length; i += perBar(moment)) {
      const pool = moment.rounds.slice(i, i + perBar(moment));
      pools.push({ i, times: pool.map((r) => timeText(r.time)), sent: pool.reduce((sum, r) => sum + r.sent, 0) });
    }
    const most = Math.max(1, ...pools.map((pool) => pool.sent));
    const bars = pools.map(({ i, times: [first, ...others], sent }) => {
      const said = `${others.length ? `iterations ${first} to ${others.pop()}` : `iteration ${first}`}: ${counted(sent, "record")}`;
      return html`<button data-round="${i}" title="${said}" aria-label="${said}" aria-pressed="false"><i style="height:${Math.round(4 + (22 * Math.log1p(sent)) / Math.log1p(most))}px"></i></button>`;
    });
    const place = strip.querySelector(".bars");
    rewrite(place, root, () => { place.innerHTML = bars.join(""); });
  }

  function showPanel() {
    const o = operators.get(chosen);
    let text;
    if (isTable) text = book.table(find.value, seen.counts, chosen);
    else if (o) text = book.details(o, seen.standing);
    else if (groups.has(chosen)) text = book.boxDetails(groups.get(chosen), seen.standing, sumsOf(groups.get(chosen)));
    else text = book.overview(seen.counts, seen.standing);
    rewrite(known, root, () => { known.innerHTML = text; });
    const subject = isTable ? "table" : chosen;
    if (subjectShown !== subject) panel.scrollTop = 0;
    subjectShown = subject;
    const id = o ? chosen : groups.get(chosen)?.result;
    if (!isTable && id !== undefined && id !== null) showRecords(id, moments[at]);
  }

  async function showRecords(id, moment) {
    const kept = data.records[id];
    if (kept) showFound(kept, moment.isNow ? "Records" : "Records, not at this time but now");
    if (!ask || (kept && (moment.isNow || moment.user === null))) return;
    const which = chosen;
    const found = await ask(id, moment.user ?? null);
    if (chosen === which && moments[at] === moment && found) showFound(found, "Records");
  }

  function showFound(found, heading) {
    const place = panel.querySelector(".records");
    if (place) place.innerHTML = book.records(found, heading);
  }

  // -- what people do -------------------------------------------------------------------------------------------

  function goTo(moment, which = -1) {
    asked = null;
    at = Math.max(0, Math.min(moments.length - 1, moment));
    round = Math.max(-1, Math.min(moments[at].rounds.length - 1, which));
    show();
    if (!moments[at].isNow && follows) shown.follow();
  }

  function choose(id) {
    chosen = id;
    shown.choose(id);
    showPanel();
    const row = isTable && panel.querySelector("tr.here")?.getBoundingClientRect();
    const place = panel.getBoundingClientRect();
    if (row && (row.top < place.top || row.bottom > place.bottom)) panel.scrollTop += row.top - place.top - place.height / 3;
  }

  // Choose something from a list, and show it in the picture.
  function reveal(id) {
    if (follows) shown.reveal(id);
    choose(id);
  }

  function openAll() {
    tree.openAll();
    shown.redraw();
  }

  function setTable(wanted) {
    isTable = wanted;
    root.classList.toggle("lists", wanted);
    bar.querySelector("[data-do=table]").setAttribute("aria-pressed", wanted);
    showPanel();
  }

  function setFollows() {
    follows = !follows;
    bar.querySelector("[data-do=follow]").setAttribute("aria-pressed", follows);
  }

  function play() {
    if (playing !== null) {
      clearInterval(playing);
      playing = null;
    } else {
      if (at >= moments.length - 1) goTo(0);
      playing = setInterval(() => {
        if (round + 1 < moments[at].rounds.length) goTo(at, round + 1);
        else if (at + 1 < moments.length) goTo(at + 1);
        else play();
      }, 700);
    }
    bar.querySelector("[data-do=play]").textContent = playing === null ? "play" : "pause";
  }

  function save(blob, ending) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${data.name}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Save what is seen, or say why it cannot be saved.
  async function saveAs(ending, make) {
    try {
      save(await make(shown.toSvg()), ending);
    } catch (error) {
      known.insertAdjacentHTML("afterbegin", html`<p class="holding" role="alert">cannot be saved as ${ending.toUpperCase()}: ${error.message}</p>`);
      panel.scrollTop = 0;
    }
  }

  function svgOf({ text }) {
    return new Blob([text], { type: "image/svg+xml" });
  }

  async function pngOf({ text, width, height }) {
    const image = new Image();
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(new Error("the browser does not draw its SVG"));
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    });
    const made = document.createElement("canvas");
    [made.width, made.height] = [2 * width, 2 * height];
    made.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    const blob = await new Promise((resolve) => made.toBlob(resolve, "image/png"));
    if (!blob) throw new Error(`the browser makes no picture of ${made.width} × ${made.height} pixels`);
    return blob;
  }

  const DO = {
    fit: () => shown.fit(), in: () => shown.zoom(1.25), out: () => shown.zoom(0.8),
    play, back: () => goTo(at - 1), on: () => goTo(at + 1), follow: setFollows, table: () => setTable(!isTable),
    open: openAll, close: () => shown.begin(), svg: () => saveAs("svg", svgOf), png: () => saveAs("png", pngOf), dark: () => root.classList.toggle("dark"),
  };
  const KEYS = {
    ArrowLeft: DO.back, ArrowRight: DO.on, ArrowUp: () => goTo(at, round - 1), ArrowDown: () => goTo(at, round + 1),
    "+": DO.in, "=": DO.in, "-": DO.out, 0: DO.fit, " ": play, t: DO.table, f: DO.follow, "/": () => find.focus(),
    Escape: () => (isTable ? setTable(false) : chosen !== null ? choose(null) : round >= 0 ? goTo(at) : goTo(moments.length - 1)),
  };

  // -- the page -------------------------------------------------------------------------------------------------

  root.classList.add("tidemill");
  root.tabIndex = 0;
  root.setAttribute("role", "application");
  root.setAttribute("aria-label", `dataflow ${data.name}`);
  root.innerHTML = html`<header><b title="${data.name}">${data.name}</b>
    <span class="times"><button data-do="back" title="the time before: ←" aria-label="the time before">◀</button><button data-do="on" title="the next time: →" aria-label="the next time">▶</button><button data-do="play" title="space">play</button>
    <input type="range" min="0" max="${moments.length - 1}" aria-label="time"><output aria-live="polite"></output></span>
    <input type="search" placeholder="find  /" aria-label="find operators by name, column, kind or line">
    <span class="tools"><button data-do="table" aria-pressed="false" title="a table of operators: t">table</button><button data-do="follow" aria-pressed="true" title="bring what has work into view: f">follow</button><button data-do="open" title="open all boxes">open all</button><button data-do="close" title="as at first">reset</button><button data-do="out" title="-" aria-label="smaller">−</button><button data-do="in" title="+" aria-label="larger">+</button><button data-do="fit" title="0">fit</button><button data-do="svg" title="save what is seen as SVG">SVG</button><button data-do="png" title="save what is seen as PNG">PNG</button><button data-do="dark" title="dark or light" aria-label="dark or light">◐</button></span></header>
    <div class="rounds" role="group" aria-label="iterations"><output></output><span class="bars"></span></div>
    <main></main><aside aria-label="details"><div></div>` + LEGEND + "</aside>";
  const bar = root.querySelector("header");
  const panel = root.querySelector("aside");
  const known = panel.firstElementChild; // what is written anew at each moment; the legend stays
  const [slider, find] = bar.querySelectorAll("input");
  const main = root.querySelector("main");
  const canvas = make("svg", { class: "canvas", "font-family": "Helvetica, Arial, sans-serif", role: "group", "aria-label": "the graph" }, main);
  const map = make("svg", { class: "map", "aria-hidden": "true" }, main);
  const strip = root.querySelector(".rounds");
  strip.style.display = moments.some((m) => m.rounds.length) ? "" : "none";
  const longest = moments.reduce((most, m) => Math.max(most, times.momentText(m).length), 0);
  bar.querySelector(".times output").style.width = `${Math.min(40, Math.max(24, longest))}ch`; // one for all: the slider stays where it is
  if (!data.steps.length) bar.querySelector(".times").style.display = "none";
  const setTheme = () => root.classList.toggle("dark", isDark());
  const hosted = new MutationObserver(setTheme);
  hosted.observe(document.body, { attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", setTheme);
  setTheme();
  const narrow = new ResizeObserver(() => root.classList.toggle("narrow", root.clientWidth < 700));
  narrow.observe(root);
  root.classList.toggle("narrow", root.clientWidth < 700);
  panel.lastElementChild.open = root.clientWidth >= 700;

  // By the theme of what it is in: JupyterLab, VS Code, or the browser, where people may have it otherwise.
  function isDark() {
    const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
    bar.querySelector("[data-do=dark]").hidden = Boolean(jpThemeLight ?? vscodeThemeKind);
    if (jpThemeLight) return jpThemeLight === "false";
    return vscodeThemeKind ? !vscodeThemeKind.endsWith("light") : system.matches;
  }

  slider.addEventListener("input", () => goTo(Number(slider.value)));
  find.addEventListener("input", () => setTable(find.value.trim() !== ""));
  bar.addEventListener("click", (event) => DO[event.target.dataset.do]?.());
  strip.addEventListener("click", (event) => {
    const to = event.target.closest("[data-round]");
    if (to) goTo(at, to.getAttribute("aria-pressed") === "true" ? -1 : Number(to.dataset.round));
  });
  const pressed = (event) => {
    const to = event.target.closest(PRESSED);
    if (!to) return;
    if (to.dataset.go === "-1") {
      asked = JSON.parse(to.dataset.time);
      show();
    } else if (to.dataset.go !== undefined) goTo(Number(to.dataset.go), Number(to.dataset.round));
    else if (to.dataset.sort) book.sortBy(to.dataset.sort);
    else if (to.dataset.only) book.show(to.dataset.only);
    else if (to.dataset.open) shown.toggle(Number(to.dataset.open));
    else reveal(Number(to.dataset.choose));
    if (to.dataset.sort || to.dataset.only) showPanel();
  };
  panel.addEventListener("click", pressed);
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === find && event.key !== "Escape") return;
    const isPress = event.key === "Enter" || event.key === " ";
    const on = event.target.closest("[data-group], .operator");
    let act = KEYS[event.key];
    if (isPress && on) {
      const id = Number(on.dataset.group ?? on.dataset.id);
      act = () => (groups.has(id) ? shown.toggle(id) : choose(id));
    } else if (isPress && event.target.closest("button, summary, input")) return; // does what it does
    else if (isPress && panel.contains(event.target)) act = () => pressed(event);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.target === find) {
      find.value = "";
      root.focus({ preventScroll: true });
    }
    act();
  });
  canvas.addEventListener("pointerdown", () => root.focus({ preventScroll: true }));

  const book = panelOf(data, tree, times, () => ({ moment: moments[at], at, round, time: asked ?? moments[at].user }));
  const shown = picture(canvas, map, data, tree, { clicked: choose, toggled: showPanel });

  function stop() {
    shown.stop();
    narrow.disconnect();
    hosted.disconnect();
    system.removeEventListener("change", setTheme);
    if (playing !== null) play();
  }

  show();
  return { goTo, choose, toggle: shown.toggle, openAll, reveal, fit: DO.fit, stop, moments, tree, picture: shown };
}

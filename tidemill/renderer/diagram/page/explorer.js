// The explorer: a picture, the times of a run, which it steps through, and a panel with what is known of an operator.
//
// explore(root, data, ask) shows `data` (written by explorer_page.py) in an element. `ask(id, time)`, where there is one,
// asks for an operator's records, and answers with a promise of {columns, rows, note}. What is drawn changes one closed
// time at a time, and all at once. The picture is picture.js.

function explore(root, data, ask) {
  "use strict";
  const operators = new Map(data.operators.map((o) => [o.id, o]));
  const loops = new Map(data.loops.map((l) => [l.id, l]));
  const readers = new Map(data.operators.map((o) => [o.id, []]));
  for (const o of data.operators) for (const source of o.reads) readers.get(source).push(o.id);
  const users = data.coordinates.length;
  const moments = momentsOf(data.steps);
  const saysAll = data.operators.length <= 300; // with more, boxes tell their frontier where it is not that of most
  const heldAfter = heldBySteps(data.steps);
  let at = moments.length - 1; // which moment
  let round = -1; // which of its iterations; -1: all of them together
  let chosen = null; // the operator whose details are shown
  let playing = null;

  // -- times ----------------------------------------------------------------------------------------------------

  // A moment is a time of the user's at which operators had work, in a step; the last one is now, all times together.
  function momentsOf(steps) {
    const found = [];
    steps.forEach((step, index) => {
      const byTime = new Map();
      for (const [id, work] of Object.entries(step.operators)) {
        for (const [time, count] of work.times) {
          const key = time.slice(0, users).join();
          if (!byTime.has(key)) byTime.set(key, { step: index, user: time.slice(0, users), work: [] });
          byTime.get(key).work.push([Number(id), time, count]);
        }
      }
      const inOrder = [...byTime.values()].sort((a, b) => compared(a.user, b.user));
      found.push(...(inOrder.length ? inOrder : [{ step: index, user: null, work: [] }]));
    });
    for (const moment of found) moment.rounds = roundsOf(moment);
    found.push({ step: steps.length - 1, user: data.now, work: null, rounds: [], isNow: true });
    return found;
  }

  function roundsOf(moment) {
    const found = new Map();
    for (const [, time] of moment.work) if (time.length > users) found.set(time.slice(users).join(), time.slice(users));
    return [...found.values()].sort(compared);
  }

  // For each operator the steps in which it had work, and how many rows it held after each.
  function heldBySteps(steps) {
    const found = new Map();
    steps.forEach((step, index) => {
      for (const [id, work] of Object.entries(step.operators)) {
        if (!found.has(Number(id))) found.set(Number(id), []);
        found.get(Number(id)).push([index, work.held]);
      }
    });
    return found;
  }

  function heldAt(o, moment) {
    if (moment.isNow) return o.held;
    const known = heldAfter.get(o.id) || [];
    let [low, high] = [0, known.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (known[middle][0] <= moment.step) low = middle + 1;
      else high = middle;
    }
    return low ? known[low - 1][1] : null; // before its first step on record nobody knows
  }

  function compared(a, b) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return isLess(a[i], b[i]) ? -1 : 1;
    return a.length - b.length;
  }

  // Of coordinates, which are text where a number of JavaScript's would round them.
  function isLess(a, b) {
    return typeof a === "number" && typeof b === "number" ? a < b : BigInt(a) < BigInt(b);
  }

  // How many records each operator sent at the moment, or in one of its iterations.
  function countsAt(moment, which) {
    const counts = new Map();
    if (moment.isNow) {
      for (const o of data.operators) if (o.records !== null) counts.set(o.id, o.records);
      return counts;
    }
    const wanted = which < 0 ? null : moment.rounds[which].join();
    for (const [id, time, count] of moment.work) {
      if (wanted === null || time.slice(users).join() === wanted) counts.set(id, (counts.get(id) || 0) + count);
    }
    if (moment.user === null) {
      for (const [id, work] of Object.entries(data.steps[moment.step].operators)) counts.set(Number(id), work.out);
    }
    return counts;
  }

  function frontierOf(id, moment) {
    const known = moment.isNow ? data.frontiers : data.steps[moment.step].frontiers;
    return known ? (id in known.others ? known.others[id] : known.common) : null;
  }

  // Whether an operator's frontier is another than that of most: all others' would be the same text everywhere.
  function isApart(id, moment) {
    const known = moment.isNow ? data.frontiers : data.steps[moment.step].frontiers;
    return Boolean(known) && id in known.others;
  }

  // Whether nothing at the moment's time can come to an operator any more; null where there is nothing to say.
  function hasPassed(id, moment) {
    const frontier = moment.user === null || moment.user === undefined ? null : frontierOf(id, moment);
    return frontier === null ? null : !frontier.some((t) => t.every((c, i) => !isLess(moment.user[i], c)));
  }

  // Who is still to pass the moment's time: those that hold it back, where all before them has passed, and who waits.
  function standingOf(moment) {
    const standing = new Map();
    for (const o of data.operators) { // in topological order: what it reads has been looked at
      const passed = hasPassed(o.id, moment);
      if (passed === null) continue;
      const blocked = o.reads.some((source) => standing.has(source) && standing.get(source) !== "passed");
      standing.set(o.id, passed ? "passed" : blocked || o.role === "variable" ? "waits" : "holds");
    }
    return standing;
  }

  function timeText(time) {
    return time.length === 1 ? String(time[0]) : `(${time.join(", ")})`;
  }

  function frontierText(frontier) {
    return frontier === null ? "" : frontier.length ? frontier.map(timeText).join(" ") : "closed";
  }

  function momentText(moment) {
    if (moment.isNow) return data.steps.length ? "now: all that was done" : "";
    const step = `step ${data.steps[moment.step].number}`;
    if (moment.user === null) return `${step}: no changes`;
    return `${data.coordinates.join(", ")} ${timeText(moment.user)} · ${step}`;
  }

  // -- one moment -----------------------------------------------------------------------------------------------

  function show() {
    const moment = moments[at];
    const counts = countsAt(moment, round);
    const standing = standingOf(moment);
    shown.paint({
      isStepped: !moment.isNow, counts, standsOf: (o) => standsOf(o, moment),
      states: new Map(data.operators.map((o) => [o.id, stateOf(o, moment, counts, standing)])),
    });
    showBar(moment);
    showPanel(moment, counts, standing);
  }

  function stateOf(o, moment, counts, standing) {
    const isAlive = counts.has(o.id) && (!moment.isNow || counts.get(o.id) > 0);
    const state = [...(isAlive ? ["alive"] : []), ...(standing.has(o.id) ? [standing.get(o.id)] : [])];
    return [...state, ...(o.id === chosen ? ["chosen"] : [])].join(" ");
  }

  // What an operator's last line says: what it held after the moment's step, and where it was.
  function standsOf(o, moment) {
    const held = heldAt(o, moment);
    const parts = held ? [`${numeral(held)} held`] : [];
    if (saysAll || o.role === "end" || isApart(o.id, moment)) parts.push(`frontier ${frontierText(frontierOf(o.id, moment))}`);
    return parts.join(" · ");
  }

  function showBar(moment) {
    slider.value = at;
    bar.querySelector(".times output").textContent = momentText(moment);
    bar.querySelector(".rounds").style.display = moment.rounds.length ? "" : "none";
    roundSlider.max = moment.rounds.length - 1;
    roundSlider.value = round;
    const text = round < 0 ? "all iterations" : `iteration ${timeText(moment.rounds[round])}`;
    bar.querySelector(".rounds output").textContent = text;
  }

  function html(parts, ...values) {
    const escape = (v) => String(v).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
    return parts.reduce((text, part, i) => text + escape(values[i - 1]) + part);
  }

  function title(o) {
    return html`#${o.id} ${o.kind} ${o.name}`;
  }

  function link(id) {
    return html`<a data-choose="${id}">` + title(operators.get(id)) + "</a>";
  }

  function showPanel(moment, counts, standing) {
    const o = chosen === null ? null : operators.get(chosen);
    panel.innerHTML = o ? details(o, moment, standing) : overview(moment, counts, standing);
    if (o) showRecords(o, moment);
  }

  function overview(moment, counts, standing) {
    const size = `${counted(data.operators.length, "operator")}, ${counted(data.loops.length - 1, "loop")}`;
    let text = html`<h2>${data.name}</h2><p class="soft">${size}</p>`;
    if (standing.size) text += stuck(moment, standing);
    if (!moment.isNow) {
      const busy = [...counts].filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
      text += html`<h3>Sent at this time</h3>` + (busy.length ? "<table>" : "<p>nothing</p>");
      for (const [id, count] of busy.slice(0, 40)) {
        text += html`<tr data-choose="${id}"><td>` + link(id) + "</td>";
        text += html`<td class="number">${numeral(count)}</td></tr>`;
      }
      text += busy.length ? "</table>" : "";
    }
    text += "<h3>Keys</h3><p class='soft'>← → times · ↑ ↓ iterations · + − 0 zoom · Esc back · click a loop's title to fold it</p>";
    return text;
  }

  function stuck(moment, standing) {
    const ids = (state) => [...standing].filter(([, s]) => s === state).map(([id]) => id);
    const holding = ids("holds");
    const waiting = ids("waits").length;
    let text = html`<h3>Where is time ${timeText(moment.user)}?</h3><p class="passing">${ids("passed").length} passed it</p>`;
    for (const id of holding.slice(0, 8)) {
      const frontier = frontierText(frontierOf(id, moment));
      text += `<p class="holding">held back by ${link(id)}`;
      text += html`, whose frontier is ${frontier}</p>`;
    }
    if (holding.length > 8) text += html`<p>… and ${holding.length - 8} more</p>`;
    return text + (waiting ? html`<p class="waiting">${waiting} ${waiting === 1 ? "waits" : "wait"}</p>` : "");
  }

  function details(o, moment, standing) {
    let text = `<h2>${title(o)}</h2>`;
    text += html`<p class="soft">${o.line}</p>` + (o.source ? html`<pre>${o.source}</pre>` : "");
    if (o.does) text += html`<h3>Does</h3><pre>${o.does}</pre>`;
    text += html`<h3>Rows</h3><pre>${o.schema}</pre>`;
    if (o.loop) text += html`<p class="soft">in ${loops.get(o.loop).title}</p>`;
    text += updatesAt(o, moment) + '<div class="records"></div>';
    const links = (ids) => ids.map((id) => `<p>${link(id)}</p>`).join("");
    if (o.reads.length) text += `<h3>Reads</h3>${links(o.reads)}`;
    if (readers.get(o.id).length) text += `<h3>Is read by</h3>${links(readers.get(o.id).slice(0, 30))}`;
    return text + figures(o, moment, standing) + perTime(o);
  }

  function figures(o, moment, standing) {
    if (o.records === null) return "";
    const work = moment.isNow || moment.step < 0 ? null : data.steps[moment.step].operators[o.id];
    const rows = [["records sent", o.records], ["rows held", o.held], ["seconds", o.seconds.toFixed(4)]];
    if (work) rows.push(["in this step: records in", work.in], ["records out", work.out], ["rounds", work.rounds],
      ["seconds", work.seconds.toFixed(5)], ["rows held after it", work.held], ["waiting", work.waiting]);
    const frontier = frontierOf(o.id, moment);
    if (frontier !== null) rows.push(["frontier", frontierText(frontier)]);
    if (standing.has(o.id)) {
      const said = { passed: "has passed this time", waits: "waits for this time", holds: "holds this time back" };
      rows.push(["", said[standing.get(o.id)]]);
    }
    const cell = (v) => (typeof v === "number" ? numeral(v) : v);
    return "<h3>Figures</h3><table>" + rows.map(([k, v]) => html`<tr><td>${k}</td><td class="number">${cell(v)}</td></tr>`).join("") + "</table>";
  }

  // The changes of an operator at each time, in the order in which they were made; a click goes there.
  function perTime(o) {
    const lines = [];
    moments.forEach((moment, m) => {
      if (moment.isNow) return;
      for (const [id, time, count] of moment.work) if (id === o.id) lines.push([m, time, count]);
    });
    if (!lines.length) return "";
    const near = Math.max(0, lines.findIndex(([m]) => m >= at) - 50);
    let text = "<h3>Records sent, by time</h3><table>";
    for (const [m, time, count] of lines.slice(near, near + 200)) {
      const which = moments[m].rounds.findIndex((r) => r.join() === time.slice(users).join());
      const isHere = m === at && (round < 0 || round === which);
      const state = isHere ? "here" : m > at ? "later" : "";
      text += html`<tr class="${state}" data-go="${m}" data-round="${which}"><td>${timeText(time)}</td><td class="number">${numeral(count)}</td></tr>`;
    }
    return text + "</table>" + (lines.length > 200 ? html`<p class="soft">${lines.length} times in all</p>` : "");
  }

  // The updates of an operator at the moment, or in one of its iterations, as far as they are on record.
  function updatesAt(o, moment) {
    const work = moment.isNow || moment.step < 0 ? null : data.steps[moment.step].operators[o.id];
    if (!work || !work.rows.length) return "";
    const wanted = round < 0 ? null : moment.rounds[round].join();
    const isHere = (time) => compared(time.slice(0, users), moment.user) === 0
      && (wanted === null || time.slice(users).join() === wanted);
    const found = work.rows.filter(([, time]) => isHere(time));
    const sent = work.times.filter(([time]) => isHere(time)).reduce((sum, [, count]) => sum + count, 0);
    if (!sent) return "";
    let text = "<h3>Updates at this time</h3><table>";
    for (const [row, time, diff] of found) {
      text += "<tr>" + row.map((v) => html`<td>${v}</td>`).join("");
      text += html`<td class="soft">${timeText(time)}</td><td class="number">${diff > 0 ? "+" : ""}${diff}</td></tr>`;
    }
    const more = sent - found.length;
    return text + "</table>" + (more > 0 ? html`<p class="soft">and ${numeral(more)} more, not on record</p>` : "");
  }

  async function showRecords(o, moment) {
    const kept = data.records[o.id];
    if (kept) showFound(kept, moment.isNow ? "Records" : "Records, not at this time but now");
    if (!ask || (kept && (moment.isNow || moment.user === null))) return;
    const found = await ask(o.id, moment.user ?? null);
    if (chosen === o.id && moments[at] === moment && found) showFound(found, "Records");
  }

  function showFound(found, heading) {
    const place = panel.querySelector(".records");
    if (!place) return;
    let text = html`<h3>${heading}</h3>` + (found.note ? html`<p class="soft">${found.note}</p>` : "");
    if (found.columns) {
      text += "<table><tr>" + found.columns.map((c) => html`<th>${c}</th>`).join("") + "</tr>";
      text += found.rows.map((r) => "<tr>" + r.map((v) => html`<td>${v}</td>`).join("") + "</tr>").join("") + "</table>";
    }
    place.innerHTML = text;
  }

  // -- what people do -------------------------------------------------------------------------------------------

  function goTo(moment, which = -1) {
    at = Math.max(0, Math.min(moments.length - 1, moment));
    round = Math.max(-1, Math.min(moments[at].rounds.length - 1, which));
    show();
    if (!moments[at].isNow) shown.follow();
  }

  function choose(id) {
    chosen = id;
    show();
  }

  function fold(loop) {
    shown.fold(loop);
    show();
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

  const DO = {
    fit: () => shown.fit(), in: () => shown.zoom(1.25), out: () => shown.zoom(0.8),
    play, back: () => goTo(at - 1), on: () => goTo(at + 1),
    dark: () => root.classList.toggle("dark"),
  };
  const KEYS = {
    ArrowLeft: DO.back, ArrowRight: DO.on, ArrowUp: () => goTo(at, round - 1), ArrowDown: () => goTo(at, round + 1),
    "+": DO.in, "=": DO.in, "-": DO.out, 0: DO.fit,
    Escape: () => (chosen !== null ? choose(null) : round >= 0 ? goTo(at) : goTo(moments.length - 1)),
  };

  // -- the page -------------------------------------------------------------------------------------------------

  root.classList.add("tidemill");
  root.tabIndex = 0;
  root.innerHTML = html`<header><b>${data.name}</b>
    <span class="times"><button data-do="back" title="←">◀</button><button data-do="on" title="→">▶</button><button data-do="play">play</button>
    <input type="range" min="0" max="${moments.length - 1}" aria-label="time"><output></output></span>
    <span class="rounds"><input type="range" min="-1" aria-label="iteration"><output></output></span>
    <button data-do="out" title="-">−</button><button data-do="in" title="+">+</button><button data-do="fit" title="0">fit</button><button data-do="dark" title="dark or light">◐</button></header>
    <main></main><aside></aside>`;
  const bar = root.querySelector("header");
  const panel = root.querySelector("aside");
  const [slider, roundSlider] = bar.querySelectorAll("input");
  const canvas = make("svg", { class: "canvas", "font-family": "Helvetica, Arial, sans-serif" }, root.querySelector("main"));
  if (!data.steps.length) bar.querySelector(".times").style.visibility = "hidden";
  if (window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches) root.classList.add("dark");

  slider.addEventListener("input", () => goTo(Number(slider.value)));
  roundSlider.addEventListener("input", () => goTo(at, Number(roundSlider.value)));
  bar.addEventListener("click", (event) => DO[event.target.dataset.do]?.());
  panel.addEventListener("click", (event) => {
    const to = event.target.closest("[data-choose], [data-go]");
    if (to?.dataset.go !== undefined) goTo(Number(to.dataset.go), Number(to.dataset.round));
    else if (to) choose(Number(to.dataset.choose));
  });
  root.addEventListener("keydown", (event) => {
    const isOnTitle = event.target.dataset?.loop !== undefined && (event.key === "Enter" || event.key === " ");
    const act = isOnTitle ? () => fold(Number(event.target.dataset.loop)) : KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
  canvas.addEventListener("pointerdown", () => root.focus({ preventScroll: true }));

  const shown = picture(canvas, data, (loop, operator) => (loop === null ? choose(operator) : fold(loop)));

  function stop() {
    shown.stop();
    if (playing !== null) play();
  }

  show();
  return { goTo, choose, fold, fit: DO.fit, stop, moments };
}

// The panel: what is known of a box at a moment, who holds a time back, the table of operators, the legend.

function html(parts, ...values) {
  const escape = (v) => String(v).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  return parts.reduce((text, part, i) => text + escape(values[i - 1]) + part);
}

const MOST_TIMES = 10; // of each coordinate in the grid
const MOST_TOP = 5; // of those with the largest figures
const MOST_BUSY = 20; // operators that are listed by what they sent
const MOST_ROWS = 100; // of the table of operators
const PAIRED = 200; // updates of a time up to which old and new are looked for

// Put together what is the old and the new of one row: of the updates at one time those that are most alike.
function pairsOf(rows) {
  if (rows.length > PAIRED) return rows.map((row) => [row]);
  const [gone, come] = [rows.filter((r) => r[2] === -1), rows.filter((r) => r[2] === 1)];
  const found = [];
  for (const old of gone) {
    const alike = (fresh) => (fresh[1].join() === old[1].join() ? fresh[0].filter((v, i) => v === old[0][i]).length : -1);
    let best = null;
    for (const fresh of come) if (alike(fresh) > Math.max(best ? alike(best) : 0, (old[0].length - 1) / 2 - 0.5)) best = fresh;
    if (best) come.splice(come.indexOf(best), 1);
    found.push(best ? [old, best] : [old]);
  }
  const paired = new Map(found.map((pair) => [pair[0], pair]));
  return rows.flatMap((row) => (paired.has(row) ? [paired.get(row)] : row[2] === -1 || (row[2] === 1 && !come.includes(row)) ? [] : [[row]]));
}

// Updates as a table with the names of columns: what came in green with +, what went in red with -, both in one line.
function updatesTable(columns, rows) {
  let text = '<table class="updates"><tr><th></th>' + columns.map((c) => html`<th>${c}</th>`).join("") + "<th>time</th></tr>";
  for (const [old, fresh] of pairsOf(rows)) {
    const time = html`<td class="soft">${timeText(old[1])}</td></tr>`;
    if (!fresh) {
      const sign = old[2] > 0 ? "+" : "−";
      text += html`<tr class="${old[2] > 0 ? "plus" : "minus"}"><td class="sign">${sign}${Math.abs(old[2]) === 1 ? "" : Math.abs(old[2])}</td>`;
      text += old[0].map((v) => html`<td>${v}</td>`).join("") + time;
      continue;
    }
    text += '<tr class="both"><td class="sign">±</td>' + old[0].map((v, i) => (v === fresh[0][i] ? html`<td>${v}</td>`
      : html`<td><del>−${v}</del> <ins>+${fresh[0][i]}</ins></td>`)).join("") + time;
  }
  return text + "</table>";
}

const LEGEND = `<details class="legend" open><summary>Legend</summary>
  <p><i class="swatch end"></i> input or output</p><p><i class="swatch state"></i> holds rows</p>
  <p><i class="swatch plain"></i> passes rows on</p><p><i class="swatch variable"></i> what a loop has so far</p>
  <p><i class="swatch some"></i> an input or output is inside, too</p>
  <p><i class="swatch group"></i> + a box with others inside: double click, or Enter, opens it</p>
  <p><b>⟳</b> a loop; beside +, a loop is inside</p>
  <p><i class="swatch holds"></i> holds the time back</p><p><i class="swatch waits"></i> waits for others</p>
  <p><i class="stroke alive"></i> records went along</p><p><i class="stroke back"></i> goes back to the next iteration</p>
  <p><i class="stroke never"></i> nothing was ever sent</p>
  <p class="soft hint">Keys: ← → times · ↑ ↓ iterations · space plays · / finds · t table · f follows · + − 0 zoom · Tab and
  Enter go through boxes and open them · Esc back</p></details>`;

// panelOf(data, tree, times, where) returns what writes the panel: `where` says the moment and the iteration.
function panelOf(data, tree, times, where) {
  "use strict";
  const { operators, groups } = tree;
  const readers = new Map(data.operators.map((o) => [o.id, []]));
  for (const o of data.operators) for (const source of o.reads) readers.get(source).push(o.id);
  let sort = { by: "seconds", down: true };
  let only = "all";

  const title = (o) => html`#${o.id} ${o.title}`; // as boxes and the table call it
  const link = (id) => html`<a data-choose="${id}" tabindex="0" role="button">` + (operators.has(id) ? title(operators.get(id)) : html`${tree.titleOf(id)}`) + "</a>";

  function overview(counts, standing) {
    const { moment } = where();
    const loops = data.groups.filter((g) => g.kind === "loop").length;
    let text = html`<h2>${data.name}</h2><p class="soft">${counted(data.operators.length, "operator")}, ${counted(loops, "loop")}</p>`;
    text += html`<p class="soft hint">Click a box to see what it does and holds; + opens it.${data.steps.length ? " ◀ ▶ go from time to time." : ""}</p>`;
    if (standing.size) text += timeGrid(moment) + stuck(moment, standing);
    if (moment.isNow) text += most("Took most time", "seconds", (s) => `${s.toFixed(4)} s`) + most("Holds most rows", "held", numeral);
    else {
      const busy = [...counts].filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
      text += html`<h3>Sent at ${where().time === moment.user ? "this time" : `time ${timeText(moment.user)}`}</h3>` + (busy.length ? "<table>" : "<p>nothing</p>");
      for (const [id, count] of busy.slice(0, MOST_BUSY)) text += html`<tr data-choose="${id}"><td>` + link(id) + html`</td><td class="number">${numeral(count)}</td></tr>`;
      text += busy.length ? "</table>" : "";
      if (busy.length > MOST_BUSY) text += html`<p class="soft">and ${numeral(busy.length - MOST_BUSY)} more: see the table</p>`;
    }
    return text;
  }

  function most(heading, figure, told) {
    const found = data.operators.filter((o) => o[figure]).sort((a, b) => b[figure] - a[figure]).slice(0, MOST_TOP);
    const rows = found.map((o) => html`<tr data-choose="${o.id}"><td>` + link(o.id) + html`</td><td class="number">${told(o[figure])}</td></tr>`);
    return rows.length ? html`<h3>${heading}</h3>` + `<table>${rows.join("")}</table>` : "";
  }

  function stuck(moment, standing) {
    const ids = (state) => [...standing].filter(([, s]) => s === state).map(([id]) => id);
    const holding = ids("holds");
    const waiting = ids("waits").length;
    let text = html`<h3>Where is time ${timeText(where().time)}?</h3><p class="passing">✓ ${counted(ids("passed").length, "operator")} passed it</p>`;
    for (const id of holding.slice(0, 8)) {
      text += `<p class="holding">‖ held back by ${link(id)}` + html`, whose frontier is ${times.frontierText(times.frontierOf(id, moment))}</p>`;
    }
    if (holding.length > 8) text += html`<p>… and ${holding.length - 8} more</p>`;
    return text + (waiting ? html`<p class="waiting">… ${waiting} ${waiting === 1 ? "waits" : "wait"}</p>` : "");
  }

  // For two coordinates, the times around: closed, open, or held back, and by whom. A click goes there.
  function timeGrid(moment) {
    if (times.users !== 2) return "";
    const known = [...times.moments.filter((m) => m.user).map((m) => m.user), ...times.edges()];
    const axis = (i) => {
      const found = [...new Map(known.map((t) => [String(t[i]), t[i]])).values()].sort((a, b) => (a === b ? 0 : isLess(a, b) ? -1 : 1));
      const [low, high] = [found[0], found[found.length - 1]];
      const isShort = typeof low === "number" && high - low < MOST_TIMES;
      return isShort ? Array.from({ length: high - low + 1 }, (_, k) => low + k) : found.slice(-MOST_TIMES);
    };
    const [across, upwards] = [axis(0), axis(1)];
    const [first, second] = data.coordinates;
    let text = html`<h3>Times</h3><table class="grid" aria-label="times of ${first} and ${second}"><tr><th>${second} ↑ ${first} →</th>`;
    text += across.map((c) => html`<th>${c}</th>`).join("") + "</tr>";
    for (const b of upwards.reverse()) {
      text += html`<tr><th>${b}</th>`;
      for (const a of across) {
        const standing = [...times.standingOf(moment, [a, b])];
        const has = (state) => standing.filter(([, s]) => s === state).map(([id]) => id);
        const state = has("passed").length === standing.length ? "closed" : has("passed").length ? "held" : "open";
        const by = state === "held" ? ` by ${has("holds").map((id) => operators.get(id).name).join(", ")}` : "";
        const to = times.moments.findIndex((m) => m.user && compared(m.user, [a, b]) === 0);
        const isHere = where().time && compared(where().time, [a, b]) === 0;
        text += html`<td class="${state}${isHere ? " here" : ""}" data-go="${to}" data-round="-1" data-time="${JSON.stringify([a, b])}" tabindex="0" role="button" title="(${a}, ${b}) is ${state}${by}" aria-label="(${a}, ${b}) is ${state}${by}">${{ closed: "✓", held: "‖", open: "·" }[state]}</td>`;
      }
      text += "</tr>";
    }
    return text + '</table><p class="soft">✓ closed · ‖ held back · · open</p>';
  }

  function details(o, standing) {
    const { moment } = where();
    let text = `<h2>${title(o)}</h2>` + html`<p class="soft">${o.kind} · ${o.line}</p>` + (o.source ? html`<pre>${o.source}</pre>` : "");
    if (o.does) text += html`<h3>Does</h3><pre>${o.does}</pre>`;
    text += html`<h3>Rows</h3><pre>${o.schema}</pre>`;
    const around = tree.around(o.id).filter((g) => g !== tree.rootId);
    if (around.length) text += `<p class="soft">in ${around.map(link).join(", in ")}</p>`;
    text += updatesAt(o, moment) + '<div class="records"></div>';
    const links = (ids) => ids.map((id) => `<p>${link(id)}</p>`).join("");
    if (o.reads.length) text += `<h3>Reads</h3>${links(o.reads)}`;
    if (readers.get(o.id).length) text += `<h3>Is read by</h3>${links(readers.get(o.id).slice(0, 30))}`;
    return text + figures(o, moment, standing) + perTime(o);
  }

  // Of a closed box: what it is, what all in it hold and took, and what is in it.
  function boxDetails(g, standing, sums) {
    const result = g.result === null ? null : operators.get(g.result);
    let text = html`<h2>${tree.titleOf(g.id)}</h2><p class="soft">${g.kind} · ${g.line}</p>`;
    if (result?.source) text += html`<pre>${result.source}</pre>`;
    text += `<p><button data-open="${g.id}">${tree.open.has(g.id) ? "close it" : "open it"}</button></p>`;
    if (result) text += html`<h3>Rows</h3><pre>${result.schema}</pre>` + updatesAt(result, where().moment) + '<div class="records"></div>';
    if (sums) text += "<h3>Figures</h3><table>" + sums.map(([k, v]) => html`<tr><td>${k}</td><td class="number">${v}</td></tr>`).join("") + "</table>";
    const inside = [...g.groups, ...g.operators];
    return text + html`<h3>Inside</h3><p class="soft">${counted(g.all.length, "operator")}</p>` + inside.slice(0, 60).map((id) => `<p>${link(id)}</p>`).join("");
  }

  function figures(o, moment, standing) {
    if (o.records === null) return "";
    const work = moment.isNow || moment.step < 0 ? null : data.steps[moment.step].operators[o.id];
    const rows = [["records sent", o.records], ["rows held", o.held], ["seconds", o.seconds.toFixed(4)]];
    if (work) rows.push(["in this step: records in", work.in], ["records out", work.out], ["rounds", work.rounds],
      ["seconds", work.seconds.toFixed(5)], ["rows held after it", work.held], ["waiting", work.waiting]);
    const frontier = times.frontierOf(o.id, moment);
    if (frontier !== null) rows.push(["frontier", times.frontierText(frontier)]);
    if (standing.has(o.id)) {
      const said = { passed: "has passed this time", waits: "waits for this time", holds: "holds this time back" };
      rows.push(["", said[standing.get(o.id)]]);
    }
    const cell = (v) => (typeof v === "number" ? numeral(v) : v);
    return "<h3>Figures</h3><table>" + rows.map(([k, v]) => html`<tr><td>${k}</td><td class="number">${cell(v)}</td></tr>`).join("") + "</table>";
  }

  // The changes of an operator at each time, in the order in which they were made; a click goes there.
  function perTime(o) {
    const { at, round } = where();
    const lines = times.sentAt.get(o.id) || [];
    if (!lines.length) return "";
    const near = Math.max(0, lines.findIndex(([m]) => m >= at) - 50);
    let text = "<h3>Records sent, by time</h3><table>";
    for (const [m, time, count] of lines.slice(near, near + 200)) {
      const key = time.slice(times.users).join();
      const which = times.moments[m].rounds.findIndex((r) => r.key === key);
      const state = m === at && (round < 0 || round === which) ? "here" : m > at ? "later" : "";
      text += html`<tr class="${state}" data-go="${m}" data-round="${which}"><td>${timeText(time)}</td><td class="number">${numeral(count)}</td></tr>`;
    }
    return text + "</table>" + (lines.length > 200 ? html`<p class="soft">${lines.length} times in all</p>` : "");
  }

  // The updates of an operator at the moment, or in one of its iterations, as far as they are on record.
  function updatesAt(o, moment) {
    const { round } = where();
    const work = moment.isNow || moment.step < 0 ? null : data.steps[moment.step].operators[o.id];
    if (!work || !work.rows.length) return "";
    const wanted = round < 0 ? null : moment.rounds[round].key;
    const isHere = (time) => compared(time.slice(0, times.users), moment.user) === 0
      && (wanted === null || time.slice(times.users).join() === wanted);
    const found = work.rows.filter(([, time]) => isHere(time));
    const sent = work.times.filter(([time]) => isHere(time)).reduce((sum, [, count]) => sum + count, 0);
    if (!sent) return "";
    const more = sent - found.length;
    return "<h3>Updates at this time</h3>" + updatesTable(o.names, found) + (more > 0 ? html`<p class="soft">and ${numeral(more)} more, not on record</p>` : "");
  }

  function records(found, heading) {
    let text = html`<h3>${heading}</h3>` + (found.note ? html`<p class="soft">${found.note}</p>` : "");
    if (found.columns) {
      text += "<table><tr>" + found.columns.map((c) => html`<th>${c}</th>`).join("") + "</tr>";
      text += found.rows.map((r) => "<tr>" + r.map((v) => html`<td>${v}</td>`).join("") + "</tr>").join("") + "</table>";
    }
    return text;
  }

  // -- the table of operators -----------------------------------------------------------------------------------

  const COLUMNS = { title: "operator", line: "line", sent: "sent", held: "held", seconds: "seconds" };

  // All operators, or those that are found, with their figures: of now, or of the moment's step.
  function table(query, counts, chosen) {
    const { moment } = where();
    const wanted = query.trim().toLowerCase();
    const work = (o) => (moment.isNow || moment.step < 0 ? null : data.steps[moment.step].operators[o.id]);
    let rows = data.operators.filter((o) => !wanted || o.text.includes(wanted)).map((o) => ({
      o, title: o.title, line: o.line, sent: counts.get(o.id) ?? 0, held: times.heldAt(o, moment) ?? 0,
      seconds: (moment.isNow ? o.seconds : work(o)?.seconds) ?? 0,
    }));
    if (only === "works") rows = rows.filter((r) => r.sent > 0);
    if (only === "holds") rows = rows.filter((r) => r.held > 0);
    const order = (a, b) => (typeof a[sort.by] === "number" ? a[sort.by] - b[sort.by] : String(a[sort.by]).localeCompare(String(b[sort.by])));
    rows.sort((a, b) => (sort.down ? -1 : 1) * order(a, b) || a.o.id - b.o.id);
    const boxes = wanted ? data.groups.filter((g) => `${g.title} ${g.kind} ${g.line}`.toLowerCase().includes(wanted)).slice(0, 12) : [];
    let text = html`<h2>${wanted ? `found: ${counted(rows.length, "operator")}` : counted(rows.length, "operator")}</h2><p>`;
    for (const [key, said] of Object.entries({ all: "all", works: "at work at this time", holds: "hold rows" })) {
      text += html`<button data-only="${key}" aria-pressed="${only === key}">${said}</button> `;
    }
    text += "</p>" + boxes.map((g) => `<p>${link(g.id)} ` + html`<span class="soft">${g.kind}, ${g.line}</span></p>`).join("");
    text += '<table class="operators"><tr>';
    for (const [key, said] of Object.entries(COLUMNS)) {
      text += html`<th><button data-sort="${key}" aria-label="sort by ${said}">${said}${sort.by === key ? (sort.down ? " ↓" : " ↑") : ""}</button></th>`;
    }
    text += "</tr>";
    const here = new Set(groups.get(chosen)?.all ?? [chosen]);
    const isHere = ({ o }) => here.has(o.id);
    const shown = rows.slice(0, MOST_ROWS);
    if (!shown.some(isHere)) shown.push(...rows.filter(isHere).slice(0, 1)); // what is chosen in the picture is in the list
    for (const { o, line, sent, held, seconds } of shown) {
      text += html`<tr data-choose="${o.id}" class="${here.has(o.id) ? "here" : ""}" title="#${o.id} ${o.title}, ${line}"><td>` + html`<a tabindex="0" role="button">` + title(o) + html`</a></td><td class="soft">${line}</td>`;
      text += html`<td class="number">${numeral(sent)}</td><td class="number">${numeral(held)}</td><td class="number">${seconds.toFixed(4)}</td></tr>`;
    }
    const more = rows.length - shown.length;
    return text + "</table>" + (more ? html`<p class="soft">and ${numeral(more)} more: find some, or sort by another figure</p>` : "");
  }

  function sortBy(key) {
    sort = { by: key, down: sort.by === key ? !sort.down : !["title", "line"].includes(key) };
  }

  return { overview, details, boxDetails, records, table, sortBy, show: (key) => { only = key; } };
}

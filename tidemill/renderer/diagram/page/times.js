// The times of a run: its moments, what was sent and held at each, and who had passed it.
//
// A moment is a time of the user's at which operators had work, in a step; the last one is now, all times together.

const numerals = new Intl.NumberFormat("en"); // one for all: toLocaleString would make one each time

function numeral(n) {
  return Math.abs(n) < 1000 ? String(n) : numerals.format(n);
}

function counted(n, thing) {
  return `${numeral(n)} ${thing}${n === 1 ? "" : "s"}`;
}

function compared(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return isLess(a[i], b[i]) ? -1 : 1;
  return a.length - b.length;
}

// Of coordinates, which are text where a number of JavaScript's would round them.
function isLess(a, b) {
  return typeof a === "number" && typeof b === "number" ? a < b : BigInt(a) < BigInt(b);
}

function timeText(time) {
  return time.length === 1 ? String(time[0]) : `(${time.join(", ")})`;
}

function timesOf(data) {
  "use strict";
  const users = data.coordinates.length;
  const moments = momentsOf(data.steps);
  const heldAfter = new Map(); // of each operator the steps in which it had work, and how many rows it held after each
  const sentAt = new Map(); // of each operator the moments at which it sent something: [moment, time, count]
  data.steps.forEach((step, index) => {
    for (const [id, work] of Object.entries(step.operators)) listed(heldAfter, Number(id)).push([index, work.held]);
  });
  moments.forEach((moment, m) => {
    if (!moment.isNow) for (const [id, time, count] of moment.work) listed(sentAt, id).push([m, time, count]);
  });

  function listed(map, key) {
    if (!map.has(key)) map.set(key, []);
    return map.get(key);
  }

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

  // The iterations of a moment, each with how many records were sent in it.
  function roundsOf(moment) {
    const found = new Map();
    for (const [, time, count] of moment.work) {
      if (time.length <= users) continue;
      const key = time.slice(users).join();
      if (!found.has(key)) found.set(key, { time: time.slice(users), key, sent: 0 });
      found.get(key).sent += count;
    }
    return [...found.values()].sort((a, b) => compared(a.time, b.time));
  }

  // How many records each operator sent at the moment, or in one of its iterations.
  function countsAt(moment, which) {
    const counts = new Map();
    if (moment.isNow) {
      for (const o of data.operators) if (o.records !== null) counts.set(o.id, o.records);
      return counts;
    }
    const wanted = which < 0 ? null : moment.rounds[which].key;
    for (const [id, time, count] of moment.work) {
      if (wanted === null || time.slice(users).join() === wanted) counts.set(id, (counts.get(id) || 0) + count);
    }
    if (moment.user === null) {
      for (const [id, work] of Object.entries(data.steps[moment.step].operators)) counts.set(Number(id), work.out);
    }
    return counts;
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

  function frontiersAt(moment) {
    return moment.isNow ? data.frontiers : data.steps[moment.step].frontiers;
  }

  // The times at which frontiers are now.
  function edges() {
    return data.frontiers ? [data.frontiers.common, ...Object.values(data.frontiers.others)].flat() : [];
  }

  function frontierOf(id, moment) {
    const known = frontiersAt(moment);
    return known ? (id in known.others ? known.others[id] : known.common) : null;
  }

  function frontierText(frontier) {
    return frontier === null ? "" : frontier.length ? frontier.map(timeText).join(" ") : "closed";
  }

  // Whether nothing at a time can come to an operator any more; null where there is nothing to say.
  function hasPassed(id, moment, time) {
    const frontier = time === null || time === undefined ? null : frontierOf(id, moment);
    return frontier === null ? null : !frontier.some((t) => t.every((c, i) => !isLess(time[i], c)));
  }

  // Who is still to pass a time: those that hold it back, where all before them has passed, and who waits.
  function standingOf(moment, time = moment.user) {
    const standing = new Map();
    for (const o of data.operators) { // in topological order: what it reads has been looked at
      const passed = hasPassed(o.id, moment, time);
      if (passed === null) continue;
      const blocked = o.reads.some((source) => standing.has(source) && standing.get(source) !== "passed");
      standing.set(o.id, passed ? "passed" : blocked || o.role === "variable" ? "waits" : "holds");
    }
    return standing;
  }

  function momentText(moment) {
    if (moment.isNow) return data.steps.length ? "now: all times" : "";
    const step = `step ${data.steps[moment.step].number}`;
    if (moment.user === null) return `${step}: no changes`;
    const [names, time] = [data.coordinates.join(", "), timeText(moment.user)];
    return `${users === 1 ? `${names} ${time}` : `${time} of ${names}`} · ${step}`; // the end is what may be cut
  }

  return { users, moments, sentAt, countsAt, heldAt, edges, frontierOf, frontierText, standingOf, momentText };
}

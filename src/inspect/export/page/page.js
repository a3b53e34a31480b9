// SPDX-License-Identifier: BSD-2-Clause
// The page's script. All contents come from the JSON in #data. Its texts are inserted as text nodes only, never as HTML.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const LANES_MAX = 20, AXIS = 24, THREAD_HEIGHT = 16, LANE_HEIGHT = 17, GAP = 10, LABELS = 116, COLORS = 8;

// ---- text ----

function element(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class" || name.startsWith("aria-") || name === "role") node.setAttribute(name, value);
    else if (name === "style") Object.assign(node.style, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

function timeText(ns) {
  const rows = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]];
  for (const [size, unit] of rows) {
    if (Math.abs(ns) >= size) {
      const number = ns / size;
      return number.toFixed(Math.abs(number) >= 100 ? 1 : Math.abs(number) >= 10 ? 2 : 3) + " " + unit;
    }
  }
  return Math.round(ns) + " ns";
}

function bytesText(bytes) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (bytes >= size && bytes % size === 0) return bytes / size + " " + unit;
  return bytes + " B";
}

const countText = number => number.toLocaleString("en-US");

// Time since the program started, with enough digits to distinguish moments that differ by `step`.
function momentText(ns, step) {
  const at = ns + data.about.from_ns;
  const digits = Math.max(3, Math.min(9, Math.ceil(-Math.log10((step || 1000) / 1e9))));
  return (at / 1e9).toFixed(digits) + " s";
}

function wallText(ns) {
  if (!("start_ms" in data.about)) return "";
  return new Date(data.about.start_ms + (ns + data.about.from_ns) / 1e6).toISOString().replace("T", " ").replace("Z", " UTC");
}

// ---- the data, decoded ----

function sums(differences) {
  const all = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < all.length; i++) all[i] = sum += differences[i];
  return all;
}

const lives = data.lives, events = data.events;
lives.begin = sums(lives.begin);
lives.count = lives.begin.length;
events.t = sums(events.t);
const bySerial = new Map(lives.serial.map((serial, index) => [serial, index]));
const children = new Map();
lives.parent.forEach((parent, index) => {
  if (parent) children.set(parent, [...(children.get(parent) || []), index]);
});
const end = Math.max(1, events.t.length ? events.t.reduce((a, b) => Math.max(a, b)) : 0,
                     lives.begin.reduce((max, begin, i) => Math.max(max, begin + lives.dur[i]), 0));

const lifeName = i => data.kinds[lives.kind[i]].prefix + lives.id[i];
const lifeWords = i => [lives.what[i], lives.bytes[i] >= 0 ? bytesText(lives.bytes[i]) : ""].filter(Boolean).join(" ");
const kindOf = i => data.kinds[lives.kind[i]];

// [state, from, to] in nanoseconds since the life began
function stagesOf(i) {
  const flat = lives.stages[i], rows = [];
  for (let at = 0; at < flat.length; at += 2)
    rows.push([flat[at], flat[at + 1], at + 3 < flat.length ? flat[at + 3] : lives.dur[i]]);
  return rows;
}

// A stage has the same colour in every export; page.css defines it for light and dark. Stages that follow each other differ.
const STAGE_COLORS = {
  "nvmf_req RECEIVED": 0, "nvmf_req WAIT_BUFFER": 2, "nvmf_req TRANSFER_IN": 3, "nvmf_req EXECUTING": 1, "nvmf_req WAIT_SUBSYSTEM": 4,
  "nvmf_req COMPLETED": 7, "nvmf_req SENDING": 6, "bdev_io SUBMITTED": 6, "bdev_io QUEUED": 4, "bdev_io DISPATCHED": 5, "bdev_io SPLIT": 3,
};

// The colour of a stage that is not in the table, such as another program's, is a hash of its name.
function stageColor(name) {
  if (name in STAGE_COLORS) return "c" + STAGE_COLORS[name];
  let sum = 2166136261;
  for (const character of name) sum = Math.imul(sum ^ character.codePointAt(0), 16777619) >>> 0;
  return "c" + sum % COLORS;
}

// The colours of all stages that occur on the page.
const colors = new Map();
data.kinds.forEach((kind, k) => kind.states.forEach((state, s) => {
  if (s > 0 && (state.buckets.length || lives.kind.some((of, i) => of === k && lives.stages[i].some((v, at) => at % 2 === 0 && v === s))))
    colors.set(k + " " + s, state.resting ? "rest" : stageColor(kind.name + " " + state.name));
}));
let palette = {};

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = {};
  for (const name of ["page", "surface", "text", "second", "muted", "line", "line-strong", "accent", "rest", "heat-0", "heat-1",
                      ...Array.from({ length: COLORS }, (_, i) => "c" + i)])
    palette[name] = style.getPropertyValue("--" + name).trim();
}

const colorName = (kind, state) => colors.get(kind + " " + state) || "rest";

// ---- tool tip ----

function showTip(event, text) {
  const tip = $("tip");
  tip.textContent = text;
  tip.style.visibility = text ? "visible" : "hidden";
  if (!text) return;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
}

// ---- header and legend ----

function writeHeader() {
  const about = data.about;
  document.title = about.program + " \u2013 Fathom trace";
  $("title").textContent = about.program + ": what process " + about.pid + " did";
  $("about").textContent = `${about.program} ${about.version} on ${about.host}, ${about.state}` +
    ("start_ms" in about ? `, started ${wallText(-about.from_ns)}` : "") + (about.build ? `, build ${about.build}` : "");
  const parts = [`${countText(about.events)} events were exported and ${countText(about.lives)} lives of objects seen.`];
  parts.push(about.events_left_out ?
    `The page has the newest events, and all events of the slowest I/Os; ${countText(about.events_left_out)} events are left out` +
    (about.lives_left_out ? `, and ${countText(about.lives_left_out)} lives.` : ".") :
    about.lives_left_out ? `${countText(about.lives_left_out)} lives are left out.` : "All are on this page.");
  if (about.lives_left_out || about.events_left_out) parts.push("Histograms and the heat map count all lives.");
  if (about.overwritten || about.missing)
    parts.push(`The file no longer had ${countText(about.overwritten)} records, overwritten by later ones` +
               (about.missing ? `, and ${countText(about.missing)} were torn or missing.` : "."));
  $("left-out").textContent = parts.join(" ");
  for (const [key, color] of colors) {
    const [k, s] = key.split(" ").map(Number), kind = data.kinds[k];
    $("legend").append(element("span", { title: kind.states[s].text },
      element("span", { class: "chip", style: { background: `var(--${color})` } }), `${kind.name} ${kind.states[s].name}`));
  }
}

// ---- time line ----

const view = { from: 0, to: end };
let selected = -1;
const threads = Object.entries(data.threads).map(([index, thread]) =>
  ({ ...thread, index: Number(index), times: Float64Array.from(events.t.filter((_, i) => events.thread[i] === Number(index))).sort() }));
const lanes = [], laneOf = new Int16Array(lives.count).fill(-1);

// Each life without a parent on the page takes the first free lane.
for (let i = 0; i < lives.count; i++) {
  if (bySerial.has(lives.parent[i])) continue;
  let lane = lanes.findIndex(row => row.until <= lives.begin[i]);
  if (lane < 0) {
    if (lanes.length === LANES_MAX) continue;
    lane = lanes.push({ until: 0, lives: [] }) - 1;
  }
  lanes[lane].until = lives.begin[i] + Math.max(1, lives.dur[i]);
  lanes[lane].lives.push(i);
  laneOf[i] = lane;
}
const lanesTop = AXIS + threads.length * THREAD_HEIGHT + GAP;
const timeLineHeight = lanesTop + Math.max(1, lanes.length) * LANE_HEIGHT + 6;

function fitCanvas(canvas, height) {
  const width = canvas.clientWidth, scale = devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = "11px " + getComputedStyle(document.body).fontFamily;
  context.textBaseline = "middle";
  return [context, width];
}

function niceStep(span, most) {
  const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(n => n * power).find(step => step >= rough) || rough;
}

// The first index of sorted `rows` with value(row) >= at.
function lowerBound(rows, at, value) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(rows[middle]) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

let plotWidth = 1;
const xOf = ns => LABELS + (ns - view.from) / (view.to - view.from) * plotWidth;
const nsOf = x => view.from + (x - LABELS) / plotWidth * (view.to - view.from);

function drawAxis(context, width, height) {
  const step = niceStep(view.to - view.from, Math.max(2, plotWidth / 130));
  context.strokeStyle = palette.line;
  context.fillStyle = palette.muted;
  context.textAlign = "center";
  for (let at = Math.ceil((view.from + data.about.from_ns) / step) * step - data.about.from_ns; at <= view.to; at += step) {
    const x = Math.round(xOf(at)) + 0.5;
    context.beginPath();
    context.moveTo(x, AXIS - 4);
    context.lineTo(x, height);
    context.stroke();
    if (x > LABELS + 30 && x < width - 36) context.fillText(momentText(at, step), x, 9);
  }
}

function drawThreads(context) {
  threads.forEach((thread, row) => {
    const top = AXIS + row * THREAD_HEIGHT;
    context.textAlign = "left";
    context.fillStyle = palette.second;
    context.fillText(thread.name + (thread.core >= 0 ? " \u00b7 core " + thread.core : ""), 2, top + THREAD_HEIGHT / 2, LABELS - 10);
    const counts = new Map();
    let most = 1;
    const last = lowerBound(thread.times, view.to, t => t);
    for (let i = lowerBound(thread.times, view.from, t => t); i < last; i++) {
      const x = Math.floor(xOf(thread.times[i])), count = (counts.get(x) || 0) + 1;
      counts.set(x, count);
      most = Math.max(most, count);
    }
    context.fillStyle = palette.second;
    for (const [x, count] of counts) {
      context.globalAlpha = 0.35 + 0.65 * count / most;
      const height = 3 + (THREAD_HEIGHT - 7) * count / most;
      context.fillRect(x, top + THREAD_HEIGHT - 3 - height, 1, height);
    }
    context.globalAlpha = 1;
  });
}

function drawLife(context, i, top, height) {
  for (const [state, from, to] of stagesOf(i)) {
    const left = Math.max(LABELS, xOf(lives.begin[i] + from)), right = Math.min(LABELS + plotWidth, xOf(lives.begin[i] + to));
    if (right < LABELS || left > LABELS + plotWidth) continue;
    context.fillStyle = palette[colorName(lives.kind[i], state)];
    context.fillRect(left, top, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), height);
  }
}

function drawLanes(context) {
  lanes.forEach((lane, row) => {
    const top = lanesTop + row * LANE_HEIGHT;
    let painted = -1;
    context.fillStyle = palette.second;
    context.textAlign = "left";
    if (row === 0) context.fillText("in flight", 2, top + 6);
    let first = lowerBound(lane.lives, view.from, i => lives.begin[i] + lives.dur[i]);
    for (; first < lane.lives.length && lives.begin[lane.lives[first]] <= view.to; first++) {
      const i = lane.lives[first], right = xOf(lives.begin[i] + lives.dur[i]);
      // a life within a pixel that is already painted changes nothing
      if (right < painted + 1 && i !== selected) continue;
      painted = Math.floor(right);
      drawLife(context, i, top, 9);
      for (const child of children.get(lives.serial[i]) || []) drawLife(context, child, top + 10, 4);
    }
  });
  if (selected >= 0 && laneOf[rootOf(selected)] >= 0) {
    const i = rootOf(selected), left = Math.max(LABELS, xOf(lives.begin[i]) - 1.5);
    const right = Math.min(LABELS + plotWidth, xOf(lives.begin[i] + lives.dur[i]) + 1.5);
    if (right >= LABELS && left <= LABELS + plotWidth) {
      context.strokeStyle = palette.text;
      context.lineWidth = 1.5;
      context.strokeRect(left, lanesTop + laneOf[i] * LANE_HEIGHT - 1.5, Math.max(3, right - left), LANE_HEIGHT);
      context.lineWidth = 1;
    }
  }
}

function rootOf(i) {
  const parent = bySerial.get(lives.parent[i]);
  return parent === undefined ? i : parent;
}

function drawTimeLine() {
  const [context, width] = fitCanvas($("time-line"), timeLineHeight);
  plotWidth = Math.max(10, width - LABELS);
  drawAxis(context, width, timeLineHeight);
  drawThreads(context);
  drawLanes(context);
  const step = (view.to - view.from) / 100;
  $("range").textContent = `${momentText(view.from, step)} \u2013 ${momentText(view.to, step)} (${timeText(view.to - view.from)})`;
  $("range").dataset.from = view.from;
  $("range").dataset.to = view.to;
}

function setView(from, to) {
  const span = Math.min(end, Math.max(10, to - from));
  from = Math.max(0, Math.min(from, end - span));
  view.from = from;
  view.to = from + span;
  requestAnimationFrame(drawTimeLine);
}

// Start where the I/Os are: a file keeps rare events for much longer.
function setFirstView() {
  const from = lives.count ? lives.begin[Math.floor(lives.count * 0.02)] : 0;
  if (end - from < end * 0.6) setView(from - (end - from) * 0.05, end);
}

function zoom(factor, at = (view.from + view.to) / 2) {
  setView(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function move(share) {
  const by = (view.to - view.from) * share;
  setView(view.from + by, view.to + by);
}

function zoomToSelected() {
  if (selected < 0) return;
  const i = rootOf(selected), span = Math.max(100, lives.dur[i]);
  setView(lives.begin[i] - span * 0.6, lives.begin[i] + span * 1.6);
}

function lifeAt(x, y) {
  const lane = lanes[Math.floor((y - lanesTop) / LANE_HEIGHT)];
  if (!lane || y < lanesTop || x < LABELS) return -1;
  const near = 3 * (view.to - view.from) / plotWidth, at = nsOf(x);
  let best = -1, distance = near;
  for (let first = lowerBound(lane.lives, at - near, i => lives.begin[i] + lives.dur[i]);
       first < lane.lives.length && lives.begin[lane.lives[first]] <= at + near; first++) {
    const i = lane.lives[first], off = Math.max(lives.begin[i] - at, at - lives.begin[i] - lives.dur[i], 0);
    if (off <= distance) [best, distance] = [i, off];
    if (off === 0) break;
  }
  return best;
}

function listenToTimeLine() {
  const canvas = $("time-line");
  let drag = null;
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const step = event.deltaMode === 1 ? 30 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX * step / 1000);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * step / 400))), nsOf(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.offsetX, from: view.from, to: view.to, moved: false };
  });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) > 3;
      const by = (drag.x - event.offsetX) / plotWidth * (drag.to - drag.from);
      if (drag.moved) {
        canvas.classList.add("dragging");
        setView(drag.from + by, drag.to + by);
      }
      showTip(event, "");
      return;
    }
    const i = lifeAt(event.offsetX, event.offsetY);
    showTip(event, i < 0 ? "" : `${lifeName(i)} ${lifeWords(i)}\n${timeText(lives.dur[i])} from ${momentText(lives.begin[i])}\n` +
      stagesOf(i).map(([state, from, to]) => `${kindOf(i).states[state].name} ${timeText(to - from)}`).join("\n"));
  });
  canvas.addEventListener("pointerup", event => {
    if (drag && !drag.moved) {
      const i = lifeAt(event.offsetX, event.offsetY);
      if (i >= 0) select(i);
    }
    canvas.classList.remove("dragging");
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", event => showTip(event, ""));
  canvas.addEventListener("dblclick", event => zoom(0.25, nsOf(event.offsetX)));
  const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
                 "0": () => setView(0, end), Home: () => setView(0, view.to - view.from),
                 End: () => setView(end - (view.to - view.from), end), s: zoomToSelected };
  document.addEventListener("keydown", event => {
    const inList = $("slowest").contains(event.target);
    if (event.ctrlKey || event.altKey || event.metaKey || (event.target.tagName === "INPUT" && event.target.type !== "checkbox")) return;
    if (inList && (event.key === "Home" || event.key === "End")) return;
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  $("zoom-in").onclick = keys["+"];
  $("zoom-out").onclick = keys["-"];
  $("zoom-all").onclick = keys["0"];
  $("zoom-selected").onclick = zoomToSelected;
}

// ---- the slowest ----

const slowest = data.slowest.map(serial => bySerial.get(serial));
// From each request to all requests that the same stall delayed, the longest first.
const stalls = new Map();
for (const serials of data.stalls) {
  const members = serials.map(serial => bySerial.get(serial));
  for (const member of members) stalls.set(member, members);
}
let listed = slowest;

function stallText(i) {
  const members = stalls.get(i);
  const first = members.reduce((a, b) => lives.begin[b] < lives.begin[a] ? b : a);
  return `one stall delayed ${members.length} by ${timeText(lives.busy[members[members.length - 1]])} to ` +
    `${timeText(lives.busy[members[0]])}; ${lifeName(first)} began first`;
}

function segment(i, child, origin, span, [state, from, to]) {
  const kind = kindOf(i), offset = lives.begin[i] - origin;
  return element("i", {
    class: child ? "child" : "",
    title: `${kind.name} ${kind.states[state].name}: ${timeText(to - from)}`,
    style: { left: (offset + from) / span * 100 + "%", width: Math.max(0, to - from) / span * 100 + "%",
             background: `var(--${colorName(lives.kind[i], state)})` },
  });
}

function bar(i, span) {
  const node = element("div", { class: "bar" });
  for (const stage of stagesOf(i)) node.append(segment(i, false, lives.begin[i], span, stage));
  for (const child of children.get(lives.serial[i]) || [])
    for (const stage of stagesOf(child)) node.append(segment(child, true, lives.begin[i], span, stage));
  return node;
}

// Its owners: the device of its I/O, and the queue pair with its host.
function ownersOf(i) {
  const devices = (children.get(lives.serial[i]) || []).map(child => lives.owner[child]).filter(owner => owner && owner !== lives.owner[i]);
  return [...new Set(devices), lives.owner[i]].filter(Boolean).join(" \u2013 ");
}

function writeSlowest() {
  const grouped = $("group-stalls").checked;
  listed = slowest.filter(i => !grouped || !stalls.has(i) || stalls.get(i)[0] === i);
  const list = $("slowest"), most = slowest.reduce((max, i) => Math.max(max, lives.dur[i]), 1);
  $("slowest-hint").textContent = slowest.length ?
    `The ${slowest.length} slowest, without the time in states where waiting is normal; the block device's I/O is below each.` :
    "No life was seen from its beginning to its end.";
  list.replaceChildren(...listed.map((i, row) => {
    const node = element("div", { class: "io", role: "option", id: "io-" + row, "aria-selected": String(row === rowOf(selected)) },
      element("div", { class: "name" }, element("b", {}, lifeName(i)), element("span", {}, lifeWords(i)),
              element("small", {}, ownersOf(i)),
              ...(grouped && stalls.has(i) ? [element("small", { class: "stall" }, stallText(i))] : [])),
      bar(i, $("same-scale").checked ? most : Math.max(1, lives.dur[i])),
      element("div", { class: "time" }, timeText(lives.busy[i])));
    node.dataset.serial = lives.serial[i];
    node.onclick = () => select(i);
    return node;
  }));
}

// The index in the list of a life or of its stall; -1: neither is listed.
function rowOf(i) {
  const row = listed.indexOf(i);
  return row < 0 && stalls.has(i) ? listed.indexOf(stalls.get(i)[0]) : row;
}

function listenToSlowest() {
  $("same-scale").onchange = $("group-stalls").onchange = writeSlowest;
  $("slowest").addEventListener("keydown", event => {
    const row = rowOf(selected);
    const to = { ArrowDown: row + 1, ArrowUp: row - 1, Home: 0, End: listed.length - 1 }[event.key];
    if (event.key === "Enter") zoomToSelected();
    if (to === undefined || !listed.length) return;
    event.preventDefault();
    select(listed[Math.max(0, Math.min(listed.length - 1, to))]);
  });
}

// ---- one I/O ----

function argValue(value, unit) {
  if (value === null) return "-";
  if (unit === "bytes" && typeof value === "number") return bytesText(value);
  return String(value) + (unit && unit !== "count" && unit !== "bytes" ? " " + unit : "");
}

function stageRows(i, origin, inner) {
  const kind = kindOf(i);
  return stagesOf(i).map(([state, from, to]) => element("tr", { class: inner ? "inner" : "" },
    element("td", { title: kind.states[state].text },
      element("span", { class: "chip", style: { background: `var(--${colorName(lives.kind[i], state)})` } }),
      (inner ? lifeName(i) + " " : "") + kind.states[state].name),
    element("td", { class: "number" }, "+" + timeText(lives.begin[i] + from - origin)),
    element("td", { class: "number" }, timeText(to - from)),
    element("td", { class: "words" }, kind.states[state].text)));
}

function eventRows(serials, origin) {
  const rows = [];
  for (let e = 0; e < events.t.length; e++) {
    if (!serials.has(events.life[e])) continue;
    const point = data.points[events.point[e]] || { name: "point " + events.point[e], args: [] };
    const thread = data.threads[events.thread[e]];
    rows.push(element("tr", {},
      element("td", { class: "number", title: events.shared[e] ? "the clock was read for an earlier event" : "" },
        "+" + timeText(events.t[e] - origin) + (events.shared[e] ? " ~" : "")),
      element("td", {}, thread ? thread.name : ""),
      element("td", {}, point.name),
      element("td", {}, events.object[e]),
      element("td", { class: "words" }, ...point.args.map(([name, unit], at) =>
        element("span", { class: "arg" }, name + " ", element("b", {}, argValue(events.args[e][at], unit)))))));
  }
  return rows;
}

const headRow = (...names) => element("tr", {}, ...names.map(name => element("th", { class: /^(at|took)$/.test(name) ? "number" : "" }, name)));

function select(i) {
  selected = i;
  const inside = children.get(lives.serial[i]) || [], origin = lives.begin[i];
  const serials = new Set([lives.serial[i], ...inside.map(child => lives.serial[child])]);
  const facts = [["when", momentText(origin, 1000) + " after the start" + (wallText(origin) ? ", " + wallText(origin) : "")],
                 ["owner", lives.owner[i]], ["caused", inside.map(lifeName).join(", ")],
                 ["stall", stalls.has(i) ? stallText(i) + ": " + stalls.get(i).map(lifeName).join(", ") : ""],
                 ["note", lives.flags[i] & 2 ? "had not ended" : lives.flags[i] & 1 ? "" : "not all of its moves are in the file"]];
  const rows = eventRows(serials, origin);
  $("details-heading").textContent = `${lifeName(i)} ${lifeWords(i)} \u00b7 ${timeText(lives.dur[i])}`;
  $("details-body").replaceChildren(
    element("dl", {}, ...facts.filter(([, text]) => text).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])),
    bar(i, Math.max(1, lives.dur[i])),
    element("h3", {}, "Stages"),
    element("table", { id: "details-stages" }, headRow("stage", "at", "took", ""),
      ...stageRows(i, origin, false), ...inside.flatMap(child => stageRows(child, origin, true))),
    element("h3", {}, rows.length ? `Events (${rows.length})` : "Its events are older than those on this page"),
    element("table", { id: "details-events" }, ...(rows.length ? [headRow("at", "thread", "event", "object", "arguments"), ...rows] : [])));
  document.querySelectorAll(".io[aria-selected=true]").forEach(node => node.setAttribute("aria-selected", "false"));
  const row = $("io-" + rowOf(i));
  if (row) {
    row.setAttribute("aria-selected", "true");
    $("slowest").setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  }
  $("zoom-selected").disabled = false;
  const out = lives.begin[i] + lives.dur[i] < view.from || lives.begin[i] > view.to;
  if (out) setView(origin - (view.to - view.from) / 2, origin + (view.to - view.from) / 2);
  else drawTimeLine();
}

// ---- histograms ----

const bucketFrom = b => b < 16 ? b : (8 + b % 8) * 2 ** (Math.floor(b / 8) - 1);

function percentile(pairs, count, share) {
  let seen = 0;
  for (const [bucket, number] of pairs) {
    seen += number;
    if (seen >= count * share) return bucket < 16 ? bucket : (bucketFrom(bucket) + bucketFrom(bucket + 1)) / 2;
  }
  return 0;
}

function svg(tag, attributes, ...nodes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...nodes);
  return node;
}

function histogram(pairs, color) {
  const first = pairs[0][0] - 1, last = pairs[pairs.length - 1][0] + 2, most = Math.max(...pairs.map(([, number]) => number));
  const count = pairs.reduce((sum, [, number]) => sum + number, 0), width = 300, height = 66;
  const x = bucket => (bucket - first) / Math.max(6, last - first) * width;
  const node = svg("svg", { viewBox: `0 0 ${width} 92`, role: "img", "aria-label": "histogram" });
  for (const [bucket, number] of pairs) {
    const tall = Math.max(1, number / most * height);
    node.append(svg("rect", { x: x(bucket), y: 14 + height - tall, width: Math.max(1, x(bucket + 1) - x(bucket) - 0.6), height: tall, rx: 1,
                              fill: `var(--${color})` },
      svg("title", {}, document.createTextNode(
        `${timeText(bucketFrom(bucket))} \u2013 ${timeText(bucketFrom(bucket + 1))}: ${countText(number)} of ${countText(count)}`))));
  }
  node.append(svg("line", { x1: 0, x2: width, y1: 80.5, y2: 80.5, stroke: "var(--line-strong)" }));
  const marks = [[pairs[0][0], "start"], [pairs[pairs.length - 1][0] + 1, "end"]];
  if (x(marks[1][0]) - x(marks[0][0]) < 110) marks.length = 1;
  for (const [bucket, anchor] of marks)
    node.append(svg("text", { x: x(bucket), y: 90, "text-anchor": anchor }, document.createTextNode(timeText(bucketFrom(bucket)))));
  return node;
}

function writeStages() {
  const pairsOf = flat => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
  data.kinds.forEach((kind, k) => {
    if (!kind.count) return;
    const panels = element("div", { class: "panels" });
    for (const s of [...kind.states.keys()].slice(1).concat(0)) {
      const pairs = pairsOf(kind.states[s].buckets), count = pairs.reduce((sum, [, number]) => sum + number, 0);
      if (!count) continue;
      const name = s ? kind.states[s].name : "whole life";
      panels.append(element("div", { class: "panel", title: kind.states[s].text },
        element("div", { class: "name" }, s ? element("span", { class: "chip", style: { background: `var(--${colorName(k, s)})` } }) : "",
          name, element("small", {}, s ? kind.states[s].text : "without resting")),
        histogram(pairs, s ? colorName(k, s) : "second"),
        element("div", { class: "numbers" }, `${countText(count)} \u00b7 p50 ${timeText(percentile(pairs, count, 0.5))} \u00b7 p90 ` +
          `${timeText(percentile(pairs, count, 0.9))} \u00b7 p99 ${timeText(percentile(pairs, count, 0.99))}`)));
    }
    $("stages").append(element("h3", {}, `${kind.name}: ${countText(kind.count)} whole lives` +
      (kind.partial ? `; ${countText(kind.partial)} incomplete ones are left out` : "")), panels);
  });
  if (!$("stages").children.length) $("stages").append(element("p", { class: "hint" }, "No life was seen from its beginning to its end."));
}

// ---- heat map ----

let heatKind = Math.max(0, data.kinds.findIndex(kind => kind.heat.length && !lives.kind.some((k, i) => data.kinds[k] === kind && lives.parent[i])));
let heatCells = new Map(), heatShape = null;

// Two rows for each power of two.
const heatRow = bucket => Math.floor(bucket / 4);

function drawHeat() {
  const height = 240, [context, width] = fitCanvas($("heat"), height), kind = data.kinds[heatKind];
  heatCells = new Map();
  heatShape = null;
  if (!kind || !kind.heat.length) return;
  let columns = 1, low = Infinity, high = 0, most = 1;
  for (let at = 0; at < kind.heat.length; at += 3) {
    const key = kind.heat[at] + " " + heatRow(kind.heat[at + 1]), count = (heatCells.get(key) || 0) + kind.heat[at + 2];
    heatCells.set(key, count);
    columns = Math.max(columns, kind.heat[at] + 1);
    low = Math.min(low, heatRow(kind.heat[at + 1]));
    high = Math.max(high, heatRow(kind.heat[at + 1]));
    most = Math.max(most, count);
  }
  low = Math.max(0, low - 1);
  high = high + 1;
  const left = LABELS, bottom = height - 24, cellWidth = (width - left) / columns, cellHeight = (bottom - 6) / (high - low + 1);
  heatShape = { left, bottom, cellWidth, cellHeight, low, high, columns };
  const from = palette["heat-0"].split(",").map(Number), to = palette["heat-1"].split(",").map(Number);
  context.strokeStyle = palette.line;
  context.fillStyle = palette.muted;
  for (let row = low; row <= high; row++) {
    if (row % 4 !== 0) continue;
    const y = bottom - (row - low) * cellHeight;
    context.beginPath();
    context.moveTo(left, Math.round(y) + 0.5);
    context.lineTo(width, Math.round(y) + 0.5);
    context.stroke();
    context.textAlign = "right";
    context.fillText(timeText(bucketFrom(row * 4)), left - 8, y);
  }
  for (const [key, count] of heatCells) {
    const [column, row] = key.split(" ").map(Number), share = Math.log(1 + count) / Math.log(1 + most);
    context.fillStyle = `rgb(${from.map((value, i) => Math.round(value + (to[i] - value) * share)).join(",")})`;
    context.fillRect(left + column * cellWidth, bottom - (row - low + 1) * cellHeight, Math.max(1, cellWidth - 0.5), cellHeight - 0.5);
  }
  context.fillStyle = palette.muted;
  const labels = Math.max(1, Math.min(8, Math.floor((width - left) / 130)));
  for (let i = 0; i <= labels; i++) {
    context.textAlign = i === 0 ? "left" : i === labels ? "right" : "center";
    context.fillText(((data.heat_from_ns + columns * i / labels * data.heat_ns) / 1e9).toFixed(3) + " s", left + (width - left) * i / labels, height - 9);
  }
}

function heatAt(event) {
  if (!heatShape || event.offsetX < heatShape.left || event.offsetY > heatShape.bottom) return null;
  const column = Math.floor((event.offsetX - heatShape.left) / heatShape.cellWidth);
  const row = Math.floor((heatShape.bottom - event.offsetY) / heatShape.cellHeight) + heatShape.low;
  return { column, row, count: heatCells.get(column + " " + row) || 0, from: data.heat_from_ns + column * data.heat_ns - data.about.from_ns };
}

function listenToHeat() {
  data.kinds.forEach((kind, k) => {
    if (!kind.heat.length) return;
    const button = element("button", { type: "button", "aria-pressed": String(k === heatKind) }, kind.name);
    button.onclick = () => {
      heatKind = k;
      for (const other of $("heat-kinds").children) other.setAttribute("aria-pressed", String(other === button));
      drawHeat();
    };
    $("heat-kinds").append(button);
  });
  $("heat").addEventListener("pointermove", event => {
    const cell = heatAt(event);
    showTip(event, cell && cell.count ? `${countText(cell.count)} took ${timeText(bucketFrom(cell.row * 4))} \u2013 ` +
      `${timeText(bucketFrom(cell.row * 4 + 4))}\n${momentText(cell.from, data.heat_ns)}, ${timeText(data.heat_ns)} long` : "");
  });
  $("heat").addEventListener("pointerleave", event => showTip(event, ""));
  $("heat").addEventListener("click", event => {
    const cell = heatAt(event);
    if (cell) setView(cell.from, cell.from + data.heat_ns);
  });
}

// ---- start ----

function drawAll() {
  readPalette();
  drawTimeLine();
  drawHeat();
}

writeHeader();
writeSlowest();
writeStages();
listenToTimeLine();
listenToSlowest();
listenToHeat();
setFirstView();
drawAll();
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.body.dataset.ready = "true";

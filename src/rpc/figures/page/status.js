// SPDX-License-Identifier: BSD-2-Clause
// The script of the status page. It reads /metrics every two seconds, and keeps the last looks; rates and latencies are those between two
// looks. Texts of the figures (names of volumes, hosts ...) are inserted as text nodes only, never as HTML.
"use strict";

const $ = id => document.getElementById(id);
const EVERY_MS = 2000, TIMEOUT_MS = 8000, LOOKS_MAX = 451, EVENTS_SHOWN = 30;
const HANG_SECONDS = 5, STALL_SECONDS = 0.1, FULL = [0.8, 0.95], BUSY = 0.8, EXPIRY_DAYS = 30;

// ---- OpenMetrics ----

const unescaped = text => text.replace(/\\(.)/g, (_, c) => c === "n" ? "\n" : c);

// "name{a="b"} 12 # {request="r1"} 0.5" -> {name, labels, value, exemplar}; null: a comment, or not a sample.
function parseLine(line) {
  const name = /^[a-zA-Z_:][\w:]*/.exec(line);
  if (!name) return null;
  const labels = {};
  let at = name[0].length;
  if (line[at] === "{") {
    const label = /\s*,?\s*([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/y;
    label.lastIndex = at + 1;
    for (let found; (found = label.exec(line)); at = label.lastIndex) labels[found[1]] = unescaped(found[2]);
    at = line.indexOf("}", Math.max(at, name[0].length)) + 1;
    if (at === 0) return null;
  }
  const rest = /^\s+(\S+)(?:\s+[\d.e+-]+)?(?:\s+#\s+\{request="((?:[^"\\]|\\.)*)"\}\s+(\S+))?/.exec(line.slice(at));
  if (!rest) return null;
  return { name: name[0], labels, value: rest[1] === "+Inf" ? Infinity : Number(rest[1]), exemplar: rest[2] };
}

const keyOf = labels => Object.keys(labels).sort().map(name => name + "\u0001" + labels[name]).join("\u0002");

// A look: the samples of one answer, by name.
function parse(text, time) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const sample = line && line[0] !== "#" ? parseLine(line) : null;
    if (!sample) continue;
    if (!samples.has(sample.name)) samples.set(sample.name, new Map());
    samples.get(sample.name).set(keyOf(sample.labels), sample);
  }
  return { time, samples };
}

const rows = (look, name) => look && look.samples.has("fathom_" + name) ? [...look.samples.get("fathom_" + name).values()] : [];
const matches = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);
const find = (look, name, wanted) => rows(look, name).filter(row => matches(row.labels, wanted || {}));
const sum = (look, name, wanted) => find(look, name, wanted).reduce((all, row) => all + row.value, 0);
const distinct = (list, key) => [...new Map(list.map(item => [key(item), item])).values()];

// ---- what changed between two looks ----

// The increase a second of a counter; null: unknown. A smaller value is that of a new process.
function rate(before, now, name, wanted) {
  const seconds = before ? (now.time - before.time) / 1000 : 0;
  if (seconds <= 0 || !find(now, name, wanted).length) return null;
  let all = 0;
  for (const row of find(now, name, wanted)) {
    const old = before.samples.get("fathom_" + name)?.get(keyOf(row.labels));
    all += !old || old.value > row.value ? row.value : row.value - old.value;
  }
  return all / seconds;
}

// The increase of the buckets of a histogram, [[upper bound in seconds, count]] in order, each with its own count.
function increase(before, now, name, wanted) {
  const cumulative = new Map();
  const lines = find(now, name + "_bucket", wanted);
  for (const line of lines) {
    const old = before?.samples.get("fathom_" + name + "_bucket")?.get(keyOf(line.labels));
    const le = line.labels.le === "+Inf" ? Infinity : Number(line.labels.le);
    const grown = !old || old.value > line.value ? line.value : line.value - old.value;
    cumulative.set(le, (cumulative.get(le) || 0) + grown);
  }
  let last = 0;
  return [...cumulative].sort((a, b) => a[0] - b[0]).map(([le, count]) => {
    const own = Math.max(0, count - last);
    last = Math.max(last, count);
    return [le, own];
  });
}

// The upper bound of the bucket that has the quantile; null: there was nothing.
function quantile(buckets, share) {
  const all = buckets.reduce((total, bucket) => total + bucket[1], 0);
  let seen = 0, last = null;
  for (const [le, count] of buckets) {
    seen += count;
    if (Number.isFinite(le)) last = le;
    if (all > 0 && seen >= share * all) return Number.isFinite(le) ? le : last;
  }
  return null;
}

// ---- text ----

function element(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class" || name === "role" || name.includes("-")) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

const NONE = "\u2013";
const scaled = (value, units) => {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  const [size, unit] = units.find(([size]) => Math.abs(value) >= size) || units[units.length - 1];
  const number = value / size;
  return (number === 0 ? "0" : number.toFixed(Math.abs(number) >= 99.95 ? 0 : Math.abs(number) >= 9.995 ? 1 : 2)) + (unit ? "\u00a0" + unit : "");
};
const timeText = seconds => scaled(seconds, [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"]]);
const bytesText = bytes => scaled(bytes, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
const rateText = value => value === null ? NONE : value < 10 && value > 0 ? value.toFixed(1) : Math.round(value).toLocaleString("en-US");
const countText = value => Math.round(value).toLocaleString("en-US");
const shareText = share => share === null ? NONE : Math.round(100 * share) + "\u00a0%";
const clockText = ms => new Date(ms).toTimeString().slice(0, 8);
const many = (count, one, more) => `${countText(count)} ${count === 1 ? one : more || one + "s"}`;
const rankText = labels => labels.rank === undefined ? "" : `rank ${labels.rank}: `;

// ---- looks ----

const looks = [];                 // the newest is the last
let status = null;                // the answer of /status.json; null: this program has none
let paused = false, lastAnswer = 0, problem = "", asking = false;

// The look of `seconds` ago, or the oldest one after it.
function lookBefore(seconds) {
  const now = looks[looks.length - 1];
  return looks.find(look => look.time >= now.time - 1000 * seconds - EVERY_MS / 2 && look !== now) || null;
}

const previous = () => looks.length > 1 ? looks[looks.length - 2] : null;

// The looks of the chosen time, in pairs.
function pairs() {
  const from = looks[looks.length - 1].time - 1000 * Number($("window").value);
  const chosen = looks.filter(look => look.time >= from);
  return chosen.slice(1).map((look, i) => [chosen[i], look]);
}

// ---- pieces ----

// A curve of values; null is a gap. Its text says what it shows.
function curve(values, label, text) {
  const most = Math.max(...values.filter(value => value !== null), 0) || 1, width = Math.max(values.length - 1, 1);
  let line = "", area = "", open = false;
  values.forEach((value, x) => {
    if (value === null) {
      if (open) area += `L${x - 1},100Z`;
      open = false;
      return;
    }
    const y = 96 - 92 * value / most;
    line += `${open ? "L" : "M"}${x},${y.toFixed(1)}`;
    area += open ? `L${x},${y.toFixed(1)}` : `M${x},100L${x},${y.toFixed(1)}`;
    open = true;
  });
  if (open) area += `L${values.length - 1},100Z`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["class", "curve"], ["viewBox", `0 0 ${width} 100`], ["preserveAspectRatio", "none"], ["role", "img"],
                               ["aria-label", `${label}: at most ${text(most)}`]]) svg.setAttribute(name, value);
  for (const [kind, path] of [["area", area], ["line", line]]) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", "path");
    node.setAttribute("class", kind);
    node.setAttribute("d", path);
    svg.append(node);
  }
  return svg;
}

function bar(share, limits) {
  const level = share >= limits[1] ? "bad" : share >= limits[0] ? "warn" : "good";
  const inner = element("i");
  inner.style.width = Math.min(100, Math.max(0, 100 * share)) + "%";
  return element("span", {}, element("span", { class: "bar " + level, "aria-hidden": "true" }, inner), shareText(share));
}

const sorting = {};               // of a table: {column, down}

// Write a table. Columns: [title, kind, make(row) -> text or node, value(row) to sort by]; kinds: name, number, words, wide.
function table(id, caption, columns, list, empty) {
  const node = $(id), order = sorting[id], focused = document.activeElement?.dataset?.sort;
  if (order) {
    const value = columns[order.column][3] || columns[order.column][2];
    list = [...list].sort((a, b) => {
      const x = value(a), y = value(b);
      const by = typeof x === "number" && typeof y === "number" ? x - y : String(x ?? "").localeCompare(String(y ?? ""));
      return order.down ? -by : by;
    });
  }
  const head = element("tr", {}, ...columns.map(([title, kind], column) => {
    const active = order && order.column === column;
    const button = element("button", { type: "button", onclick: () => {
      sorting[id] = { column, down: active ? !order.down : kind === "number" };
      draw();
    } }, title);
    button.dataset.sort = id + column;
    return element("th", { class: kind === "number" ? "number" : "", scope: "col",
                           "aria-sort": active ? (order.down ? "descending" : "ascending") : "none" }, button);
  }));
  const body = list.map(row => element("tr", {}, ...columns.map(([title, kind, make, , level]) => {
    const made = make(row), cell = element("td", { class: [kind, level ? level(row) : ""].join(" ").trim() },
                                           made instanceof Node ? made : String(made ?? NONE));
    cell.dataset.title = title;
    return cell;
  })));
  if (!list.length) body.push(element("tr", {}, element("td", { class: "none", colSpan: columns.length }, empty)));
  node.className = "cards";
  node.replaceChildren(element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
  if (focused && focused.startsWith(id)) node.querySelector(`[data-sort="${focused}"]`)?.focus({ preventScroll: true });
}

// ---- health ----

// The option that selects an engine's trace: a server names its engines fathom0, fathom1 ... An engine's own page has no rank.
function traceOption(now, labels) {
  const up = labels.rank === undefined ? undefined : find(now, "engine_up", { rank: labels.rank })[0];
  return up ? ` -s fathom${up.labels.engine}` : "";
}

// What needs a person: [severity, what, command to run next].
function findProblems(now) {
  const found = [];
  const add = (severity, what, next) => found.push({ severity, what, next });
  for (const row of find(now, "engine_up", {}))
    if (row.value === 0) add("bad", `Engine ${row.labels.engine ?? row.labels.rank} gives no figures.`, "fathom system query -v");
  for (const row of rows(now, "oldest_request_age_seconds"))
    if (row.value > HANG_SECONDS)
      add("bad", `${rankText(row.labels)}A command ${row.labels.volume ? "to " + row.labels.volume : ""} waits for ${timeText(row.value)} in stage ${row.labels.stage}.`,
          "fathom trace stuck" + traceOption(now, row.labels));
  for (const row of rows(now, "reactor_current_step_seconds"))
    if (row.value > STALL_SECONDS)
      add("bad", `${rankText(row.labels)}Reactor ${row.labels.core} has run one function for ${timeText(row.value)}.`,
          "fathom trace threads" + traceOption(now, row.labels));
  for (const row of rows(now, "storage_volumes"))
    if (row.value > 0 && row.labels.state !== "online")
      add(row.labels.state === "errored" ? "bad" : "warn", `${rankText(row.labels)}${many(row.value, "volume is", "volumes are")} ${row.labels.state.replace("_", "-")}.`,
          "fathom volume list");
  for (const pool of rows(now, "pool_size_bytes")) {
    const free = find(now, "pool_free_bytes", pool.labels)[0];
    const used = free && pool.value > 0 ? 1 - free.value / pool.value : 0;
    if (used >= FULL[0]) add(used >= FULL[1] ? "bad" : "warn", `${rankText(pool.labels)}Pool ${pool.labels.pool} is ${shareText(used)} full.`, `fathom pool query ${pool.labels.pool}`);
  }
  for (const row of rows(now, "members"))
    if (row.value > 0 && !["joined", "stopped"].includes(row.labels.state.toLowerCase()))
      add(row.labels.state.toLowerCase() === "errored" ? "bad" : "warn", `${many(row.value, "engine is", "engines are")} ${row.labels.state}.`, "fathom system query -v");
  for (const row of rows(now, "certificate_expiry_timestamp_seconds")) {
    const days = (row.value - now.time / 1000) / 86400;
    if (row.value > 0 && days < EXPIRY_DAYS)
      add(days < 0 ? "bad" : "warn", days < 0 ? `Certificate ${row.labels.certificate} has expired.` : `Certificate ${row.labels.certificate} expires in ${many(Math.floor(days), "day")}.`,
          "fathom system query -v");
  }
  const before = lookBefore(60);
  for (const row of before ? rows(now, "volume_errors_total") : []) {
    const each = rate(before, now, "volume_errors_total", row.labels);
    if (each > 0) add("warn", `${rankText(row.labels)}I/Os to ${row.labels.volume} fail: ${row.labels.status}.`,
                      "fathom trace slowest --failed" + traceOption(now, row.labels));
  }
  for (const finding of status?.findings || [])
    add(finding.severity === "broken" ? "bad" : "warn", `${finding.what}. To do: ${finding.do}.`, finding.next);
  return found.sort((a, b) => (a.severity === "bad" ? 0 : 1) - (b.severity === "bad" ? 0 : 1));
}

function drawHealth(now) {
  const found = findProblems(now), worst = found.length ? found[0].severity : "good";
  const words = !found.length ? "\u2713 All is well." : `${worst === "bad" ? "\u2716" : "\u26a0"} ${many(found.length, "thing needs", "things need")} a look.`;
  if ($("verdict").textContent !== words) $("verdict").textContent = words;
  $("verdict").className = worst;
  $("checks").replaceChildren(...found.map(({ severity, what, next }) => element("li", { class: severity },
    element("b", {}, (severity === "bad" ? "Broken: " : "Attention: ") + what), next ? " Next: " : "", next ? element("code", {}, next) : "")));
  if (status?.findings_ns)
    $("checks").append(element("li", {}, `The doctor looked at this host at ${clockText(status.findings_ns / 1e6)}; it looks again at most once a minute, while a page is open.`));
  document.title = (found.length ? `(${found.length}) ` : "") + $("title").textContent;
}

function drawTiles(before, now) {
  const busy = distinct(rows(now, "reactor_seconds_total"), row => keyOf({ ...row.labels, mode: "" })).filter(row => row.labels.core !== "control");
  const shares = busy.map(row => busyShare(before, now, row.labels)).filter(share => share !== null);
  const oldest = Math.max(0, ...rows(now, "oldest_request_age_seconds").map(row => row.value));
  const tiles = [
    ["I/Os a second", rateText(rate(before, now, "volume_operations_total"))],
    ["a second", bytesText(rate(before, now, "volume_bytes_total"))],
    ["commands under way", countText(sum(now, "requests_inflight"))],
    ["age of the oldest one", sum(now, "requests_inflight") ? timeText(oldest) : NONE],
    ["hosts connected", String(connectedHosts(now).length)],
    ["busiest reactor", shares.length ? shareText(Math.max(...shares)) : NONE],
  ];
  $("tiles").replaceChildren(...tiles.map(([what, value]) => element("div", {}, element("dt", {}, what), element("dd", {}, value))));
}

// ---- tables ----

function busyShare(before, now, labels) {
  const of = mode => rate(before, now, "reactor_seconds_total", { ...labels, mode });
  const busy = of("busy"), idle = of("idle");
  return busy === null || idle === null || busy + idle === 0 ? null : busy / (busy + idle);
}

const connectedHosts = now => distinct(rows(now, "host_connected").filter(row => row.value > 0), row => row.labels.hostnqn);

function drawVolumes(now) {
  const text = $("filter").value.toLowerCase(), before = previous(), steps = pairs();
  const infos = distinct(rows(now, "volume_info"), row => row.labels.volume + " " + (row.labels.rank ?? ""));
  const chosen = infos.filter(row => row.labels.volume.toLowerCase().includes(text));
  const list = chosen.map(({ labels }) => {
    const wanted = labels.rank === undefined ? { volume: labels.volume } : { volume: labels.volume, rank: labels.rank };
    const latency = steps.map(([a, b]) => quantile(increase(a, b, "volume_latency_seconds", wanted), 0.99));
    const whole = steps.length ? increase(steps[0][0], now, "volume_latency_seconds", wanted) : [];
    return {
      name: labels.volume, rank: labels.rank, size: sum(now, "volume_size_bytes", wanted),
      reads: rate(before, now, "volume_operations_total", { ...wanted, op: "read" }), writes: rate(before, now, "volume_operations_total", { ...wanted, op: "write" }),
      bytes: rate(before, now, "volume_bytes_total", wanted), p50: quantile(whole, 0.5), p99: quantile(whole, 0.99),
      inflight: sum(now, "volume_inflight", wanted), age: Math.max(0, ...find(now, "oldest_request_age_seconds", wanted).map(row => row.value)),
      errors: sum(now, "volume_errors_total", wanted), latency,
    };
  });
  const columns = [
    ["Volume", "name", row => row.name],
    ["Size", "number", row => bytesText(row.size), row => row.size],
    ["Reads/s", "number", row => rateText(row.reads), row => row.reads ?? -1],
    ["Writes/s", "number", row => rateText(row.writes), row => row.writes ?? -1],
    ["Bytes/s", "number", row => bytesText(row.bytes), row => row.bytes ?? -1],
    ["Half under", "number", row => timeText(row.p50), row => row.p50 ?? -1],
    ["99 % under", "number", row => timeText(row.p99), row => row.p99 ?? -1],
    ["Under way", "number", row => countText(row.inflight), row => row.inflight],
    ["Oldest", "number", row => row.age > 0 ? timeText(row.age) : NONE, row => row.age, row => row.age > HANG_SECONDS ? "bad" : ""],
    ["Errors", "number", row => countText(row.errors), row => row.errors, row => row.errors > 0 ? "warn" : ""],
    ["99 % over time", "wide", row => curve(row.latency, `99 % of the I/Os of ${row.name}`, timeText), row => row.p99 ?? -1],
  ];
  if (list.some(row => row.rank !== undefined)) columns.splice(1, 0, ["Rank", "number", row => row.rank ?? NONE, row => Number(row.rank)]);
  table("volumes", chosen.length < infos.length ? `${chosen.length} of ${many(infos.length, "volume")}` : many(infos.length, "volume"), columns, list,
        infos.length ? "No name has this text." : "There is no volume yet.");
}

function drawHosts(now) {
  const before = previous();
  const list = rows(now, "host_connected").map(({ labels, value }) => ({
    host: labels.hostnqn, subsystem: labels.subsystem, rank: labels.rank, connected: value,
    ops: rate(before, now, "host_operations_total", labels), bytes: rate(before, now, "host_bytes_total", labels),
    lost: sum(now, "host_disconnects_total", { ...labels, reason: "keep_alive" }),
  }));
  table("hosts", many(connectedHosts(now).length, "host connected", "hosts connected"), [
    ["Host", "name", row => row.host],
    ["Volume's subsystem", "words", row => row.subsystem],
    ["Connected", "words", row => row.connected ? "yes" : "no", row => row.connected, row => row.connected ? "" : "none"],
    ["Commands/s", "number", row => rateText(row.ops), row => row.ops ?? -1],
    ["Bytes/s", "number", row => bytesText(row.bytes), row => row.bytes ?? -1],
    ["Lost by silence", "number", row => countText(row.lost), row => row.lost, row => row.lost > 0 ? "warn" : ""],
  ], list, "No host may connect yet.");
}

function drawStages(now) {
  const steps = pairs();
  const stages = distinct(rows(now, "stage_seconds_count").filter(row => row.value > 0 && row.labels.request === "nvmf_req"), row => row.labels.stage);
  const panels = stages.map(({ labels }) => {
    const wanted = { request: labels.request, stage: labels.stage };
    const whole = steps.length ? increase(steps[0][0], now, "stage_seconds", wanted) : [];
    const p50 = quantile(whole, 0.5), p99 = quantile(whole, 0.99), name = labels.stage === "ALL" ? "whole command" : labels.stage;
    return element("div", { class: "panel" }, element("div", { class: "name" }, name),
                   element("div", { class: "numbers" }, p99 === null ? "no command in this time" : `${timeText(p50)}, ${timeText(p99)}`),
                   curve(steps.map(([a, b]) => quantile(increase(a, b, "stage_seconds", wanted), 0.99)), name, timeText));
  });
  $("stages").replaceChildren(...(panels.length ? panels : [element("p", { class: "hint" }, "There was no command of a host yet.")]));
}

function drawMembers(now) {
  const members = status?.members;
  if (members)
    table("members", many(members.length, "engine"), [
      ["Rank", "number", row => row.rank, row => row.rank],
      ["State", "words", row => row.state, null, row => row.state === "Joined" ? "" : row.state === "Stopped" ? "none" : "bad"],
      ["Address", "words", row => row.address],
      ["Reason", "words", row => row.reason || NONE],
    ], members, "No engine has joined yet.");
  else
    table("members", "", [
      ["Engine", "name", row => row.labels.rank === undefined ? "this engine" : `rank ${row.labels.rank}`],
      ["Version", "words", row => row.labels.version],
      ["Build", "words", row => (row.labels.build_id || "").slice(0, 12)],
    ], rows(now, "engine_info"), "No engine gives figures.");
}

function drawPools(now) {
  const line = (name, labels, size, free) => ({ name, rank: labels.rank, size, free, used: size > 0 ? 1 - free / size : 0 });
  const list = rows(now, "pool_size_bytes").map(({ labels, value }) => line(labels.pool, labels, value, sum(now, "pool_free_bytes", labels)))
    .concat(rows(now, "storage_size_bytes").map(({ labels, value }) => line("(storage)", labels, value, sum(now, "storage_free_bytes", labels))));
  $("pools-section").hidden = !list.length;
  table("pools", "", [
    ["Pool", "name", row => row.rank === undefined ? row.name : `${row.name}, rank ${row.rank}`],
    ["Used", "words", row => bar(row.used, FULL), row => row.used],
    ["Free", "number", row => bytesText(row.free), row => row.free],
    ["Size", "number", row => bytesText(row.size), row => row.size],
  ], list, "");
}

function drawReactors(now) {
  const before = previous();
  const list = distinct(rows(now, "reactor_seconds_total"), row => keyOf({ ...row.labels, mode: "" })).map(({ labels }) => {
    const wanted = { ...labels };
    delete wanted.mode;
    return { name: (labels.rank === undefined ? "" : `rank ${labels.rank}, `) + (labels.core === "control" ? "control" : `CPU ${labels.core}`),
             busy: busyShare(before, now, wanted), step: sum(now, "reactor_current_step_seconds", wanted) };
  });
  $("reactors-section").hidden = !list.length;
  table("reactors", "", [
    ["Reactor", "name", row => row.name],
    ["Busy", "words", row => row.busy === null ? NONE : bar(row.busy, [BUSY, 0.98]), row => row.busy ?? -1],
    ["In one function for", "number", row => row.step > 0.001 ? timeText(row.step) : NONE, row => row.step, row => row.step > STALL_SECONDS ? "bad" : ""],
  ], list, "");
}

function drawEvents() {
  const events = status?.events;
  $("events-section").hidden = !events;
  if (!events) return;
  table("events", events.length > EVENTS_SHOWN ? `the newest ${EVENTS_SHOWN}` : "", [
    ["Time", "words", row => row.time],
    ["Severity", "words", row => row.severity, null, row => row.severity === "ERROR" ? "bad" : row.severity === "WARN" ? "warn" : ""],
    ["Event", "words", row => row.id],
    ["What", "words", row => row.message],
  ], events.slice(0, EVENTS_SHOWN), "There was no event.");
}

// ---- the whole page ----

function drawFreshness() {
  const node = $("freshness");
  node.className = problem ? "stale" : "";
  const at = lastAnswer ? `the figures are of ${clockText(lastAnswer)}` : "there are no figures yet";
  const words = paused ? `Paused; ${at}.` : problem ? `${problem}; ${at}.` : lastAnswer ? `Figures of ${clockText(lastAnswer)}, every ${EVERY_MS / 1000} seconds.` : "Asking for figures\u2026";
  if (node.textContent !== words) node.textContent = words;
}

function draw() {
  drawFreshness();
  const now = looks[looks.length - 1];
  if (!now) return;
  const engines = rows(now, "engine_info"), server = rows(now, "server_info")[0];
  $("title").textContent = status?.system ? `Fathom: system ${status.system}` : server ? "Fathom server" : "Fathom engine";
  $("about").textContent = `${location.host}${server ? `, version ${server.labels.version}` : engines[0] ? `, version ${engines[0].labels.version}` : ""}`;
  drawHealth(now);
  drawTiles(previous(), now);
  drawVolumes(now);
  drawStages(now);
  drawHosts(now);
  drawMembers(now);
  drawPools(now);
  drawReactors(now);
  drawEvents();
  document.body.dataset.looks = looks.length;
}

async function get(path, accept) {
  const answer = await fetch(path, { headers: { Accept: accept }, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
  return answer;
}

async function look() {
  if (paused || asking || document.hidden) return;
  asking = true;
  try {
    const answer = await get("/metrics", "application/openmetrics-text; version=1.0.0");
    const text = await answer.text();
    looks.push(parse(text, Date.now()));
    if (looks.length > LOOKS_MAX) looks.shift();
    lastAnswer = Date.now();
    problem = "";
  } catch (error) {
    problem = error.name === "TimeoutError" ? `No answer within ${TIMEOUT_MS / 1000} seconds` : `No answer (${error.message})`;
  }
  try {
    if (!problem && status !== false) status = await (await get("/status.json", "application/json")).json();
  } catch (error) {
    if (status === null && /HTTP status 404/.test(error.message)) status = false;     // an engine alone
  }
  asking = false;
  draw();
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
  draw();
  look();
});
$("window").addEventListener("change", draw);
$("filter").addEventListener("input", draw);
document.addEventListener("visibilitychange", look);
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "p") $("pause").click();
  else if (event.key === "/") { event.preventDefault(); $("filter").focus(); }
});
setInterval(look, EVERY_MS);
look();
document.body.dataset.ready = "true";

// Numbers, values of tools and names as the page shows them.

import { folded, long, make } from "./dom.js";

const ROWS_AT_FIRST = 20;

export const dollars = (cost) => (cost === 0 ? "$0" : `$${cost.toFixed(cost < 0.1 ? 4 : 2)}`);
export const seconds = (time) => `${time.toFixed(time < 10 ? 2 : 1)} s`;
export const whole = (number) => Math.round(number).toLocaleString("en");
export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

/** Returns a number with as many digits as tell something. */
export function short(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  if (Number.isInteger(number) && Math.abs(number) < 1e7) return number.toLocaleString("en");
  const size = Math.abs(number);
  if (size >= 1e4 || size < 1e-3) return number.toExponential(2);
  return number.toPrecision(4).replace(/\.?0+$/, "");
}

/** Returns the share of solved episodes among the judged ones with its 95 % interval (Wilson), in words. */
export function successOf({ solved = 0, failed = 0 }) {
  const trials = solved + failed;
  if (!trials) return "none judged";
  const [p, z] = [solved / trials, 1.96];
  const centre = p + (z * z) / (2 * trials);
  const reach = z * Math.sqrt((p * (1 - p)) / trials + (z * z) / (4 * trials * trials));
  const [low, high] = [centre - reach, centre + reach].map((end) => (100 * Math.min(1, Math.max(0, end / (1 + (z * z) / trials)))).toFixed(1));
  return `${percent(p)} solved [${low}, ${high}]`;
}

/** Returns a coloured word for how something ended. */
export function badge(word, kind = "") {
  const kinds = { solved: "good", OK: "good", failed: "bad", holds: "good", fails: "bad", "in progress": "" };
  return make("span", { class: `badge ${kind || (word in kinds ? kinds[word] : "odd")}` }, word);
}

/** Returns the names of agents as marks of their colours. */
export function agentMark(agent, agents) {
  return make("span", { class: `agent colour-${Math.max(0, agents.indexOf(agent)) % 6}` }, agent);
}

export const compact = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function table(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const body = make("tbody", {});
  const add = (some) => body.append(...some.map((row) => make("tr", {}, names.map((name) => make("td", {}, cell(row[name]))))));
  add(rows.slice(0, ROWS_AT_FIRST));
  const box = make(
    "div",
    { class: "scrolled" },
    make("table", { class: "values" }, make("thead", {}, make("tr", {}, names.map((name) => make("th", {}, name)))), body),
  );
  if (rows.length > ROWS_AT_FIRST) {
    const more = make("button", { class: "more" }, `Show all ${whole(rows.length)} rows`);
    more.addEventListener("click", () => {
      more.remove();
      add(rows.slice(ROWS_AT_FIRST));
    });
    box.append(more);
  }
  return box;
}

function cell(value) {
  if (value === undefined) return "";
  if (value === null) return make("span", { class: "quiet" }, "–");
  return long(compact(value), "inline", 300);
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Returns what a tool was given or gave back: rows as a table, an object as its fields, the rest as text. */
export function shownValue(value) {
  if (Array.isArray(value) && value.length && value.every(isObject)) return table(value);
  if (isObject(value) && Object.keys(value).length) {
    return make(
      "dl",
      { class: "fields" },
      Object.entries(value).map(([name, field]) => [
        make("dt", {}, name),
        make("dd", {}, Array.isArray(field) && field.length && field.every(isObject) ? table(field) : cell(field)),
      ]),
    );
  }
  return long(value === null || value === undefined ? "–" : compact(value));
}

/** Returns something as JSON, folded. */
export function asJson(title, value) {
  return folded(title, () => long(JSON.stringify(value, null, 2), "code", 20000));
}

/** Returns a list of names and values. */
export function factList(pairs) {
  return make(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
  );
}

/** Returns the name of a call, with its id where that says more than its number. */
export const calledName = (call) => (call.id && !/^call_\d+$/.test(call.id) ? `${call.id} · ${call.name}` : call.name || "(no name)");

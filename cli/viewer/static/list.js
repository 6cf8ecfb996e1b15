// The list of episodes: filters, orders, and rows that are asked for as they come into view.

import { ask, exported } from "./data.js";
import { button, fill, make, unseen } from "./dom.js";
import { badge, dollars, percent, seconds, short, successOf, whole } from "./format.js";

const PAGE = 100;
const MAX_HEIGHT = 8e6;
const NARROW = "(max-width: 760px)";
const COLUMNS = [
  ["number", "n", "number"], ["task", "task", ""], ["outcome", "outcome", ""], ["level", "level", "number"], ["turns", "turns", "number"],
  ["calls", "calls", "number"], ["cost", "cost", "number"], ["clock", "time", "number"], ["reward", "reward", "number"],
];
const OUTCOMES = ["solved", "failed", "infra_error", "judge_error", "in progress"];

/** The filters in words of an address. */
export const FILTERS = ["text", "outcome", "reason", "level", "intent", "tool", "policy", "recording", "env", "min_cost", "max_cost"];

function select(label, name, options, query, change) {
  if (options.length < 2 && !query[name]) return null;
  const chosen = query[name] ?? "";
  const listed = options.some(([value]) => String(value) === chosen) || !chosen ? options : [[chosen, chosen], ...options];
  return make(
    "label",
    { class: "field" },
    make("span", {}, label),
    make(
      "select",
      { name, onchange: (event) => change(name, event.target.value) },
      make("option", { value: "" }, "all"),
      listed.map(([value, text]) => make("option", { value: String(value), selected: String(value) === chosen }, text)),
    ),
  );
}

const counted = (facet) => (facet ?? []).map(([value, count]) => [value, `${value} (${whole(count)})`]);

function chips(label, name, facet, query, change) {
  if (!facet.length) return null;
  return make(
    "div",
    { class: "field", role: "group", "aria-label": label },
    make("span", {}, label),
    make(
      "div",
      { class: "chips" },
      facet.map(([value, count]) => {
        const chosen = query[name] === String(value);
        return button([make("span", {}, String(value)), make("small", {}, whole(count))], () => change(name, chosen ? "" : String(value)), {
          class: `chip ${chosen ? "chosen" : ""}`,
          "aria-pressed": String(chosen),
        });
      }),
    ),
  );
}

function bound(label, name, query, change) {
  return make("input", {
    name, type: "number", min: 0, step: "any", placeholder: label, "aria-label": `cost, ${label}`, value: query[name] ?? "",
    onchange: (event) => change(name, event.target.value),
  });
}

function filters(state, query, change) {
  const facets = state.facets;
  const outcomes = [...facets.outcome].sort((a, b) => OUTCOMES.indexOf(a[0]) - OUTCOMES.indexOf(b[0]));
  const policies = new Map();
  for (const one of state.recordings) policies.set(one.policy, (policies.get(one.policy) ?? 0) + one.episodes);
  const named = [...policies].filter(([policy]) => policy).map(([policy, count]) => [policy, `${policy} (${whole(count)})`]);
  const recordings = state.recordings.map((one) => [one.id, `${one.name} (${whole(one.episodes)})`]);
  return [
    chips("Outcome", "outcome", outcomes, query, change),
    chips("Level", "level", facets.level, query, change),
    select("Reason", "reason", counted(facets.reasons), query, change),
    select("Intent", "intent", counted(facets.intent), query, change),
    select("Tool called", "tool", counted(facets.tools), query, change),
    select("Policy", "policy", named, query, change),
    select("Recording", "recording", recordings, query, change),
    select("Environment", "env", counted(facets.env_id), query, change),
    make("div", { class: "field", role: "group", "aria-label": "Cost in US dollars" }, make("span", {}, "Cost, US$"),
      make("div", { class: "between" }, bound("from", "min_cost", query, change), "–", bound("to", "max_cost", query, change))),
    FILTERS.some((name) => query[name]) ? button("Clear filters", () => change(null, ""), { class: "small" }) : null,
  ];
}

function progress(state) {
  const size = state.recordings.reduce((sum, one) => sum + one.size, 0);
  const read = state.recordings.reduce((sum, one) => sum + Math.min(one.read, one.size), 0);
  if (state.done || !size) return [];
  const share = read / size;
  return [make("span", { class: "quiet", role: "status" }, ` · indexing, ${percent(share)}`), make("progress", { value: share, max: 1 })];
}

function faults(state) {
  const wrong = state.recordings.filter((one) => one.unreadable);
  return wrong.map((one) => make("p", { class: "warning" }, `${one.name}: ${whole(one.unreadable)} lines are no episodes (${one.fault}).`));
}

function summary(state, total, success, query) {
  const filtered = FILTERS.some((name) => query[name]);
  const words = filtered ? `${whole(total)} of ${whole(state.episodes)} episodes` : `${whole(total)} episodes`;
  const left = exported ? state.recordings.reduce((sum, one) => sum + one.episodes, 0) - state.exported : 0;
  const solved = success ? make("span", { title: "Of the judged episodes; in brackets the 95 % interval" }, ` · ${success}`) : null;
  return [make("strong", {}, words), solved, left > 0 ? make("span", { class: "quiet" }, ` · ${whole(left)} more are not in this file`) : null, ...progress(state)];
}

/** Returns the view of the list; `page` has the state, the query, `go` (to another address) and `marked` (for comparing). */
export function listView(page) {
  const { query, go } = page;
  const rows = new Map();
  let total = 0;
  let success = "";
  let selected = Math.max(0, Number(query.at ?? 0));
  let height = 0;
  let asked = 0;
  const asking = new Set();

  const change = (name, value) => {
    const next = name === null ? {} : { ...query, [name]: value };
    delete next.at;
    if (name === null && query.order) next.order = query.order;
    go("", next);
  };
  const search = make("input", {
    type: "search", name: "text", placeholder: "Task or reason …", "aria-label": "Search tasks and reasons", value: query.text ?? "",
    onchange: (event) => change("text", event.target.value),
  });
  const side = make("details", { class: "filters", open: !matchMedia(NARROW).matches }, make("summary", {}, "Filters"), make("div", { class: "filter-fields" }));
  const head = make("div", { class: "summary" });
  const notes = make("div", {});
  const compareButton = button("Compare marked", () => page.compareMarked(), { class: "small", hidden: true });
  const inner = make("div", { class: "rows-inner" });
  const rowsBox = make("div", { class: "rows", tabindex: 0, role: "rowgroup", "aria-label": "Episodes" }, inner);

  const order = query.order ?? "number";
  const header = make(
    "div",
    { class: "row head", role: "row" },
    make("span", { class: "mark", role: "cell" }),
    COLUMNS.map(([name, label, kind]) => {
      const arrow = order === name ? " ▲" : order === `-${name}` ? " ▼" : "";
      const next = order === name ? `-${name}` : name;
      return make("span", { role: "columnheader", class: `c-${name} ${kind}` }, button(label + arrow, () => go("", { ...query, order: next, at: "" }), { class: "plain" }));
    }),
    make("span", { role: "columnheader", class: "c-why" }, "why"),
  );

  const addressOf = (position) => ({ ...query, at: String(position) });
  const wanted = () => Object.fromEntries(FILTERS.map((name) => [name, query[name] ?? ""]));
  const asksFor = (offset, limit) => ({ ...wanted(), order, offset, limit });
  const open = async (position) => {
    const row = rows.get(position) ?? (await ask("episodes", asksFor(position, 1))).rows[0];
    if (row) go(`episode/${row.id}`, addressOf(position));
  };

  const line = (row, position) => {
    const mark = make("input", {
      type: "checkbox", "aria-label": `Mark episode ${row.id} for comparing`, checked: page.marked.has(row.id),
      onclick: (event) => event.stopPropagation(),
      onchange: () => toggle(position),
    });
    const several = page.state.recordings.length > 1;
    const name = several ? page.state.recordings.find((one) => one.id === row.recording) : null;
    return make(
      "div",
      {
        class: `row ${position === selected ? "selected" : ""}`, role: "row", "aria-rowindex": position + 1,
        onclick: (event) => event.target.tagName !== "INPUT" && event.target.tagName !== "A" && open(position),
      },
      make("span", { class: "mark", role: "cell" }, mark),
      make("span", { class: "c-number number quiet", role: "cell" }, whole(row.number)),
      make("span", { class: "c-task", role: "cell", title: `${row.task_id}${name ? `\n${name.name}` : ""}` },
        make("a", { href: page.address(`episode/${row.id}`, addressOf(position)) }, row.task_id), name ? make("small", { class: "quiet" }, ` ${name.policy || name.name}`) : null),
      make("span", { class: "c-outcome", role: "cell" }, badge(row.outcome)),
      make("span", { class: "c-level number", role: "cell" }, String(row.level)),
      make("span", { class: "c-turns number", role: "cell" }, String(row.turns)),
      make("span", { class: "c-calls number", role: "cell" }, String(row.calls)),
      make("span", { class: "c-cost number", role: "cell" }, dollars(row.cost)),
      make("span", { class: "c-clock number", role: "cell" }, seconds(row.clock)),
      make("span", { class: "c-reward number", role: "cell" }, short(row.reward)),
      make("span", { class: "c-why quiet", role: "cell", title: row.why, dir: "auto" }, row.why),
    );
  };

  const scale = () => Math.min(1, MAX_HEIGHT / Math.max(1, total * height));
  const firstInView = () => Math.floor(rowsBox.scrollTop / scale() / height);
  const inView = () => Math.ceil(rowsBox.clientHeight / height) + 1;

  const paint = () => {
    if (!height) return;
    const first = Math.max(0, Math.min(firstInView(), total - 1));
    const count = inView();
    inner.style.setProperty("height", `${total * height * scale()}px`);
    const top = scale() < 1 ? rowsBox.scrollTop : first * height;
    const list = [];
    for (let n = first; n < Math.min(total, first + count); n++) {
      const element = rows.has(n) ? line(rows.get(n), n) : make("div", { class: "row quiet", role: "row" }, make("span", { class: "c-task", role: "cell" }, "…"));
      element.style.setProperty("top", `${top + (n - first) * height}px`);
      list.push(element);
    }
    const focused = rowsBox.contains(document.activeElement) && document.activeElement !== rowsBox;
    fill(inner, list);
    if (focused) rowsBox.focus({ preventScroll: true });
    for (let n = Math.floor(first / PAGE); n <= Math.floor((first + count) / PAGE); n++) load(n);
  };

  const count = async () => {
    const run = asked;
    const found = await ask("outcomes", wanted()).catch(() => null);
    if (run !== asked || !found) return;
    success = successOf(found);
    fill(head, summary(page.state, total, success, query));
  };

  const load = async (number, again = false) => {
    const offset = number * PAGE;
    if (asking.has(number) || (total && offset >= total) || (!again && rows.has(offset) && (rows.has(offset + PAGE - 1) || offset + PAGE > total))) return;
    asking.add(number);
    const run = asked;
    try {
      const found = await ask("episodes", asksFor(offset, PAGE));
      if (run !== asked) return;
      found.rows.forEach((row, n) => rows.set(offset + n, row));
      const grown = found.total !== total;
      total = found.total;
      selected = Math.min(selected, Math.max(0, total - 1));
      if (grown) {
        fill(head, summary(page.state, total, success, query));
        count();
      }
      if (!total) fill(inner, make("p", { class: "empty" }, page.state.done ? "No episode fits these filters." : "Reading …"));
      else paint();
    } catch (error) {
      fill(notes, make("p", { class: "warning", role: "alert" }, error.message));
    } finally {
      asking.delete(number);
    }
  };

  const toggle = (position) => {
    const row = rows.get(position);
    if (!row) return;
    if (page.marked.has(row.id)) page.marked.delete(row.id);
    else {
      if (page.marked.size > 1) page.marked.delete([...page.marked][0]);
      page.marked.add(row.id);
    }
    marks();
    paint();
  };
  const marks = () => {
    compareButton.hidden = page.marked.size !== 2;
  };

  const reveal = () => {
    const top = selected * height * scale();
    if (top < rowsBox.scrollTop) rowsBox.scrollTop = top;
    const bottom = (selected + 2) * height * scale();
    if (scale() < 1 ? selected > firstInView() + inView() - 3 : bottom > rowsBox.scrollTop + rowsBox.clientHeight) {
      rowsBox.scrollTop = scale() < 1 ? top : bottom - rowsBox.clientHeight;
    }
  };
  const move = (by) => {
    selected = Math.max(0, Math.min(total - 1, selected + by));
    reveal();
    paint();
  };

  const refreshFilters = () => {
    const fields = side.lastChild;
    if (fields.contains(document.activeElement)) return;
    fill(fields, filters(page.state, query, change));
  };

  const view = make(
    "main",
    { class: "list" },
    unseen("Episodes"),
    make("div", { class: "list-head" }, search, head, compareButton),
    notes,
    make("div", { class: "list-body" }, side, make("div", { class: "rows-frame", role: "table", "aria-label": "Episodes" }, header, rowsBox)),
  );
  rowsBox.addEventListener("scroll", paint, { passive: true });
  const measure = () => {
    const narrow = matchMedia(NARROW).matches;
    const now = narrow ? 64 : 34;
    if (now !== height) {
      height = now;
      reveal();
    }
    paint();
  };

  return {
    element: view,
    title: "Episodes",
    opened() {
      const watch = new ResizeObserver(measure);
      watch.observe(rowsBox);
      refreshFilters();
      fill(notes, faults(page.state));
      marks();
      load(Math.floor(selected / PAGE), true).then(() => {
        reveal();
        paint();
      });
      rowsBox.focus({ preventScroll: true });
    },
    updated(changed) {
      fill(head, summary(page.state, total, success, query));
      if (!changed) return;
      refreshFilters();
      fill(notes, faults(page.state));
      asked += 1;
      asking.clear();
      if (order !== "number") rows.clear();
      total = total || 1;
      load(Math.floor(firstInView() / PAGE), true);
    },
    keys: {
      j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
      PageDown: () => move(inView() - 2), PageUp: () => move(2 - inView()), Home: () => move(-total), End: () => move(total),
      Enter: () => open(selected), x: () => toggle(selected), c: () => page.compareMarked(), "/": () => search.focus(),
    },
  };
}

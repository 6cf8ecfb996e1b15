// Two episodes, or two recordings, beside each other.

import { conversation } from "./conversation.js";
import { ask } from "./data.js";
import { button, fill, heads, make, unseen } from "./dom.js";
import { costs, episodeHead, verdict } from "./episode.js";
import { badge, dollars, percent, seconds, short, whole } from "./format.js";
import { timeline } from "./timeline.js";

const PARTS = [
  ["conversation", "Conversation", (found) => conversation(found, true)],
  ["verdict", "Verdict", verdict],
  ["costs", "Costs", costs],
];

function numbers(both) {
  const rows = [
    ["outcome", (one) => badge(one.facts.outcome), (one) => one.facts.outcome],
    ["reward", (one) => short(one.episode.reward), (one) => one.episode.reward],
    ["cost", (one) => dollars(one.facts.cost), (one) => one.facts.cost],
    ["of it own messages", (one) => dollars(one.facts.own_cost), (one) => one.facts.own_cost],
    ["time", (one) => seconds(one.facts.clock), (one) => one.facts.clock],
    ["turns", (one) => String(one.facts.turns), (one) => one.facts.turns],
    ["calls", (one) => String(one.facts.calls), (one) => one.facts.calls],
  ];
  return make("section", { class: "card" }, make("header", {}, make("h2", {}, "Beside each other")),
    make("div", { class: "scrolled" }, make("table", { class: "values" },
      heads(["", "A", "B"]),
      make("tbody", {}, rows.map(([name, shown, value]) =>
        make("tr", { class: value(both[0]) === value(both[1]) ? "" : "differs" }, make("th", { scope: "row" }, name), both.map((one) => make("td", {}, shown(one)))))))));
}

/** Returns the view of two episodes. */
export function episodesBeside(page, first, second) {
  const view = make("main", { class: "beside" }, make("p", { class: "quiet" }, "Loading …"));
  const keys = { Escape: () => page.go("", page.query), u: () => page.go("", page.query), s: () => page.go(`compare/${second}/${first}`, page.query) };
  const show = (both) => {
    const until = Math.max(...both.map((one) => one.episode.clock ?? 0));
    const panels = both.map(() => make("div", { class: "panel" }));
    const buttons = new Map();
    const choose = (name) => {
      const [, , content] = PARTS.find(([one]) => one === name);
      for (const [other, element] of buttons) element.classList.toggle("chosen", other === name);
      panels.forEach((panel, n) => fill(panel, content(both[n])));
    };
    PARTS.forEach(([name, label], n) => {
      buttons.set(name, button([label, make("kbd", {}, String(n + 1))], () => choose(name), { class: "tab" }));
      keys[String(n + 1)] = () => choose(name);
    });
    const side = (content) => make("div", { class: "pair" }, both.map((one, n) => make("div", { class: "side" }, content(one, n))));
    fill(view,
      make("nav", { class: "toolbar" }, button("← List", keys.Escape, { class: "small" }), button("Swap", keys.s, { class: "small" })),
      side((one, n) => [make("div", { class: "side-name" }, n ? "B" : "A"), episodeHead(one)]),
      numbers(both),
      side((one) => timeline(one.episode, { until })),
      make("div", { class: "tabs" }, [...buttons.values()]),
      side((_, n) => panels[n]));
    choose("conversation");
  };
  return {
    element: view,
    title: "Two episodes",
    opened: () => Promise.all([first, second].map((id) => ask(`episodes/${id}`))).then(show, (error) => fill(view, make("p", { class: "warning", role: "alert" }, error.message))),
    updated() {},
    keys,
  };
}

const MEASURES = [
  ["success", "success", percent, (d) => `${d > 0 ? "+" : ""}${(100 * d).toFixed(1)} points`],
  ["cost", "cost of an episode", (v) => `$${v.toFixed(5)}`, (d) => `${d > 0 ? "+" : ""}${d.toFixed(5)}`],
  ["clock", "time of an episode", seconds, (d) => `${d > 0 ? "+" : ""}${d.toFixed(2)} s`],
  ["turns", "turns", (v) => v.toFixed(2), (d) => `${d > 0 ? "+" : ""}${d.toFixed(2)}`],
];

function interval({ estimate, low, high }) {
  const reach = Math.max(Math.abs(low), Math.abs(high), 1e-12) * 1.15;
  const at = (value) => `${50 + (50 * value) / reach}%`;
  const kind = low > 0 || high < 0 ? "sure" : "";
  return make("div", { class: `interval ${kind}`, "aria-hidden": "true" },
    make("span", { class: "zero" }), make("span", { class: "reach", style: { left: at(low), width: `${(50 * (high - low)) / reach}%` } }), make("span", { class: "dot", style: { left: at(estimate) } }));
}

function differing(page, title, tasks, pairs) {
  const shown = tasks.filter((task) => task in pairs);
  return make("section", { class: "card" }, make("header", {}, make("h2", {}, title), make("strong", {}, whole(tasks.length))),
    shown.length ? make("ul", { class: "links" }, shown.map((task) => make("li", {}, make("a", { href: page.address(`compare/${pairs[task].join("/")}`, {}) }, task)))) : make("p", { class: "quiet" }, "None."));
}

/** Returns the view of two recordings. */
export function recordingsBeside(page, first, second) {
  const place = make("div", { class: "stack" });
  const recordings = page.state.recordings;
  const pick = (label, chosen, onchange) =>
    make("label", { class: "field" }, make("span", {}, label),
      make("select", { "aria-label": `Recording ${label}`, onchange: (event) => onchange(event.target.value) },
        recordings.map((one) => make("option", { value: String(one.id), selected: String(one.id) === String(chosen) }, `${one.name}${one.policy ? ` · ${one.policy}` : ""} (${whole(one.episodes)})`))));
  const show = (found) => {
    if (!found.tasks) return fill(place, make("p", { class: "empty" }, "These two have no judged task in common. Record both with the same split and seed."));
    fill(place,
      make("section", { class: "card" },
        make("header", {}, make("h2", {}, `Means of ${whole(found.tasks)} tasks`)),
        make("div", { class: "scrolled" }, make("table", { class: "values" },
          heads(["", "A", "B", "B − A", "95 % interval", ""]),
          make("tbody", {}, MEASURES.map(([name, label, shown, change]) =>
            make("tr", {}, make("th", { scope: "row" }, label), make("td", { class: "number" }, shown(found[name].a)), make("td", { class: "number" }, shown(found[name].b)),
              make("td", { class: "number" }, change(found[name].difference.estimate)),
              make("td", { class: "number" }, `${change(found[name].difference.low)} to ${change(found[name].difference.high)}`), make("td", {}, interval(found[name].difference))))))),
        make("p", {}, `B is better on ${whole(found.better.length)} tasks, worse on ${whole(found.worse.length)}; exact sign test p = ${found.p.toPrecision(3)}.`),
        found.only_a || found.only_b ? make("p", { class: "quiet" }, `Left out: ${whole(found.only_a)} tasks only in A, ${whole(found.only_b)} only in B.`) : null),
      make("div", { class: "pair" }, make("div", { class: "side" }, differing(page, "Better in B", found.better, found.pairs)), make("div", { class: "side" }, differing(page, "Worse in B", found.worse, found.pairs))));
    return undefined;
  };
  const view = make("main", { class: "beside" }, unseen("Two recordings"),
    make("div", { class: "pair" },
      make("div", { class: "side" }, pick("A", first, (id) => page.go(`recordings/${id}/${second}`, {}))),
      make("div", { class: "side" }, pick("B", second, (id) => page.go(`recordings/${first}/${id}`, {})))),
    place);
  return {
    element: view,
    title: "Two recordings",
    opened: () => ask(`comparison/${first}/${second}`).then(show, (error) => fill(place, make("p", { class: "warning", role: "alert" }, error.message))),
    updated() {},
    keys: { Escape: () => page.go("", {}), s: () => page.go(`recordings/${second}/${first}`, {}) },
  };
}

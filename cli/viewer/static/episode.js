// One episode: what it was asked, how it went, what it cost, and how it was judged.

import { conversation, histories, tokensRead } from "./conversation.js";
import { ask } from "./data.js";
import { databaseView, slotsTable } from "./database.js";
import { button, fill, long, make } from "./dom.js";
import { agentMark, asJson, badge, dollars, factList, percent, seconds, short, whole } from "./format.js";
import { decisionTree, designGraph } from "./graph.js";
import { timeline } from "./timeline.js";
import { tokenInfo, tokenLegend, tokenStrip } from "./tokens.js";

/** Returns the head of an episode: request, outcome and numbers. */
export function episodeHead(found, { request = true } = {}) {
  const { episode, facts } = found;
  const rewards = Object.entries(episode.rewards ?? {});
  return make(
    "section",
    { class: "card" },
    make("header", {}, make("h1", { title: episode.task_id }, episode.task_id), badge(facts.outcome)),
    request ? long(episode.instruction) : null,
    facts.outcome !== "solved" && episode.why ? long(episode.why, "why") : null,
    factList([
      ["environment", episode.env_id],
      ["recording", `${found.recording}, episode ${whole(facts.number)}`],
      found.policy ? ["policy", found.policy] : null,
      ["level", String(episode.difficulty)],
      ["reward", rewards.length > 1 ? rewards.map(([agent, one]) => `${agent} ${short(one)}`).join(", ") : short(episode.reward)],
      ["cost", dollars(episode.cost ?? 0)],
      ["time", seconds(episode.clock ?? 0)],
      ["turns", String(facts.turns)],
      ["calls", String(facts.calls)],
      episode.seed === undefined ? null : ["seed", String(episode.seed)],
    ]),
  );
}

function innerCosts(calls, into) {
  for (const call of calls ?? []) {
    const kept = into.get(call.name) ?? { name: call.name, count: 0, cost: 0, seconds: 0, read: 0, written: 0, inner: new Map() };
    kept.count += 1;
    kept.cost += call.cost ?? 0;
    kept.seconds += (call.end ?? 0) - (call.start ?? 0);
    kept.read += call.tokens?.[0] ?? 0;
    kept.written += call.tokens?.[1] ?? 0;
    innerCosts(call.children, kept.inner);
    into.set(call.name, kept);
  }
  return into;
}

/** Returns who caused which cost: agents by their own messages, tools by calls, and what ran inside of them. */
export function costs(found) {
  const { episode } = found;
  const agents = episode.agents ?? ["orchestrator"];
  const own = agents.map((agent) => {
    const turns = (episode.turns ?? []).filter((turn) => (turn.agent ?? "orchestrator") === agent);
    const sum = (value) => turns.reduce((total, turn) => total + value(turn), 0);
    return {
      name: `${agent}, own messages`, agent, count: turns.length, cost: found.cost_parts[agent] ?? 0, seconds: found.clock_parts[agent] ?? 0,
      read: sum((turn) => turn.tokens?.[0] ?? 0), written: sum((turn) => turn.tokens?.[1] ?? 0), inner: new Map(),
    };
  });
  const tools = [...innerCosts((episode.turns ?? []).flatMap((turn) => turn.calls ?? []), new Map()).values()].sort((a, b) => b.cost - a.cost);
  const all = [...own, ...tools];
  const total = all.reduce((sum, one) => sum + one.cost, 0);
  const line = (one, depth) => [
    make("tr", {},
      make("th", { scope: "row", class: `depth-${Math.min(depth, 4)}` }, depth ? make("span", { class: "quiet" }, "└ ") : null, one.name || "(no name)"),
      [whole(one.count), dollars(one.cost), depth ? "" : percent(total ? one.cost / total : 0), seconds(one.seconds), whole(one.read), whole(one.written)].map((text) => make("td", { class: "number" }, text))),
    [...one.inner.values()].sort((a, b) => b.cost - a.cost).map((inner) => line(inner, depth + 1)),
  ];
  const parts = all.filter((one) => one.cost > 0);
  return make(
    "section",
    { class: "card" },
    make("header", {}, make("h2", {}, "Costs by who caused them"), make("strong", {}, dollars(total))),
    make("div", { class: "share", role: "img", "aria-label": parts.map((one) => `${one.name} ${percent(one.cost / total)}`).join(", ") },
      parts.map((one, n) => make("span", { class: `colour-${n % 6}`, title: `${one.name}: ${dollars(one.cost)}`, style: { "flex-grow": (1000 * one.cost) / total } }))),
    make("p", { class: "legend" }, parts.slice(0, 12).map((one, n) => make("span", {}, make("i", { class: `colour-${n % 6}` }), `${one.name} ${percent(one.cost / total)}`))),
    make("div", { class: "scrolled" },
      make("table", { class: "values costs" },
        make("thead", {}, make("tr", {}, ["who", "times", "cost", "share", "seconds", "tokens read", "written"].map((name, n) => make("th", { class: n ? "number" : "" }, name)))),
        make("tbody", {}, all.map((one) => line(one, 0))))),
    make("p", { class: "quiet" }, "Inner calls (└) are part of the cost of the call above them. Calls that run side by side add their seconds here, and not on the clock."),
  );
}

/** Returns the answer about the reference of an episode, which is asked for once. */
function referenceOf(found) {
  found.reference ??= ask(`episodes/${found.facts.id}/reference`);
  return found.reference;
}

/** Returns the verdict criterion by criterion. */
export function verdict(found) {
  const { episode, facts, criteria } = found;
  const metrics = episode.metrics ?? [];
  const names = [...episode.tools, "outcome", "− cost", "− seconds"];
  const parts = Object.entries(episode.reward_parts ?? {});
  const slots = make("div", {});
  referenceOf(found).then((answer) => fill(slots, slotsTable(answer)), () => {});
  return make(
    "div",
    { class: "stack" },
    make("section", { class: "card" },
      make("header", {}, make("h2", {}, "Verdict"), badge(facts.outcome)),
      criteria.every((one) => one.holds === null) ? make("p", {}, `The criteria were not judged: ${episode.why || "the episode is not over"}.`) : null,
      make("ul", { class: "criteria" },
        criteria.map((one) =>
          make("li", {}, badge(one.holds === null ? "not judged" : one.holds ? "holds" : "fails", one.holds === null ? "none" : ""),
            make("div", {}, make("strong", {}, one.name), make("p", { class: "quiet" }, one.meaning), one.messages.map((message) => long(message, "error")))))),
      episode.answer === undefined ? null : [make("h3", {}, "Final answer"), slots, long(episode.answer)]),
    parts.length
      ? make("section", { class: "card" }, make("header", {}, make("h2", {}, "Parts of the reward"), make("strong", {}, short(episode.reward))),
          factList(parts.map(([name, value]) => [name, short(value)])))
      : null,
    metrics.length
      ? make("section", { class: "card" }, make("header", {}, make("h2", {}, "Metrics M and preference P")),
          make("div", { class: "scrolled" }, make("table", { class: "values" },
            make("thead", {}, make("tr", {}, ["measured", "M", episode.preference ? "P" : null].filter(Boolean).map((name) => make("th", {}, name)))),
            make("tbody", {}, metrics.map((value, n) => [value, n]).filter(([value, n]) => value || episode.preference?.[n]).map(([value, n]) =>
              make("tr", {}, make("th", { scope: "row" }, names[n] ?? String(n)), make("td", { class: "number" }, short(value)), episode.preference ? make("td", { class: "number" }, short(episode.preference[n])) : null))))))
      : null,
  );
}

function tokens(found) {
  const turns = found.episode.turns.map((turn, number) => [turn, number]).filter(([turn]) => turn.token_ids);
  const agents = found.episode.agents ?? ["orchestrator"];
  const info = tokenInfo();
  return make(
    "section",
    { class: "card" },
    make("header", {}, make("h2", {}, "Tokens that the policy wrote")),
    make("p", { class: "quiet" }, "Advantages belong to groups of rollouts in training: see Training, where a run has kept some."),
    tokenLegend(),
    info,
    turns.map(([turn, number]) => [
      make("h3", {}, `${number + 1} `, agentMark(turn.agent ?? "orchestrator", agents),
        make("span", { class: "quiet" }, ` ${turn.token_ids.length} tokens, log-probability ${short((turn.logprobs ?? []).reduce((a, b) => a + b, 0))}`)),
      tokenStrip({ ids: turn.token_ids, texts: found.tokens?.[number], logprobs: turn.logprobs ?? null }, info),
    ]),
  );
}

function tabsOf(found) {
  const { episode } = found;
  const several = (episode.agents ?? []).length > 1;
  const reference = () => {
    const place = make("div", {}, make("p", { class: "quiet" }, "Looking up the task …"));
    referenceOf(found).then((answer) => fill(place, databaseView(answer)), (error) => fill(place, make("p", { class: "warning" }, error.message)));
    return place;
  };
  return [
    ["conversation", "Conversation", () => conversation(found)],
    ["verdict", "Verdict", () => verdict(found)],
    ["database", found.criteria.some((one) => one.name === "execution") ? "Database" : "Reference", reference],
    ["costs", "Costs", () => costs(found)],
    found.design ? ["graph", "Graph", () => designGraph(found.design, episode)] : null,
    found.tree ? ["tree", "Tree", () => decisionTree(found.tree)] : null,
    several ? ["agents", "Agents", () => histories(found)] : null,
    episode.turns?.some((turn) => turn.token_ids) ? ["tokens", "Tokens", () => tokens(found)] : null,
    ["record", "Record", () => make("section", { class: "card" }, make("header", {}, make("h2", {}, "The record as JSON")), asJson("Show", episode))],
  ].filter(Boolean);
}

/** Returns the view of an episode; `page.query` has the filters of the list that it was opened from. */
export function episodeView(page, id) {
  const { query, go } = page;
  const view = make("main", { class: "episode" }, make("p", { class: "quiet" }, "Loading …"));
  const keys = {};

  const beside = async (by) => {
    const at = Number(query.at) + by;
    if (query.at === undefined || query.at === "" || at < 0) return;
    const { at: _, tab: __, ...filters } = query;
    const { rows } = await ask("episodes", { ...filters, offset: at, limit: 1 });
    if (rows.length) go(`episode/${rows[0].id}`, { ...query, at: String(at) });
  };
  const back = () => go("", { ...query, tab: "" });

  const show = (found) => {
    const tabs = tabsOf(found);
    const panel = make("div", { class: "panel", role: "tabpanel" });
    const buttons = new Map();
    const choose = (name, remember = true) => {
      const [key, , content] = tabs.find(([one]) => one === name) ?? tabs[0];
      for (const [other, element] of buttons) {
        element.classList.toggle("chosen", other === key);
        element.setAttribute("aria-selected", String(other === key));
      }
      fill(panel, content());
      if (remember) page.remember({ ...query, tab: key });
      query.tab = key;
    };
    tabs.forEach(([name, label], n) => {
      buttons.set(name, button([label, make("kbd", {}, String(n + 1))], () => choose(name), { class: "tab", role: "tab" }));
      keys[String(n + 1)] = () => choose(name);
    });
    const turn = (number) => {
      choose("conversation");
      const target = document.getElementById(`turn-${number}`);
      target?.scrollIntoView({ block: "start" });
      target?.focus({ preventScroll: true });
    };
    const listed = query.at !== undefined && query.at !== "";
    fill(
      view,
      make("nav", { class: "toolbar", "aria-label": "Episodes" },
        button("← List", back, { class: "small" }),
        listed ? [button("Previous", () => beside(-1), { class: "small" }), button("Next", () => beside(1), { class: "small" })] : null,
        button(page.marked.has(found.facts.id) ? "Marked" : "Mark for comparing", (event) => {
          page.mark(found.facts.id);
          event.target.textContent = page.marked.has(found.facts.id) ? "Marked" : "Mark for comparing";
          if (page.marked.size === 2) page.compareMarked();
        }, { class: "small", id: "mark" })),
      episodeHead(found),
      timeline(found.episode, { choose: turn }),
      make("div", { class: "tabs", role: "tablist" }, [...buttons.values()]),
      panel,
    );
    choose(query.tab, false);
  };

  return {
    element: view,
    title: "Episode",
    opened: () => ask(`episodes/${id}`).then(show, (error) => fill(view, make("p", { class: "warning", role: "alert" }, error.message), button("← List", back))),
    updated() {},
    keys: Object.assign(keys, {
      j: () => beside(1), n: () => beside(1), k: () => beside(-1), p: () => beside(-1), Escape: back, u: back,
      x: () => document.getElementById("mark")?.click(),
    }),
  };
}

// An episode as a conversation: messages, calls with inner calls and results, and what agents observed.

import { folded, long, make } from "./dom.js";
import { agentMark, badge, calledName, dollars, seconds, shownValue, whole } from "./format.js";

export const tokensRead = (tokens) => (tokens && (tokens[0] || tokens[1]) ? `${whole(tokens[0])} tokens read, ${whole(tokens[1])} written` : "");

function spent(one) {
  const parts = [];
  if (one.end !== undefined) parts.push(`${seconds(one.start ?? 0)} to ${seconds(one.end)}`);
  if (one.cost) parts.push(dollars(one.cost));
  if (tokensRead(one.tokens)) parts.push(tokensRead(one.tokens));
  return make("span", { class: "quiet" }, parts.join(" · "));
}

function given(values) {
  const shown = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
  return Object.keys(shown).length ? shownValue(shown) : null;
}

function innerCall(call) {
  const status = call.status ?? "OK";
  return make(
    "li",
    {},
    make("div", { class: "call-head" }, make("code", {}, calledName(call)), status === "OK" ? null : badge(status, "bad"), spent(call)),
    status === "OK" ? folded("Result", () => shownValue(call.value)) : long(call.error ?? "", "error"),
    call.children?.length ? make("ul", { class: "inner" }, call.children.map(innerCall)) : null,
  );
}

/** Returns a call with its result. */
export function callCard(call, compactly) {
  const status = call.status ?? "OK";
  const value = call.value === undefined ? null : call.value;
  const large = JSON.stringify(value).length > 1500;
  return make(
    "div",
    { class: `call ${status === "OK" ? "" : "failed"}` },
    make("div", { class: "call-head" }, make("code", {}, calledName(call)), badge(status, status === "OK" ? "good" : "bad"), spent(call)),
    call.arguments === null ? make("p", { class: "error" }, "The arguments could not be read.") : given(call.arguments ?? {}),
    call.children?.length
      ? folded(`${call.children.length} inner call${call.children.length > 1 ? "s" : ""}`, () => make("ul", { class: "inner" }, call.children.map(innerCall)), { open: !compactly })
      : null,
    status === "OK" ? make("div", { class: "result" }, large ? folded("Result", () => shownValue(value), { open: !compactly }) : shownValue(value)) : long(call.error ?? "", "error"),
  );
}

function parallel(calls) {
  return calls.some((a, n) => calls.some((b, m) => m > n && (a.start ?? 0) < (b.end ?? 0) && (b.start ?? 0) < (a.end ?? 0)));
}

function turnCard(turn, number, { episode, said }, compactly) {
  const agents = episode.agents ?? ["orchestrator"];
  const agent = turn.agent ?? "orchestrator";
  const calls = turn.calls ?? [];
  const written = String(turn.message?.content ?? "");
  const { thought, text } = said[number];
  const last = !calls.length && number === episode.turns.length - 1 && episode.answer !== undefined;
  const cost = [turn.seconds ? seconds(turn.seconds) : "", turn.cost ? dollars(turn.cost) : "", tokensRead(turn.tokens)].filter(Boolean).join(" · ");
  const observed = Object.entries(turn.observations ?? {}).filter(([name, one]) => one && (agents.length > 1 || name !== agent || !calls.length));
  const read = agents.length === 1 && calls.length ? turn.observations?.[agent] : "";
  return make(
    "article",
    { class: `turn colour-${Math.max(0, agents.indexOf(agent)) % 6}`, id: `turn-${number}`, tabindex: -1 },
    make("header", {}, make("span", { class: "turn-number" }, String(number + 1)), agentMark(agent, agents), last ? badge("answer", "") : null,
      calls.length > 1 ? make("span", { class: "quiet" }, `${calls.length} calls${parallel(calls) ? " in parallel" : ""}`) : null, make("span", { class: "quiet end" }, cost)),
    thought ? folded("Thought", () => long(thought)) : null,
    text ? long(text) : calls.length ? null : make("p", { class: "quiet" }, "(nothing)"),
    calls.length ? make("div", { class: "calls" }, calls.map((call) => callCard(call, compactly))) : null,
    observed.map(([name, one]) => folded(`→ ${name} reads`, () => long(one), { open: agents.length > 1 && !compactly && one.length < 600 })),
    read || thought || (calls.length && written !== text) ? folded("As written", () => make("div", {}, long(written || JSON.stringify(turn.message?.tool_calls ?? ""), "code"), read ? [make("h4", {}, "Observation"), long(read, "code")] : null)) : null,
  );
}

/** Returns the conversation of an episode that was asked for; `compactly` folds what is long. */
export function conversation(found, compactly = false) {
  const { episode } = found;
  return make(
    "div",
    { class: "stack conversation" },
    episode.openings ? null : make("article", { class: "turn system" }, folded("System prompt", () => long(episode.prompt, "code", 20000))),
    make("article", { class: "turn user" }, make("header", {}, make("span", { class: "agent" }, "request")), long(episode.instruction)),
    (episode.turns ?? []).map((turn, number) => turnCard(turn, number, found, compactly)),
  );
}

/** Returns the private histories of the agents side by side. */
export function histories(found) {
  const agents = Object.keys(found.histories);
  return make(
    "div",
    { class: "columns" },
    agents.map((agent) =>
      make(
        "section",
        { class: "column" },
        make("h3", {}, agentMark(agent, agents), make("span", { class: "quiet" }, ` ${found.histories[agent].length} messages`)),
        found.histories[agent].map((message) =>
          make("div", { class: `message ${message.role}` }, make("div", { class: "quiet" }, message.role),
            message.role === "system" ? folded("Show", () => long(message.content, "code", 20000)) : long(message.content || JSON.stringify(message.tool_calls ?? ""))),
        ),
      ),
    ),
  );
}

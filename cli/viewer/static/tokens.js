// Tokens with their mask, log-probability and advantage.

import { button, make, visible } from "./dom.js";
import { percent, short } from "./format.js";

const AT_FIRST = 3000;

/** Returns where the numbers of the token are told that is pointed at. */
export function tokenInfo() {
  return make("p", { class: "quiet token-info", "aria-live": "polite" }, "Point at a token, or move to it with Tab, to read its numbers.");
}

/** Returns tokens, each coloured by its probability; `mask` is 0 where the policy did not write, `advantage` one number. */
export function tokenStrip({ ids = [], texts = null, logprobs = null, mask = null, advantage = null }, info) {
  const box = make("div", { class: "tokens" });
  const tell = (n) => () => {
    const own = mask === null || mask[n];
    const logp = own && logprobs ? logprobs[n] : null;
    const parts = [`“${visible(texts?.[n] ?? "")}”`, `id ${ids[n] ?? "?"}`, `position ${n}`, own ? "mask 1: written by the policy" : "mask 0: read, not trained on"];
    if (logp !== null && logp !== undefined) parts.push(`log-probability ${logp.toFixed(4)} (${percent(Math.exp(logp))})`);
    if (own && advantage !== null) parts.push(`advantage ${short(advantage)}`);
    info.textContent = parts.join(" · ");
  };
  const count = Math.max(ids.length, texts?.length ?? 0);
  const add = (from, to) => {
    for (let n = from; n < to; n++) {
      const own = mask === null || mask[n];
      const logp = own && logprobs ? logprobs[n] : null;
      const depth = logp === null || logp === undefined ? "" : `p${Math.min(5, Math.floor(-logp * 2))}`;
      const text = texts?.[n] ?? String(ids[n]);
      const token = make("span", { class: `token ${own ? `own ${depth}` : "read"}`, tabindex: own ? 0 : undefined, onmouseenter: tell(n), onfocus: tell(n) }, text.replace(/\n/g, "⏎\n"));
      box.append(token);
    }
    if (to < count) {
      const more = button(`Show all ${count.toLocaleString("en")} tokens`, () => (more.remove(), add(to, count)), { class: "more" });
      box.append(more);
    }
  };
  add(0, Math.min(count, AT_FIRST));
  return box;
}

/** Returns what the colours of tokens mean. */
export function tokenLegend() {
  const steps = ["over 61 %", "37–61 %", "22–37 %", "14–22 %", "8–14 %", "below"];
  return make(
    "p",
    { class: "legend" },
    make("span", {}, "probability when drawn: "),
    steps.map((label, n) => make("span", { class: `token own p${n}` }, label)),
    make("span", { class: "token read" }, "read (mask 0)"),
  );
}

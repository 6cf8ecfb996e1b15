// Training runs: their curves while they grow, and the rollouts that they have kept, token by token.

import { chart } from "./charts.js";
import { ask, exported } from "./data.js";
import { button, fill, folded, make, unseen } from "./dom.js";
import { badge, short, whole } from "./format.js";
import { tokenInfo, tokenLegend, tokenStrip } from "./tokens.js";

const FIRST = ["success", "reward", "loss", "kl", "cost", "turns"];
const NOT_SHOWN = new Set(["phase", "step", "kind", "low", "high", "episodes", "all_episodes", "success_of_all"]);
const SHOWN = 16;

function series(records, phase, kind, name) {
  return records
    .filter((one) => one.phase === phase && one.kind === kind && typeof one[name] === "number")
    .map((one) => ({ x: one.step, y: one[name], ...(kind === "heldout" && name === "success" ? { low: one.low, high: one.high } : {}) }));
}

/** Returns runs by what they are seeds of: their names without a last number. */
function seedsOf(names) {
  const found = new Map();
  for (const name of names) {
    const key = name.replace(/[-_/ ]?(?:seed)?[-_]?\d+$/, "") || "runs";
    found.set(key, [...(found.get(key) ?? []), name]);
  }
  return found;
}

/** Returns the mean of several runs by step, from the least to the greatest of them, where two or more have a value. */
function band(several) {
  const steps = new Map();
  for (const { x, y } of several.flat()) steps.set(x, [...(steps.get(x) ?? []), y]);
  return [...steps].filter(([, ys]) => ys.length > 1).sort(([a], [b]) => a - b)
    .map(([x, ys]) => ({ x, y: ys.reduce((a, b) => a + b, 0) / ys.length, low: Math.min(...ys), high: Math.max(...ys) }));
}

function charts(runs, hidden, bands) {
  const shown = [...runs].filter(([name]) => !hidden.has(name));
  const all = shown.flatMap(([, run]) => run.records);
  const phases = [...new Set(all.map((one) => one.phase))];
  const named = (name, more) => (shown.length > 1 ? [name, more] : [more]).filter(Boolean).join(" ");
  return phases.map((phase) => {
    const metrics = [...new Set(all.filter((one) => one.phase === phase).flatMap((one) => Object.keys(one)))].filter((name) => !NOT_SHOWN.has(name));
    const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
    metrics.sort((a, b) => rank(a) - rank(b));
    const boxes = metrics.map((metric) => {
      const both = (name, colour, points) => [
        { name: named(name, ""), colour, points: points("train"), marks: false, band: bands },
        { name: named(name, "held out"), colour, points: points("heldout"), marks: true },
      ];
      const of = (name, kind) => series(runs.get(name).records, phase, kind, metric);
      const lines = (bands
        ? [...seedsOf(shown.map(([name]) => name))].flatMap(([key, names]) =>
            both(names.length > 1 ? `${key} (${names.length} runs)` : names[0], runs.get(names[0]).colour,
              (kind) => (names.length > 1 ? band(names.map((name) => of(name, kind))) : of(names[0], kind))))
        : shown.flatMap(([name, run]) => both(name, run.colour, (kind) => of(name, kind)))
      ).filter((line) => line.points.length);
      return lines.length ? chart(metric.replaceAll("_", " "), lines, "step") : null;
    });
    const steps = Math.max(...all.filter((one) => one.phase === phase).map((one) => one.step));
    return make("section", { class: "card" }, make("header", {}, make("h2", {}, phase.toUpperCase()), make("span", { class: "quiet" }, `step ${whole(steps)}`)),
      make("div", { class: "charts" }, boxes.filter(Boolean)));
  });
}

function rollout(one) {
  const written = one.mask.reduce((a, b) => a + b, 0);
  const title = [`step ${one.step}`, one.agent, one.task_id, one.reward === undefined ? "" : `reward ${short(one.reward)}`, `advantage ${short(one.advantage)}`, one.kept === false ? "dropped by a filter" : "", `${whole(written)} tokens written`];
  const read = one.prompt_ids?.length ?? 0;
  return folded(title.filter(Boolean).join(" · "), () => {
    const info = tokenInfo();
    const strip = tokenStrip({ ids: one.completion_ids, texts: one.texts ?? null, logprobs: one.logprobs, mask: one.mask, advantage: one.advantage }, info);
    return make("div", {}, make("p", { class: "quiet" }, `${whole(read)} prompt tokens come before these.`), info, strip);
  });
}

/** Returns the view of all runs. */
export function trainingView(page) {
  const runs = new Map(page.state.runs.map((name, n) => [name, { records: [], read: 0, colour: n % 6 }]));
  const hidden = new Set();
  let bands = false;
  const curves = make("div", { class: "stack" });
  const kept = make("div", { class: "stack" });
  const redraw = () => fill(curves, ...charts(runs, hidden, bands));
  const legend = make("div", { class: "legend runs" },
    [...runs].map(([name, run]) =>
      make("label", {}, make("input", { type: "checkbox", checked: true, onchange: (event) => {
        if (event.target.checked) hidden.delete(name);
        else hidden.add(name);
        redraw();
      } }), make("i", { class: `colour-${run.colour}` }), name)),
    [...seedsOf(runs.keys()).values()].some((names) => names.length > 1)
      ? make("label", { title: "Runs whose names differ in their last number: their mean, from the least to the greatest" },
          make("input", { type: "checkbox", id: "bands", onchange: (event) => {
            bands = event.target.checked;
            redraw();
          } }), "seeds as bands")
      : null);
  const readOn = async () => {
    const found = await ask("metrics", Object.fromEntries([...runs].map(([name, run]) => [name, run.read])));
    let grown = false;
    for (const [name, run] of runs) {
      const one = found[name];
      if (!one) continue;
      if (one.restarted) run.records = [];
      if (one.records.length || one.restarted) grown = true;
      run.records = run.records.concat(one.records);
      run.read = one.read;
    }
    if (grown) redraw();
    if (grown && !exported) await readOn(); // an answer has the beginning only of what is long
  };
  let reading = Promise.resolve();
  const poll = () => {
    reading = reading.then(readOn, readOn); // one after the other, as each begins where the last one ended
  };
  const rollouts = async () => {
    const parts = [];
    for (const name of runs.keys()) {
      const found = await ask("rollouts", { run: name });
      if (!found.length) continue;
      const list = make("div", {});
      const newest = found.slice().reverse();
      const show = (count) => fill(list, newest.slice(0, count).map(rollout), newest.length > count ? button(`Show all ${newest.length}`, () => show(newest.length), { class: "more" }) : null);
      show(SHOWN);
      parts.push(make("section", { class: "card" }, make("header", {}, make("h2", {}, `Rollouts of ${name}`), badge(`${found.length} kept`, "none")), tokenLegend(), list));
    }
    fill(kept, ...parts);
  };
  const view = make("main", { class: "training stack" }, unseen("Training"), runs.size > 1 ? legend : null,
    runs.size ? null : make("p", { class: "empty" }, "There is no training run at the given paths: a folder with metrics.jsonl."), curves, kept);
  return {
    element: view,
    title: "Training",
    opened() {
      poll();
      rollouts();
    },
    updated: poll,
    keys: { Escape: () => page.go("", {}) },
  };
}

// When agents wrote and calls ran, on the virtual clock: a Gantt chart whose inner calls can be folded.

import { button, fill, make } from "./dom.js";
import { calledName, dollars, seconds } from "./format.js";

const ROWS_AT_FIRST = 120;

/** Returns the rows of the chart: what was done, from when to when, at which depth. */
export function timelineRows(episode) {
  const rows = [];
  let clock = 0;
  const inner = (calls, begin, depth, turn) => {
    for (const call of calls ?? []) {
      const start = begin + (call.start ?? 0);
      rows.push({ ...spentBy(call), name: calledName(call), start, end: begin + (call.end ?? 0), depth, turn });
      inner(call.children, start, depth + 1, turn);
    }
  };
  (episode.turns ?? []).forEach((turn, number) => {
    const agent = turn.agent ?? "orchestrator";
    const ends = clock + (turn.seconds ?? 0);
    if (turn.seconds || !turn.calls?.length) {
      rows.push({ name: `${agent} writes`, agent, start: clock, end: ends, cost: turn.cost ?? 0, ok: true, depth: 0, turn: number });
    }
    clock = ends;
    inner(turn.calls, 0, 0, number);
    for (const call of turn.calls ?? []) clock = Math.max(clock, call.end ?? 0);
  });
  return rows;
}

function spentBy(call) {
  return { cost: call.cost ?? 0, ok: (call.status ?? "OK") === "OK", status: call.status ?? "OK" };
}

function ticks(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, n) => ({ at: n * step, label: (n * step).toFixed(places) }));
}

/** Returns the chart; `until` is the end of its scale, `choose` is called with the number of the turn of a row. */
export function timeline(episode, { until = 0, choose = () => {} } = {}) {
  const rows = timelineRows(episode);
  const end = Math.max(until, episode.clock ?? 0, ...rows.map((row) => row.end)) || 1;
  const agents = episode.agents ?? ["orchestrator"];
  const nested = rows.some((row) => row.depth);
  const chart = make("div", { class: "gantt", role: "table", "aria-label": "Calls on the virtual clock" });
  const rest = make("div", {});
  let unfolded = true;
  let all = rows.length <= ROWS_AT_FIRST;

  const place = (time) => `${(100 * time) / end}%`;
  const scale = () =>
    make(
      "div",
      { class: "gantt-row gantt-scale", role: "row" },
      make("span", { class: "gantt-name quiet", role: "columnheader" }, "virtual seconds"),
      make("div", { class: "gantt-track", role: "columnheader" }, ticks(end, 4).map((tick) => make("span", { style: { left: place(tick.at) } }, tick.label))),
      make("span", { class: "gantt-spent", role: "cell" }),
    );

  const line = (row) => {
    const kind = row.agent ? `writing colour-${Math.max(0, agents.indexOf(row.agent)) % 6}` : row.ok ? "ran" : "broke";
    const spent = `${seconds(row.end - row.start)}${row.cost ? ` · ${dollars(row.cost)}` : ""}`;
    return make(
      "div",
      {
        class: `gantt-row depth-${Math.min(row.depth, 4)}`,
        role: "row",
        tabindex: 0,
        title: `${row.name}: ${row.start.toFixed(3)} to ${row.end.toFixed(3)} s${row.status && !row.ok ? `, ${row.status}` : ""}`,
        onclick: () => choose(row.turn),
        onkeydown: (event) => event.key === "Enter" && (event.stopPropagation(), choose(row.turn)),
      },
      make("span", { class: "gantt-name", role: "cell" }, row.depth ? make("span", { class: "quiet" }, "└ ") : null, row.name),
      make(
        "div",
        { class: "gantt-track", role: "cell" },
        make("div", { class: `bar ${kind}`, style: { left: place(row.start), width: `max(3px, ${place(row.end - row.start)})` } }),
      ),
      make("span", { class: "gantt-spent", role: "cell" }, spent),
    );
  };

  const redraw = () => {
    const shown = rows.filter((row) => unfolded || !row.depth);
    fill(chart, scale(), shown.slice(0, all ? undefined : ROWS_AT_FIRST).map(line));
    const more = () => {
      all = true;
      redraw();
    };
    fill(rest, !all && shown.length > ROWS_AT_FIRST ? button(`Show all ${shown.length} rows`, more, { class: "more" }) : null);
  };
  redraw();
  const fold = button("Fold inner calls", () => {
    unfolded = !unfolded;
    fold.textContent = unfolded ? "Fold inner calls" : "Unfold inner calls";
    redraw();
  }, { class: "small" });
  return make("section", { class: "card" }, make("header", {}, make("h2", {}, "Timeline"), nested ? fold : null), chart, rest);
}

// Graphs of boxes: the agents of a multi-agent system in levels, and the decisions of a hierarchy as a tree.

import { draw, folded, long, make } from "./dom.js";
import { dollars, seconds } from "./format.js";

const WIDTH = 220;
const NARROW_WIDTH = 176; // where many stand side by side
const MANY = 4;
const HEIGHT = 92;
const BESIDE = 24;
const BELOW = 52;
const MARGIN = 12;

function drawn(boxes, edges, describe) {
  const columns = Math.max(1, ...boxes.map((box) => box.column + 1));
  const rows = Math.max(1, ...boxes.map((box) => box.row + 1));
  const wide = columns > MANY ? NARROW_WIDTH : WIDTH;
  const width = 2 * MARGIN + columns * (wide + BESIDE) - BESIDE;
  const height = 2 * MARGIN + rows * (HEIGHT + BELOW) - BELOW;
  const places = new Map(boxes.map((box) => [box.id, { x: MARGIN + box.column * (wide + BESIDE), y: MARGIN + box.row * (HEIGHT + BELOW) }]));
  const lines = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const board = make("div", { class: "board", style: { width: `${width}px`, height: `${height}px` } }, lines);
  for (const [from, to, label] of edges) {
    const [a, b] = [places.get(from), places.get(to)];
    if (!a || !b) continue;
    const [x0, y0, x1, y1] = [a.x + wide / 2, a.y + HEIGHT, b.x + wide / 2, b.y];
    const middle = (y0 + y1) / 2;
    lines.append(draw("path", { class: "edge", d: `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}` }));
    lines.append(draw("path", { class: "tip", d: `M${x1 - 4} ${y1 - 7}L${x1} ${y1}L${x1 + 4} ${y1 - 7}z` }));
    if (label) board.append(make("span", { class: "edge-label", style: { left: `${x1}px`, top: `${y1 - 27}px` } }, label));
  }
  const shown = make("div", { class: "described" });
  for (const box of boxes) {
    const { x, y } = places.get(box.id);
    const open = () => {
      board.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
      element.classList.add("chosen");
      shown.replaceChildren(describe(box));
    };
    const element = make(
      "button",
      { type: "button", class: `box ${box.kind}`, title: box.title, onclick: open, style: { left: `${x}px`, top: `${y}px`, width: `${wide}px`, height: `${HEIGHT}px` } },
      make("strong", {}, box.title),
      make("span", { class: "quiet" }, box.second),
      make("span", {}, box.third),
    );
    board.append(element);
  }
  return make("div", {}, make("div", { class: "scrolled" }, board), shown);
}

const described = (title, ...parts) =>
  make("div", { class: "card flat" }, make("h3", {}, title), parts.filter(Boolean).map(([name, text]) => [make("h4", {}, name), long(text)]));

/** Returns the graph of a design, each agent with what became of it. */
export function designGraph(design, episode) {
  const records = new Map((episode.turns ?? []).flatMap((turn) => turn.calls ?? []).map((call) => [call.id, call]));
  const levels = new Map();
  for (const agent of design.agents) levels.set(agent.level, [...(levels.get(agent.level) ?? []), agent]);
  const widest = Math.max(1, ...[...levels.values()].map((row) => row.length));
  const columns = new Map();
  for (const [level, row] of [...levels].sort((a, b) => a[0] - b[0])) {
    const above = (agent) => {
      const from = design.edges.filter((edge) => edge[1] === agent.id).map((edge) => columns.get(edge[0]) ?? 0);
      return from.length ? from.reduce((a, b) => a + b, 0) / from.length : 0;
    };
    if (level) row.sort((a, b) => above(a) - above(b));
    row.forEach((agent, n) => columns.set(agent.id, n + (widest - row.length) / 2));
  }
  const boxes = design.agents.map((agent) => {
    const call = records.get(agent.id);
    const ended = call ? (call.status ?? "OK") === "OK" : false;
    return {
      id: agent.id, row: agent.level, column: columns.get(agent.id), agent, call,
      title: `${agent.id}${agent.id === design.sink ? " (answers)" : ""}`,
      second: call ? `${agent.kind} · ${seconds((call.end ?? 0) - (call.start ?? 0))}, ${dollars(call.cost ?? 0)}` : agent.kind,
      third: call ? (ended ? String(call.value ?? "") : `${call.status}: ${call.error ?? ""}`) : agent.input || "(the question)",
      kind: call ? (ended ? "good" : "bad") : "",
    };
  });
  const describe = ({ agent, call, title }) =>
    described(title, agent.description && ["For", agent.description], ["Input", agent.input || "(the question)"], call && ["Result", String(call.value ?? call.error ?? "")]);
  return make(
    "section",
    { class: "card" },
    make("header", {}, make("h2", {}, "The design")),
    design.thinking ? folded("Why it is built so", () => long(design.thinking)) : null,
    make("p", { class: "quiet" }, "Each agent stands below those whose answers it reads. Choose one to read its input and result."),
    drawn(boxes, design.edges, describe),
  );
}

/** Returns the decision tree of an episode. */
export function decisionTree(tree) {
  const followers = new Map();
  const depths = new Map([[0, 0]]);
  for (const edge of tree.edges) {
    followers.set(edge.start, [...(followers.get(edge.start) ?? []), edge.end]);
    depths.set(edge.end, depths.get(edge.start) + 1);
  }
  const columns = new Map();
  let leaves = 0;
  const ids = [0, ...tree.nodes.map((node) => node.id)];
  const walk = [];
  const waiting = [0];
  while (waiting.length) {
    const id = waiting.pop();
    walk.push(id);
    waiting.push(...(followers.get(id) ?? []).slice().reverse());
  }
  for (const id of walk) if (!followers.get(id)) columns.set(id, leaves++);
  for (const id of ids.slice().reverse()) {
    const below = followers.get(id);
    if (below) columns.set(id, (columns.get(below[0]) + columns.get(below[below.length - 1])) / 2);
  }
  const nodes = new Map(tree.nodes.map((node) => [node.id, node]));
  const boxes = ids.map((id) => {
    const node = nodes.get(id);
    const at = { id, row: depths.get(id), column: columns.get(id), node };
    if (!node) return { ...at, title: "Question", second: tree.task_id, third: tree.question, kind: "" };
    const bad = !["OK", "solved"].includes(node.status ?? "OK");
    const ends = ["RETURN", "ANSWER"].includes(node.action);
    const mark = bad || node.action === "ANSWER" ? ` ${node.status ?? ""}` : "";
    return {
      ...at,
      title: node.action === "RETURN" ? `${node.action}${mark}` : `${node.agent} ${node.action}${mark}`,
      second: node.end ? `${seconds(node.end - node.start)}, ${dollars(node.cost ?? 0)}` : node.why || `${node.tokens ?? 0} tokens`,
      third: node.choice || "",
      kind: bad ? "bad" : ends ? "good" : `colour-${Math.max(0, tree.agents.indexOf(node.agent)) % 6}`,
    };
  });
  const describe = ({ node, title }) =>
    node ? described(title, node.choice && ["Choice or text", node.choice], node.why && ["Why", node.why]) : described(title, ["Asked", tree.question]);
  return make(
    "section",
    { class: "card" },
    make("header", {}, make("h2", {}, "The decision tree")),
    make("p", { class: "quiet" }, "Each action stands below the one that it follows. Choose one to read it whole."),
    drawn(boxes, tree.edges.map((edge) => [edge.start, edge.end, edge.label]), describe),
  );
}

// What the page asks for: of the server, or in an exported file of the data in it.

const embedded = document.getElementById("data");
const kept = embedded ? JSON.parse(embedded.textContent) : null;

/** Whether the page is a file of its own. */
export const exported = kept !== null;

const EQUAL = { outcome: "outcome", level: "level", intent: "intent", env: "env_id", recording: "recording", task: "task_id" };
const ORDER = { number: "number", task: "task_id" };

function fits(row, filters, policies) {
  for (const [name, value] of filters) {
    if (value === "") continue;
    if (name in EQUAL && String(row[EQUAL[name]]) !== value) return false;
    if (name === "reason" && !kept.details[row.id].reasons.includes(value)) return false;
    if (name === "tool" && !kept.tools[row.id].includes(value)) return false;
    if (name === "policy" && policies.get(row.recording) !== value) return false;
    if (name === "min_cost" && row.cost < Number(value)) return false;
    if (name === "max_cost" && row.cost > Number(value)) return false;
    if (name === "text" && !`${row.task_id}\n${row.why}`.toLowerCase().includes(value.toLowerCase())) return false;
  }
  return true;
}

function fitting(filters) {
  const policies = new Map(kept.state.recordings.map((one) => [one.id, one.policy]));
  return kept.rows.filter((row) => fits(row, Object.entries(filters), policies));
}

function outcomes(filters) {
  const found = {};
  for (const row of fitting(filters)) found[row.outcome] = (found[row.outcome] ?? 0) + 1;
  return found;
}

function listed(query) {
  const { offset = 0, limit = 100, order = "number", ...filters } = query;
  const column = order.replace("-", "");
  const key = ORDER[column] ?? column;
  const sign = order.startsWith("-") ? -1 : 1;
  const found = fitting(filters);
  if (column !== "number" || sign < 0) {
    found.sort((a, b) => (a[key] === b[key] ? a.id - b.id : sign * ((a[key] ?? -Infinity) < (b[key] ?? -Infinity) ? -1 : 1)));
  }
  return { total: found.length, offset: Number(offset), rows: found.slice(Number(offset), Number(offset) + Number(limit)) };
}

function answered(path, query) {
  const [what, first, second] = path.split("/");
  if (what === "state") return kept.state;
  if (what === "outcomes") return outcomes(query);
  if (what === "metrics") return kept.metrics;
  if (what === "rollouts") return kept.rollouts[query.run] ?? [];
  if (what === "comparison") return kept.comparisons[`${first}/${second}`] ?? { tasks: 0 };
  if (what === "episodes" && first === undefined) return listed(query);
  const found = second === "reference" ? kept.references[first] : kept.details[first];
  if (!found) throw new Error("This episode is not in the file.");
  return found;
}

/** Calls `tell` whenever a recording or a run has grown, and `lost` when the server does not answer.

A tab that is hidden does not listen: a browser has six connections to a server, and each tab that listens takes one. */
export function listen(tell, lost) {
  let news = null;
  const attend = () => {
    news?.close();
    news = document.hidden ? null : new EventSource("api/news");
    news?.addEventListener("message", tell);
    news?.addEventListener("error", lost);
  };
  document.addEventListener("visibilitychange", attend);
  attend();
}

/** Returns the answer to a question, e.g. `ask("episodes", {outcome: "failed"})`; an Error says why there is none. */
export async function ask(path, query = {}) {
  if (kept) return answered(path, query);
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const response = await fetch(`api/${path}?${new URLSearchParams(given)}`);
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found.error ?? `The server answered ${response.status}.`);
  return found;
}

// The database's changes row by row: as it was, as the reference leaves it, and as the episode left it.

import { heads, make } from "./dom.js";
import { badge, compact, shownValue } from "./format.js";

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function value(row, n) {
  if (row === null || row === undefined) return make("span", { class: "quiet" }, "no row");
  return row[n] === null ? make("span", { class: "quiet" }, "NULL") : compact(row[n]);
}

function state(row, same) {
  const [wanted, made] = row.changed;
  if (wanted && !made) return ["left undone", "bad"];
  if (!wanted && made) return ["not in the reference", "bad"];
  return same ? ["as in the reference", "good"] : ["differs", "bad"];
}

function changedRow(table, row) {
  const { before, reference, actual } = row;
  const sides = [before, reference, actual];
  const differs = (n) => {
    if (table.generated.includes(n) && before === null) return false;
    return !equal(reference?.[n] ?? null, actual?.[n] ?? null) || (reference === null) !== (actual === null);
  };
  const same = !table.columns.some((_, n) => differs(n));
  const [word, kind] = state(row, same);
  const action = before === null ? "new row" : (reference ?? actual) === null || (actual === null && row.changed[1]) ? "deleted row" : "changed row";
  const shown = table.columns.map((_, n) => n).filter((n) => before === null || sides.some((side) => !equal(side?.[n] ?? null, before[n])) || row.all);
  const line = (n) =>
    make(
      "tr",
      { class: differs(n) ? "differs" : "" },
      make("th", { scope: "row" }, table.columns[n]),
      sides.map((side, place) => make("td", { class: place && side && before && !equal(side[n], before[n]) ? "changed" : "" }, value(side, n))),
    );
  const hidden = table.columns.length - shown.length;
  const box = make("div", { class: "card flat change" });
  const redraw = (all) => {
    const columns = all ? table.columns.map((_, n) => n) : shown;
    box.replaceChildren(
      make("header", {}, make("h3", {}, `${table.name} `, make("code", {}, compact(row.key)), make("span", { class: "quiet" }, ` ${action}`)), badge(word, kind)),
      make(
        "div",
        { class: "scrolled" },
        make(
          "table",
          { class: "changes" },
          heads(["column", "before", "reference", "episode"]),
          make("tbody", {}, columns.map(line)),
        ),
      ),
    );
    if (hidden && !all) box.append(make("button", { class: "more", type: "button", onclick: () => redraw(true) }, `Show the ${hidden} other columns`));
  };
  redraw(false);
  return box;
}

function call(one) {
  return make("li", {}, make("code", {}, one.name), " ", shownValue(one.arguments));
}

/** Returns the slots of an answer, right beside given, of the answer to `episodes/N/reference`; null if there are none. */
export function slotsTable(found) {
  if (!found.slots?.length) return null;
  const shown = (value) => (value === null ? make("span", { class: "quiet" }, "null") : compact(value));
  const line = (one) =>
    make("tr", { class: one.holds ? "" : "differs" }, make("th", { scope: "row" }, one.name), make("td", {}, shown(one.right)),
      make("td", {}, "given" in one ? shown(one.given) : make("span", { class: "quiet" }, "nothing")), make("td", {}, badge(one.holds ? "holds" : "fails")));
  return make("div", { class: "scrolled" }, make("table", { class: "changes slots" },
    heads(["slot", "right", "given", ""]),
    make("tbody", {}, found.slots.map(line))));
}

/** Returns the view of the answer to `episodes/N/reference`. */
export function databaseView(found) {
  if (found.missing) return make("p", { class: "empty" }, found.missing);
  const parts = [];
  if (found.tables === null) parts.push(make("p", { class: "quiet" }, "This task has no database: only the answer counts."));
  else {
    const words = found.same ? "The episode left the database as a reference trajectory does." : "The episode did not leave the database as a reference trajectory does.";
    parts.push(make("p", {}, badge(found.same ? "holds" : "fails"), ` ${words}`));
    if (found.note) parts.push(make("p", { class: "warning" }, found.note));
    if (!found.tables.length) parts.push(make("p", { class: "quiet" }, "Neither of the two changes a row."));
    parts.push(found.tables.map((table) => table.rows.map((row) => changedRow(table, row))));
  }
  const calls = found.calls.length ? make("ol", { class: "calls-list" }, found.calls.map(call)) : make("p", { class: "quiet" }, "None.");
  parts.push(
    make("section", { class: "card" }, make("header", {}, make("h2", {}, "Reference trajectory")), calls,
      make("h3", {}, "Reference answer"), slotsTable(found), make("p", { dir: "auto" }, found.answer || "–")),
  );
  return make("div", { class: "stack" }, parts);
}

// Line charts of metrics, one small chart a metric, several runs in each.

import { draw, make } from "./dom.js";
import { short } from "./format.js";

const WIDTH_OF_CHART = 360;
const HEIGHT_OF_CHART = 190;
const PADDING = { left: 52, right: 14, top: 10, bottom: 26 };

function niceTicks(low, high, count) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= span / count);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-6; n++) found.push(n * step + 0); // + 0: no negative zero
  return found;
}

/** Returns a chart; `lines` are `{name, colour, points: [{x, y, low?, high?}], marks, band}`.

Marks are drawn as dots, and a band as an area from low to high. */
export function chart(title, lines, xLabel) {
  const points = lines.flatMap((line) => line.points);
  const xs = points.map((point) => point.x);
  const ys = points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]);
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  if (x0 === x1) [x0, x1] = [x0 - 1, x1 + 1];
  if (y0 === y1) [y0, y1] = [y0 - (Math.abs(y0) / 2 || 0.5), y1 + (Math.abs(y1) / 2 || 0.5)];
  const shares = title.includes("success") && y0 >= 0 && y1 <= 1;
  if (shares) [y0, y1] = [0, 1];
  else [y0, y1] = [y0 - (y1 - y0) * 0.04, y1 + (y1 - y0) * 0.06];
  const { left, right, top, bottom } = PADDING;
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (WIDTH_OF_CHART - left - right);
  const y = (value) => HEIGHT_OF_CHART - bottom - ((value - y0) / (y1 - y0)) * (HEIGHT_OF_CHART - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH_OF_CHART} ${HEIGHT_OF_CHART}`, role: "img", "aria-label": `${title} by ${xLabel}`, class: "chart" });
  const levels = niceTicks(y0, y1, 4).map((tick) => Number(tick.toPrecision(9)));
  const same = new Set(levels.map(short)).size < levels.length; // too close for so few digits
  for (const tick of levels) {
    svg.append(draw("line", { class: "grid", x1: left, x2: WIDTH_OF_CHART - right, y1: y(tick), y2: y(tick) }),
      draw("text", { class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, shares ? `${Math.round(100 * tick)} %` : same ? String(tick) : short(tick)));
  }
  const steps = niceTicks(x0, x1, 5).filter((tick) => Number.isInteger(tick));
  for (const tick of steps) svg.append(draw("text", { class: "tick", x: x(tick), y: HEIGHT_OF_CHART - 8, "text-anchor": "middle" }, short(tick)));
  for (const line of lines) {
    if (line.band && line.points.length > 1 && line.points[0].low !== undefined) {
      const corner = (end) => (point) => `${x(point.x).toFixed(1)} ${y(point[end]).toFixed(1)}`;
      const edges = [...line.points.map(corner("low")), ...line.points.map(corner("high")).reverse()];
      svg.append(draw("path", { class: `band fill-${line.colour}`, d: `M${edges.join("L")}Z` }));
    }
    if (!line.marks && line.points.length > 1) {
      const path = line.points.map((point, n) => `${n ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("");
      svg.append(draw("path", { class: `line stroke-${line.colour}`, d: path }));
    }
    if (line.marks || line.points.length === 1) {
      for (const point of line.points) {
        if (point.low !== undefined) svg.append(draw("line", { class: `reach stroke-${line.colour}`, x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high) }));
        svg.append(draw("circle", { class: `dot fill-${line.colour}`, cx: x(point.x), cy: y(point.y), r: 3.5 }));
      }
    }
  }
  const cursor = draw("line", { class: "cursor", y1: top, y2: HEIGHT_OF_CHART - bottom, x1: 0, x2: 0, visibility: "hidden" });
  svg.append(cursor);
  const latest = lines.filter((line) => line.points.length).map((line) => `${lines.length > 1 && line.name ? `${line.name} ` : ""}${short(line.points[line.points.length - 1].y)}`);
  const rest = latest.length > 3 ? "" : latest.join(", ");
  const read = make("div", { class: "chart-read quiet" }, rest);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = x0 + (((event.clientX - box.left) / box.width) * WIDTH_OF_CHART - left) / ((WIDTH_OF_CHART - left - right) / (x1 - x0));
    const nearest = xs.reduce((a, b) => (Math.abs(b - at) < Math.abs(a - at) ? b : a), xs[0]);
    cursor.setAttribute("x1", x(nearest));
    cursor.setAttribute("x2", x(nearest));
    cursor.setAttribute("visibility", "visible");
    const here = lines.flatMap((line) => line.points.filter((point) => point.x === nearest).map((point) => `${lines.length > 1 && line.name ? `${line.name} ` : ""}${short(point.y)}`));
    read.textContent = `${xLabel} ${nearest} · ${here.slice(0, 6).join(", ")}`;
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    read.textContent = rest;
  });
  return make("figure", { class: "chart-box" }, make("figcaption", {}, title), svg, read);
}

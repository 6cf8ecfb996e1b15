// Elements made without HTML: what a recording says reaches the page as text only.

const HIDDEN =
  /\r(?!\n)|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const SHOWN_AT_FIRST = 4000;
const SHOWN_MORE = 100000;
// A long text becomes pieces, since browsers break a piece that is one word in time by the square of its length.
const PIECE = /[^]{0,499}(?:\r\n|[^])/gu;

/** Writes control characters, bidirectional marks and other invisible characters as JSON does. */
export function visible(text) {
  return String(text).replace(HIDDEN, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

function filled(made, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else if (name === "value" || name === "checked" || name === "open") made[name] = value;
    else made.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return made;
}

/** Returns an element with attributes, listeners (`onclick` …) and children; what is no node becomes text. */
export function make(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Returns an SVG element. */
export function draw(tag, properties, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

/** Returns a text of any length: the beginning, and a button for more. */
export function long(text, kind = "", limit = SHOWN_AT_FIRST) {
  const whole = String(text ?? "");
  const block = make("div", { class: `text ${kind}`, dir: "auto" });
  let shown = 0;
  const more = (count) => {
    let end = Math.min(whole.length, shown + count);
    if (end < whole.length && /[\ud800-\udbff]/.test(whole[end - 1])) end += 1;
    block.append(make("span", { dir: "auto" }, whole.slice(shown, end).match(PIECE)));
    shown = end;
    if (shown < whole.length) {
      const left = whole.length - shown;
      const button = make(
        "button",
        {
          class: "more",
          onclick: () => {
            button.remove();
            more(SHOWN_MORE);
          },
        },
        `Show ${left > SHOWN_MORE ? `${SHOWN_MORE.toLocaleString("en")} more` : "the rest"} of ${whole.length.toLocaleString("en")} characters`,
      );
      block.append(button);
    }
  };
  more(limit);
  return block;
}

/** Returns what is folded under a title; its content is made when it is opened. */
export function folded(title, content, { open = false, kind = "" } = {}) {
  const box = make("details", { class: `folded ${kind}` }, make("summary", {}, title));
  let made = false;
  const fill = () => {
    if (!box.open || made) return;
    made = true;
    box.append(content());
  };
  box.addEventListener("toggle", fill);
  if (open) {
    box.open = true;
    fill();
  }
  return box;
}

/** Returns a button of the page's style. */
export function button(label, onclick, properties = {}) {
  return make("button", { type: "button", onclick, ...properties }, label);
}

/** Puts other children into an element. */
export function fill(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter((child) => child instanceof Node));
}

/** Returns the heads of a table's columns; a column without a name has none. */
export const heads = (names) => make("thead", {}, make("tr", {}, names.map((name) => make(name ? "th" : "td", {}, name))));

/** Returns the heading of a view that shows none. */
export const unseen = (title) => make("h1", { class: "unseen" }, title);

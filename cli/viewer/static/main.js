// The page: which view is shown at which address, the keys, the theme, and news of recordings that grow.

import { episodesBeside, recordingsBeside } from "./compare.js";
import { ask, exported, listen } from "./data.js";
import { button, fill, make } from "./dom.js";
import { episodeView } from "./episode.js";
import { listView } from "./list.js";
import { trainingView } from "./training.js";

const THEMES = ["auto", "light", "dark"];
const KEYS = [
  ["j k ↓ ↑", "the next or previous episode"], ["Enter", "open the episode"], ["/", "search"], ["x", "mark for comparing"],
  ["c", "compare the two marked"], ["1 … 9", "a part of the episode"], ["s", "swap two that are compared"], ["u Esc", "back to the list"],
  ["l", "the list"], ["r", "two recordings"], ["t", "training"], ["d", "light, dark or as the system"], ["?", "these keys"],
];

const page = {
  state: null, query: {}, marked: new Set(),
  address(path, query) {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    const text = new URLSearchParams(given).toString();
    return `#/${path}${text ? `?${text}` : ""}`;
  },
  go(path, query) {
    location.hash = page.address(path, query);
  },
  remember(query) {
    history.replaceState(null, "", page.address(addressed().path, query));
  },
  mark(id) {
    if (page.marked.has(id)) page.marked.delete(id);
    else {
      if (page.marked.size > 1) page.marked.delete([...page.marked][0]);
      page.marked.add(id);
    }
  },
  compareMarked() {
    if (page.marked.size === 2) page.go(`compare/${[...page.marked].join("/")}`, page.query);
  },
};
let current = null;

function addressed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path, query: Object.fromEntries(new URLSearchParams(query)) };
}

function chosenTheme() {
  try {
    const kept = localStorage.getItem("theme");
    return THEMES.includes(kept) ? kept : "auto";
  } catch {
    return document.documentElement.dataset.theme || "auto";
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // a page that may keep nothing, as a file may: the theme holds until it is closed
  }
  themeButton.textContent = `Theme: ${theme}`;
}

const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
const themeButton = button("Theme", nextTheme, { class: "small", id: "theme" });
const help = make("dialog", { "aria-label": "Keys" }, make("h2", {}, "Keys"),
  make("dl", { class: "keys" }, KEYS.map(([keys, what]) => [make("dt", {}, keys.split(" ").map((key) => (key === "…" ? " … " : make("kbd", {}, key)))), make("dd", {}, what)])),
  button("Close", () => help.close()));
const place = make("div", { class: "view" });
const links = new Map();

function header() {
  const link = (name, label, href) => {
    links.set(name, make("a", { href }, label));
    return links.get(name);
  };
  const { recordings, runs } = page.state;
  return make("header", { class: "top" }, make("strong", { class: "brand" }, "toolorchestra"),
    make("nav", { "aria-label": "Views" }, link("", "Episodes", "#/"),
      recordings.length > 1 ? link("recordings", "Two recordings", `#/recordings/${recordings[0].id}/${recordings[1].id}`) : null,
      runs.length ? link("training", "Training", "#/training") : null),
    make("span", { class: "end" }), themeButton, button("?", () => help.showModal(), { class: "small", "aria-label": "Keys" }));
}

function viewOf(path) {
  const [what, first, second] = path.split("/");
  if (what === "episode" && first) return episodeView(page, Number(first));
  if (what === "compare" && second) return episodesBeside(page, Number(first), Number(second));
  if (what === "recordings" && second) return recordingsBeside(page, Number(first), Number(second));
  if (what === "training") return trainingView(page);
  return listView(page);
}

function show() {
  const { path, query } = addressed();
  page.query = query;
  current = viewOf(path);
  const [what] = path.split("/");
  for (const [name, link] of links) link.classList.toggle("chosen", name === what || (name === "" && ["episode", "compare"].includes(what)));
  fill(place, current.element);
  document.title = `${current.title} · toolorchestra`;
  window.scrollTo(0, 0);
  current.opened();
}

const lost = () => document.body.classList.add("offline");

async function renew() {
  try {
    const before = page.state;
    page.state = await ask("state");
    current.updated(before.episodes !== page.state.episodes || before.done !== page.state.done);
    document.body.classList.remove("offline");
  } catch {
    lost();
  }
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
  const { recordings } = page.state;
  const everywhere = {
    "?": () => help.showModal(), d: nextTheme, l: () => page.go("", {}),
    t: () => page.state.runs.length && page.go("training", {}),
    r: () => recordings.length > 1 && page.go(`recordings/${recordings[0].id}/${recordings[1].id}`, {}),
  };
  const act = current.keys[event.key] ?? everywhere[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

async function begin() {
  setTheme(chosenTheme());
  const app = document.getElementById("app");
  fill(app, make("header", { class: "top" }, make("strong", { class: "brand" }, "toolorchestra"), make("span", { class: "quiet" }, "Loading …")));
  try {
    page.state = await ask("state");
  } catch (error) {
    fill(app, make("p", { class: "warning", role: "alert" }, error.message));
    return;
  }
  fill(app, header(), make("p", { class: "offline-note", role: "alert" }, "The server does not answer. Start `toolorchestra view` again and open the address that it prints."), place, help);
  addEventListener("hashchange", show);
  addEventListener("keydown", pressed);
  if (!location.hash && !page.state.recordings.length && page.state.runs.length) location.hash = "#/training";
  show();
  if (!exported) listen(renew, lost);
}

begin();

"""Pages of the site that are made from the code: the home page, the API reference, and a page of each environment."""

from __future__ import annotations

import ast
import importlib
import inspect
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import gymnasium

import toolorchestra  # noqa: F401 (registers the environments)
from toolorchestra.envs.registration import environment_ids, make_multiagent, multiagent_ids

ROOT = Path(__file__).parents[2]

LAYERS = ("toolorchestra", "envs", "toolscale", "agents", "algos")
GUIDES = {
    "ToolOrchestra": "environments.md",
    "ParaManager": "paramanager.md",
    "MASOrchestra": "masorchestra.md",
    "MSARL": "msarl.md",
    "TMATR": "tmatr.md",
    "Dialogue": "dialogue.md",
}
PAPERS = {
    "ToolOrchestra": "*ToolOrchestra: Elevating Intelligence via Efficient Model and Tool Orchestration*",
    "ParaManager": "*ParaManager*",
    "MASOrchestra": "*MAS-Orchestra*, with MASBench",
    "MSARL": "*MSARL*",
    "TMATR": "*TMATR-HRL*",
    "Dialogue": "the dialogues of τ²-bench",
}
HEADINGS = {
    "Action": "Action space",
    "Observation": "Observation space",
    "Agents": "Agents",
    "Tools": "Tools of the protocol",
    "Reward": "Rewards",
    "End": "Episode end",
    "Info": "Information",
}
"""Titles in the docstrings of environments, and those of Gymnasium's pages."""
STARTING_STATE = (
    "`reset` draws a task of the split and levels (`split`, `difficulty`), or takes the one that `task_id` names, and "
    "gives the episode a database of its own, in the state that the domain ships. The seed draws the task, and all "
    "randomness of experts and tools: the same id, options, seed and actions give the same bytes."
)
SHOWN_TOOLS = 80


def pages() -> Iterator[tuple[str, str]]:
    """Yield all pages that are made, as a path below the folder of documents and its text."""
    yield from copies()
    yield from reference()
    yield from environments()


def copies() -> Iterator[tuple[str, str]]:
    """Yield the pages that stand at the root of the repository, with links as from the folder of documents."""

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        if target.startswith("docs/"):
            return target.removeprefix("docs/")
        return target if target.endswith(".md") or not (ROOT / target).exists() else f"../{target}"

    for name, source in (("index.md", "README.md"), ("CONTRIBUTING.md",) * 2, ("CHANGELOG.md",) * 2):
        text = (ROOT / source).read_text(encoding="utf-8")
        yield name, re.sub(r"""(?:(?<=\]\()|(?<=src=")|(?<=srcset="))(?:\./)?(?P<target>[\w./-]+)""", moved, text)


def public_packages() -> Iterator[str]:
    """Yield the packages that list public names."""
    for stub in sorted(ROOT.glob("**/__init__.pyi")):
        parts = stub.parent.relative_to(ROOT).parts
        if not parts or (parts[0] in LAYERS and not any(part.startswith(".") for part in parts)):
            yield ".".join(("toolorchestra", *parts))


def reference() -> Iterator[tuple[str, str]]:
    """Yield the API reference: a page for each package, with every public name, and an index.

    A name of several packages is described on the page of the innermost one, and the others link to it.
    """
    names = {package: public_names(importlib.import_module(package)) for package in public_packages()}
    homes: dict[int, str] = {}
    for package in sorted(names, key=lambda package: package.count("."), reverse=True):
        module = importlib.import_module(package)
        for name in names[package]:
            homes.setdefault(id(getattr(module, name)), package)
    index = ["# API reference", "", "Every public name, by package. What is not here may change at any time.", ""]
    for package in (package for package in names if names[package]):
        module = importlib.import_module(package)
        lines, links = [f"# `{package}`", "", (inspect.getdoc(module) or "").replace("::\n", ":\n"), ""], []
        for name in names[package]:
            found = getattr(module, name)
            home, where = homes[id(found)], place(package, name, found)
            made = "<locals>" in getattr(found, "__qualname__", "")
            links.append(f"`{name}`" if made else f"[`{name}`][{where}]")
            if home == package:
                lines += described(package, name, found)
            else:
                lines += [f"## {name}", "", f"See [`{home}`]({relative(package, home)}): [`{name}`][{where}].", ""]
        yield api_page(package), "\n".join(lines)
        index += [f"## [`{package}`]({api_page(package).removeprefix('api/')})", "", ", ".join(links), ""]
    yield "api/index.md", "\n".join(index)


def api_page(package: str) -> str:
    """Return the page of a package."""
    return f"api/{package.removeprefix('toolorchestra').lstrip('.').replace('.', '/') or 'toolorchestra'}.md"


def relative(package: str, other: str) -> str:
    """Return the link from the page of a package to that of another one."""
    return posixpath.relpath(api_page(other), posixpath.dirname(api_page(package)))


def public_names(module: Any) -> list[str]:
    """Return the public names of a package, without its sub-packages."""
    names = [name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")]
    return sorted(name for name in names if not inspect.ismodule(getattr(module, name)))


def described(package: str, name: str, found: Any) -> list[str]:
    """Return the section of a public name."""
    if "<locals>" not in getattr(found, "__qualname__", ""):
        return [f"::: {place(package, name, found)}", ""]
    # A function that another one made cannot be found in the text of a module.
    return [
        f"## {name}",
        "",
        "```python",
        f"{name}{inspect.signature(found)}",
        "```",
        "",
        inspect.getdoc(found) or "",
        "",
    ]


def place(package: str, name: str, found: Any) -> str:
    """Return where a public object is defined, as constants and aliases have no docstring elsewhere."""
    if (inspect.isclass(found) or inspect.isfunction(found)) and found.__qualname__ == name:
        return f"{found.__module__}.{found.__qualname__}"
    folder = ROOT.joinpath(*package.split(".")[1:])
    for node in ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return f"{package}.{node.module}.{name}" if node.level else f"{node.module}.{name}"
    return f"{package}.{name}"


def environments() -> Iterator[tuple[str, str]]:
    """Yield a page for each environment, in the form of Gymnasium's documentation, and an index by protocol."""
    by_protocol: dict[str, list[str]] = defaultdict(list)
    for env_id in (*environment_ids(), *multiagent_ids()):
        by_protocol[env_id.partition("-")[0]].append(env_id)
    index = [
        "# All environments",
        "",
        "Generated from the classes. " + "[How environments work](../environments.md).",
        "",
    ]
    for protocol, ids in by_protocol.items():
        index += [
            f"## {protocol}",
            "",
            "| id | agents | tools | tasks: train, test | levels |",
            "|---|--:|--:|---|---|",
        ]
        for env_id in sorted(ids):
            text, row = environment_page(env_id, protocol)
            yield f"environment/{env_id}.md", text
            index.append(row)
        index.append("")
    yield "environment/index.md", "\n".join(index)


def environment_page(env_id: str, protocol: str) -> tuple[str, str]:
    """Return the page of an environment, and its row in the index."""
    several = env_id in multiagent_ids()
    env: Any = make_multiagent(env_id) if several else gymnasium.make(env_id)
    core = env.unwrapped
    cls, source = type(core), core.source
    splits = {split: list(source.tasks(split)) for split in ("train", "test")}
    levels = Counter(task.difficulty for tasks in splits.values() for task in tasks)
    tools = dict(source.world(next(iter(splits["test"]))).tools)
    agents = list(getattr(core, "possible_agents", ["orchestrator"]))
    make = f'make_multiagent("{env_id}")' if several else f'gym.make("{env_id}")'
    imports = (
        "from toolorchestra.envs import make_multiagent" if several else "import gymnasium as gym\nimport toolorchestra"
    )
    sections = docstring_sections(inspect.getdoc(cls) or "")
    spaces = ("Text", "Text") if several else (type(core.action_space).__name__, type(core.observation_space).__name__)
    lines = [
        f"# {env_id}", "",
        f"| Import | `{make}` |", "|---|---|",
        f"| Action space | `{spaces[0]}` |",
        f"| Observation space | `{spaces[1]}` |",
        f"| Agents | {', '.join(f'`{agent}`' for agent in agents)} |",
        f"| Tasks | {', '.join(f'{split} {len(tasks):,}' for split, tasks in splits.items())} |",
        f"| Levels | {', '.join(f'{level}: {count:,}' for level, count in sorted(levels.items()))} |",
        f"| Paper | {PAPERS[protocol]} |", "",
        "```python", imports, "", f"env = {make}", "```", "",
        "## Description", "", sections.pop("", "").strip(), "",
        f"The protocol in full: [{protocol}](../{GUIDES[protocol]}).", "",
    ]  # fmt: skip
    lines += world_lines(core, source, splits, tools)
    for title, heading in HEADINGS.items():
        if title in sections:
            lines += [f"## {heading}", "", sections[title], ""]
    lines += ["## Starting state", "", STARTING_STATE, ""]
    lines += ["## Arguments", "", *arguments(cls), ""]
    lines += ["## Version history", "", "- v0: the first version.", ""]
    row = (
        f"| [{env_id}]({env_id}.md) | {len(agents)} | {len(tools)} | {len(splits['train']):,}, {len(splits['test']):,} "
        f"| {', '.join(str(level) for level in sorted(levels))} |"
    )
    env.close()
    return "\n".join(lines), row


@cache
def arguments(cls: type) -> tuple[str, ...]:
    """Return the table of a class's arguments, from its docstring; all environments of a protocol have the same."""
    parameters = inspect.signature(cls).parameters
    parsed = griffe.Docstring(inspect.getdoc(cls) or "").parse("google", warnings=False)
    found = (one for part in parsed if part.kind is griffe.DocstringSectionKind.parameters for one in part.value)
    lines = ["| argument | default | meaning |", "|---|---|---|"]
    for one in found:
        given = parameters.get(one.name)
        value = given.default if given is not None else inspect.Parameter.empty
        default = "" if value is inspect.Parameter.empty else f"`{getattr(value, '__name__', repr(value))}`"
        meaning = " ".join(one.description.split()).replace("|", "\\|")
        lines.append(f"| `{one.name}` | {default} | {meaning} |")
    return tuple(lines)


def docstring_sections(text: str) -> dict[str, str]:
    """Return the paragraphs of a class's docstring by their bold titles, those of the description under ``''``."""
    sections: dict[str, str] = {}
    for block in re.split(r"\n\n(?=\S)", text):
        if re.match(r"(Args|Raises|Returns|>>>|Reset options)\b|>>>", block):
            continue
        for part in re.split(r"(?=^\*\*\w+\*\*|(?<=\. )\*\*\w+\*\*)", block, flags=re.MULTILINE):
            match = re.match(r"\*\*(\w+)\*\*:?\s*", part)
            title = match[1] if match else ""
            sections[title] = "\n\n".join(
                filter(None, (sections.get(title, ""), part[match.end() :] if match else part))
            )
    return sections


def world_lines(core: Any, source: Any, splits: dict[str, list[Any]], tools: dict[str, Any]) -> list[str]:
    """Return what a source brings: an example, and the tools of its world."""
    task = min(splits["test"], key=lambda task: (task.difficulty, len(task.instruction), task.id))
    lines = ["## A task", "", f"`{task.id}`, level {task.difficulty}:", "", quoted(task.instruction), ""]
    if getattr(task, "reference_calls", ()):
        calls = "\n".join(
            f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})" for call in task.whole_path
        )
        lines += ["Reference trajectory:", "", "```python", calls, "```", ""]
    if task.answer:
        lines += ["Reference answer:", "", quoted(str(task.answer)), ""]
    lines += [f"## Tools of the world ({len(tools)})", "", "| tool | what it does | $ | s |", "|---|---|--:|--:|"]
    shown = sorted(tools.items())
    for name, tool in shown[:SHOWN_TOOLS]:
        cost, seconds = (getattr(getattr(tool, "spec", tool), key, None) for key in ("price", "latency"))
        summary = " ".join(tool.description.split()).split(". ")[0].replace("|", "\\|")
        lines.append(f"| `{name}` | {escaped(summary)} | {number(cost)} | {number(seconds)} |")
    if len(shown) > SHOWN_TOOLS:
        lines += ["", f"And {len(shown) - SHOWN_TOOLS} more: those of each domain are on its own page."]
    return [*lines, ""]


def number(value: Any) -> str:
    """Return a number, or nothing."""
    return f"{value:g}" if isinstance(value, int | float) else ""


def escaped(text: str) -> str:
    """Return text of the data as text of a page."""
    return re.sub(
        r"([<>&*_`\[\]])", lambda match: {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(match[1], "\\" + match[1]), text
    )


def quoted(text: str) -> str:
    """Return text of the data as a quotation."""
    return "\n".join(f"> {escaped(line)}" for line in text.splitlines())

"""Write the tables of the documents from the records of benchmarks/results.

    python benchmarks/tables.py            write every table anew
    python benchmarks/tables.py --check    exit with 1, and name the pages, if one is not what the records say

A table stands between ``<!-- table: NAME ARGUMENT... -->`` and ``<!-- /table -->``: NAME is one of `TABLES`, and its
arguments say of which record. A number in a text stands between ``<!-- number: RECORD KEY.KEY FORMAT FACTOR -->`` and
``<!-- /number -->``; without a FACTOR it is as in the record.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import tables_checks
import tables_learning
from harness import ROOT, cli, interval, markdown, percent, read

MARKED = re.compile(r"(<!-- table: (?P<words>[^\n]*?) -->\n).*?(?=<!-- /table -->)", re.DOTALL)

NUMBER = re.compile(r"(<!-- number: (?P<words>[^\n]*?) -->).*?(?=<!-- /number -->)")


def controllability_policies(record: str) -> str:
    """Success, cost, latency and scores of each policy; the best policy by each score is bold."""
    found = read(f"controllability_{record}")
    preferences = list(found["preferences"])
    policies = {name: one for name, one in found["policies"].items() if not name.startswith("balanced,")}
    best = {of: max(one["scores"][of] for one in policies.values()) for of in preferences}
    rows = []
    for name, one in policies.items():
        scores = [
            f"**{one['scores'][of]:.3f}**" if one["scores"][of] == best[of] else f"{one['scores'][of]:.3f}"
            for of in preferences
        ]
        rows.append([name, percent(one["success"]), f"{one['cost']:.4f}", f"{one['seconds']:.0f}", *scores])
    return markdown("policy|success, %:|cost, $:|latency, s:|" + "|".join(f"score {of}:" for of in preferences), rows)


def controllability_apart(record: str) -> str:
    """By how much success and cost of the three policies differ."""
    apart = read(f"controllability_{record}")["apart"]
    rows = [[pair, interval(one["success"], 1, 100), interval(one["cost"], 4)] for pair, one in apart.items()]
    return markdown("|success, points|cost, $", rows)


def controllability_over(record: str, *how: str) -> str:
    """By how much each policy exceeds the others on its own preference, ``among all`` or ``by twos``."""
    over = read(f"controllability_{record}")["own_preference_over"]
    compared = {of: found[" ".join(how)] for of, found in over.items()}
    others = dict.fromkeys(("start", *over, *(name for found in compared.values() for name in found)))
    order = [name for name in others if not name.startswith("balanced,")]
    rows = [[o, *(interval(found[o], 2) if o in found else "" for found in compared.values())] for o in order]
    return markdown("over|" + "|".join(compared), rows)


def controllability_seeds(*records: str) -> str:
    """Success and cost of the three policies in several runs, and of the accurate over the balanced."""
    rows = []
    for record in records:
        found = read(f"controllability_{record}")
        trained = [found["policies"][of] for of in found["preferences"]]
        apart = found["apart"]["accuracy-first over balanced"]["success"]
        of_each = [f"{percent(one['success'])} for {one['cost']:.4f}" for one in trained]
        rows.append([str(found["seed"]), *of_each, interval(apart, 1, 100)])
    names = "|".join(read(f"controllability_{records[0]}")["preferences"])
    return markdown(f"seed:|{names}|accuracy-first over balanced, points", rows)


def controllability_filters(*records: str) -> str:
    """Success and cost under the balanced preference by filters, and for one record by how much the first is ahead."""
    found = [read(f"controllability_{record}") for record in records]
    names = [name for name in found[0]["policies"] if name.startswith("balanced")]
    rows = []
    for name in names:
        row = [name.removeprefix("balanced").removeprefix(", ") or "homogeneity only"]
        for record in found:
            row += [percent(record["policies"][name]["success"]), f"{record['policies'][name]['cost']:.4f}"]
        if len(found) == 1:
            by = found[0]["own_preference_over"]["balanced"]["by twos"]
            row.append(interval(by[name], 2) if name in by else "")
        rows.append(row)
    if len(found) == 1:
        return markdown("filters|success, %:|cost, $:|the first row is ahead by", rows)
    domains = ["ParaManager" if record.startswith("ParaManager") else "restaurant" for record in records]
    return markdown("filters|" + "|".join(f"{domain}: success, %:|cost, $:" for domain in domains), rows)


def grpo_paramanager() -> str:
    """What GRPO gains from three seeds, by variant."""
    rows = []
    for variant, seeds in read("grpo_paramanager")["runs"].items():
        for seed, run in seeds.items():
            before, after = run["means"].values()
            greedy = " → ".join(percent(share, 0) for share in run["greedy"].values())
            comparable = variant != "without diversity"
            parts = [
                f"{scale * before[part]:.{digits}f} → {scale * after[part]:.{digits}f}" if part in before else ""
                for part, scale, digits in (("reward_task", 100, 1), ("reward_diversity", 1, 2))
            ]
            rows.append([
                variant, seed, parts[0], interval(run["gain"], 1, 100), greedy,
                f"{before['reward']:.2f} → {after['reward']:.2f}" * comparable,
                interval(run["reward_gain"], 2) * comparable if "reward_gain" in run else "",
                parts[1], f"${before['cost']:.4f} → {after['cost']:.4f}",
                f"{run['seconds']:.0f} s, {run['cpu_seconds']:.0f} s",
            ])  # fmt: skip
    return markdown("variant|seed:|success, %|gain, points|greedy, %|R|gain|R_div|cost of an episode|time:", rows)


def routing() -> str:
    """Success of trained routing by seed, and of fixed experts at the same cost."""
    found = read("routing")
    kinds = ("experts", "experts_and_votes")
    rows = [
        [str(run["seed"]), percent(run["success"]), f"{run['cost']:.4f}"]
        + [percent(run[kind]["success"]) for kind in kinds]
        + [f"{run['train_seconds']} s"]
        for run in found["runs"]
    ]
    rows.append(["ahead, points", "", "", *(interval(found["ahead"][kind], 1, 100) for kind in kinds), ""])
    titles = "seed|PPO: success, %:|cost, $:|best experts at this cost, %:|best experts and votes, %:|training:"
    return markdown(titles, rows)


def routing_fixed() -> str:
    """Success and cost of the fixed experts and votes that nothing cheaper equals."""
    rows: list[list[str]] = []
    best = 0.0
    for name, one in sorted(read("routing")["fixed"].items(), key=lambda item: item[1]["cost"]):
        if one["success"] > best:
            best = one["success"]
            rows.append([f"`{name}`", percent(best), f"{one['cost']:.4f}"])
    return markdown("expert × times asked|success, %:|cost, $:", rows)


TABLES: dict[str, Callable[..., str]] = {
    name: function
    for module in (sys.modules[__name__], tables_checks, tables_learning)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__
}


def written(page: Path) -> str:
    """Return a page with its tables as the records say."""

    def table(match: re.Match[str]) -> str:
        name, *arguments = match["words"].split()
        return match[1] + TABLES[name](*arguments)

    def number(match: re.Match[str]) -> str:
        record, path, form, *factor = match["words"].split()
        found = read(record)
        for key in path.split("."):
            found = found[int(key) if isinstance(found, list) else key]
        return match[1] + format(found * float(*factor or [1]), form)

    return NUMBER.sub(number, MARKED.sub(table, page.read_text(encoding="utf-8")))


def main(check: bool = False) -> bool:
    """Write the pages that are not up to date, or name them."""
    pages = [
        page
        for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        if "<!-- table: " in (text := page.read_text(encoding="utf-8")) or "<!-- number: " in text
    ]
    stale = [page for page in pages if written(page) != page.read_text(encoding="utf-8")]
    for page in stale:
        print(
            f"{page.relative_to(ROOT)} is not what benchmarks/results says"
            if check
            else f"written: {page.relative_to(ROOT)}"
        )
        if not check:
            page.write_text(written(page), encoding="utf-8")
    return check and bool(stale)


if __name__ == "__main__":
    cli(main)

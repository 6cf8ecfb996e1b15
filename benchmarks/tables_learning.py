"""The tables of the documents on policies and trainings."""

from __future__ import annotations

from typing import Any

from harness import change, interval, markdown, percent, read


def baselines() -> str:
    """Success with its 95 % interval, cost and time of each baseline in each environment."""
    return _played(read("baselines")["environments"])


def designers() -> str:
    """The same of the searchers and designers of workflows."""
    return _played(read("baselines")["designers"])


def _played(found: dict[str, Any]) -> str:
    rows = []
    for policy in dict.fromkeys(policy for environment in found.values() for policy in environment["policies"]):
        row = [f"`{policy}`"]
        for environment in found.values():
            one = environment["policies"].get(policy)
            if one is None:  # it was not there when this environment was recorded
                row += ["–"] * 3
                continue
            low, high = (percent(end, 0) for end in one["interval"])
            row += [f"{percent(one['success'])} [{low}, {high}]", f"{one['cost']:.4f}", f"{one['clock']:.0f}"]
        rows.append(row)
    names = [name.removesuffix("-v0") for name in found]
    titles = "|".join(f"{name}: success, %:|cost, $:|time, s:" for name in names)
    return markdown(f"policy|{titles}", rows)


def grpo_restaurant_policies() -> str:
    """The closing table of the first seed."""
    rows = [
        [
            name,
            f"{one['episodes']:,}",
            f"{percent(one['success'])} %",
            f"[{percent(one['low'])}, {percent(one['high'])}]",
        ]
        for name, one in read("grpo_restaurant")["runs"][0]["success"].items()
    ]
    return markdown("policy (seed 0)|episodes:|success:|95 % interval", rows)


def quickstart() -> str:
    """What a real, small model does on held-out tasks before and after the quickstart, of each seed."""
    rows = []
    for run in read("quickstart")["runs"]:
        before, after = (run["held_out"][name] for name in ("before", "after"))
        steps, gain = run["steps"], interval(after["difference"], 1, 100).replace(" [", " points [")
        rows.append([
            str(run["seed"]), f"{steps['sft']}, {steps['grpo']}", f"{percent(before['success'])} %",
            f"{percent(after['success'])} %", gain, change(before["tokens"], after["tokens"], 0, 1),
            " → ".join(f"${one['dollars']:.4f}" for one in (before, after)), f"{run['seconds'] / 60:.1f} min",
            f"{run['memory_gib']} GiB",
        ])  # fmt: skip
    titles = "seed:|SFT, GRPO steps|before:|after:|difference, 95 % interval|tokens an episode|its cost|time:|memory:"
    return markdown(titles, rows)


def grpo_restaurant_seeds() -> str:
    """Held-out success before and after GRPO, of each seed."""
    rows = []
    for run in read("grpo_restaurant")["runs"]:
        before, after = (f"{percent(run['success'][name]['success'])} %" for name in ("SFT", "GRPO"))
        gain = interval(run["gain"], 1, 100).replace(" [", " points [")
        greedy = " → ".join(f"{percent(share)} %" for share in run["greedy"].values())
        rows.append([str(run["seed"]), before, after, gain, greedy, f"{run['seconds']:.0f} s"])
    return markdown("seed:|warm start:|GRPO:|gain, 95 % interval|greedy|whole command:", rows)


RULES = {"nested": "subgroup_mean", "nested, pooled rule": "pooled", "nested, the paper's rule": "paper"}
TEAMS = {
    **{name: f"`{rule}`, `--no-train-finish`" for name, rule in RULES.items()},
    "nested, finish trained": "`subgroup_mean`",
    "independent": "[independent GRPO](multi_grpo.md), both agents",
}


def msarl_rules() -> str:
    """Success of the team at the start and after training, by the rule of the reasoner's advantage."""
    runs = read("msarl")["runs"]
    rows = []
    for seed in runs["nested"]:
        ends = [
            f"{percent(run['success'][1])} % ({interval(run['gain'], 1, 100)})"
            for run in (runs[name][seed] for name in RULES)
        ]
        rows.append([seed, f"{percent(runs['nested'][seed]['success'][0])} %", *ends])
    return markdown("seed:|start:|" + "|".join(f"`{rule}`" for rule in RULES.values()), rows)


def msarl_teams() -> str:
    """What each way to train a team gains, and by how much it is ahead of one agent."""
    found = read("msarl")
    order = ["nested", "nested, finish trained", "nested, pooled rule", "nested, the paper's rule", "independent"]
    rows = [
        [
            TEAMS[name],
            interval(found["over_the_start"][name], 1, 100),
            interval(found["over_one_agent"][name]["all"], 1, 100),
        ]
        for name in order
    ]
    return markdown("team|over its start, points|over one agent, points", rows)


def masorchestra_axes() -> str:
    """Valid designs and success before and after GRPO, on each axis and from each seed."""
    rows = []
    for axis, runs in read("grpo_masorchestra")["axes"].items():
        for seed, run in runs.items():
            before, after = run["means"].values()
            rows.append([
                axis, seed,
                f"{change(before['valid'], after['valid'])} %", interval(run["valid_gain"], 1, 100),
                f"{change(before['reward'], after['reward'])} %", interval(run["gain"], 1, 100),
                change(before["agents"], after["agents"], 1, 1), f"{change(before['warned'], after['warned'], 0)} %",
                f"{run['cpu_seconds']:.0f} s",
            ])  # fmt: skip
    return markdown("axis|seed:|valid designs|gain|success|gain|agents|warned|time:", rows)


def masorchestra_mixed() -> str:
    """Success on both axes of policies that learned on one, on both, and without notes."""
    names = {"start": "nothing (start)", "parallel": "parallel", "robustness": "robustness", "combined": "both"}
    mixed = read("grpo_masorchestra")["mixed"]
    rows = []
    for name, shown in {**names, "without notes": "both, without notes"}.items():
        (run,) = mixed[name].values()
        axes = [run["parallel"], run["robustness"]]
        cells = [
            cell
            for axis in axes
            for cell in (percent(axis["success"]["estimate"]), interval(axis["gain"], 1, 100) if "gain" in axis else "")
        ]
        both = [", ".join(percent(axis[what], 0) for axis in axes) for what in ("valid", "warned")]
        rows.append([shown, *cells, *both, f"{run['cpu_seconds']:.0f} s" if "cpu_seconds" in run else ""])
    return markdown("trained on|parallel:|gain|robustness:|gain|valid:|warned:|processor:", rows)


def tmatr_schedules() -> str:
    """Success after each stage under each schedule, and what it gained."""
    found = read("tmatr")
    rows = []
    for name, seeds in found["runs"].items():
        runs = list(seeds.values())
        updates = sum(run["updates"][-1] for run in runs) / len(runs)
        stages = zip(*([stage["success"] for stage in run["stages"]] for run in runs), strict=True)
        means = ", ".join(percent(sum(stage) / len(stage)) for stage in stages)
        each = ", ".join(f"{100 * run['stages'][-1]['gain']:+.1f}" for run in runs)
        rows.append([name, f"{updates:.0f}", f"{means} %", interval(found["gain"][name], 1, 100), each])
    return markdown("schedule|updates:|pass@1 after each stage|gain over the start, points|gain of each seed", rows)


def designs() -> str:
    """Questions solved by the systems of scripted orchestrators, with a weak and a strong model."""
    sources = read("designs")["sources"]
    rows = [
        [f"`{source}`", model, *(str(one["outcomes"].get("solved", 0)) for one in by_orchestrator.values())]
        for source, models in sources.items()
        for model, by_orchestrator in models.items()
    ]
    names = next(iter(next(iter(sources.values())).values()))
    return markdown("source|model|" + "|".join(f"{name}:" for name in names), rows)


def study(name: str) -> str:
    """What a study prints."""
    return "\n".join(read(f"study_{name}")["lines"]) + "\n"

"""The tables of the documents on checks, of environments, judges, experts and generators, and on time and memory."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from harness import RESULTS, markdown, percent, read

from toolorchestra.algos.reporting.stats import success_share


def report(domain: str, check: str) -> dict[str, int]:
    """Return the counts of a check of a domain."""
    (found,) = (one["counts"] for one in read("validation")["reports"][domain] if one["name"] == check)
    return dict(found)


def of(part: int, whole: int) -> str:
    """Return a part of a whole."""
    return f"{part:,} of {whole:,}"


def validation_domains() -> str:
    """What the checks of `validate` found in each domain."""
    rows = []
    for domain in read("validation")["reports"]:
        plain = [report(domain, check) for check in ("oracle", "null")]
        random, verifier = report(domain, "random"), report(domain, "verifier")
        rows.append([
            f"`{domain}`", *(of(one["solved"], one["tasks"]) for one in plain),
            of(random["solved"], random["episodes"]),
            of(verifier["killed"], verifier["mutants"]), of(verifier["accepted"], verifier["variants"]),
        ])  # fmt: skip
    titles = "reference trajectories solved:|null solved:|random solved:|mutants judged failed:|variants judged solved:"
    return markdown(f"domain|{titles}", rows)


def validation_exploits() -> str:
    """What the best answers without understanding earn in each domain."""
    rows = []
    for domain in read("validation")["reports"]:
        one = report(domain, "exploit")
        called = [f"{percent(one[key] / one['tasks'])}%" for key in ("exploited", "picked at random")]
        idle = f"{100 * one['exploited without calls'] / one['tasks without calls']:.2f}%"
        rows.append([f"`{domain}`", f"{one['tasks']:,}", *called, f"{one['tasks without calls']:,}", idle])
    titles = "tasks, calls made:|best exploit:|values picked at random:|tasks, no call made:|best exploit:"
    return markdown(f"domain|{titles}", rows)


def validation_findings(domain: str) -> str:
    """What each check found in a domain."""
    rows = [[f"`{one['name']}`", one["finding"]] for one in read("validation")["reports"][domain]]
    return markdown("check|finding", rows)


MUTANTS = {
    "drop a write": "a reference write dropped",
    "alter an argument": "one argument of a reference write altered",
    "change a slot": "one slot of the answer left out, null, empty or with another outcome",
    "add a stray write": "one additional write, which changes the database",
}
VARIANTS = {
    "reorder independent calls": "independent calls in another order",
    "add reads": "a look-up before every call",
    "another tool, same facts": "a look-up replaced by a search that shows the same",
    "spell the answer otherwise": "a value of the answer in another spelling, or other JSON",
}


def validation_mutants(domain: str) -> str:
    """How the verifier judged wrong episodes."""
    found = report(domain, "verifier")
    rows = [[words, f"{found[f'mutants: {key}']:,}", f"{found[f'killed: {key}']:,}"] for key, words in MUTANTS.items()]
    return markdown("wrong episodes|made:|judged failed:", rows)


def validation_variants(domain: str) -> str:
    """How the verifier judged episodes that are different and right."""
    found = report(domain, "verifier")
    rows = [
        [words, f"{found[f'variants: {key}']:,}", f"{found[f'accepted: {key}']:,}"] for key, words in VARIANTS.items()
    ]
    return markdown("right episodes|made:|judged solved:", rows)


def judge_bounds() -> str:
    """How often answers in prose are judged wrongly: by what they mention, and by models that always say the same."""
    rows = [
        [
            judge.replace("always", "a model that always says"),
            of(one["wrongly_rejected"], one["right"]),
            of(one["wrongly_accepted"], one["wrong"]),
        ]
        for judge, one in read("judge_model")["judges"].items()
    ]
    return markdown("judge|right, rejected:|wrong, accepted:", rows)


def experts_episodes() -> str:
    """Episodes solved by a policy that asks the strongest expert, by what it asks."""
    asked = {
        "nothing": "nothing",
        "half": "half of the conversation",
        "everything": "all of it",
        "by name": "each step by name",
        "typing errors": "with typing errors",
        "own words": "in own words",
        "German": "in German",
    }
    rows = [
        [domain, *(f"{percent(one[key])}%" if key in one else "–" for key in asked)]
        for domain, one in read("experts_asked")["episodes"].items()
    ]
    return markdown("domain|" + "|".join(f"{words}:" for words in asked.values()), rows)


def experts_steps() -> str:
    """Steps that came back right from the strongest expert of each trade, over all domains."""
    trades: dict[str, Counter[str]] = {}
    for domain in read("experts_asked")["steps"].values():
        for trade, counts in domain.items():
            trades.setdefault(trade, Counter()).update(counts)
    rows = []
    for trade, counts in trades.items():
        cells = []
        for kind in ("right trade", "right trade, all shown", "wrong trade", "wrong trade, all shown", "nothing"):
            asked, right = counts[f"{kind}, asked"], counts[f"{kind}, right"]
            share = success_share([1.0] * right + [0.0] * (asked - right))
            cells.append(f"{percent(share.estimate)}% [{percent(share.low)}, {percent(share.high)}]" if asked else "–")
        rows.append([trade, *cells])
    titles = "by name, work that suits the trade|the same, all shown|by name, other work|the same, all shown|nothing"
    return markdown(f"trade|{titles}", rows)


def masbench_axes() -> str:
    """What checking the generator of MASBench found, and its speed."""
    found = read("masbench")
    train, test = found["rates"]["train"], found["rates"]["test"]
    rows = [
        [
            axis, f"{one['instances']:,}", str(one["disagreements"]),
            f"{one['templates']['train']:,} / {one['templates']['test']:,}", str(one["shared"]),
            f"{one['chi_square']:.1f}",
            *(f"{train[axis][value]:,} / {test[axis][value]:,}" for value in ("4", "32")),
            f"{train[axis]['growth']:.2f} / {test[axis]['growth']:.2f}",
        ]
        for axis, one in found["agreement"]["axes"].items()
    ]  # fmt: skip
    titles = "instances:|disagreements:|templates train / test:|in both:|χ² (< 40.3):|a second at 4:|at 32:|growth:"
    return markdown(f"axis|{titles}", rows)


def questions_attacks() -> str:
    """What was tried on every question of each source, and how often it was paid or accepted."""
    rows = []
    for env_id, one in read("checks").items():
        if not re.match("ToolOrchestra-(Math|MultiHopQA|MASBench)", env_id):
            continue
        counts = {check["name"]: check["counts"] for check in one["checks"]}
        tasks, found = counts["oracle"]["tasks"], counts["verifier"]
        numbers = (tasks, found["mutants"], found["mutants"] - found["killed"], found["variants"], found["accepted"])
        rows.append([f"`{env_id.split('-')[1]}`", *(f"{number:,}" for number in numbers)])
    return markdown("source|questions:|attacks tried:|paid:|rephrasings tried:|accepted:", rows)


def chat_templates() -> str:
    """What works of the chat templates that TRL ships."""
    rows = []
    for name, one in read("chat_templates")["templates"].items():
        why = (
            one["why"]
            + "; " * bool(one["why"])
            + "TRL's training template takes its place" * one.get("replaced", False)
        )
        rows.append([f"`{name}`", "yes" if one["works"] else "refused", one["form"], why.removesuffix("; ")])
    return markdown("template|works|calls|why", rows)


def sandbox_times() -> str:
    """Milliseconds of a program in each kind of sandbox."""
    kinds = {
        "fork": "the same fork outside any container",
        "docker, warm": "`docker`, warm",
        "bubblewrap, warm": "`bubblewrap`, warm",
        "session": "a further call of a session",
        "docker exec": "`docker exec`",
        "docker run": "`docker run`",
        "subprocess": "a new interpreter on the machine itself",
    }
    lines = (RESULTS / "sandbox.txt").read_text(encoding="utf-8").splitlines()
    found = {columns[0]: columns[1:] for line in lines if len(columns := re.split(r"\s{2,}", line.strip())) == 6}
    times = {kind: [float(value) for value in found[kind][1:3]] for kind in kinds}
    rows = [
        [words, *(f"{value:.{1 if value < 12.5 else 0}f} ms" for value in times[kind])] for kind, words in kinds.items()
    ]
    return markdown("|p50:|p95:", rows)


def viewer_seconds() -> str:
    """How soon the viewer shows a large recording."""
    found = read("viewer")
    names = {"first paint": "first contentful paint", "first rows": "first rows of the list", "indexed": "indexed"}
    stages = [found[f"seconds, {stage}"] for stage in ("first", "again")]
    rows = [
        [
            words,
            *(f"{stage[name]:.{1 if name == 'indexed' else 2}f} s" if name in stage else "at once" for stage in stages),
        ]
        for name, words in names.items()
    ]
    return markdown("|without an index|with the index of an earlier visit", rows)


def viewer_questions() -> str:
    """What the page's questions take, and the server's memory."""
    found = read("viewer")
    rows = [[words, f"{value:.0f} ms"] for words, value in found["milliseconds of questions"].items()]
    rows.append(["peak of the server's memory", f"{found[PEAK]:.0f} MiB"])
    rows.append(["the index on the disk", f"{found['bytes of the index'] / 1e6:.0f} MB"])
    return markdown("question of the page|:", rows)


PEAK = "peak of the server's memory, MiB"


def adapters_memory() -> str:
    """Memory of one agent and of two, with adapters on one model and with models of their own."""
    found = read("adapters")["bytes"]
    rows = []
    for kind, words in (("adapters", "adapters"), ("whole", "whole models")):
        one, two = found[f"1 {kind}"], found[f"2 {kind}"]
        more = (percent(two[what] / one[what] - 1) for what in ("held", "peak"))
        both = (f"{of['held'] / 1e9:.2f} / {of['peak'] / 1e9:.2f} GB" for of in (one, two))
        rows.append([words, *both, " / ".join(f"{share} %" for share in more)])
    return markdown("|one agent, held / peak:|two agents, held / peak:|more:", rows)


def memory_estimates() -> str:
    """The estimate of memory beside the peak that was measured."""

    def options(case: dict[str, Any]) -> str:
        return ", ".join(f"`{name}={value}`" for name, value in case["options"].items()) or "whole"

    rows = [
        [f"{case['parameters'] / 1e6:.0f} M", options(case), f"{case['estimate_mib']} MiB", f"{case['peak_mib']} MiB",
         f"{case['estimate_over_peak']:.2f}"]
        for case in read("memory")["cases"]
    ]  # fmt: skip
    return markdown("parameters:|trained|estimate:|peak:|estimate over peak:", rows)


def first_step() -> str:
    """How long a training of a given model takes to its first step without a GPU, and what it needs."""
    found = read("first_step")
    size, seconds, peak = f"{found['parameters'] / 1e6:.1f} M", found["seconds_to_first_step"], found["peak_gib"]
    silent = f"{found['longest_silence_seconds']:.0f} s"
    return markdown(
        "parameters:|first step after:|longest silence:|peak:", [[size, f"{seconds:.0f} s", silent, f"{peak} GiB"]]
    )


def workers() -> str:
    """How much faster several workers play than one process, and than as many processes that share nothing."""
    rows = []
    for name, way in read("workers")["ways"].items():
        beside = way.get("share_of_sharing_nothing")
        shared = "" if beside is None or name.startswith("sharing") else f"{percent(beside, 0)} %"
        speed_up, share = f"{way['speed_up']:.2f}", f"{percent(way['share_of_linear'], 0)} %"
        rows.append([name, f"{way['seconds']:.1f} s", speed_up, share, shared])
    return markdown("way, workers|time:|speed-up:|of linear:|of sharing nothing:", rows)


def audits(record: str = "rfc008") -> str:
    """What each environment came to in the audit by RFC 008."""
    rows = []
    for name, found in read(record).items():
        floor, gap = (found["measured"][f"statistical.{check}"] for check in ("adversarial_floor", "gameability_gap"))
        counts = Counter(found["statuses"].values())
        failed = [check for check, status in found["statuses"].items() if status in ("fail", "error")]
        rows.append(
            [
                f"`{name}`",
                f"{counts['pass']} / {counts['fail'] + counts['error']} / {counts['skip']}",
                f"{found['episodes']:,}",
                f"{floor['floor']:.4f}",
                f"{floor['its mean reward']:.4f} ({floor['best adversary']})",
                f"{gap['gap']:.4f}" if gap else "no oracle",
                floor.get("solved by the verdict", "-"),
                ", ".join(f"`{check}`" for check in failed) or "-",
            ]
        )
    heads = "environment|pass / fail / do not apply:|episodes:|floor:|best adversary:|gap:|solved by adversaries:|fails"
    return markdown(heads, rows)


SERVERS = {
    "toolorchestra": "`toolorchestra serve`",
    "echo": "echo of OpenEnv's classes, uvicorn's defaults",
    "echo, our settings": "the same, run as ours is",
}


def serve() -> str:
    """Messages a second of a served environment and of a server that does nothing but answer."""
    rows = [
        [SERVERS[name], f"{one['messages_a_second']:,.0f}"]
        + [f"{one[f'latency_ms_{q}']:.0f}" for q in (50, 95, 99)]
        + [f"{one['server_microseconds_a_message']:.0f}"]
        for name, one in read("serve")["servers"].items()
    ]
    latencies = "|".join(f"{name}, ms:" for name in ("median", "95 %", "99 %"))
    return markdown(f"server|messages a second:|{latencies}|its CPU time a message, µs:", rows)


def serve_open() -> str:
    """What many open sessions weigh."""
    one = read("serve")["open"]
    row = [
        f"{one['sessions']:,}", f"{one['gigabytes']:.2f} GiB", f"{one['megabytes_a_session']:.2f} MiB",
        f"{one['seconds_to_open']:.0f} s", f"{one['seconds_to_answer']:.1f} s",
    ]  # fmt: skip
    titles = "sessions:|memory of the server:|of a session:|time to open all:|time to answer a message of each:"
    return markdown(titles, [row])


def tau2() -> str:
    """Calls a second in τ²-bench's worlds, and of their packages' own functions and servers."""
    worlds = {name: read("tau2")[name] for name in ("retail", "airline")}
    ways = ("environment", "session", "functions", "server")
    rows = [[name, *(f"{one['calls_per_second'][way]:,.0f}" for way in ways)] for name, one in worlds.items()]
    titles = "an environment's episode:|a session without one:|their functions:|their server:"
    return markdown(f"world|{titles}", rows)

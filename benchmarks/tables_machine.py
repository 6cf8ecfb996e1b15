"""The tables of the documents on time and memory of a machine."""

from __future__ import annotations

import re
from typing import Any

from harness import RESULTS, markdown, percent, read


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

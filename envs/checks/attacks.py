"""What the checks `attacks` and `exploit` report of what was tried on the verification of domains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolorchestra.envs.checks.report import CheckVerdict, Finding
from toolorchestra.toolscale.validation.exploiter import MAX_GAIN, MAX_IDLE, Exploit, ExploitReport
from toolorchestra.toolscale.validation.verifier_attacks import AttackReport


def attacks_finding(report: AttackReport, tasks: int, step: int) -> Finding:
    """Return what was found on `tasks`, where of each domain one of `step` tasks was tried."""
    if not tasks:
        return Finding("note", "no domain: the check `verifier` tries the answers to questions")
    paid, tried, accepted, rephrased = (
        counter.total() for counter in (report.paid, report.tried, report.accepted, report.rephrased)
    )
    line = (
        f"{paid:,} of {tried:,} attacks paid ({share(paid, tried):.2%}), "
        f"{share(accepted, rephrased):.2%} of {rephrased:,} rephrasings accepted"
        + (f" (one of {step} tasks of each domain was tried)" if step > 1 else "")
    )
    wrong, right = attack_lines(report)
    examples = [
        f"{kind}: {task}: {text!r}: {why}" for kind, found in report.examples.items() for task, text, why in found
    ]
    details = [*wrong, *examples, *right]  # long lists are cut at their end
    counts = {"tasks": tasks, "attacks": tried, "paid": paid, "rephrasings": rephrased, "accepted": accepted}
    return Finding("pass" if report.passed else "fail", line, counts, details)


def attack_lines(report: AttackReport) -> tuple[list[str], list[str]]:
    """Return a line for each kind that was judged wrongly at least once, and for each of the others."""
    attacks = [
        (report.paid[kind] > 0, f"attack: {kind}: {report.paid[kind]:,} of {n:,} paid")
        for kind, n in sorted(report.tried.items())
    ]
    rephrasings = [
        (report.accepted[kind] < n, f"rephrasing: {kind}: {report.accepted[kind]:,} of {n:,} accepted")
        for kind, n in sorted(report.rephrased.items())
    ]
    lines = [*attacks, *rephrasings]
    return [line for wrong, line in lines if wrong], [line for wrong, line in lines if not wrong]


def exploit_finding(reports: Sequence[ExploitReport]) -> Finding:
    """Return what the best exploits earn in domains.

    More than `MAX_IDLE` without a call in a domain is a failure. With the reference calls made, more than `MAX_GAIN`
    above values picked at random is a note: where results are short, much of what they show is what is asked for.
    """
    reports = [report for report in reports if report.idle.tasks]
    if not reports:
        return Finding("note", "no domain whose tasks are split into train and test")
    random = sum(report.random * report.called.tasks for report in reports)
    counts = {
        "tasks": sum(report.called.tasks for report in reports),
        "exploited": sum(report.called.solved for report in reports),
        "picked at random": round(random),
        "tasks without calls": sum(report.idle.tasks for report in reports),
        "exploited without calls": sum(report.idle.solved for report in reports),
    }
    line = (
        f"best exploit {share(counts['exploited'], counts['tasks']):.1%} "
        f"(random {random / max(1, counts['tasks']):.1%}; at most {100 * MAX_GAIN:.0f} points more), "
        f"without calls {share(counts['exploited without calls'], counts['tasks without calls']):.2%} "
        f"(at most {MAX_IDLE:.0%})"
    )
    verdict: CheckVerdict = "pass"
    if any(report.idle.share > MAX_IDLE for report in reports):
        verdict = "fail"
    elif any(report.called.share > report.random + MAX_GAIN for report in reports):
        verdict = "note"
    details = [*map(_earnings, reports), *(line for report in reports for line in _in_words(report))]
    return Finding(verdict, line, counts, details)


def _earnings(report: ExploitReport) -> str:
    called, idle = report.called, report.idle
    return (
        f"{report.domain}: with the reference calls {called.solved:,} of {called.tasks:,} tasks that ask for a fact "
        f"({called.share:.1%}; at random {report.random:.1%}), without calls {idle.solved:,} of {idle.tasks:,} tasks "
        f"({idle.share:.2%})"
    )


def _in_words(report: ExploitReport) -> Iterator[str]:
    """Yield the best exploits of a domain in words: each filler with the kinds of slots that get it."""
    settings: dict[str, Exploit] = {"with the reference calls": report.called, "without calls": report.idle}
    for setting, exploit in settings.items():
        kinds: dict[str, list[str]] = {}
        for kind, filler in exploit.strategy.items():
            kinds.setdefault(filler, []).append(kind)
        yield from (f"{report.domain}, {setting}: {filler}: {', '.join(found)}" for filler, found in kinds.items())


def share(part: int, whole: int) -> float:
    """Return a part as a share of the whole: 1 of nothing."""
    return part / whole if whole else 1.0

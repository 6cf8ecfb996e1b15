"""The check of what tasks say."""

from __future__ import annotations

from collections import Counter

from toolorchestra.envs.checks.report import Finding
from toolorchestra.toolscale.database.format import PhrasingSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain
from toolorchestra.toolscale.requests.wording_checks import check_wording
from toolorchestra.toolscale.tasks.task import Task

_MAX_PLACES = 3


def wording_finding(domains: list[tuple[Domain, list[Task]]]) -> Finding:
    """Return what is wrong with the wording of tasks.

    It is a failure in a domain that comes with the library and has phrasings by register, and a note elsewhere.
    """
    counts: Counter[str] = Counter()
    details: list[str] = []
    failed = False
    for domain, tasks in domains:
        faults = check_wording(domain, tasks)
        counts.update(fault.rule for fault in faults)
        places: dict[tuple[str, str], list[str]] = {}
        for fault in faults:
            places.setdefault((fault.rule, fault.message), []).append(fault.place)
        details += [f"{domain.name}: {_shown(where)}: {rule}: {message}" for (rule, message), where in places.items()]
        failed |= bool(faults) and _is_strict(domain)
    if not details:
        return Finding("pass", "requests and answers read as people write", {"faults": 0})
    rules = ", ".join(f"{rule} {count}" for rule, count in counts.most_common())
    return Finding("fail" if failed else "note", f"wording to look at: {rules}", dict(counts), details)


def _shown(places: list[str]) -> str:
    """Return where a fault was found: the places once each, or the first few of many."""
    found = list(dict.fromkeys(places))
    return ", ".join(found[:_MAX_PLACES]) + (f" and {len(found) - _MAX_PLACES} more" * (len(found) > _MAX_PLACES))


def _is_strict(domain: Domain) -> bool:
    shipped = domain.name in builtin_domains() and load_domain(domain.name) is domain
    return shipped and any(isinstance(intent.instructions, PhrasingSpec) for intent in domain.spec.intents.values())

"""The command `toolorchestra synth adversarial`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from toolorchestra.cli.options import Split, WorkerOptions, require_at_least
from toolorchestra.cli.synth.model_options import domain_name
from toolorchestra.toolscale.common.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.toolscale.tasks.task import Task


@dataclass
class SynthAdversarialCommand(WorkerOptions):
    """Make a robustness set: tasks with an attack appended, in domains that were not trained on."""

    train: tuple[str, ...] = ()
    """Domains trained on, by name or environment id: the set has no task of theirs."""
    domains: tuple[str, ...] = ()
    """Domains to make it in, by name, or the folder of one; by default all shipped ones but those of --train."""
    count: int = 300
    """Tasks in all (at least 278, as in the paper, unless you need fewer)."""
    split: Split = "all"
    """Split whose tasks are attacked."""
    seed: int = 0
    """Seed of the choice of tasks and attacks."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to write; by default adversarial.jsonl here, or in the folder of a domain of your own."""

    def __post_init__(self) -> None:
        require_at_least(self, count=1)

    def run(self) -> int:
        """Make, check and write the tasks."""
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.toolscale.domain_folder import BUILTIN, builtin_domains, load_domain
        from toolorchestra.toolscale.evolution.adversarial import make_attacked
        from toolorchestra.toolscale.tasks.task import write_tasks
        from toolorchestra.toolscale.workers.units import Unit

        trained = {load_domain(domain_name(name)).name for name in self.train}
        names = [domain_name(name) for name in self.domains] or [n for n in builtin_domains() if n not in trained]
        domains = [load_domain(name) for name in names]
        if both := trained & {domain.name for domain in domains}:
            raise OptionError(f"Expected domains that are not trained on; {min(both)} is in --train and in --domains.")
        if not domains:
            raise OptionError("No domain is left: --train names all of them.")
        own = [domain for domain in domains if domain.file and BUILTIN not in domain.file.parents]
        if own and len(domains) > 1:
            raise OptionError(f"A set with a domain of your own ({own[0].name}) has tasks of that one only.")
        file = self.out or (own[0].file.parent if own and own[0].file else Path()) / "adversarial.jsonl"
        console = stdout_console()
        tasks: list[Task] = []
        shares = [self.count * (n + 1) // len(domains) - self.count * n // len(domains) for n in range(len(domains))]
        make = partial(make_attacked, seed=self.seed, split=self.split)
        units = (
            Unit(("attacks", domain.name), make, (domain, due)) for domain, due in zip(domains, shares, strict=True)
        )
        with self._executor() as executor:
            found = list(executor.run(units))
        for domain, (made, _) in zip(domains, found, strict=True):
            tasks += made
            kinds = Counter(task.attack.kind for task in made if task.attack)
            shown = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
            console.print(f"{domain.name}: {len(made)} tasks ({shown})", markup=False)
        write_tasks(file, tasks)
        console.print(
            f"\n{len(tasks):,} attacked tasks in {file}\n"
            f"Play them:  toolorchestra rollout {file} --split all --episodes all --policy llm … --out played.jsonl\n"
            f"Report:     toolorchestra compare played.jsonl --robustness {file}",
            markup=False,
        )
        return 0 if len(tasks) == self.count else 1

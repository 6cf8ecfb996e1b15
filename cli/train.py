"""The command `toolorchestra train`, which runs a learner of `toolorchestra.algos`."""

import importlib
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional, arg

from toolorchestra.algos.options import processes
from toolorchestra.toolscale.errors import OptionError, install_line

LEARNERS = {
    "sft": ("sft", "options_one_agent.TrainSFT"),
    "grpo": ("grpo", "options_one_agent.TrainGRPO"),
    "msarl": ("msarl", "options_several_agents.TrainMSARL"),
    "tmatr": ("tmatr", "options_several_agents.TrainTMATR"),
    "multi-grpo": ("multi_grpo", "options_several_agents.TrainMultiGRPO"),
}
"""Module of each algorithm, and the class of its options."""


@dataclass
class TrainCommand:
    """Train a policy (`toolorchestra train grpo --help` lists the options)."""

    algorithm: Positional[Literal["sft", "grpo", "msarl", "tmatr", "multi-grpo"]]
    """One agent: `sft` imitates recorded or reference episodes, `grpo` learns from reward (warm-started by SFT).
    Several agents: `multi-grpo` trains each by its own rewards in any environment, `msarl` a reasoner and a helper by
    nested GRPO, `tmatr` a team in turns by online DPO."""
    arguments: Annotated[Positional[tuple[str, ...]], arg(metavar="…")] = ()
    """Options of the algorithm; `python algos/grpo.py …` is the same as `toolorchestra train grpo …`."""

    def run(self) -> int:
        """Read the algorithm's own options and run it; its module is imported last, since it needs torch."""
        try:
            if processes() == 1:
                return self._train()
            ranks = importlib.import_module("toolorchestra.algos.ranks")
            with ranks.ending_together():
                ranks.start()
                return self._train(shown=ranks.main())
        except ModuleNotFoundError as error:
            if str(error.name).startswith("toolorchestra"):
                raise
            raise OptionError(
                f"Training needs {error.name}, which is not installed: {install_line('train')}."
            ) from None

    def _train(self, *, shown: bool = True) -> int:
        name, options = LEARNERS[self.algorithm]
        module, _, kind = options.partition(".")
        kinds = importlib.import_module(f"toolorchestra.algos.{module}")
        prog = f"toolorchestra train {self.algorithm}"
        config = tyro.cli(getattr(kinds, kind), prog=prog, args=list(self.arguments), console_outputs=shown)
        importlib.import_module(f"toolorchestra.algos.{name}").train(config)
        return 0

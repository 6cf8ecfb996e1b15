"""The command `toolorchestra train`, which runs a learner of `toolorchestra.algos`."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from toolorchestra.algos.activity import Activity
from toolorchestra.algos.hardware.launch import processes
from toolorchestra.algos.options.config_files import (
    LEARNERS,
    ConfigFile,
    options_of,
    parse_options,
    recipe_file,
    recipe_names,
)
from toolorchestra.toolscale.common.errors import OptionError, install_line


@dataclass
class TrainCommand:
    """Train a policy (`toolorchestra train grpo --help` lists the options)."""

    algorithm: Positional[Literal["sft", "grpo", "msarl", "tmatr", "multi-grpo", "recipes"]]
    """One agent: `sft` imitates recorded or reference episodes, `grpo` learns from reward (warm-started by SFT).
    Several agents: `multi-grpo` trains each by its own rewards in any environment, `msarl` a reasoner and a helper by
    nested GRPO, `tmatr` a team in turns by online DPO. `recipes` trains nothing: it lists the papers'
    trainings, which ship with the library, and `recipes NAME` prints one, to be changed and run as a file."""
    arguments: Annotated[Positional[tuple[str, ...]], arg(metavar="…")] = ()
    """Options of the algorithm; `python algos/grpo.py …` is the same as `toolorchestra train grpo …`. `--config FILE`
    reads them from a file, or from a recipe of this name, which may also name the algorithm: `train --config FILE`."""

    def run(self) -> int:
        """Read the algorithm's own options and run it; its module is imported last, since it needs torch."""
        if self.algorithm == "recipes":
            return _print_recipes(*self.arguments)
        try:
            if processes() == 1:
                return self._train()
            distributed = importlib.import_module("toolorchestra.algos.hardware.distributed")
            with distributed.ending_together():
                distributed.start()
                return self._train(main=distributed.is_main())
        except ModuleNotFoundError as error:
            if str(error.name).startswith("toolorchestra"):
                raise
            raise OptionError(
                f"Training needs {error.name}, which is not installed: {install_line('train')}."
            ) from None

    def _train(self, *, main: bool = True) -> int:
        name, _ = LEARNERS[self.algorithm]
        prog = f"toolorchestra train {self.algorithm}"
        config = parse_options(options_of(self.algorithm), self.arguments, prog, shown=main)
        importlib.import_module("toolorchestra.algos.options.inputs").check_inputs(config)
        shown = main and not config.dry_run
        with _loading() if shown else nullcontext():
            learner = importlib.import_module(f"toolorchestra.algos.{name}")
        if not config.dry_run:
            learner.train(config)
        elif main:
            from toolorchestra.algos.options.dry_run import require_memory

            require_memory(config)
        return 0


@contextmanager
def _loading() -> Iterator[None]:
    """Say that PyTorch is loaded, and for how long, while nothing else is shown."""
    print("Loading PyTorch", flush=True)
    with Activity(lambda done, text: print(f"Loading PyTorch: {text}", flush=True)):
        yield


def _print_recipes(*names: str) -> int:
    """Print the files of recipes, or the list of all."""
    for name in names:
        print(recipe_file(name).read_text(encoding="utf-8"), end="")
    width = max(map(len, recipe_names()))
    for one in () if names else recipe_names():
        recipe = ConfigFile.read(recipe_file(one))
        print(f"{one:{width}}  {recipe.learner:10}  {recipe.values['about']['title']}")
    return 0

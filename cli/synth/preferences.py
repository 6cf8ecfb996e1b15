"""The command `toolorchestra synth preferences`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from tyro.conf import arg

from toolorchestra.cli.environments import environment
from toolorchestra.cli.options import Env, NamedValues, UsageError, option_values
from toolorchestra.cli.synth.model_options import ModelOptions, QuestionModel
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.common.writing import write_whole

if TYPE_CHECKING:
    from toolorchestra.toolscale.preferences import PairReport, PreferencePair, ToolFacts
    from toolorchestra.toolscale.tools.tool import Tool


@dataclass(kw_only=True)
class SynthPreferencesCommand(ModelOptions):
    """Make preference pairs: what a user wants optimised, in words and as the vector P.

    From templates, with --llm proposed and judged by a model, or with --pairs yours, of which the vectors are checked.
    """

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks: its tools are what may be preferred."""
    count: int = 200
    """Number of pairs in all."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of the environment: with `tools full` the pairs are about experts, search and Python too."""
    tools: tuple[str, ...] = ()
    """Only these tools, in this order; by default all."""
    pairs: Annotated[Path | None, arg(metavar="FILE")] = None
    """Check and divide the pairs of this JSONL file (instruction, tools, vector), and say what is wrong with others."""
    seed: int = 0
    """Seed of the pairs."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("preferences")
    """Where to write train.jsonl, eval.jsonl and report.json."""

    def __post_init__(self) -> None:
        if self.pairs is not None and self.llm is not None:
            raise UsageError("--pairs and --llm both give the pairs: give one of them.")
        super().__post_init__()

    def _run(self) -> int:
        """Make, check, divide and write the pairs."""
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.synthesis import pairs_table
        from toolorchestra.toolscale.common.jsonl import write_jsonl
        from toolorchestra.toolscale.preferences import tool_facts

        env = environment(self.env, **option_values(self.env_options))
        worlds = {env.source.world(task).name: task for task in env.source.tasks("all")}
        tools: dict[str, Tool] = {}
        for task in worlds.values():
            env.reset(options={"task_id": task.id})
            tools |= env.play.tools
        env.close()
        for name in self.tools:
            if name not in tools:
                raise UnknownNameError("tool", name, tools)
        facts = tool_facts(tools[name] for name in (self.tools or tools))
        with Claim.of_folder(self.out):
            pairs, report = self._pairs(facts)
            for split in ("train", "eval"):
                write_jsonl(self.out / f"{split}.jsonl", [pair for pair in pairs if pair.split == split])
            write_whole(self.out / "report.json", msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        console = stdout_console()
        console.print(pairs_table(pairs))
        kept = ", ".join(f"{split} {count}" for split, count in report.kept.items())
        console.print(f"\n{len(pairs):,} pairs over {len(facts)} tools in {self.out} ({kept})", markup=False)
        for reason, count in report.dropped.most_common():
            console.print(f"  {count:,} dropped: {reason}", style="yellow", markup=False)
        for validator, why in report.not_run.items():
            console.print(f"  validator {validator} did not run: {why}", style="dim", markup=False)
        return int(bool(report.dropped) if self.pairs else len(pairs) != self.count)

    def _pairs(self, facts: list[ToolFacts]) -> tuple[list[PreferencePair], PairReport]:
        """Make the pairs from templates, take those of a file, or have the model propose and judge them."""
        from toolorchestra.toolscale.preferences import check_pair, make_pairs, read_pairs

        if self.pairs is not None:
            given = read_pairs(self.pairs)
            for number, pair in enumerate(given, 1):
                for fault in check_pair(pair, facts):
                    print(visible(f"{self.pairs}:{number}: {fault}"), file=sys.stderr)
            return make_pairs(facts, len(given), proposals=given)
        if self.llm is None:
            return make_pairs(facts, self.count, seed=self.seed)
        from toolorchestra.cli.display.synthesis import synthesis_progress
        from toolorchestra.toolscale.synth.answer_store import AnswerStore
        from toolorchestra.toolscale.synth.model_queries import ModelQueries
        from toolorchestra.toolscale.synth.preference_generation import judge_pairs, propose_pairs

        with (
            self._chat() as chat,
            synthesis_progress() as update,
            AnswerStore(self.out / "answers.jsonl") as store,
            ModelQueries(QuestionModel(chat), store, self._settings(self.seed), update) as queries,
        ):
            proposals = propose_pairs(facts, self.count, queries)
            judge = judge_pairs(proposals, facts, queries)
        return make_pairs(facts, self.count, proposals=proposals, judge=judge)

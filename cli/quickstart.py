"""The command `toolorchestra quickstart`: a real language model learns to use tools on this machine, within minutes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from toolorchestra.cli.environments import playable
from toolorchestra.cli.files import read_recorded
from toolorchestra.cli.options import UsageError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.common.writing import make_folder, write_whole

if TYPE_CHECKING:
    from toolorchestra.agents.builtin.model import TokenPolicy
    from toolorchestra.agents.tiny_model import TinyModel
    from toolorchestra.algos.options.one_agent import TrainGRPO
    from toolorchestra.envs.records.episode import Episode
    from toolorchestra.envs.starts import EpisodeStart

ENV = "ToolOrchestra-Restaurant-v0"
VIEW: dict[str, Any] = {"tool_view": 4, "schemas": "short"}
"""What a small model is shown of the 51 tools."""
BEFORE, AFTER = "before", "after"
"""Names of the recordings of the held-out tasks."""
_FIRST = 3  # episodes that are played through the server
_TURN_IDS = 96  # of a message: a call has 20 to 60
_TURNS = 6
_SFT_BATCH = 2  # more and smaller steps teach more in the same time
_GROUPS, _GROUP_SIZE = 2, 8  # few, so that a batch that takes longer than the last one hardly exceeds the time
_SHORT = 240  # seconds of learning below which there is one group of two
_SFT_SHARE, _SPARE = 0.75, 0.05  # of the time that there is for learning: for SFT, and for what takes longer
_ROW, _SHARED = 820, 480  # ids of an episode, and of those that all begin with, about
_SLOWER = 1.2  # a step than a pass of such rows
_LEAST = 2  # steps of SFT
_MEMORY = 3.0  # GiB that a pass may take: two rows


@dataclass
class QuickstartCommand:
    """Teach a real, small language model to use tools on this machine, offline after one download, in minutes.

    SmolLM2-135M-Instruct plays three episodes behind a local server (llama.cpp), learns by SFT on reference
    trajectories and then by GRPO (LoRA), and plays the same held-out tasks before and after. Ctrl-C keeps what is
    there. Needs `pip install 'toolorchestra[tiny]'`.
    """

    minutes: float = 15.0
    """Bound of the whole run; how many steps are made follows from it and from the speed of the machine."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("runs/quickstart")
    """Folder of the recordings and of the training."""
    tasks: int = 24
    """Held-out tasks that are played before and after."""
    seed: int = 0
    """Seed of everything random."""

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        if not self.minutes > 0:
            raise UsageError(f"--minutes must be above 0, got {self.minutes:g}.")
        if self.tasks < 1:
            raise UsageError(f"--tasks must be at least 1, got {self.tasks}.")

    def run(self) -> int:
        """Fetch the model, play, teach, play again, and print what changed."""
        try:
            self._run()
        except KeyboardInterrupt:
            self._say(f"Stopped. What there is: {self.out}")
            options = self.out / "training" / "config.yaml"
            if options.is_file():
                self._say(f"Go on with the training: toolorchestra train grpo --config {options} --resume")
            return 130
        return 0

    def _run(self) -> None:
        from toolorchestra.agents.tiny_model import tiny_model
        from toolorchestra.algos.hardware.batching import spread
        from toolorchestra.envs.starts import starts

        model = tiny_model(self._say)
        make_folder(self.out)
        with closing(playable(ENV, **VIEW)) as env:
            held_out = [start for level in starts(env, "test", (1,)).values() for start in level]
        self._play_first(model, spread(held_out, _FIRST))
        self._say("Loading PyTorch")
        from toolorchestra.algos import grpo
        from toolorchestra.algos.options.precision import load_policy, start_policy

        config, tasks = self._config(model), spread(held_out, self.tasks)
        policy, began = start_policy(config, model.folder), time.monotonic()
        self._play_held_out(config, policy, tasks, BEFORE)
        config = self._fitted(config, policy, time.monotonic() - began)
        del policy
        self._say(f"Teaching: {config.sft_steps} steps of SFT, then GRPO until the time is over")
        grpo.train(config)
        self._play_held_out(config, load_policy(config, config.output / "final"), tasks, AFTER)
        self._conclude()

    # ------------------------------------------------------------------------------------------------- stages

    def _config(self, model: TinyModel) -> TrainGRPO:
        """Return the options of the training; how many steps it has is found by `_fitted`."""
        from toolorchestra.algos.options.one_agent import TrainGRPO

        return TrainGRPO(
            env=ENV,
            env_options={name: str(value) for name, value in VIEW.items()},
            model=str(model.folder),
            output=self.out / "training",
            difficulty=(1,),
            seed=self.seed,
            lora_rank=16,
            sft_steps=_LEAST,
            sft_batch=_SFT_BATCH,
            sft_error=0.0,  # in so few steps it should learn what is right only
            groups=_GROUPS,
            group_size=_GROUP_SIZE,
            steps=1000,  # ended by the time
            sft_learning_rate=1e-3,
            learning_rate=2e-4,
            track_kl=False,  # it would take as long as the update
            filters=("homogeneity",),
            resample=0,
            aggregation="dapo",
            max_turns=_TURNS,
            max_turn_ids=_TURN_IDS,
            max_ids=2048,
            eval_samples=0,  # the held-out tasks are played before and after, here
            save_every=2,
            memory=_MEMORY,
        )

    def _play_first(self, model: TinyModel, tasks: Sequence[EpisodeStart]) -> None:
        """Play the first episodes through a server on this machine, and print what the model wrote."""
        from toolorchestra.agents.chat.openai_chat import OpenAIChat
        from toolorchestra.agents.chat.transformers_chat import TransformersChat
        from toolorchestra.agents.policies.chat_policy import ChatPolicy
        from toolorchestra.agents.tiny_model import served
        from toolorchestra.envs.recording_units import closing_model
        from toolorchestra.envs.run_episodes import run_episodes
        from toolorchestra.toolscale.common.visible import visible

        where = "a local server" if model.gguf else "this process"
        self._say(f"{model.name} plays {_FIRST} episodes of {ENV} behind {where}")
        with served(model.gguf, parallel=_FIRST) if model.gguf else nullcontext("") as url:
            chat: Any = OpenAIChat(url, model.name) if url else TransformersChat(str(model.folder))
            policy = ChatPolicy(chat, self.seed, max_tokens=_TURN_IDS)
            played: list[Episode] = []
            with closing_model(policy):
                for episode in run_episodes(lambda: playable(ENV, **VIEW), lambda: policy, tasks, in_flight=_FIRST):
                    played.append(episode)
                    wrote = _first_line(str(episode.turns[0].message.get("content"))) if episode.turns else ""
                    self._say(visible(f"  {_first_line(episode.instruction)}\n    {wrote!r} … {episode.outcome}"))
        write_jsonl(self.out / "server.jsonl", played)

    def _play_held_out(self, config: TrainGRPO, policy: TokenPolicy, tasks: Sequence[EpisodeStart], name: str) -> None:
        """Play the held-out tasks, and record the episodes under a name."""
        from toolorchestra.agents.builtin.model import prepare_torch
        from toolorchestra.algos.grpo import make_engine
        from toolorchestra.algos.reporting.evaluation import evaluate
        from toolorchestra.algos.rollout.generation import Generation

        prepare_torch(config.torch_threads)
        self._say(f"The model {name}, on {len(tasks)} held-out tasks")
        with closing(make_engine(config, policy.renderer, policy.model)) as engine:
            generation, record = Generation(config.memory), self.out / f"{name}.jsonl"
            evaluate(engine, policy, tasks, samples=1, greedy=True, record=record, generation=generation)

    def _fitted(self, config: TrainGRPO, policy: TokenPolicy, evaluation: float) -> TrainGRPO:
        """Return the options with as many steps as there is time for, if an evaluation takes so many seconds."""
        import torch

        from toolorchestra.algos.hardware.logits import hidden_states

        rows = [[*range(_SHARED), *(1000 + n for _ in range(_SHARED, _ROW))] for n in range(_SFT_BATCH)]
        seconds = []
        for _ in range(2):  # the first pass is slower
            began = time.monotonic()
            torch.autograd.backward(hidden_states(policy.model, rows, 0).sum())
            seconds.append(time.monotonic() - began)
        step = _SLOWER * min(seconds)
        left = 60 * self.minutes - (time.monotonic() - self._began) - evaluation
        few: dict[str, Any] = {"groups": 1, "group_size": 2} if left < _SHORT else {}
        sft_steps = max(_LEAST, int(_SFT_SHARE * left / step))
        return replace(config, sft_steps=sft_steps, minutes=round(max((1 - _SPARE) * left, 1.0) / 60, 2), **few)

    def _conclude(self) -> None:
        """Print how the model did before and after, on the same tasks, and one of them."""
        from toolorchestra.algos.reporting.report import closing_table, summary
        from toolorchestra.envs.records.render import VisibleConsole, episode_text

        played = {name: list(read_recorded(self.out / f"{name}.jsonl")) for name in (BEFORE, AFTER)}
        outcomes = {name: [float(one.outcome == "solved") for one in found] for name, found in played.items()}
        VisibleConsole().print(closing_table(outcomes, BEFORE))
        rows = summary(outcomes, BEFORE)
        for name, found in played.items():
            turns = [turn for one in found for turn in one.turns]
            tokens, dollars = sum(turn.tokens[1] for turn in turns), sum(one.cost for one in found)
            totals = {"turns": len(turns), "tokens": tokens, "dollars": dollars}
            rows[name] |= {what: total / len(found) for what, total in totals.items()}
            self._say("{0}: an episode has {turns:.1f} turns, {tokens:.0f} tokens written, ${dollars:.6f}"
                      .format(name, **rows[name]))  # fmt: skip
        write_whole(self.out / "summary.json", json.dumps(rows, indent=2) + "\n")
        solved = (n for n, one in enumerate(played[AFTER]) if one.outcome == "solved" != played[BEFORE][n].outcome)
        if (number := next(solved, None)) is not None:
            for name, found in played.items():
                self._say(f"One task, {name}:")
                print(episode_text(found[number]))
        self._say(f"Look at more: toolorchestra view {self.out}")

    def _say(self, text: str) -> None:
        """Print a line, with the time that is left."""
        left = self.minutes - (time.monotonic() - self._began) / 60
        print(f"[{max(left, 0):4.1f} min left] {text}", flush=True)


def _first_line(text: str) -> str:
    return " ".join(text.split())[:100]

"""The command `toolorchestra rollout`."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg

from toolorchestra.cli.environments import playable
from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import (
    Env,
    NamedValues,
    SourceOptions,
    Split,
    UsageError,
    WorkerOptions,
    option_values,
    require_at_least,
)
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.visible import visible

if TYPE_CHECKING:
    from toolorchestra.agents.chat.base import ChatModel, Usage
    from toolorchestra.agents.policies.base import Policy
    from toolorchestra.envs.recording_units import Makers
    from toolorchestra.envs.records.episode import Episode
    from toolorchestra.envs.records.recording import Recording, Tally
    from toolorchestra.envs.starts import EpisodeStart
    from toolorchestra.envs.task_source import TaskSource

_FLAGS = {
    "api_key_env": "--api-key-env",
    "base_url": "--base-url",
    "max_concurrency": "--in-flight",
    "max_tokens": "--max-tokens",
    "model": "--model",
    "price": "--price",
}
"""How errors of a server call options."""


@dataclass
class RolloutCommand(SourceOptions, WorkerOptions):
    """Let a policy play many episodes and record them as JSONL."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    policy: Annotated[str, arg(metavar="NAME|MODULE:NAME")] = "oracle"
    """Who plays. `oracle` and `noisy-oracle` know the reference trajectory; `llm` is any chat model (--model); `random`
    and `null` know nothing. In an environment with several agents `random`, `null` or `llm` acts for all of them.
    `direct`, `direct+tools`, `majority-vote`, `self-refine`, `fixed-workflow`, `strongest` and `cheapest` are baselines
    that query experts. MODULE:NAME is a policy of your own, a class or a function; the module may be in the
    current folder."""
    policy_options: NamedValues = field(default_factory=dict)
    """Arguments of the policy, e.g. `expert gpt-5` or `n 8`."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""
    episodes: Annotated[int | Literal["all"], arg(metavar="N|all")] = 100
    """How many to play; `all` plays every task of the split once."""
    samples: int = 1
    """How often to play each task: then --episodes counts tasks, all different, and pass@k and pass^k are printed (one
    of k samples solves a task, all of them do)."""
    split: Split = "test"
    """Split from which tasks are drawn."""
    difficulty: tuple[int, ...] = ()
    """Levels from which tasks are drawn (1 to 5); all by default."""
    seed: int = 0
    """Seed of the first episode (the next has the next seed) and of the policy."""
    error: float = 0.2
    """For `noisy-oracle`: probability of an injected error per turn."""
    model: Annotated[str | None, arg(metavar="NAME|PATH")] = None
    """For `llm`: the model's name at --base-url, or without it the folder or hub id of a local model."""
    base_url: Annotated[str | None, arg(metavar="URL")] = None
    """For `llm`: an OpenAI-compatible server, e.g. http://localhost:8000/v1."""
    api_key_env: Annotated[str | None, arg(metavar="NAME")] = None
    """For `llm`: environment variable that holds the server's key, if it needs one."""
    price: Annotated[tuple[float, float], arg(metavar="IN OUT")] = (0.0, 0.0)
    """For `llm`: US dollars per million tokens read and written."""
    temperature: float = 0.0
    """For `llm`: sampling temperature; 0 is greedy."""
    max_tokens: int = 8_000
    """For `llm`: maximum number of tokens of one reply."""
    effort: Literal["low", "medium", "high"] | None = None
    """For `llm` at a server: its `reasoning_effort`, for models that take one. Where the prompt is to ask for it, give
    `--env-options effort low`."""
    in_flight: int = 8
    """Maximum number of episodes played at a time, over all workers; none waits for another's reply, tool or expert."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to write; by default rollouts/ENV.POLICY.SPLIT.jsonl."""
    resume: bool = False
    """Continue an interrupted file: the episodes in it are not played again, but for those that were not judged."""
    json: bool = False
    """Print the summary as JSON."""

    def __post_init__(self) -> None:
        if self.policy == "human":
            raise UsageError("You play by `toolorchestra play`.")
        if self.policy == "llm" and self.model is None:
            raise UsageError("The policy `llm` needs a model: --model NAME --base-url URL, or --model PATH.")
        if self.policy != "llm" and (self.model or self.base_url):
            raise UsageError(f"--model and --base-url are for --policy llm, not {self.policy}.")
        if self.api_key_env and not self.base_url:
            raise UsageError("--api-key-env is for a server: give its --base-url as well.")
        if self.episodes != "all" and self.episodes < 1:
            raise UsageError(f"--episodes must be at least 1, or `all`; got {self.episodes}.")
        if self.effort and not self.base_url:
            raise UsageError("--effort is a field of requests to a server: give --base-url, or --env-options effort.")
        require_at_least(self, in_flight=1, samples=1)

    def run(self) -> int:
        """Play, record and sum up; return 1 when too many episodes were not judged."""
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.episodes import tally_text
        from toolorchestra.envs.recording_units import closing_model, run_units, total_usage
        from toolorchestra.envs.records.failures import pass_shares
        from toolorchestra.envs.records.recording import Recording, Tally

        make_env, make_policy = self._makers()
        with closing(playable(self.env, **self._env_options())) as env:
            starts = self._starts(env.source)
        policy = make_policy()  # wrong options are refused before a file is made
        name = self.policy.rpartition(":")[2]
        file = self.out or Path("rollouts") / f"{Path(self.env).name}.{name}.{self.split}.jsonl"
        spent: list[Usage] = []
        began = time.perf_counter()
        with (
            closing_model(policy),
            self._executor() as executor,
            Recording(file, self._origin(), resume=self.resume) as recording,
        ):
            tally = Tally(recording.episodes)
            waiting = [start for start in starts if start.seed not in recording.done]
            setup = self._makers if self._fans_out else lambda: (make_env, make_policy)
            played = run_units(
                executor, f"{self.env} {self.policy}", setup, waiting, in_flight=self.in_flight, spent=spent.append
            )
            try:
                self._record(played, recording, tally, total=len(starts), completed=len(starts) - len(waiting))
            except KeyboardInterrupt:
                count = tally.outcomes.total()
                print(f"Interrupted: {count} episodes are in {file}; --resume goes on.", file=sys.stderr)
                return 130
        summary = tally.summary() | {"seconds": time.perf_counter() - began}
        if self.samples > 1:
            shares = {k: pass_shares(tally.samples, k) for k in range(1, self.samples + 1)}
            summary["mean@k"] = {self.samples: pass_shares(tally.samples, 1)[0]}
            summary |= {f"pass{mark}k": {k: one[n] for k, one in shares.items()} for n, mark in enumerate("@^")}
        if self.policy == "llm":
            summary["model"] = total_usage(spent)
        if self.json:
            print_json({"file": str(file), **summary})
        else:
            show(tally_text(summary, file))
        if tally.reasons and (reasons := summary["unjudged"]):
            reasons = visible(f"error: {reasons}. Repair what failed; --resume plays them again.")
            print(reasons, file=sys.stderr)
            return 1
        return 0

    def _makers(self) -> Makers:
        """Return what makes an environment, and what makes a policy; workers call this, each for itself."""
        return partial(playable, self.env, **self._env_options()), self._policy()

    def _env_options(self) -> dict[str, Any]:
        return self._source(self.env) | option_values(self.env_options)

    def _record(self, played: Iterable[Episode], recording: Recording, tally: Tally, **counts: Any) -> None:
        """Record episodes as they are played."""
        from toolorchestra.cli.display.console import progress_bars

        began = time.perf_counter()
        with progress_bars() as progress:
            bar = progress.add_task(self.policy, note="", **counts)
            for number, one in enumerate(played, 1):
                recording.write(one)
                tally.add(one)
                rate = number / (time.perf_counter() - began)
                solved = f"{tally.share:.0%} solved" if tally.judged else "none judged"
                note = f"{solved} · {rate:,.1f} episodes/s · ${tally.cost:.2f}"
                progress.update(bar, advance=1, note=note)

    def _origin(self) -> dict[str, Any]:
        """Return the options on which the episodes depend; a file made with others is not continued."""
        left_out = {"episodes", "out", "resume", "json", "in_flight", "base_url", "api_key_env", "price"}
        left_out |= {"workers", "executor", "ray_address"}
        if self.samples == 1:
            left_out.add("samples")
        if self.effort is None:
            left_out.add("effort")
        if self.source is None:
            left_out |= {"source", "source_options"}
        origin = {key: value for key, value in asdict(self).items() if key not in left_out}
        return origin | {"every_task": self.episodes == "all"}

    def _starts(self, source: TaskSource) -> list[EpisodeStart]:
        from toolorchestra.envs.starts import EpisodeStart

        levels = self.difficulty or None
        if self.episodes != "all" and self.samples == 1:
            options = {"split": self.split, "difficulty": levels}
            return [EpisodeStart(self.seed + number, options) for number in range(self.episodes)]
        tasks = [task for task in source.tasks(self.split) if levels is None or task.difficulty in levels]
        if self.episodes != "all":
            if len(tasks) < self.episodes:
                raise UsageError(
                    f"--episodes {self.episodes} with --samples wants as many different tasks; there are {len(tasks)}. "
                    "Give fewer, or `all`."
                )
            tasks = random.Random(self.seed).sample(tasks, len(tasks))[: self.episodes]  # more later begin with these
        plays = [task for task in tasks for _ in range(self.samples)]
        return [EpisodeStart(self.seed + number, {"task_id": task.id}) for number, task in enumerate(plays)]

    def _policy(self) -> Callable[[], Policy]:
        """Return what makes the policy; a chat model is loaded once."""
        from toolorchestra.agents.policies.chat_policy import ChatPolicy
        from toolorchestra.agents.policies.registry import make_policy
        from toolorchestra.envs.registration import is_multiagent

        if self.policy == "llm":
            model = self._chat_model(str(self.model))
            return lambda: ChatPolicy(
                model, self.seed, self.temperature, self.max_tokens, seed_episodes=self.samples > 1
            )
        if is_multiagent(self.env):
            if self.policy == "random":
                from toolorchestra.envs.checks.several_agents import random_messages
                from toolorchestra.envs.multiagent.views import RandomMessages

                return lambda: RandomMessages(random_messages(self.env), self.seed)
            if self.policy != "null":
                raise OptionError(
                    f"The policy {self.policy!r} plays environments of one agent; {self.env} has several. "
                    "One policy can act for all of them: --policy llm, random or null."
                )
        options: dict[str, Any] = {"error": self.error} if self.policy == "noisy-oracle" else {}
        options |= {"seed": self.seed} | option_values(self.policy_options)
        return partial(make_policy, self.policy, **options)

    def _chat_model(self, model: str) -> ChatModel:
        """Return the chat model at the server, or the local one."""
        try:
            if self.base_url is None:
                from toolorchestra.agents.hub import check_model

                check_model(model)  # before torch is imported
                from toolorchestra.agents.chat.transformers_chat import TransformersChat

                return TransformersChat(model)
            from toolorchestra.agents.chat.base import Price
            from toolorchestra.agents.chat.openai_chat import OpenAIChat

            return OpenAIChat(
                self.base_url,
                model,
                api_key_env=self.api_key_env,
                price=Price(*self.price),
                max_concurrency=self.in_flight,
                extra={"reasoning_effort": self.effort} if self.effort else None,
                stream=True,  # so that a long answer does not reach the timeout of reading
                option_names=_FLAGS,
            )
        except ImportError as error:
            raise OptionError(f"{error}.") from None
        except OptionError as error:
            if self.base_url is not None:
                raise
            raise OptionError(
                f"{error} For a model at a server, give the server too: --base-url http://localhost:8000/v1."
            ) from None

"""Supervised fine-tuning on episodes, with loss on the policy's own tokens only.

The demonstrations are episodes of the oracle and of a noisy oracle, of a `teacher` that asks minds at random, or a
JSONL of recorded ones; they are encoded once by the policy's codec into ids and labels (−100 on everything the
environment wrote) and trained on by TRL's `SFTTrainer`, without template or re-tokenisation.

For the embedded model two augmentations turn a few hundred demonstrations into a lesson in *copying*:

- `thin`: fields of a tool's reply that nothing depends on are left out at first and return little by little, so
  the model first learns to copy the only value there is, then to choose among ever more (a curriculum).
- `shuffle_values`: names, ids and numbers are exchanged, consistently within an episode, for others of their
  kind, so a value that no demonstration mentions is copied as well as any other.

Both concern the warm start of the embedded model only; they are off for ``--model``.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import torch
import tyro

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.design_renderer import DesignRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_renderer, prepare_torch
from toolorchestra.agents.builtin.renderer import Message, Renderer
from toolorchestra.agents.builtin.tool_messages import read_result
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.exploration import ExplorerPolicy, QueryingOraclePolicy
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy
from toolorchestra.algos.learner_choice import require_one_agent
from toolorchestra.algos.length_batching import bundles
from toolorchestra.algos.report import RunLog, run_script, set_aside
from toolorchestra.algos.rollout.engine import Start, make_env, starts
from toolorchestra.envs.episode import read_episodes
from toolorchestra.envs.masorchestra.teacher import DesignTeacher
from toolorchestra.envs.parsing import parse
from toolorchestra.toolscale.errors import OptionError

Teacher = Literal["oracle", "asking", "explorer", "designer"]
_RESPONSES = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


@dataclass(frozen=True)
class Demonstration:
    """An episode to learn from.

    Attributes:
        messages: The conversation; the last message is the assistant's.
        tools: OpenAI function schemas that were on offer.
        difficulty: Of the task.
        solved: Whether it was solved.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    difficulty: int = 0
    solved: bool = True


def play_policy(env: gym.Env[Any, Any], policy: Policy, plays: Iterable[Start]) -> Iterator[Demonstration]:
    """Yield the episodes that a policy plays from these starts."""
    for start in plays:
        observation, info = env.reset(seed=start.seed, options=start.reset_options())
        tools, difficulty = tuple(info["tools"]), int(info.get("difficulty") or 0)
        total, over = 0.0, False
        policy.reset(env, observation, info)
        while not over:
            observation, reward, terminated, truncated, info = env.step(policy.act(observation, info))
            total, over = total + float(reward), terminated or truncated
        if terminated:
            solved = info["outcome"] == "solved" if "outcome" in info else total > 0
            yield Demonstration(_own(map(structured, info["messages"])), tools, difficulty, solved)


def designs(env: gym.Env[Any, Any], policy: Policy, plays: Iterable[Start]) -> Iterator[Demonstration]:
    """Yield what a policy writes first from these starts; it is not run, for it is not taught by its success."""
    for start in plays:
        observation, info = env.reset(seed=start.seed, options=start.reset_options())
        policy.reset(env, observation, info)
        said = {"role": "assistant", "content": policy.act(observation, info)}
        yield Demonstration((*info["messages"], said), tuple(info["tools"]), int(info.get("difficulty") or 0))


def recorded(file: Path, env: gym.Env[Any, Any]) -> Iterator[Demonstration]:
    """Yield the answered episodes of a JSONL file (`toolorchestra rollout`) as demonstrations.

    Args:
        file: Records of episodes.
        env: The environment in which they were played: it is reset to each task for the schemas of its tools.

    Raises:
        OptionError: It does not offer what an episode was played with.
    """
    for episode in read_episodes(file):
        if episode.answer is None:
            continue
        _, info = env.reset(seed=episode.seed, options={"task_id": episode.task_id})
        tools = {tool["function"]["name"]: tool for tool in info["tools"]}
        if missing := [name for name in episode.tools if name not in tools]:
            raise OptionError(
                f"{file}: {episode.task_id} was played with the tool {missing[0]!r}, which the environment does not "
                "offer. Give the environment and the options with which the episodes were recorded."
            )
        opening = str(info["messages"][-1]["content"])  # with what the protocol adds to the instruction
        added = opening.removeprefix(env.unwrapped.episode.instruction)  # type: ignore[attr-defined]  # ours has one
        messages: list[Message] = [
            {"role": "system", "content": episode.prompt},
            {"role": "user", "content": episode.instruction + added},
        ]
        for turn in episode.turns:
            shown = _RESPONSES.findall(turn.observation)
            messages += [structured(turn.message), *({"role": "tool", "content": text} for text in shown)]
            if beside := _RESPONSES.sub("", turn.observation).strip():
                messages.append({"role": "user", "content": beside})
        offered = tuple(tools[name] for name in episode.tools)
        yield Demonstration(_own(messages), offered, episode.difficulty, episode.outcome == "solved")


def _own(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return a conversation up to the assistant's last message: nobody answers what came of that."""
    found = list(messages)
    while found and found[-1]["role"] != "assistant":
        found.pop()
    return tuple(found)


def structured(message: Message) -> Message:
    """Return an assistant message whose calls are written in its text, and can be read, as one with ``tool_calls``."""
    if message["role"] != "assistant" or message.get("tool_calls"):
        return message
    parsed = parse(message.get("content") or "")
    if not parsed.calls or any(call.error for call in parsed.calls):
        return message
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": c.name, "arguments": c.arguments.decode()}}
        for n, c in enumerate(parsed.calls, 1)
    ]
    return {"role": "assistant", "content": parsed.text, "tool_calls": calls}


def encode(renderer: Renderer, demonstration: Demonstration) -> tuple[list[int], list[int]]:
    """Return a demonstration's ids and mask (1 on the policy's own), as the rollout engine would lay them out."""
    messages = list(demonstration.messages)
    first = next(n for n, message in enumerate(messages) if message["role"] == "assistant")
    ids = renderer.encode_prompt(messages[:first], demonstration.tools)
    mask = [0] * len(ids)
    at = first
    while at < len(messages):
        written = renderer.encode_action(messages[at], messages[:at])
        ids, mask = ids + written, mask + [1] * len(written)
        answers = []
        at += 1
        while at < len(messages) and messages[at]["role"] != "assistant":
            answers.append(messages[at])
            at += 1
        if answers:
            shown = renderer.encode_results(answers, written)
            ids, mask = ids + shown, mask + [0] * len(shown)
    return ids, mask


# ------------------------------------------------------------------------------- augmentations (embedded model)


def thin(demonstration: Demonstration, share: float, rng: random.Random) -> Demonstration:
    """Leave out fields of tool results that no later message of the policy mentions.

    Args:
        demonstration: An episode.
        share: Chance that such a field stays.
        rng: Source of chance.
    """
    said = "".join(json.dumps(m, ensure_ascii=False) for m in demonstration.messages if m["role"] == "assistant")

    def needed(value: Any) -> bool:
        if isinstance(value, dict):
            return any(needed(item) for item in value.values())
        if isinstance(value, list):
            return any(needed(item) for item in value)
        return value is not None and str(value) in said

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: cut(v) for k, v in value.items() if needed(v) or rng.random() < share}
        if isinstance(value, list):
            return [cut(item) for item in value if needed(item) or rng.random() < share]
        return value

    messages: list[Message] = []
    for message in demonstration.messages:
        if message["role"] == "tool" and "result" in (record := read_result(message)):
            record = {**record, "result": cut(record["result"])}
            message = {**message, "content": json.dumps(record, ensure_ascii=False)}
        messages.append(message)
    return Demonstration(tuple(messages), demonstration.tools, demonstration.difficulty, demonstration.solved)


class ValueShuffler:
    """Exchanges values for others of their kind, consistently within a row of ids.

    Exchanged are ids that the policy *copies* (they stand in the environment's part before the policy first
    writes them) and ids that only tool results show. What the policy writes of its own accord (a date that it
    works out, say), and words of the instruction that it never repeats, stay.
    """

    def __init__(self, renderer: CompactRenderer) -> None:
        self._kind = {renderer.index[token]: kind for token, kind in renderer.kinds.items()}
        self._members: dict[str, list[int]] = {}
        for i, kind in self._kind.items():
            self._members.setdefault(kind, []).append(i)

    def __call__(self, ids: Sequence[int], mask: Sequence[int], rng: random.Random) -> list[int]:
        """Return the ids with values exchanged."""
        start = next((n for n, m in enumerate(mask) if m), len(ids))
        written = {i for i, m in zip(ids, mask, strict=True) if m}
        first: dict[int, int] = {}
        for n, i in enumerate(ids):
            first.setdefault(i, n)
        exchange, taken = {}, set(ids)
        for i, n in first.items():
            kind = self._kind.get(i)
            if kind is None or mask[n] or (n < start and i not in written):
                continue
            other = rng.choice(self._members[kind])
            for _ in range(8):
                if other not in taken:
                    break
                other = rng.choice(self._members[kind])
            if other not in taken:
                exchange[i] = other
                taken.add(other)
        return [exchange.get(i, i) for i in ids]


def lesson(
    renderer: Renderer,
    demonstrations: Sequence[Demonstration],
    *,
    rows: int,
    rng: random.Random,
    curriculum: bool,
    full_from: float = 0.6,
    pick: Callable[[float], Sequence[Demonstration]] | None = None,
) -> list[tuple[list[int], list[int]]]:
    """Return rows of (ids, labels) in the order in which they are to be learnt.

    Args:
        renderer: The policy's codec.
        demonstrations: Episodes to draw from.
        rows: How many.
        rng: Source of chance.
        curriculum: Thin replies and shuffle values (the codec must be a `CompactRenderer`).
        full_from: Share of the lesson after which replies are complete.
        pick: Demonstrations to draw from at a point (0 to 1) of the lesson; all if None.
    """
    shuffler = ValueShuffler(renderer) if curriculum and isinstance(renderer, CompactRenderer) else None
    plain = {id(d): encode(renderer, d) for d in demonstrations}
    made = []
    for n in range(rows):
        at = n / rows
        demonstration = rng.choice(pick(at) if pick else demonstrations)
        if shuffler is None:
            ids, mask = plain[id(demonstration)]
        else:
            share = at / full_from
            whole = share >= 1 or rng.random() < 0.1
            ids, mask = plain[id(demonstration)] if whole else encode(renderer, thin(demonstration, share, rng))
            ids = shuffler(ids, mask, rng)
        made.append((ids, [i if m else -100 for i, m in zip(ids, mask, strict=True)]))
    return made


def unspeakable(renderer: Renderer, demonstrations: Iterable[Demonstration]) -> list[Message]:
    """Return the assistant messages whose calls do not survive the codec (written and read back, they differ)."""
    lost = []
    for demonstration in demonstrations:
        for message in demonstration.messages:
            if message["role"] == "assistant" and message.get("tool_calls"):
                meant = [
                    {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
                    for call in message["tool_calls"]
                ]
                decoded = renderer.decode_action(renderer.encode_action(message), demonstration.tools)
                if not isinstance(decoded.action, str) and decoded.action != meant:
                    lost.append(message)
    return lost


# ------------------------------------------------------------------------------------------------------ training

Report = Callable[[int, dict[str, float]], None]
"""Called with a step and its metrics."""


def fit(
    policy: TokenPolicy,
    rows: Sequence[tuple[list[int], list[int]]],
    *,
    output: Path,
    batch: int,
    learning_rate: float,
    seed: int = 0,
    report: Report = lambda step, metrics: None,
    save_every: int = 0,
    resume: str | None = None,
) -> None:
    """Train a policy's model in place on rows of (ids, labels), in their order, once.

    Args:
        policy: What is trained.
        rows: The lesson; every `batch` rows are a step.
        output: Folder for checkpoints.
        batch: Rows a step.
        learning_rate: Peak of a cosine schedule.
        seed: Seed of the trainer.
        report: Called with the step and its metrics.
        save_every: Steps between checkpoints; 0 for none.
        resume: A checkpoint to go on from.
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    from toolorchestra.algos.trl_callbacks import Reporter

    class LabelledOnly(SFTTrainer):
        """Scores only positions that carry a label (TRL's fused head does so on Triton devices alone), in bundles."""

        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> torch.Tensor:
            if inputs["input_ids"].is_cuda:
                loss: torch.Tensor = super().compute_loss(model, inputs, *_, **__)  # type: ignore[no-untyped-call]  # TRL's
                return loss
            ids, attention, labels = inputs["input_ids"], inputs["attention_mask"], inputs["labels"]
            lengths = attention.sum(1)
            states, targets = [], []
            for several in bundles(lengths.tolist()):  # padding costs as much as text does
                width = int(lengths[several].max())
                body = model.base_model(
                    ids[several, :width], attention_mask=attention[several, :width], use_cache=False
                )
                wanted = labels[several, 1:width]
                states.append(body.last_hidden_state[:, :-1][wanted != -100])  # (labelled, H)
                targets.append(wanted[wanted != -100])
            logits = model.get_output_embeddings()(torch.cat(states))  # (labelled, V)
            return torch.nn.functional.cross_entropy(logits.float(), torch.cat(targets))

    dataset = Dataset.from_dict({"input_ids": [ids for ids, _ in rows], "labels": [labels for _, labels in rows]})
    steps = len(rows) // batch
    arguments = SFTConfig(
        output_dir=str(output),
        per_device_train_batch_size=batch,
        max_steps=steps,
        learning_rate=learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=min(30, steps // 10),
        adam_beta2=0.95,
        weight_decay=0.01,
        max_grad_norm=1.0,
        train_sampling_strategy="sequential",
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
        gradient_checkpointing=False,
        bf16=False,
        logging_steps=10,
        report_to=[],
        disable_tqdm=True,
        save_strategy="steps" if save_every else "no",
        save_steps=save_every or 500,
        seed=seed,
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = LabelledOnly(
        model=policy.model,
        args=arguments,
        train_dataset=dataset,
        processing_class=policy.tokenizer,
        callbacks=[Reporter(report)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    policy.model.__dict__.pop("forward", None)  # the trainer's fused head; another trainer would wrap it once more


@dataclass
class TrainSFT:
    """Teach a policy by masked supervised fine-tuning on episodes."""

    env: str = "ToolOrchestra-Restaurant-v0"
    """Gymnasium id of the environment."""
    env_options: dict[str, str] = field(default_factory=dict)
    """Further arguments of `gymnasium.make`, e.g. ``tools full``, or ``domain path/to/folder`` for
    ``ToolOrchestra-Custom-v0``; values that are JSON are read as such."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes the embedded model."""
    output: Path = Path("runs/sft")
    """Folder for the model, checkpoints and metrics."""
    episodes: tuple[Path, ...] = ()
    """JSONL files of episodes to learn from (solved ones only); none: the oracles play."""
    difficulty: tuple[int, ...] = (1, 2)
    """Levels of the tasks that the oracles play; empty for all."""
    teacher: Teacher | None = None
    """Who plays: ``oracle`` (and a noisy one), ``asking`` (the same, but it asks experts now and then), ``explorer``
    (asks minds at random; solved episodes count) or ``designer`` (writes designs of several kinds, and a noisy one that
    slips). None: what suits the tools on offer."""
    error: float = 0.4
    """Probability that the noisy oracle errs in a turn."""
    ask: float = 0.4
    """Probability that an ``asking`` teacher asks in a turn."""
    noisy_share: float = 0.5
    """Share of noisy episodes in the last part of the lesson."""
    noisy_from: float = 0.75
    """Where in the lesson (0 to 1) noisy episodes begin: a model that cannot spell yet learns only from good ones."""
    replays: int = 4
    """Noisy episodes played per task."""
    steps: int = 1000
    """Optimiser steps; 0 leaves the model as it is made or loaded."""
    batch: int = 32
    """Episodes a step."""
    learning_rate: float | None = None
    """Peak learning rate (cosine); None: 2e-3 for the embedded model, 1e-5 for `model`."""
    seed: int = 0
    """Seed of weights, demonstrations and their order."""
    threads: int | None = None
    """Threads of torch; None: the cores at hand, at most 4."""
    save_every: int = 500
    """Steps between checkpoints; 0 for none."""
    resume: bool = False
    """Continue from the last checkpoint in `output`, exactly as if it had not stopped."""

    def __post_init__(self) -> None:
        require_one_agent(self.env)
        for name in ("error", "ask", "noisy_share", "noisy_from"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise OptionError(f"`{name}` must lie in [0, 1], got {getattr(self, name)!r}.")
        for name, least in (("steps", 0), ("batch", 1), ("replays", 1)):
            if getattr(self, name) < least:
                raise OptionError(f"`{name}` must be at least {least}, got {getattr(self, name)!r}.")
        if self.resume and not self.save_every:
            raise OptionError("`resume` needs checkpoints: leave `save_every` above 0.")

    @property
    def rate(self) -> float:
        """The learning rate, its default resolved."""
        return self.learning_rate or (1e-5 if self.model else 2e-3)


def teach(config: TrainSFT, report: Report = lambda step, metrics: None) -> TokenPolicy:
    """Make or load a policy, teach it as `config` says, and return it."""
    prepare_torch(config.threads)
    rng = random.Random(config.seed)
    env = make_env(config.env, config.env_options)
    good, noisy = demonstrate(env, config)
    if config.model is None:
        source = getattr(env.unwrapped, "source", None)
        worlds = {} if source is None else {id(w): w for w in map(source.world, source.tasks("train"))}
        tools = {tool["function"]["name"]: tool for d in good for tool in d.tools}
        renderer = (
            DesignRenderer.build(tools.values())
            if DesignRenderer.speaks(tools.values())
            else build_renderer(tools.values(), [d.messages for d in (*good, *noisy)], worlds.values())
        )
        policy = TokenPolicy.built_in(renderer, seed=config.seed)
    else:
        policy = TokenPolicy.load(config.model)
    env.close()
    if not config.steps:
        return policy

    def pick(at: float) -> Sequence[Demonstration]:
        return noisy if noisy and at >= config.noisy_from and rng.random() < config.noisy_share else good

    rows = lesson(
        policy.renderer,
        [*good, *noisy],
        rows=config.steps * config.batch,
        rng=rng,
        curriculum=config.model is None,
        pick=pick,
    )
    fit(
        policy,
        rows,
        output=config.output / "checkpoints",
        batch=config.batch,
        learning_rate=config.rate,
        seed=config.seed,
        report=report,
        save_every=config.save_every,
        resume=last_checkpoint(config.output / "checkpoints") if config.resume else None,
    )
    return policy


def demonstrate(env: gym.Env[Any, Any], config: TrainSFT) -> tuple[list[Demonstration], list[Demonstration]]:
    """Return solved episodes (the oracle's or recorded ones) and the noisy oracle's."""
    if config.episodes:
        found = [d for file in config.episodes for d in recorded(file, env) if d.solved]
        if not found:
            raise OptionError(f"No solved, answered episode in {', '.join(map(str, config.episodes))}.")
        return found, []
    if not hasattr(type(env.unwrapped), "task"):
        raise OptionError(
            f"{config.env} has no reference trajectories for the oracles to play. "
            "Record episodes with `toolorchestra rollout` "
            "and give them by --episodes, or train a --model without warm start."
        )
    plays = [start for level in starts(env, "train", config.difficulty).values() for start in level]
    teacher = config.teacher or suitable_teacher(env.reset(options={"task_id": dict(plays[0].options)["task_id"]})[1])
    several = [replace(start, seed=number) for number in range(config.replays) for start in plays]
    if teacher == "explorer":
        return [d for d in play_policy(env, ExplorerPolicy(config.seed), plays) if d.solved], []
    if teacher == "asking":
        good = [d for d in play_policy(env, QueryingOraclePolicy(config.seed, 0.0, config.ask), several) if d.solved]
        return good, list(play_policy(env, QueryingOraclePolicy(config.seed, config.error, config.ask), several))
    if teacher == "designer":
        clean, slipping = DesignTeacher(config.seed), DesignTeacher(config.seed, config.error)
        return list(designs(env, clean, several)), list(designs(env, slipping, several))
    good = [d for d in play_policy(env, OraclePolicy(), plays) if d.solved]
    return good, list(play_policy(env, NoisyOraclePolicy(config.seed, config.error), plays * config.replays))


def suitable_teacher(info: Mapping[str, Any]) -> Teacher:
    """Return who can teach where the tools in `info` are on offer."""
    names = {tool["function"]["name"] for tool in info["tools"]}
    if "final_answer" in names:
        return "explorer"
    if DesignRenderer.speaks(info["tools"]):
        return "designer"
    return "asking" if any(name.startswith(("ask_", "math_", "code_", "query_")) for name in names) else "oracle"


def last_checkpoint(folder: Path) -> str:
    """Return the newest checkpoint of a folder.

    Raises:
        OptionError: There is none.
    """
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    if not found:
        raise OptionError(f"No checkpoint in {folder} to resume from. Run without --resume first.")
    return str(found[-1])


def main(config: TrainSFT | None = None) -> None:
    """Run the command: teach, save the policy into ``final``, draw the curves."""
    config = config or tyro.cli(TrainSFT)
    checkpoint = last_checkpoint(config.output / "checkpoints") if config.resume else None
    done = int(checkpoint.rsplit("-", 1)[1]) if checkpoint else 0
    earlier = None if config.resume else set_aside(config.output)
    with RunLog(config.output, resume=("sft", done) if checkpoint else None) as log:
        if earlier:
            log.console.print(f"The earlier run is now in {earlier}.", highlight=False)
        with log.progress("sft", config.steps, done):
            policy = teach(config, lambda step, metrics: log.log("sft", step, **metrics))
        policy.save(config.output / "final")
        log.curves(title=f"SFT on {config.env}")
        log.console.print(f"Policy: {config.output / 'final'}", highlight=False)


if __name__ == "__main__":
    run_script(main)

"""Options of the learners of several agents: nested GRPO, alternating DPO, and GRPO for each agent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolorchestra.algos.options.options import ClippedOptions, Rare, TrainOptions, learners_of
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.starts import json_or_text
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from toolorchestra.envs.multiagent.base import MultiAgentEnv

SHARED = "shared"
"""Name of the one policy of a team that shares its weights."""
SYSTEM, BOTH = "system", "both"
"""Stages of all agents: in turns, a batch each, from the last agent to the first; or all on each batch."""
NestedRule = Literal["subgroup_mean", "pooled", "paper"]
NOISE = 8
"""Lines of noise in the output of a simulated Python, unless `env_options` says otherwise."""
NESTED_RULES: tuple[NestedRule, ...] = ("subgroup_mean", "pooled", "paper")


@dataclass
class TrainTeam(TrainOptions):
    """Options of all learners of several agents. Subclasses say where the models come from, and how long to train."""

    several_agents = True
    many_processes = True

    share: bool = False
    """One set of weights for all agents."""
    difficulty: tuple[int, ...] | None = (1,)
    kinds: Rare[tuple[str, ...]] = ()
    """Kinds of these tasks (the `intent` of a task); empty for all."""
    groups: int = 8
    """Tasks per batch."""
    evaluate_only: Rare[bool] = False
    """Evaluate the policies that training would start from (an untrained team), and train nothing."""
    servers: Rare[dict[str, str]] = field(default_factory=dict)
    """For ``vllm-server``: addresses of the servers of single policies, by name; the others are served by `server`. One
    server holds the adapters of many policies (`lora_rank`), but whole weights of one only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evaluate_only and (self.resume or not self.samples):
            raise OptionError("`evaluate_only` needs `eval_samples` above 0, and has nothing to resume.")
        if self.servers and self.sampler != "vllm-server":
            raise OptionError(
                f"`servers` are for `sampler` vllm-server, and it is {self.sampler}: give it, or no `servers`."
            )

    @abstractmethod
    def model_of(self, name: str) -> str:
        """Return the folder or hub name of a policy's model; not called for built-in models."""

    def policy_of(self, agent: str) -> str:
        """Return the name of the policy of an agent."""
        return SHARED if self.share else agent

    def policies(self, env: MultiAgentEnv) -> tuple[str, ...]:
        """Return the names of the policies that play an environment, in the order of its agents."""
        return tuple(dict.fromkeys(map(self.policy_of, env.possible_agents)))

    def error_rate(self, play: Any) -> float:
        """Return the probability of an injected error in the teacher's next message, at the end of the warm start."""
        return self.sft_error

    @property
    def erring_stages(self) -> int:
        """How many of the last stages of the warm start have injected errors: see `staged_rows`."""
        return 1

    def given_options(self) -> dict[str, Any]:
        """Return the options of the environment, with values that are JSON read as such."""
        return {name: json_or_text(value) for name, value in self.environment_options.items()}

    def make_env(self, hardness: float = 1.0) -> MultiAgentEnv:
        """Return the environment; for built-in models, with the options with which its teacher plays it.

        The first demonstrations of a warm start are of an easier one: `hardness` is from 0 to 1.
        """
        from toolorchestra.envs.teachers import demonstration_options

        given = self.given_options()
        return make_multiagent(self.env, **(demonstration_options(self.env, given, hardness) if self.small else given))


@dataclass
class TrainClipped(TrainTeam, ClippedOptions):
    """Options of learners of several agents that update their policies by the clipped objective."""


@dataclass
class TrainMSARL(TrainClipped):
    """Train a reasoner and a helper with nested GRPO; without models, make, warm-start and train built-in ones."""

    model_options = ("reasoner",)

    env: str = "MSARL-Math-v0"
    """Id of an environment of MSARL, or ``module:function``, which returns one of your own."""
    output: Path = Path("runs/msarl")
    reasoner: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes built-in models."""
    helper: str | None = None
    """The same for the helper; None: `reasoner`'s model, with weights of its own."""
    paths: int = 3
    """Reasoning paths per question (G)."""
    interpretations: int = 3
    """Interpretations per path (M)."""
    reasoner_advantage: NestedRule = "subgroup_mean"
    """Rule for the reasoner's advantage; see `toolorchestra.algos.loss.advantages.nested_advantages`."""
    train_finish: Rare[bool] = True
    """Train what the reasoner writes after an interpretation too, with the advantage of its branch."""
    max_calls: int = 1
    """Code blocks that are run (C)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.env.startswith("MSARL-") and not self.own:
            raise OptionError(
                f"{self.env!r} is not played by a reasoner and a helper, which this learner trains. "
                f"Train its agents together: {learners_of(self.env)}."
            )
        self.require_groups("paths", "interpretations")
        if self.reasoner_advantage not in NESTED_RULES:
            raise UnknownNameError("rule for the reasoner's advantage", self.reasoner_advantage, NESTED_RULES)
        if self.helper and (self.share or not self.reasoner):
            raise OptionError(
                "`helper` needs a `reasoner`, and has weights of its own: it cannot be given with `share`."
            )

    @property
    def own(self) -> bool:
        """Whether the environment is one of the user's own."""
        return ":" in self.env

    def model_of(self, name: str) -> str:
        """Return the folder or hub name of a policy's model."""
        from toolorchestra.envs.msarl.play import HELPER

        assert self.reasoner is not None
        return self.helper or self.reasoner if name == HELPER else self.reasoner

    def policy_of(self, agent: str) -> str:
        """Return the name of the policy of an agent; all helpers have the same."""
        from toolorchestra.envs.msarl.play import HELPER, REASONER

        return super().policy_of(REASONER if agent == REASONER else HELPER)

    def make_env(self, hardness: float = 1.0) -> MultiAgentEnv:
        """Return the environment, with turns for `max_calls`; the harder, the noisier a simulated Python is.

        One of your own is made with `env_options` alone.
        """
        options: dict[str, Any] = {}
        if not self.own:
            options |= {"max_calls": self.max_calls, "max_cycles": 2 * self.max_calls + 1}
            if not self.small:
                options["python"] = "auto"  # language models write whole programs
        options |= self.given_options()
        if not self.own and options.get("python", "simulated") == "simulated" and not options.get("stale"):
            options.setdefault("noise", NOISE)
        options |= {name: round(hardness * options[name]) for name in ("noise", "stale") if options.get(name)}
        env = make_multiagent(self.env, **options)
        wanted: type[MultiAgentEnv] = import_module("toolorchestra.envs.msarl.env").MSARLEnv
        if not isinstance(env, wanted):
            raise OptionError(
                f"{self.env!r} returned a {type(env).__name__}, which a reasoner and a helper do not play: return an "
                f"MSARLEnv, or train its agents together: {learners_of(self.env)}."
            )
        if len(env.possible_agents) == 1:
            raise OptionError(
                "A reasoner alone has no interpretations to branch at: leave `helpers` at 'one' or 'per_tool', "
                "or train it by algos/multi_grpo.py."
            )
        return env


@dataclass
class TrainTMATR(TrainTeam):
    """Train the agents of a team in turns by online DPO; without models, make, warm-start and train built-in ones."""

    model_options = ("models",)
    builtin_rate = 1e-4  # at 3e-4 the preference loss runs away in the second stage

    env: str = "TMATR-Math-v0"
    output: Path = Path("runs/tmatr")
    sft_error: Rare[float] = 0.2
    """Probability of an injected error in a message of the teacher, at the end of the warm start."""
    sft_errors: Rare[dict[str, float]] = field(default_factory=dict)
    """The same for messages of single actions, such as ``EXECUTE 0.7 DECIDE 0.5``, in the last three fifths of the warm
    start: how skilled the team begins."""
    models: dict[str, str] = field(default_factory=dict)
    """Folder or hub name of a causal language model with a chat template for each agent (``shared`` with `share`);
    none makes built-in models."""
    schedule: tuple[str, ...] = ("inferencer", "planner", "system")
    """Who learns in each stage: the name of an agent; ``system``, all in turns, a batch each; ``both``, all at once."""
    rounds: int = 1
    """Times that the schedule is repeated."""
    stage_steps: int = 8
    """Batches of rollouts of a stage."""
    groups: int = 16
    group_size: int = 6
    """Rollouts per task (n)."""
    threshold: float = 0.5
    """Reward that the better episode of a pair must exceed (η)."""
    beta: float = 0.1
    """Weight of the divergence from the reference (β)."""
    sft_weight: float = 1.0
    """Weight of the likelihood of the better episode (w)."""
    minibatch: int = 16
    """Pairs of an optimiser step."""
    epochs: int = 2
    """Passes over the pairs of a batch."""
    min_pairs: Rare[int] = 4
    """Pairs that a batch must have to be learnt from."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_groups("group_size")
        if not self.schedule:
            raise OptionError("`schedule` has no stage: name an agent for each, or `system`, or `both`.")
        if self.beta <= 0 or self.sft_weight < 0:
            raise OptionError("`beta` must be above 0, and `sft_weight` at least 0.")
        self._check_errors()

    def _check_errors(self) -> None:
        """Raise an error if `sft_errors` names what is no action, or gives it no probability."""
        if not self.sft_errors:
            return
        from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS

        if unknown := [name for name in self.sft_errors if name not in AGENT_ACTIONS]:
            raise UnknownNameError("action of `sft_errors`", unknown[0], map(str, AGENT_ACTIONS))
        if wrong := [rate for rate in self.sft_errors.values() if not 0 <= rate <= 1]:
            raise OptionError(f"`sft_errors` must lie in [0, 1], got {wrong[0]}.")

    def error_rate(self, play: Any) -> float:
        """Return the probability of an injected error in the teacher's next message; see `sft_errors`."""
        return self.sft_errors.get(getattr(play, "action", ""), self.sft_error) if self.sft_errors else self.sft_error

    @property
    def erring_stages(self) -> int:
        """How many of the last stages of the warm start have errors: more where they decide how skilled a team is."""
        return 3 if self.sft_errors else super().erring_stages

    @property
    def stages(self) -> tuple[str, ...]:
        """Who learns, stage by stage."""
        return self.schedule * self.rounds

    @property
    def total(self) -> int:
        """Batches of rollouts of the whole training."""
        return len(self.stages) * self.stage_steps

    def model_of(self, name: str) -> str:
        """Return the folder or hub name of a policy's model."""
        if name not in self.models:
            raise OptionError(f"`models` has none for {name!r}, only for {', '.join(self.models)}. Give one for each.")
        return self.models[name]

    def given_options(self) -> dict[str, Any]:
        """Return the options of the environment; of TMATR three turns, and a sandbox for language models.

        What `env_options` say goes first.
        """
        options: dict[str, Any] = {"max_turns": 3} if self.env.startswith("TMATR-") else {}
        if options and not self.small:
            options["python"] = "auto"
        return options | super().given_options()

    def learners(self, step: int, agents: Sequence[str]) -> tuple[str, ...]:
        """Return which of all agents, in the environment's order, learn from a batch of rollouts, counted from 1."""
        stage, within = divmod(step - 1, self.stage_steps)
        name = self.stages[stage]
        if name == BOTH:
            return tuple(agents)
        return (agents[-1 - within % len(agents)] if name == SYSTEM else name,)


@dataclass
class TrainMultiGRPO(TrainClipped):
    """Train all agents of an environment by independent GRPO; without models, make and warm-start built-in ones."""

    model_options = ("model", "models")

    env: str = "MSARL-Math-v0"
    """Id of the environment (`toolorchestra.envs.make_multiagent`), or ``module:function`` for your own."""
    output: Path = Path("runs/multi_grpo")
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template, of which every policy gets a copy; None makes
    built-in models, where the environment has a teacher."""
    models: dict[str, str] = field(default_factory=dict)
    """Models of single policies, by name, which need not be `model`."""
    sharing: dict[str, str] = field(default_factory=dict)
    """For agents that share a policy, its name; any other agent has a policy of its own name."""
    group_size: int = 8
    """Rollouts per task (G)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_groups("group_size")
        if self.share and self.sharing:
            raise OptionError("`share` gives all agents one policy: give it, or `sharing` for some of them.")

    def model_of(self, name: str) -> str:
        """Return the folder or hub name of a policy's model."""
        found = self.models.get(name, self.model)
        if found is None:
            raise OptionError(f"There is no model for the policy {name!r}: give one in `models`, or a `model` for all.")
        return found

    def policy_of(self, agent: str) -> str:
        """Return the name of the policy of an agent."""
        return self.sharing.get(agent, super().policy_of(agent))

    def make_env(self, hardness: float = 1.0) -> MultiAgentEnv:
        """Return the environment; see `TrainTeam`.

        Raises:
            UnknownNameError: `sharing` names an agent, or `models` a policy, that the environment does not have.
        """
        env = super().make_env(hardness)
        for what, names, known in (
            ("agent", self.sharing, env.possible_agents),
            ("policy", self.models, self.policies(env)),
        ):
            if unknown := [name for name in names if name not in known]:
                raise UnknownNameError(what, unknown[0], known)
        return env

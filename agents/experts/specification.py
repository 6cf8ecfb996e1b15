"""Experts: models that cost money, take time and err. Their specifications, and experts that are simulated.

A `SimulatedExpert` has no model behind it. It is given the truth about what it is asked (a `Problem`: the steps of
reasoning that lead to the answer) and errs about it as its specification says:

- each step goes wrong with a chance that grows with the gap between the step's difficulty and the expert's skill in
  its subject, and with the number of steps asked for at once, so that decomposing helps;
- a step is wrong if one that it needs is wrong; errors travel to the answer;
- what does not fit into its context it has not read, and an adversarial note deceives it with a set chance, unless it
  was warned of notes and heeds that, which is a step of reasoning like any other;
- luck is shared: some steps are hard for everybody, some are one model's blind spot, the rest differs from sample to
  sample. Voting over samples of one model therefore helps only so far, and different models help more. Whether a note
  deceives is such luck too.

Not covered: what an expert is asked in words (whoever offers it as a tool finds the `Problem` meant), real models,
which are `toolorchestra.agents.chat.base.ChatModel`s, and which experts there are
(`toolorchestra.agents.experts.catalog`).
"""

from __future__ import annotations

import hashlib
import math
from statistics import NormalDist
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolorchestra.agents.chat.base import Price
from toolorchestra.toolscale.errors import OptionError

Role = Literal["query", "code", "math", "generalist"]
"""What an expert is offered as (ToolOrchestra App. D): it writes search queries, writes code that reasons, solves
mathematics, or answers anything."""
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]

TYPICAL_STEPS = 4
"""Steps of a call that takes the mean latency."""
_NORMAL = NormalDist()
_SMALLEST = 1e-9


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a call takes: log-normal about a mean that depends on the role.

    Attributes:
        mean: Seconds of a call of typical length.
        by_role: Means that differ in a role.
        spread: Standard deviation of the logarithm.
    """

    mean: Positive
    by_role: dict[Role, Positive] = {}
    spread: Annotated[float, Meta(ge=0, le=2)] = 0.3

    def of(self, role: Role | None) -> float:
        """Return the mean in a role."""
        return self.by_role.get(role, self.mean) if role else self.mean


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much an expert writes.

    Attributes:
        overhead: Tokens of an answer beside its steps.
        per_step: Mean tokens of a step.
        spread: Standard deviation of the logarithm.
    """

    overhead: Annotated[float, Meta(ge=1)] = 40.0
    per_step: Annotated[float, Meta(ge=0)] = 80.0
    spread: Annotated[float, Meta(ge=0, le=2)] = 0.25

    def mean(self, steps: int) -> float:
        """Return the mean length of an answer of so many steps."""
        return self.overhead + self.per_step * steps


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a real model answers, and how it may be asked.

    Attributes:
        base_url: Root of an OpenAI-compatible server, mostly ending in ``/v1``.
        api_key_env: Environment variable that holds the key; None for a server that wants none.
        requests_per_minute: Most requests in any minute.
        tokens_per_minute: Most tokens read and written in any minute.
        budget: US dollars after which no further request is sent.
        timeout: Seconds to wait for the server to say something.
        max_retries: Attempts after the first.
        max_concurrency: Most requests under way.
        max_tokens_field: What the server calls the limit of an answer's length.
        extra: Further fields of each request's body; null leaves a field out.
    """

    base_url: str
    api_key_env: str | None = None
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Meta(ge=1)] | None = None
    budget: Annotated[float, Meta(ge=0)] | None = None
    timeout: Positive = 60.0
    max_retries: Annotated[int, Meta(ge=0)] = 4
    max_concurrency: Annotated[int, Meta(ge=1)] = 16
    max_tokens_field: str = "max_tokens"
    extra: dict[str, Any] = {}


class ExpertSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An expert as a catalogue lists it.

    Attributes:
        model: The model's public name, by which a server knows it.
        provider: Who runs it.
        roles: What it is offered as.
        price: US dollars per million tokens.
        latency: How long it takes.
        context: Tokens that it can read and write in one call.
        skills: By subject, the share of steps of difficulty 0 that it gets right when asked for one at a time;
            ``other`` stands for every subject that is not listed.
        tokens: How much it writes.
        load: How much harder, in logits, every step becomes when twice as many are asked for at once.
        deceived: Chance that it believes an adversarial note about a step.
        own_noise: Share of a step's luck that is this model's own and the same in all its samples: blind spots.
        description: What an orchestrator is told of it.
        endpoint: Where the real model answers, if it is to be asked.
        sources: Where each figure is from, by the name of its field (``price``, ``latency.by_role``, ``skills.math``).
    """

    model: str = ""
    provider: str
    roles: tuple[Role, ...]
    price: Price
    latency: Latency
    context: Annotated[int, Meta(ge=1)]
    skills: dict[str, Annotated[float, Meta(gt=0, lt=1)]]
    tokens: Tokens = Tokens()
    load: Annotated[float, Meta(ge=0)] = 0.35
    deceived: Share = 0.3
    own_noise: Share = 0.35
    description: str = ""
    endpoint: Endpoint | None = None
    sources: dict[str, str] = {}

    def __post_init__(self) -> None:
        if "other" not in self.skills:
            raise ValueError("Expected a skill for `other` subjects beside those listed.")

    def skill(self, subject: str) -> float:
        """Return its skill in a subject."""
        return self.skills.get(subject, self.skills["other"])

    def chance(self, subject: str, difficulty: float, steps: int, reading: int = 0) -> float:
        """Return the probability that one of so many steps goes right.

        Args:
            subject: Its subject.
            difficulty: In logits.
            steps: Number of steps asked for at once.
            reading: Tokens that must be read.
        """
        harder = difficulty + self.load * math.log2(max(1, steps))
        right = 1 / (1 + math.exp(harder - logit(self.skill(subject))))
        return right * min(1.0, self.context / max(1, reading))


def logit(share: float) -> float:
    """Return the logarithm of the odds."""
    return math.log(share / (1 - share))


class Step(msgspec.Struct, frozen=True):
    """One step of reasoning.

    Attributes:
        answer: What it leads to.
        wrong: What it is taken for by mistake, the likeliest first.
        needs: Positions of earlier steps whose results it uses.
        difficulty: In logits; 0 is a step that an expert of skill s gets right with probability s.
        subject: Subject of the skill that it takes; that of the problem if None.
        note: What an adversarial note claims the answer to be, if there is one.
        trust: Chance that the note is believed; that of the expert if None.
        warned: Whether whoever takes the step was told that notes may be wrong.
        read: Whether its answer is merely read, so that nothing is written about it.
    """

    answer: str
    wrong: tuple[str, ...] = ()
    needs: tuple[int, ...] = ()
    difficulty: float = 0.0
    subject: str | None = None
    note: str | None = None
    trust: float | None = None
    warned: bool = False
    read: bool = False


class Problem(msgspec.Struct, frozen=True):
    """What an expert is really asked: the truth, which it errs about.

    Attributes:
        key: What it is known by: luck belongs to a key's steps, whoever tries them.
        subject: Subject of its steps.
        steps: The steps, each after those that it needs.
        targets: Positions of the steps whose answers are asked for; the last by default.
        reading: Tokens that must be read.
    """

    key: str
    subject: str
    steps: tuple[Step, ...]
    targets: tuple[int, ...] = (-1,)
    reading: int = 0

    @classmethod
    def chain(
        cls, key: str, subject: str, length: int, answer: str, wrong: tuple[str, ...] = (), difficulty: float = 0.0
    ) -> Problem:
        """Return a problem of so many steps, one after the other, of which only the last one's answer matters."""
        before = [Step("right", ("wrong",), (i - 1,) if i else (), difficulty) for i in range(length - 1)]
        last = Step(answer, wrong, (length - 2,) if length > 1 else (), difficulty)
        return cls(key, subject, (*before, last))


class Solution(msgspec.Struct, frozen=True):
    """What an expert makes of a problem.

    Attributes:
        answers: Its answers to the targets.
        right: Which of them are right.
        tokens: Tokens written.
        seconds: Time taken.
        usd: What it costs.
    """

    answers: tuple[str, ...]
    right: tuple[bool, ...]
    tokens: int
    seconds: float
    usd: float

    @property
    def solved(self) -> bool:
        """Whether every answer is right."""
        return all(self.right)


class SimulatedExpert:
    """An expert that errs as its specification says.

    Args:
        name: Its name; luck of its own belongs to it.
        spec: Its specification.
        shared_noise: Share of a step's luck that is the same for all experts: steps that are hard for everybody.

    Raises:
        OptionError: The shares of luck exceed 1.

    >>> spec = ExpertSpec(provider="none", roles=("math",), price=Price(1, 2), latency=Latency(10.0), context=1000,
    ...                   skills={"other": 0.9})
    >>> expert = SimulatedExpert("ada", spec)
    >>> problem = Problem.chain("sum", "math", 1, "12", wrong=("13", "21"))
    >>> expert.solve(problem, seed=1) == expert.solve(problem, seed=1)
    True
    >>> round(expert.chance(problem, 0), 2)
    0.9
    """

    def __init__(self, name: str, spec: ExpertSpec, *, shared_noise: float = 0.2) -> None:
        if not 0 <= shared_noise + spec.own_noise <= 1:
            raise OptionError(
                f"{name}: expected shares of luck that add up to at most 1, got {shared_noise} shared and "
                f"{spec.own_noise} of its own."
            )
        self.name = name
        self.spec = spec
        self._weights = (
            math.sqrt(shared_noise),
            math.sqrt(spec.own_noise),
            math.sqrt(1 - shared_noise - spec.own_noise),
        )

    def chance(self, problem: Problem, position: int) -> float:
        """Return the probability that a step goes right when what it needs is right and no note is about it."""
        step = problem.steps[position]
        return self._share(problem, step.subject or problem.subject, step.difficulty)

    def weight(self, problem: Problem) -> int:
        """Return what makes each step of a problem harder: how many steps are asked for at once."""
        return len(problem.steps)

    def _share(self, problem: Problem, subject: str, difficulty: float) -> float:
        """Return the probability that something goes right under the load of a problem."""
        return self.spec.chance(subject, difficulty, self.weight(problem), problem.reading)

    def _withstands(self, problem: Problem, step: Step) -> float:
        """Return the probability that a note about a step is not believed."""
        trust = self.spec.deceived if step.trust is None else step.trust
        return 1 - (trust * (1 - self._share(problem, "reasoning", 0.0)) if step.warned else trust)

    def solve(
        self,
        problem: Problem,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        role: Role | None = None,
        prompt_tokens: int = 0,
    ) -> Solution:
        """Return what the expert makes of a problem.

        Args:
            problem: The truth about what it is asked.
            seed: Luck of this sample; the same seed gives the same solution.
            temperature: From 0 (every sample is the same) to 1.
            role: What it is asked as; its latency may depend on it.
            prompt_tokens: Tokens read; the problem's by default.
        """
        heat = min(1.0, max(0.0, temperature))
        # what is no threshold of luck (which mistake, how many words) is this sample's own as often as it is hot
        drawn = seed if self._uniform(problem.key, self.name, "heat", seed) < heat else "greedy"
        said: list[str] = []
        right: list[bool] = []
        for position, step in enumerate(problem.steps):
            if step.note is not None and not self._holds(
                (problem.key, position, "note"), self._withstands(problem, step), seed, heat
            ):
                said.append(step.note)
                right.append(step.note == step.answer)
                continue
            good = all(right[needed] for needed in step.needs) and self._holds(
                (problem.key, position), self.chance(problem, position), seed, heat
            )
            right.append(good)
            said.append(step.answer if good else self._mistake(problem, position, drawn))
        written = self._amount(problem, drawn)
        read = prompt_tokens or problem.reading
        return Solution(
            tuple(said[target] for target in problem.targets),
            tuple(right[target] for target in problem.targets),
            written,
            self._seconds(written, problem, role, seed),
            self.spec.price.cost(read, written),
        )

    def _holds(self, matter: tuple[object, ...], chance: float, seed: int, heat: float) -> bool:
        """Return whether luck in a matter is good enough for what has this chance."""
        shared, own, sample = self._weights
        fixed = self._normal(*matter, self.name, "greedy")
        fresh = self._normal(*matter, self.name, seed)
        luck = (
            shared * self._normal(*matter)
            + own * self._normal(*matter, self.name)
            + sample * (math.sqrt(1 - heat) * fixed + math.sqrt(heat) * fresh)
        )
        return luck < _NORMAL.inv_cdf(min(1 - _SMALLEST, max(_SMALLEST, chance)))

    def _mistake(self, problem: Problem, position: int, drawn: int | str) -> str:
        """Return a wrong answer: each of the step's is half as likely as the one before."""
        wrong = problem.steps[position].wrong
        if not wrong:
            return ""
        rank = int(-math.log2(1 - self._uniform(problem.key, position, self.name, "mistake", drawn)))
        return wrong[min(rank, len(wrong) - 1)]

    def _amount(self, problem: Problem, drawn: int | str) -> int:
        tokens = self.spec.tokens
        mean = tokens.mean(sum(not step.read for step in problem.steps))
        return max(1, round(mean * self._spread(tokens.spread, problem.key, self.name, "tokens", drawn)))

    def _seconds(self, written: int, problem: Problem, role: Role | None, seed: int) -> float:
        """Return the time of a call: its mean for a typical length, in proportion to what is written."""
        latency = self.spec.latency
        mean = latency.of(role) * written / self.spec.tokens.mean(TYPICAL_STEPS)
        return mean * self._spread(latency.spread, problem.key, self.name, "seconds", seed)

    def _spread(self, sigma: float, *salt: object) -> float:
        """Return a log-normal factor whose mean is 1."""
        return math.exp(sigma * self._normal(*salt) - sigma * sigma / 2)

    @staticmethod
    def _uniform(*salt: object) -> float:
        """Return a number in (0, 1) that depends on nothing but `salt`."""
        digest = hashlib.blake2b(repr(salt).encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "little") + 0.5) / 2**64

    @classmethod
    def _normal(cls, *salt: object) -> float:
        return _NORMAL.inv_cdf(cls._uniform(*salt))

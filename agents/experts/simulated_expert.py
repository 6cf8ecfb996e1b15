"""Simulated experts: they cost money, take time and err like models, without a model behind them.

A `SimulatedExpert` is given the ground truth (a `Problem`: the steps of reasoning that lead to the answer) and errs
about it as its specification says:

- each step goes wrong with a probability that grows with the gap between the step's difficulty and the expert's skill
  in its subject, and with the load of the problem (the steps asked for at once, or the results to be kept in mind at
  once: `Problem.load`), so that decomposing helps;
- a step is wrong if one that it needs is wrong; errors propagate to the answer;
- text beyond its context is not read, and an adversarial note deceives it with a set probability, unless it was warned
  of notes and follows the warning, which is a step of reasoning like any other;
- noise is partly shared: some steps are hard for all experts, some are one model's blind spot, the rest differs from
  sample to sample. Voting over samples of one model therefore helps only so far, and different models help more.
  Whether a note deceives is drawn from the same noise.

Not covered: finding the `Problem` of a question (the environment's tools do), real models
(`toolorchestra.agents.chat.base`), and which experts there are (`toolorchestra.agents.experts.catalog`).
"""

from __future__ import annotations

import hashlib
import math
from statistics import NormalDist

import msgspec

from toolorchestra.agents.experts.specification import TYPICAL_STEPS, ExpertSpec, Role
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.toolscale.common.errors import OptionError

_NORMAL = NormalDist()
_SMALLEST = 1e-9


class Solution(msgspec.Struct, frozen=True):
    """An expert's answers to the targets of a problem, which are right, tokens written, seconds and US dollars."""

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
        name: Its name, from which its own noise is seeded.
        spec: Its specification.
        shared_noise: Share of a step's noise that is the same for all experts; `OptionError` if shares exceed 1.

    >>> from toolorchestra.agents.chat.base import Price
    >>> from toolorchestra.agents.experts.specification import Latency
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
                f"{name}: expected shares of noise that add up to at most 1, got {shared_noise} shared and "
                f"{spec.own_noise} of its own."
            )
        self.name = name
        self.spec = spec
        shares = (shared_noise, spec.own_noise, 1 - shared_noise - spec.own_noise)
        self._weights = tuple(map(math.sqrt, shares))

    def chance(self, problem: Problem, position: int) -> float:
        """Return the probability that a step goes right whose needs are right and about which there is no note."""
        step = problem.steps[position]
        return self._share(problem, step.subject or problem.subject, step.difficulty)

    def _share(self, problem: Problem, subject: str, difficulty: float) -> float:
        """Return the probability that something goes right under the load of a problem."""
        return self.spec.chance(subject, difficulty, problem.weight, problem.reading)

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
        """Return the expert's solution of a problem.

        The same `seed` gives the same sample; at `temperature` 0 all samples are equal. The latency may depend on the
        `role`, and the cost counts `prompt_tokens`, by default the problem's.
        """
        heat = min(1.0, max(0.0, temperature))
        # draws other than right or wrong (which mistake, how many words) are this sample's own with probability `heat`
        drawn = seed if self._uniform(problem.key, self.name, "heat", seed) < heat else "greedy"
        answers, right = list[str](), list[bool]()
        for position, step in enumerate(problem.steps):
            if step.note is not None and not self._holds(
                (problem.key, position, "note"), self._withstands(problem, step), seed, heat
            ):
                answers.append(step.note)
                right.append(step.note == step.answer)
                continue
            good = all(right[needed] for needed in step.needs) and self._holds(
                (problem.key, position), self.chance(problem, position), seed, heat
            )
            right.append(good)
            answers.append(step.answer if good else self._mistake(problem, position, drawn))
        written = self._amount(problem, drawn)
        read = prompt_tokens or problem.reading
        return Solution(
            tuple(answers[target] for target in problem.targets),
            tuple(right[target] for target in problem.targets),
            written,
            self._seconds(written, problem, role, seed),
            self.spec.price.cost(read, written),
        )

    def _holds(self, matter: tuple[object, ...], chance: float, seed: int, heat: float) -> bool:
        """Return whether noise about a matter is below the threshold of this chance."""
        shared, own, sample = self._weights
        fixed = self._normal(*matter, self.name, "greedy")
        fresh = self._normal(*matter, self.name, seed)
        noise = (
            shared * self._normal(*matter)
            + own * self._normal(*matter, self.name)
            + sample * (math.sqrt(1 - heat) * fixed + math.sqrt(heat) * fresh)
        )
        return noise < _NORMAL.inv_cdf(min(1 - _SMALLEST, max(_SMALLEST, chance)))

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
        """Return the time of a call, in proportion to the tokens written."""
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

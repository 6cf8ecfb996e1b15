"""Selection of training data from recorded episodes: demonstrations for SFT, tasks for RL (ParaManager §3.2, §4.2).

For SFT: right answers, at most one of each question, one that recovers from a failed call first, no tool that
dominates, and no question of the RL set. For RL: tasks whose samples are neither all right nor all wrong; or those that
a base model does not solve and a team does (TMATR-HRL §4.1, Table 3). These are
pure functions over a summary of each episode (`EpisodeCandidate`), so that files of any size fit in memory; files are
read and written in `toolorchestra.cli.synth.select`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tools.tool import Status

ENDING = "final_answer"
"""The tool by which every ParaManager episode ends; it is left out of the balance of tools."""
_EPSILON = 1e-9


class QuestionRecord(msgspec.Struct, frozen=True):
    """Identity of a question: the id of its task, and its words in one spelling (empty where they are not known)."""

    task: str
    words: str = ""

    @classmethod
    def of(cls, task: str, instruction: str) -> QuestionRecord:
        """Return the record of a task by its id and instruction."""
        return cls(task, " ".join(tokens(instruction)))


class EpisodeCandidate(msgspec.Struct, frozen=True):
    """The data of an episode that selection needs.

    Attributes:
        question: The question.
        split: Split of the task.
        solved: Whether it was solved; None after an infrastructure error.
        calls: Calls by tool, without `ENDING`.
        failed: Calls that did not end OK.
        recovers: Whether a call that did not end OK was followed, in a later turn before the last, by one that did.
        cost: US dollars.
    """

    question: QuestionRecord
    split: str
    solved: bool | None
    calls: Mapping[str, int]
    failed: int
    recovers: bool
    cost: float

    @classmethod
    def of(cls, episode: Episode) -> EpisodeCandidate:
        """Return the summary of an episode."""
        return cls(
            question=QuestionRecord.of(episode.task_id, episode.instruction),
            split=episode.split,
            solved=episode.outcome == "solved" if episode.outcome in ("solved", "failed") else None,
            calls=Counter(call.name for call in episode.calls if call.name != ENDING),
            failed=sum(call.status is not Status.OK for call in episode.calls),
            recovers=_recovers(episode),
            cost=episode.cost,
        )


class Selection(msgspec.Struct, frozen=True):
    """What was selected, and why the rest was not.

    Attributes:
        questions: Questions that the candidates are about.
        kept: Positions of the candidates kept; for RL, of the first of each task.
        dropped: Candidates (for RL, questions) left out, by reason.
        recovering: How many of those kept recover from a failed call.
        before: Calls by tool in the solved candidates from which was chosen.
        after: Calls by tool in those kept.
        dominating: Tools with more than the share allowed, where no choice that was found avoids it.
    """

    questions: int
    kept: tuple[int, ...]
    dropped: Mapping[str, int]
    recovering: int = 0
    before: Mapping[str, int] = {}
    after: Mapping[str, int] = {}
    dominating: tuple[str, ...] = ()


def questions(records: Sequence[QuestionRecord]) -> list[int]:
    """Return a number for the question of each record: those with the same id, or the same words, have the same.

    >>> records = (("a/1", "How many?"), ("b/7", "how many"), ("b/8", "Who?"))
    >>> questions([QuestionRecord.of(*one) for one in records])
    [0, 0, 1]
    """
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(key: tuple[str, str]) -> tuple[str, str]:
        while parents.setdefault(key, key) != key:
            parents[key] = key = parents[parents[key]]
        return key

    for one in records:
        if one.words:
            parents[root(("task", one.task))] = root(("words", one.words))
    numbers: dict[tuple[str, str], int] = {}
    return [numbers.setdefault(root(("task", one.task)), len(numbers)) for one in records]


def select_sft(
    candidates: Sequence[EpisodeCandidate],
    *,
    exclude: Sequence[QuestionRecord] = (),
    only: Sequence[QuestionRecord] | None = None,
    split: str = "train",
    max_tool_share: float = 0.4,
) -> Selection:
    """Select episodes to imitate: at most one of each question, solved ones only.

    Of a question's episodes the first choice recovers from a failed call, then has few failed calls, few calls, low
    cost. Where a tool then has more than `max_tool_share` of all calls (1: no bound), other episodes of the same
    questions are taken, and if that is not enough, questions are left out, those without a recovery first. The
    questions of `exclude` (the RL set) and of other splits (``all``: none) are left out, and those not in `only`, if
    that is given (the questions that a base model does not solve, see `select_hard`).
    """
    if not 0.0 < max_tool_share <= 1.0:
        raise OptionError(f"The share of a tool must lie in (0, 1], got {max_tool_share!r}.")
    dropped: Counter[str] = Counter()
    numbers = questions([*(one.question for one in candidates), *exclude, *(only or ())])
    excluded = set(numbers[len(candidates) : len(candidates) + len(exclude)])
    wanted = None if only is None else set(numbers[len(candidates) + len(exclude) :])
    groups: dict[int, list[int]] = {}
    for n, one in enumerate(candidates):
        if reason := _unfit(one, split) or ("" if one.solved else "not solved"):
            dropped[reason] += 1
        elif numbers[n] in excluded:
            dropped["question of the excluded set"] += 1
        elif wanted is not None and numbers[n] not in wanted:
            dropped["question that is not wanted"] += 1
        else:
            groups.setdefault(numbers[n], []).append(n)
    ranked = [sorted(group, key=lambda n: _rank(candidates[n])) for group in groups.values()]
    found = [n for group in ranked for n in group]
    names = sorted({name for n in found for name in candidates[n].calls})
    chosen = [group[0] for group in ranked]
    if names:
        made = np.array([[candidates[n].calls.get(name, 0) for name in names] for n in found], dtype=np.float64)
        recovering = np.array([candidates[n].recovers for n in found])
        question_of = np.repeat(np.arange(len(ranked)), [len(group) for group in ranked])
        choice = _balanced(question_of, made - max_tool_share * made.sum(1, keepdims=True), recovering)
        chosen = [found[n] for n in choice if n >= 0]
        dropped["question left out to balance the tools"] = sum(
            len(group) for group, n in zip(ranked, choice, strict=True) if n < 0
        )
    dropped["another episode of the question was chosen"] = len(candidates) - dropped.total() - len(chosen)
    after = _tally(candidates[n] for n in chosen)
    bound = max_tool_share * sum(after.values()) + _EPSILON
    return Selection(
        questions=len(set(numbers[: len(candidates)])),
        kept=tuple(sorted(chosen)),
        dropped=+dropped,
        recovering=sum(candidates[n].recovers for n in chosen),
        before=_tally(candidates[n] for n in found),
        after=after,
        dominating=tuple(name for name, calls in after.items() if calls > bound),
    )


def select_rl(candidates: Sequence[EpisodeCandidate], *, split: str = "train", samples: int = 8) -> Selection:
    """Select the tasks of a split (``all`` for all) whose samples are neither all right nor all wrong.

    A task with fewer judged samples than `samples` is kept if they differ already; else it is left out, since nothing
    is known.
    """
    if samples < 2:
        raise OptionError(f"Fewer than two samples of a task never differ: `samples` is {samples}.")
    groups: dict[int, list[int]] = {}
    for n, number in enumerate(questions([one.question for one in candidates])):
        groups.setdefault(number, []).append(n)
    kept: list[int] = []
    dropped: Counter[str] = Counter()
    for group in groups.values():
        fit = [n for n in group if not _unfit(candidates[n], split)]
        right = sum(candidates[n].solved is True for n in fit)
        if 0 < right < len(fit):
            kept.append(fit[0])
        elif not fit:
            dropped[_unfit(candidates[group[0]], split)] += 1
        elif len(fit) < samples:
            dropped[f"alike so far, but fewer than {samples} samples"] += 1
        else:
            dropped["all solved" if right else "none solved"] += 1
    return Selection(questions=len(groups), kept=tuple(kept), dropped=dropped)


def select_hard(
    base: Sequence[EpisodeCandidate],
    *,
    solved_by: Sequence[EpisodeCandidate] | None = None,
    split: str = "train",
    limit: int | None = None,
    seed: int = 0,
) -> Selection:
    """Select the tasks of a split (``all`` for all) that a base model does not solve and, if given, a team does.

    Args:
        base: Episodes of the base model; of each question the first that was judged counts (pass@1).
        solved_by: Episodes of a stronger team, of which one must have solved the question; None: no such condition.
        split: Split of the tasks.
        limit: How many of them are drawn; None for all.
        seed: Seed of the draw.
    """
    if limit is not None and limit < 1:
        raise OptionError(f"Expected at least one task to draw, got a limit of {limit}.")
    numbers = questions([one.question for one in (*base, *(solved_by or ()))])
    solved = {number for number, one in zip(numbers[len(base) :], solved_by or (), strict=True) if one.solved}
    groups: dict[int, list[int]] = {}
    for n, number in enumerate(numbers[: len(base)]):
        groups.setdefault(number, []).append(n)
    kept: list[int] = []
    dropped: Counter[str] = Counter()
    for number, group in groups.items():
        first = next((n for n in group if not _unfit(base[n], split)), None)
        if first is None:
            dropped[_unfit(base[group[0]], split)] += 1
        elif base[first].solved:
            dropped["solved by the base model"] += 1
        elif solved_by is not None and number not in solved:
            dropped["not solved by the team"] += 1
        else:
            kept.append(first)
    if limit is not None and limit < len(kept):
        dropped["not drawn"] = len(kept) - limit
        kept = sorted(random.Random(seed).sample(kept, limit))
    return Selection(questions=len(groups), kept=tuple(kept), dropped=dropped)


def _recovers(episode: Episode) -> bool:
    failed = False
    for turn in episode.turns[:-1]:
        statuses = [call.status for call in turn.calls]
        if failed and Status.OK in statuses:
            return True
        failed = failed or any(status is not Status.OK for status in statuses)
    return False


def _unfit(one: EpisodeCandidate, split: str) -> str:
    """Return why an episode says nothing that could be used, or nothing."""
    if split not in ("all", one.split):
        return "held-out split"
    return "no verdict" if one.solved is None else ""


def _rank(one: EpisodeCandidate) -> tuple[bool, int, int, float]:
    return not one.recovers, one.failed, sum(one.calls.values()), one.cost


def _tally(candidates: Iterable[EpisodeCandidate]) -> dict[str, int]:
    """Return the calls by tool, the most called first."""
    total = sum((Counter(one.calls) for one in candidates), Counter[str]())
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _balanced(question_of: NDArray[np.int_], excess: NDArray[np.float64], recovers: NDArray[np.bool_]) -> list[int]:
    """Return the candidate chosen for each question, -1 for none, so that no tool exceeds its share.

    A choice is balanced when for every tool the excesses of those chosen add up to at most 0. What exceeds that is
    reduced by the single move that helps most: by taking another candidate of a question, without losing a recovery
    before losing one; where that does not help, by leaving a question out. In the end questions are taken back as far
    as the balance allows. The best choice would be an integer program; this mostly comes within a few percent of it.
    Where nothing balances the tools, no question is left out.

    Args:
        question_of: Question of each candidate, ascending; a question's first candidate is its best. Shape ``(N,)``.
        excess: Calls of each tool beyond its share of the candidate's own calls. Shape ``(N, tools)``.
        recovers: Whether the candidate recovers from a failed call. Shape ``(N,)``.
    """
    chosen: NDArray[np.int_] = np.searchsorted(question_of, np.arange(question_of[-1] + 1))
    everyone = np.arange(len(question_of))
    whole: NDArray[np.int_] | None = None
    while (chosen >= 0).any():
        total = excess[chosen[chosen >= 0]].sum(0)
        now = chosen[question_of]  # (N,) the candidate chosen for the same question
        there = now >= 0
        if (too_much := _beyond(total)) <= _EPSILON:
            bearable = np.where(there, np.inf, (total + excess).max(1))
            if bearable.min() > _EPSILON:
                return [int(n) for n in chosen]
            back = int(bearable.argmin())
            chosen[question_of[back]] = back
            continue
        exchanged = _beyond(total - excess[now] + excess)
        helps = there & (exchanged < too_much - _EPSILON)
        if helps.any():
            gentle = helps & (recovers | ~recovers[now])
            other = int(np.where(gentle if gentle.any() else helps, exchanged, np.inf).argmin())
            chosen[question_of[other]] = other
            continue
        whole = chosen.copy() if whole is None else whole
        without = np.where(now == everyone, _beyond(total - excess[now]), np.inf)
        spare = ~recovers & (without < too_much - _EPSILON)
        chosen[question_of[int(np.where(spare, without, np.inf).argmin() if spare.any() else without.argmin())]] = -1
    assert whole is not None, "questions are left out only after the choice without that is known"
    return [int(n) for n in whole]


def _beyond(total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how many calls tools exceed their shares, all tools together."""
    exceeding: NDArray[np.float64] = np.maximum(total, 0.0).sum(-1)
    return exceeding

"""Measure how often answers in prose are judged wrongly, and write it down: a table of docs/domains.md.

The answers are those that people wrote and labelled (tests/data/answers), to tasks whose reference calls were made.
They are judged by what they mention, and by a model, as with the option ``judge`` of an environment. Without --model,
the two models that no model can be worse than are measured: one says yes to everything, and one says no.

Usage: python benchmarks/judge_model.py [--model NAME --catalog FILE] [--record FILE] [--output FILE]
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from harness import RESULTS, ROOT, cli, provenance, write

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, ScriptedChat
from toolorchestra.agents.chat.replay import RecordingChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.envs.judge.model_judge import PROMPT_DIGEST, AnswerQuestion, ModelJudge, results_of
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.toolscale.answers.prose_answers import judge_mentions
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.common.intervals import wilson_interval
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain

ANSWERS = ROOT / "tests" / "data" / "answers"
PACKAGES = ("msgspec", "openai")
RULE = "what is mentioned"


@dataclass
class Options:
    """Judge answers whose labels are known by what they mention, and by a model."""

    model: str | None = None  # of the catalogue, with an endpoint; None: two that always say the same
    catalog: tuple[Path, ...] = ()  # catalogue files of your own, which extend and override the shipped one
    record: Path | None = None
    """File that keeps the model's replies, so that a run that was cut short goes on, and a second one is free."""
    output: Path = RESULTS / "judge_model.json"  # where the record goes


class LabelledAnswer(NamedTuple):
    """An answer to a task with the results of its reference calls, and whether it is right."""

    question: AnswerQuestion
    right: bool


class JudgeErrors(msgspec.Struct):
    """Right and wrong answers judged, and those judged otherwise; apart from them those that got no verdict."""

    right: int = 0
    wrong: int = 0
    wrongly_rejected: int = 0
    wrongly_accepted: int = 0
    failed: int = 0

    def add(self, *, right: bool, accepted: bool | None) -> None:
        """Count an answer; `accepted` is None where there was no verdict."""
        if accepted is None:
            self.failed += 1
        elif right:
            self.right += 1
            self.wrongly_rejected += not accepted
        else:
            self.wrong += 1
            self.wrongly_accepted += accepted

    def shown(self) -> dict[str, Any]:
        """Return the counts, and the 95 % intervals (Wilson) of the shares of answers judged wrongly."""
        pairs = {
            "wrongly rejected": (self.wrongly_rejected, self.right),
            "wrongly accepted": (self.wrongly_accepted, self.wrong),
        }
        intervals = {name: [round(end, 4) for end in wilson_interval(*pair)] for name, pair in pairs.items()}
        return {**msgspec.to_builtins(self), "intervals": intervals}


def always(word: str) -> ChatModel:
    """Return a model that says the same of every point."""

    def reply(request: ChatRequest) -> str:
        facts = str(request.messages[1]["content"]).split("<facts>\n")[1].split("\n</facts>")[0].splitlines()
        points = [line.split(":")[0] for line in facts if line != "(none)"]
        return json.dumps(dict.fromkeys((*points, "consistent"), word))

    return ScriptedChat(reply, name=f"always {word}")


def models(options: Options) -> Iterator[ChatModel]:
    """Yield the models that are measured, and close them."""
    if options.model is None:
        yield from (always("yes"), always("no"))
        return
    judge = ModelJudge.named(options.model, Catalog.load(*options.catalog))
    try:
        if options.record is None:
            yield judge.model
        else:
            with RecordingChat(judge.model, options.record) as recording:
                yield recording
    finally:
        judge.close()


def labelled_by_hand(domain: Domain) -> Iterator[LabelledAnswer]:
    """Yield the answers of a domain that people wrote and labelled."""
    with contextlib.closing(domain.session()) as session:
        for entry in yaml.safe_load((ANSWERS / f"{domain.name}.yaml").read_text(encoding="utf-8")):
            task = domain.task(entry["task"])
            session.reset()
            made = [(call, domain.call(call, session)) for call in task.reference_calls]
            results = results_of(
                CallRecord(str(number), call.name, call.arguments, result.status, result.value, result.error)
                for number, (call, result) in enumerate(made)
            )
            for text in entry.get("right", ()):
                yield LabelledAnswer(AnswerQuestion(task, text, results), right=True)
            for answer in entry.get("wrong", ()):
                yield LabelledAnswer(AnswerQuestion(task, answer["text"], results), right=False)


def errors_of_mentions(answers: Sequence[LabelledAnswer]) -> JudgeErrors:
    """Return how often the rule judges otherwise than labelled."""
    errors = JudgeErrors()
    for question, right in answers:
        errors.add(right=right, accepted=not judge_mentions(question.answer, question.task.communicate))
    return errors


def errors_of_model(answers: Sequence[LabelledAnswer], model: ChatModel, batch: int = 64) -> JudgeErrors:
    """Return how often a model judges otherwise than labelled."""
    errors, judge = JudgeErrors(), ModelJudge(model)
    for start in range(0, len(answers), batch):
        some = answers[start : start + batch]
        for (_, right), judged in zip(some, judge.ask([question for question, _ in some]), strict=True):
            accepted = None if isinstance(judged, ExpertError) else all(judged.values())
            errors.add(right=right, accepted=accepted)
        print(f"{model.name}: {start + len(some)} of {len(answers)} answers judged", file=sys.stderr, flush=True)
    return errors


def main(options: Options) -> None:
    answers = [answer for name in builtin_domains() for answer in labelled_by_hand(load_domain(name))]
    found, usage = {RULE: errors_of_mentions(answers).shown()}, {}
    for model in models(options):
        found[model.name] = errors_of_model(answers, model).shown()
        usage[model.name] = model.meter.usage
    for judge, errors in found.items():
        print(f"{judge}: {errors}")
    record = {"prompt": PROMPT_DIGEST, **provenance(*PACKAGES), "judges": found, "usage": usage}
    write(options.output, record)


if __name__ == "__main__":
    cli(main)

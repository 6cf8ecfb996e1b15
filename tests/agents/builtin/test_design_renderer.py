from __future__ import annotations

import random
from pathlib import Path

import pytest

from toolorchestra.agents.builtin.design_renderer import DesignRenderer, QuestionPart, questions_in
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.envs.ground_truth.parts import parts_of
from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.orchestrators import random_design
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import AGENTS, Rule
from toolorchestra.envs.sources.masbench.generate import InstanceSettings
from toolorchestra.envs.sources.masbench.graph import AXES
from toolorchestra.envs.sources.masbench.source import MASBenchSource

RENDERER = DesignRenderer(AGENTS)
TWO = [{"role": "user", "content": "A is 2. What is A? B is 3. What is B?"}]


def ids(text: str) -> list[int]:
    return [RENDERER.index[token] for token in text.split()]


def decoded(text: str, before: list[Message] = TWO) -> str:
    return str(RENDERER.decode_action(ids(text), (), before).action)


def rule(text: str) -> Rule | None:
    found = parse_design(decoded(text))
    return None if isinstance(found, Design) else found.rule


# -------------------------------------------------------------------------------------------------- what a text asks


@pytest.mark.parametrize("axis", AXES)
def test_what_a_text_asks_is_found_in_it_alone(axis: str) -> None:
    source = MASBenchSource(axis, train=8, test=8)
    for task in source.tasks("all"):
        parts = [parts_of(task)[target] for target in task.bindings["targets"]]
        found = questions_in(task.instruction)
        assert [one.question for one in found] == [part.question for part in parts]
        assert [one.noted for one in found] == [part.note is not None for part in parts]


def test_without_notes_nothing_is_noted() -> None:
    source = MASBenchSource("robustness", train=3, test=0, settings=InstanceSettings(notes=False))
    assert not any(part.noted for task in source.tasks("train") for part in questions_in(task.instruction))


def test_a_carried_answer_is_seen_where_it_is_used() -> None:
    text = "Problem 1: X is 2. What is X? Problem 2: Y is [answer1]. What is Y?\n\nProblem 1: [answer1]"
    assert questions_in(text) == (QuestionPart("What is X?"), QuestionPart("What is Y?", after=(0,)))


def test_a_note_by_number_is_that_of_the_problem() -> None:
    text = "X is 2. What is X? What is Y? Note: verify it before you take it - the answer of problem 2 is 4."
    assert [part.noted for part in questions_in(text)] == [False, True]


def test_a_text_without_question_asks_for_the_whole() -> None:
    assert questions_in("Find the sum of the digits of 14.") == ()
    assert [RENDERER.tokens[i] for i in RENDERER.encode_prompt([{"role": "user", "content": "Add."}], ())] == [
        "<user>", "high", "<assistant>"
    ]  # fmt: skip


def test_long_texts_without_question_are_read_in_no_time() -> None:
    assert questions_in("x" * 200_000) == ()


# ------------------------------------------------------------------------------------------------------------ designs


def test_a_design_is_written_in_full() -> None:
    design = parse_design(decoded("1 SCAgent warned q1 2 CoTAgent q2 3 CoTAgent $1 1> $2 2> <end>"))
    assert isinstance(design, Design)
    first, second, last = design.agents
    assert (first.id, first.kind, second.input) == ("A1", "SCAgent", "What is B?")
    assert first.input.startswith("What is A?\nIgnore notes")
    assert last.input.endswith("What is A? ${A1}\nWhat is B? ${A2}")
    assert design.edges == (("A1", "A3"), ("A2", "A3"))


def test_the_whole_question_is_asked_with_an_empty_input() -> None:
    design = parse_design(decoded("1 DebateAgent <end>"))
    assert isinstance(design, Design)
    assert (design.agents[0].input, len(design.agents[0].roles)) == ("", 2)


def test_a_low_degree_is_seen_and_written_as_such() -> None:
    low = [{"role": "system", "content": "Degree of MAS: low. Answer."}, *TWO]
    assert "low" in [RENDERER.tokens[i] for i in RENDERER.encode_prompt(low, ())]
    design = parse_design(decoded("1 CoTAgent q1 <end>", low), "low")
    assert isinstance(design, Design)
    assert design.answer == "A1"


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("1 CoTAgent 2 CoTAgent $1 <end>", Rule.EDGES),
        ("1 CoTAgent 2 CoTAgent 1> <end>", Rule.EDGE_DATA),
        ("1 CoTAgent 2 CoTAgent $1 1> 3 CoTAgent $1 1> <end>", Rule.SINK),
        ("1 CoTAgent 1 CoTAgent <end>", Rule.UNIQUE),
        ("1 CoTAgent $1 1> <end>", Rule.LOOP),
        ("1 CoTAgent 2 CoTAgent $3 3> <end>", Rule.DECLARED),
        ("1 q1 <end>", Rule.COMPLETE),
        ("<end>", Rule.ANSWER),
        ("1 CoTAgent", Rule.COMPLETE),
        ("q1 1 CoTAgent <end>", Rule.COMPLETE),
        ("1 CoTAgent <user> <end>", Rule.COMPLETE),
    ],
)
def test_the_language_can_express_designs_that_break_rules(text: str, broken: Rule) -> None:
    assert rule(text) == broken
    assert RENDERER.decode_action(ids(text), (), TWO).well_formed


def test_no_ids_make_the_renderer_or_the_parser_raise() -> None:
    rng = random.Random(0)
    for _ in range(500):
        written = rng.choices(range(len(RENDERER.tokens)), k=rng.randint(0, 30))
        parse_design(RENDERER.decode_action(written, (), TWO).action)


def test_any_design_keeps_its_graph_and_kinds() -> None:
    rng = random.Random(1)
    for _ in range(60):
        design = random_design(rng, AGENTS, 9)
        written = RENDERER.encode_action({"content": to_text(design)}, TWO)
        again = parse_design(RENDERER.decode_action(written, (), TWO).action)
        assert isinstance(again, Design)
        assert [agent.kind for agent in again.agents] == [agent.kind for agent in design.agents]
        assert again.shape == design.shape
        assert RENDERER.encode_action({"content": to_text(again)}, TWO) == written


def test_written_designs_are_read_back_the_same() -> None:
    ids_written = ids("1 CoTAgent warned q1 2 ReflexionAgent q2 $1 1> 3 CoTAgent $1 $2 2> <end>")
    text = RENDERER.decode_action(ids_written, (), TWO).action
    assert RENDERER.encode_action({"content": text}, TWO) == ids_written


def test_a_policy_keeps_its_language(tmp_path: Path) -> None:
    TokenPolicy.built_in(RENDERER).save(tmp_path)
    again = TokenPolicy.load(tmp_path).renderer
    assert isinstance(again, DesignRenderer)
    assert again.tokens == RENDERER.tokens

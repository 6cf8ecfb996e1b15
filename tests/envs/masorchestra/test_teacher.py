from __future__ import annotations

import random
from collections import Counter

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.builtin.design_renderer import write_design
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import Rule
from toolorchestra.envs.masorchestra.teacher import INJECTED_ERRORS, MIXTURE, DesignTeacher, inject_error
from toolorchestra.toolscale.common.errors import OptionError


@pytest.fixture(scope="module")
def env() -> gym.Env[str, object]:
    return gym.make("MASOrchestra-High-MASBenchParallel-v0", disable_env_checker=True)


def written(env: gym.Env[str, object], teacher: DesignTeacher, count: int) -> list[str]:
    texts = []
    for seed in range(count):
        observation, info = env.reset(seed=seed)
        teacher.reset(env, observation, info)
        texts.append(teacher.act(observation, info))
    return texts


def test_a_teacher_without_injected_errors_writes_valid_designs_of_all_kinds(env: gym.Env[str, object]) -> None:
    designs = [parse_design(text) for text in written(env, DesignTeacher(1), 60)]
    assert all(isinstance(design, Design) for design in designs)
    shapes = Counter(design.shape for design in designs if isinstance(design, Design))
    assert len(shapes) > len(MIXTURE)


def test_a_teacher_with_injected_errors_breaks_several_rules_and_not_always(env: gym.Env[str, object]) -> None:
    designs = [parse_design(text) for text in written(env, DesignTeacher(1, 0.4), 80)]
    rules = {design.rule for design in designs if not isinstance(design, Design)}
    assert {Rule.EDGES, Rule.DATA_EDGE, Rule.EDGE_DATA} <= rules
    assert 0.2 < sum(isinstance(design, Design) for design in designs) / len(designs) < 0.8


def test_the_same_seed_teaches_the_same(env: gym.Env[str, object]) -> None:
    assert written(env, DesignTeacher(5, 0.3), 10) == written(env, DesignTeacher(5, 0.3), 10)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("lost_edge", Rule.DATA_EDGE),
        ("lost_part", None),
        ("lost_reader", Rule.CONNECTED),
        ("lost_reference", Rule.EDGE_DATA),
        ("stray", Rule.CONNECTED),
    ],
)
def test_every_injected_error_breaks_the_rule_of_its_name(
    env: gym.Env[str, object], name: str, rule: Rule | None
) -> None:
    (text,) = written(env, DesignTeacher(0, mixture={"components": 1.0}, change=0.0), 1)
    design = parse_design(text)
    assert isinstance(design, Design)
    agents, edges = inject_error(list(design.agents), list(design.edges), random.Random(0), name)
    found = parse_design(write_design("high", design.thinking, agents, edges, None))
    assert (None if isinstance(found, Design) else found.rule) == rule
    if isinstance(found, Design):
        assert len(found.agents) == len(design.agents) - 1
    assert name in INJECTED_ERRORS


def test_an_error_can_be_injected_into_one_agent_too() -> None:
    design = parse_design(
        "<thinking>One.</thinking><agent><agent_id>A</agent_id><agent_name>CoTAgent</agent_name>"
        "<agent_description>D</agent_description><required_arguments><agent_input></agent_input>"
        "</required_arguments></agent>"
    )
    assert isinstance(design, Design)
    agents, edges = inject_error(list(design.agents), [], random.Random(0))
    assert (len(agents), edges) == (2, [])


def test_an_error_out_of_range_is_refused() -> None:
    with pytest.raises(OptionError, match=r"\[0, 1\]"):
        DesignTeacher(error=1.2)

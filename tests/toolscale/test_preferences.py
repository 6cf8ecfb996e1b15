"""Preference pairs: what words mean, what is wrong with a pair, and pairs made by rule."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import write_jsonl
from toolorchestra.toolscale.preferences import (
    COMPONENTS,
    PreferencePair,
    ToolFacts,
    check_pair,
    make_pairs,
    meaning,
    propose,
    read_pairs,
    tool_facts,
)

TOOLS = [
    ToolFacts("web_search", price=0.01, latency=2.0),
    ToolFacts("local_search", price=0.0, latency=0.5),
    ToolFacts("big_model", price=0.2, latency=9.0),
    ToolFacts("book", price=0.0, latency=0.5, writes=True),
]
NAMES = tuple(tool.name for tool in TOOLS)
CHEAP = dict.fromkeys(["web_search", "local_search", "book"], "plain")


def pair(instruction: str, **weights: float) -> PreferencePair:
    return PreferencePair(instruction, NAMES, tuple(weights.get(name, 0.0) for name in (*NAMES, *COMPONENTS)))


@pytest.mark.parametrize(
    ("instruction", "requested", "aside"),
    [
        ("Be quick.", {"latency": "plain"}, set()),
        ("Use local search.", {"local_search": "plain"}, set()),
        ("Use local_search, not so much the rest.", {"local_search": "plain"}, set()),
        ("Prefer tools that cost nothing.", {"local_search": "plain", "book": "plain"}, set()),
        ("Use tools that cost at most $0.01 a call.", CHEAP, set()),
        ("Above all use tools that answer within 2 seconds.", dict.fromkeys(CHEAP, "strong"), set()),
        ("Read-only tools, please.", dict.fromkeys(["web_search", "local_search", "big_model"], "plain"), set()),
        ("Tools that change records would be nice.", {"book": "weak"}, set()),
        ("Avoid the big model; be right.", {"outcome": "plain"}, {"big_model"}),
        ("Cost does not matter. I am in a hurry, above all.", {"latency": "strong"}, {"compute"}),
        ("Save some money, a little. But web_search: never use it.", {"compute": "weak"}, {"web_search"}),
        ("Thank you!", {}, set()),
    ],
)
def test_words_mean_entries_of_the_vector(instruction: str, requested: dict[str, str], aside: set[str]):
    assert meaning(instruction, TOOLS) == (requested, aside)


def test_the_papers_example_is_consistent():
    asks = "There are many GPUs in our server: prefer local search. Avoid web_search and the big model."
    assert check_pair(pair(asks, local_search=1), TOOLS) == []


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (PreferencePair("Be quick.", NAMES, (0, 0, 0, 0, 0, 0)), "expected 7 weights .* got 6"),
        (PreferencePair("Be quick.", NAMES[:2], (0, 0, 0, 0, 1)), "expected the tools web_search, local_search"),
        (pair("Be quick.", latency=1.5), r"expected weights in \[0, 1\], got 1.5"),
        (pair("Be quick.", latency=-0.1), "got -0.1"),
        (pair("Be quick.", latency=math.nan), "got nan"),
        (pair("Be quick."), "rewards nothing"),
        (pair("  ", latency=1), "instruction is empty"),
        (pair("Be quick.", latency=1, compute=0.2), "rewards 'compute', which the instruction does not name"),
        (pair("Be quick and cheap.", latency=1), "asks for 'compute', which the vector does not reward"),
        (pair("Be quick. Avoid big_model.", latency=1, big_model=1), "rewards 'big_model', which"),
        (pair("Above all be quick.", latency=0.2), "word for 'latency' is strong, its weight is 0.2"),
        (pair("Be a little quicker - faster.", latency=0.9), "word for 'latency' is weak, its weight is 0.9"),
    ],
)
def test_what_is_wrong_with_a_pair_is_reported(bad: PreferencePair, fault: str):
    faults = check_pair(bad, TOOLS)
    assert faults
    assert re.search(fault, faults[0])


@given(st.integers(0, 10_000))
def test_every_pair_made_by_rule_is_consistent(seed: int):
    for proposal in propose(TOOLS, seed, draws=5):
        assert check_pair(proposal, TOOLS) == []


@given(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=7, max_size=7), st.integers(0, 10_000))
def test_a_pair_with_anothers_vector_is_found_out(vector: list[float], seed: int):
    proposal = next(propose(TOOLS, seed))
    altered = PreferencePair(proposal.instruction, NAMES, tuple(vector))
    if set(altered.rewarded) != set(proposal.rewarded):
        assert check_pair(altered, TOOLS)


def test_pairs_differ_and_no_set_of_rewarded_entries_is_in_both_splits():
    pairs, report = make_pairs(TOOLS, 200)
    assert len(pairs) == report.kept.total() == 200
    assert len({one.vector for one in pairs}) == len({one.instruction for one in pairs}) == 200
    rewarded: dict[str, set[frozenset[str]]] = {"train": set(), "eval": set()}
    for one in pairs:
        rewarded[one.split].add(frozenset(one.rewarded))
    assert rewarded["train"]
    assert rewarded["eval"]
    assert not rewarded["train"] & rewarded["eval"]
    assert report.not_run == {"llm": "no model was given (--llm)"}


def test_the_same_seed_makes_the_same_pairs():
    assert make_pairs(TOOLS, 20)[0] == make_pairs(TOOLS, 20)[0]
    assert make_pairs(TOOLS, 20, seed=1)[0] != make_pairs(TOOLS, 20)[0]


def test_pairs_of_others_are_checked_and_a_judge_has_the_last_word():
    proposals = [pair("Be quick.", latency=1), pair("Be cheap.", latency=1), pair("Be right.", outcome=1)]
    requested: list[str] = []

    def judge(one: PreferencePair) -> str | None:
        requested.append(one.instruction)
        return "too short" if "right" in one.instruction else None

    pairs, report = make_pairs(TOOLS, 5, proposals=proposals, judge=judge)
    assert [one.instruction for one in pairs] == ["Be quick."]
    assert requested == ["Be quick.", "Be right."]  # what breaks the rules costs no question
    assert report.dropped == {
        "the vector rewards …, which the instruction does not name": 1,
        "judged inconsistent: too short": 1,
    }
    assert report.not_run == {}


def test_facts_are_those_of_the_tools(mini: Domain):
    facts = tool_facts(mini.tools.values())
    assert [fact.name for fact in facts] == list(mini.tools)
    assert {fact.name for fact in facts if fact.writes} == {
        name for name, tool in mini.tools.items() if tool.effect == "write"
    }


def test_nothing_to_make_is_a_mistake():
    with pytest.raises(OptionError, match="at least one tool and one pair"):
        make_pairs([], 3)
    with pytest.raises(OptionError, match="at least one tool and one pair"):
        make_pairs(TOOLS, 0)


def test_pairs_survive_their_file(tmp_path: Path):
    pairs, _ = make_pairs(TOOLS, 7)
    write_jsonl(tmp_path / "pairs.jsonl", pairs)
    assert read_pairs(tmp_path / "pairs.jsonl") == pairs
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(OptionError, match="holds no preference pair"):
        read_pairs(tmp_path / "none.jsonl")


def test_an_environment_gives_each_task_one_pair_of_a_file(mini: Domain, make_env: Any, tmp_path: Path):
    pairs, _ = make_pairs(tool_facts(mini.tools.values()), 30)
    write_jsonl(tmp_path / "pairs.jsonl", pairs)
    env = make_env(preference=str(tmp_path / "pairs.jsonl"))
    by_text = {one.instruction: one for one in pairs}
    seen = set()
    for task in mini.tasks("train")[:12]:
        for seed in (0, 1):
            observation, info = env.reset(seed=seed, options={"task_id": task.id})
            text = observation.split("\n\n")[-1]
            assert tuple(info["preference"]) == by_text[text].vector
            seen.add((task.id, text))
    assert len(seen) == 12  # the same whatever the seed
    assert len({text for _, text in seen}) > 4
    env.reset(options={"task_id": task.id, "tools": ["get_order", "get_customer"]})
    assert env.unwrapped.episode.preference is not None
    assert len(env.unwrapped.episode.preference) == 5

"""Preference pairs: what tools have in common, what is wrong with a pair, and pairs made from templates."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.envs.task_source import make_source
from toolorchestra.envs.tools.toolkit import Toolkit
from toolorchestra.toolscale import preferences
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.common.yaml_reader import parse_yaml
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.preferences import (
    COMPONENTS,
    PreferencePair,
    ToolFacts,
    check_pair,
    groups_by_origin,
    groups_by_use,
    make_pairs,
    propose,
    read_pairs,
    tool_facts,
)
from toolorchestra.toolscale.tools.tool import ToolOrigin

TOOLS = [
    ToolFacts("web_search", price=0.01, latency=2.0),
    ToolFacts("local_search", price=0.0, latency=0.5),
    ToolFacts("big_model", price=0.2, latency=9.0),
    ToolFacts("book", price=0.0, latency=0.5, writes=True),
]
NAMES = tuple(tool.name for tool in TOOLS)
CATALOG = Catalog.load()


def model(name: str) -> ToolFacts:
    """A model of the catalogue under its public name, as the paper lists it."""
    spec = CATALOG.spec(name)
    origin = ToolOrigin("model", name, spec.vendor, spec.provider, spec.open_weights)
    return ToolFacts(spec.model, 0.01, spec.latency.mean, origin=origin)


PAPER = [
    ToolFacts("Web search", 0.008, 2.0, origin=ToolOrigin("search", provider="tavily", self_hosted=False)),
    ToolFacts("local search", 0.0, 0.3, origin=ToolOrigin("search")),
    *map(model, ("qwen3-235b", "llama-3.3-70b", "o3-mini", "o3")),
]
"""The tools of the paper's example (App. F)."""
WEB, LOCAL, QWEN, LLAMA, O3_MINI, O3 = (tool.name for tool in PAPER)


def pair(instruction: str, **weights: float) -> PreferencePair:
    return PreferencePair(instruction, NAMES, tuple(weights.get(name, 0.0) for name in (*NAMES, *COMPONENTS)))


def test_words_for_tools_by_price_duration_and_effect():
    assert groups_by_use(TOOLS) == {
        "tools that cost nothing": ["local_search", "book"],
        "tools that answer within 0.5 seconds": ["local_search", "book"],
        "tools that only read": ["web_search", "local_search", "big_model"],
        "tools that change records": ["book"],
    }
    priced = [ToolFacts("a", price=0.00012), ToolFacts("b", price=0.0002), ToolFacts("c", price=0.3)]
    assert groups_by_use(priced) == {"tools that cost at most $0.0002 a call": ["a", "b"]}


def test_words_for_tools_by_what_they_are_and_who_made_or_runs_them():
    alone, contrasts = groups_by_origin(PAPER)
    assert alone == {
        "open-weight models": [QWEN, LLAMA],
        "closed models": [O3_MINI, O3],
        "web search": [WEB],
        "local search": [LOCAL],
        "local tools": [LOCAL],
        "hosted tools": [WEB, QWEN, LLAMA, O3_MINI, O3],
        "APIs": [WEB, O3_MINI, O3],
        "hosted models": [QWEN, LLAMA, O3_MINI, O3],
        "language models": [QWEN, LLAMA, O3_MINI, O3],
        "search tools": [WEB, LOCAL],
        "models made by Alibaba": [QWEN],
        "models made by Meta": [LLAMA],
        "models made by OpenAI": [O3_MINI, O3],
        "models hosted by Together": [QWEN, LLAMA],
        "models hosted by OpenAI": [O3_MINI, O3],
    }
    assert contrasts["local search rather than web search"] == [LOCAL]
    assert contrasts["open-weight models rather than closed models"] == [QWEN, LLAMA]


def test_models_that_users_run_themselves_are_local():
    ours = ToolFacts("ask_ours", origin=ToolOrigin("model", "ours", "Our Org", "local"))
    alone, _ = groups_by_origin([*PAPER, ours])
    assert alone["local models"] == ["ask_ours"]
    assert alone["local tools"] == [LOCAL, "ask_ours"]
    assert alone["models made by Our Org"] == ["ask_ours"]


def test_the_tools_of_an_environment_say_what_they_are():
    source = make_source("Math")
    kit = Toolkit()
    tools = kit.tools(source.world(source.tasks("test")[0]), "full", kit.configure("evaluation", 0, ""))
    alone, _ = groups_by_origin(tool_facts(tools.values()))
    assert alone["local tools"] == ["calculator", "local_search", "python"]
    assert alone["the Python interpreter"] == ["python"]
    assert alone["models made by Alibaba"] == [name for name in tools if "qwen" in name]
    assert set(alone["APIs"]) == {*(name for name in tools if "gpt_5" in name), "web_search"}


def test_a_set_without_models_or_searches_has_no_words_for_them(mini: Domain):
    assert groups_by_origin(tool_facts(mini.tools.values())) == ({}, {})


def test_the_papers_example_is_a_pair():
    instruction = (
        "I am a company employee and there is some confidential information in my server. There are many GPUs in the "
        "server, so I can host open-sourced models or retrievers. It would be great if we can avoid API calling as "
        "much as possible."
    )
    vector = (0, 1, 1, 1, 0, 0, 0, 0, 0)
    example = PreferencePair(instruction, (WEB, LOCAL, QWEN, LLAMA, O3_MINI, O3), vector)
    assert check_pair(example, PAPER) == []
    assert example.rewarded == {LOCAL: 1, QWEN: 1, LLAMA: 1}


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
        (pair("Be quick. " * 300, latency=1), "expected an instruction of at most 2,000 characters, got 3,000"),
    ],
)
def test_what_is_wrong_with_a_pair_is_reported(bad: PreferencePair, fault: str):
    faults = check_pair(bad, TOOLS)
    assert faults
    assert re.search(fault, faults[0])


SENTENCES: Any = parse_yaml(Path(preferences.__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
WEIGHTS = {"strong": {1.0, 0.9, 0.8}, "plain": {0.7, 0.6, 0.5}, "weak": {0.3, 0.2, 0.1}}


@given(st.sampled_from([TOOLS, PAPER]), st.integers(0, 10_000))
def test_pairs_from_templates_reward_what_their_sentences_ask_for(tools: list[ToolFacts], seed: int):
    """Takes each instruction apart into the sentences of the YAML that it is made of; nothing else is rewarded."""
    origins, contrasts = groups_by_origin(tools)
    groups = groups_by_use(tools) | origins | contrasts | {tool.name: [tool.name] for tool in tools}
    listed = "|".join(map(re.escape, sorted(groups, key=len, reverse=True)))
    what = f"((?:{listed})(?:(?:, | and )(?:{listed}))*)"
    for proposal in propose(tools, seed, draws=5):
        assert check_pair(proposal, tools) == []
        text, left = proposal.instruction, proposal.rewarded
        for name, by_grade in SENTENCES["components"].items():
            for grade, sentences in by_grade.items():
                for sentence in sentences:
                    if sentence in text:
                        text = text.replace(sentence, "", 1)
                        assert left.pop(name) in WEIGHTS[grade]
        for grade, sentences in SENTENCES["tools"].items():
            for sentence in sentences:
                if found := re.search(re.escape(sentence).replace(r"\{what\}", what), text):
                    text = text.replace(found[0], "", 1)
                    phrases = [found[1]] if found[1] in groups else re.split(", | and ", found[1])
                    weights = {left.pop(tool) for phrase in phrases for tool in groups[phrase]}
                    assert len(weights) == 1
                    assert weights <= WEIGHTS[grade]
        assert left == {}
        for name, sentences in SENTENCES["aside"].items():
            for sentence in sentences:
                if found := re.search(re.escape(sentence).replace(r"\{what\}", what), text):
                    text = text.replace(found[0], "", 1)
                    assert not {*(groups[found[1]] if name == "tools" else [name])} & set(proposal.rewarded)
        assert text.strip() == ""


def test_pairs_from_templates_cover_the_words_for_tools():
    pairs, report = make_pairs(PAPER, 400, seed=1)
    text = "\n".join(pair.instruction for pair in pairs)
    origins, contrasts = groups_by_origin(PAPER)
    assert [words for words in (*groups_by_use(PAPER), *origins, *contrasts) if words not in text] == []
    assert "Avoid APIs" in text
    assert set(report.dropped) == {"the vector or the instruction stands in an earlier pair"}


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
    proposals = [pair("Be quick.", latency=1), pair("Be cheap.", compute=2), pair("Be right.", outcome=1)]
    requested: list[str] = []

    def judge(one: PreferencePair) -> str | None:
        requested.append(one.instruction)
        return "too short" if "right" in one.instruction else None

    pairs, report = make_pairs(TOOLS, 5, proposals=proposals, judge=judge)
    assert [one.instruction for one in pairs] == ["Be quick."]
    assert requested == ["Be quick.", "Be right."]  # what has faults costs no question
    assert report.dropped == {"expected weights in […, …], got …": 1, "judged inconsistent: too short": 1}
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

"""What preferences say of tools: groups by what they are and who runs them, negations, contrasts, unknown words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.envs.task_source import make_source
from toolorchestra.envs.tools.toolkit import Toolkit
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.preference_groups import ToolFacts, owner_phrases, tool_facts
from toolorchestra.toolscale.preference_words import COMPONENTS, meaning
from toolorchestra.toolscale.preferences import PreferencePair, check_pair, make_pairs, propose
from toolorchestra.toolscale.tool import ToolOrigin

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
"""The tools of the example (App. F)."""
NAMES = tuple(tool.name for tool in PAPER)
WEB, LOCAL, QWEN, LLAMA, O3_MINI, O3 = NAMES
INSTRUCTION = (
    "I am a company employee and there is some confidential information in my server. There are many GPUs in the "
    "server, so I can host open-sourced models or retrievers. It would be great if we can avoid API calling as much as "
    "possible."
)


def test_the_example_of_the_papers_appendix_f_is_consistent():
    assert NAMES == (
        "Web search", "local search", "Qwen/Qwen3-235B-A22B", "meta-llama/Llama-3.3-70B-Instruct", "o3-mini", "o3",
    )  # fmt: skip
    vector = (0, 1, 1, 1, 0, 0)
    assert check_pair(PreferencePair(INSTRUCTION, NAMES, (*vector, 0, 0, 0)), PAPER) == []
    assert meaning(INSTRUCTION, PAPER).aside == {WEB, O3_MINI, O3}
    for place in range(len(vector)):  # with any one weight changed it is not
        other = tuple(1 - weight if at == place else weight for at, weight in enumerate(vector))
        assert check_pair(PreferencePair(INSTRUCTION, NAMES, (*other, 0, 0, 0)), PAPER)
    for place in range(len(COMPONENTS)):
        rest = tuple(float(at == place) for at in range(len(COMPONENTS)))
        assert check_pair(PreferencePair(INSTRUCTION, NAMES, (*vector, *rest)), PAPER)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("local tools", {LOCAL}),
        ("hosted tools", {WEB, QWEN, LLAMA, O3_MINI, O3}),
        ("open-weight models", {QWEN, LLAMA}),
        ("open source LLMs", {QWEN, LLAMA}),
        ("models that we can host ourselves", {QWEN, LLAMA}),
        ("closed models", {O3_MINI, O3}),
        ("proprietary models", {O3_MINI, O3}),
        ("APIs", {WEB, O3_MINI, O3}),
        ("third-party services", {WEB, O3_MINI, O3}),
        ("web search", {WEB}),
        ("internet-based search", {WEB}),
        ("the internet", {WEB}),
        ("local search", {LOCAL}),
        ("the local corpus", {LOCAL}),
        ("retrievers", {LOCAL}),
        ("search tools", {WEB, LOCAL}),
        ("language models", {QWEN, LLAMA, O3_MINI, O3}),
        ("all local tools", {LOCAL}),
        ("all open-weight models", {QWEN, LLAMA}),
        ("all models hosted by OpenAI", {O3_MINI, O3}),
        ("models made by Meta", {LLAMA}),
        ("models by Alibaba or Meta", {QWEN, LLAMA}),
        ("Meta's models", {LLAMA}),
        ("OpenAI models", {O3_MINI, O3}),
        ("everything from OpenAI", {O3_MINI, O3}),
        ("models hosted by Together AI", {QWEN, LLAMA}),
        ("models hosted by OpenAI", {O3_MINI, O3}),
        ("open-weight models by Meta", {LLAMA}),
        ("Alibaba's open-weight models", {QWEN}),
        ("qwen3-235b", {QWEN}),  # the catalogue's name
        ("o3", {O3}),
        ("o3-mini", {O3_MINI}),
    ],
)
def test_groups_mean_their_tools(words: str, meant: set[str]):
    assert meaning(f"Please use {words}.", PAPER) == (dict.fromkeys(meant, "plain"), set(), [])
    assert meaning(f"Please avoid {words}.", PAPER) == ({}, meant, [])


@pytest.mark.parametrize(
    ("instruction", "requested", "aside"),
    [
        ("Use local search rather than web search.", {LOCAL}, {WEB}),
        ("Use web search instead of local search, and be quick.", {WEB, "latency"}, {LOCAL}),
        ("Rather than web search, use the local corpus.", {LOCAL}, {WEB}),
        ("Instead of o3 use o3-mini.", {O3_MINI}, {O3}),
        ("Use OpenAI's models rather than those of Meta, and no web search.", {O3, O3_MINI}, {LLAMA, WEB}),
        ("I like local search more than web search.", {LOCAL}, {WEB}),
        ("Prefer local search over web search.", {LOCAL}, {WEB}),
        ("Use local search, not web search.", {LOCAL}, {WEB}),
        ("Not only local search, but also web search.", {LOCAL, WEB}, set()),
        ("No API calls, please, but all open-weight models.", {QWEN, LLAMA}, {WEB, O3, O3_MINI}),
        ("I do not want you to use any closed models.", set(), {O3, O3_MINI}),
        ("Don't use web search or o3; use o3-mini.", {O3_MINI}, {WEB, O3}),
        ("Never ask o3. Use o3-mini.", {O3_MINI}, {O3}),
        ("Anything but OpenAI's models.", set(), {O3, O3_MINI}),
        ("Nothing but local tools.", {LOCAL}, set()),
        ("Use language models except o3.", {QWEN, LLAMA, O3_MINI}, {O3}),
        ("Web search: never use it. Use local search.", {LOCAL}, {WEB}),
        ("Closed models cost too much; avoid them.", {"compute"}, {O3, O3_MINI}),
        ("Closed models cost too much. Avoid them if possible.", {"compute"}, {O3, O3_MINI}),
        ("Web search I would rather avoid.", set(), {WEB}),
        ("Do not hesitate to use web search.", {WEB}, set()),
        ("Do not avoid web search.", {WEB}, set()),
        ("Use open-weight models without web search.", {QWEN, LLAMA}, {WEB}),
        ("Avoid web search, o3 and o3-mini, use local search.", {LOCAL}, {WEB, O3, O3_MINI}),
        ("Be right rather than quick.", {"outcome"}, {"latency"}),
        ("Avoid mistakes, money is no object.", {"outcome"}, {"compute"}),
        ("Do not keep me waiting.", {"latency"}, set()),
        ("It does not matter how long it takes or what it costs.", set(), {"compute"}),
        ("Cost does not matter, be right.", {"outcome"}, {"compute"}),
        ("Regardless of cost, use o3.", {O3}, {"compute"}),
        ("Use hosted models although cost counts.", {QWEN, LLAMA, O3_MINI, O3, "compute"}, set()),
        ("We put it together with the web search.", {WEB}, set()),
    ],
)
def test_what_follows_a_negation_or_a_contrast_is_set_aside(instruction: str, requested: set[str], aside: set[str]):
    found = meaning(instruction, PAPER)
    assert (set(found.requested), found.aside, found.unknown) == (requested, aside, [])


@pytest.mark.parametrize(
    ("instruction", "unknown"),
    [
        ("Use models made by Foocorp.", "Unknown maker or host of models 'Foocorp'. Known: alibaba, meta, openai"),
        ("Use models hosted by foocorp.", "Unknown maker or host of models 'foocorp'"),
        ("I trust Foocorp's models.", "Unknown maker or host of models 'Foocorp'"),
        ("I trust the Foocorp models.", "Unknown maker or host of models 'Foocorp'"),
        ("Prefer web_serch.", "Unknown tool or model 'web_serch'. Did you mean 'Web search'?"),
        ("Prefer o3-max.", "Unknown tool or model 'o3-max'. Did you mean 'o3-mini'?"),
        ("Prefer gpt-7.", "Unknown tool or model 'gpt-7'"),
        ("Avoid gpt-7 and be quick.", "Unknown tool or model 'gpt-7'"),
        ("Use models that run locally.", "The words 'models that run locally' mean no tool of the set."),
        ("Use the Python interpreter.", "The words 'Python interpreter' mean no tool of the set."),
    ],
)
def test_what_means_no_tool_of_the_set_is_named_in_the_refusal(instruction: str, unknown: str):
    (sentence,) = meaning(instruction, PAPER).unknown
    assert sentence.startswith(unknown)
    pair = PreferencePair(instruction, NAMES, (0, 0, 0, 0, 0, 0, 0, 0, 1))
    assert check_pair(pair, PAPER)[0] == f"the instruction speaks of what there is not. {sentence}"


@pytest.mark.parametrize("words", ["on hand", "by hand", "from now on", "by default"])
def test_everyday_words_are_no_companies(words: str):
    assert meaning(f"Use these tools {words}, and be quick.", PAPER).unknown == []


def test_models_that_users_run_themselves_are_local():
    ours = ToolFacts("ask_ours", origin=ToolOrigin("model", "ours", "Our Org", "local"))
    tools = [*PAPER, ours]
    for words in (
        "local models",
        "models hosted by us",
        "models running on our own servers",
        "models that run locally",
    ):
        assert meaning(f"Use {words}.", tools) == ({"ask_ours": "plain"}, set(), [])
    assert set(meaning("Use local tools.", tools).requested) == {LOCAL, "ask_ours"}


def test_a_weight_on_what_is_set_aside_is_named_as_such():
    pair = PreferencePair("Use local search rather than web search.", NAMES, (1, 1, 0, 0, 0, 0, 0, 0, 0))
    assert check_pair(pair, PAPER) == ["the vector rewards 'Web search', which the instruction sets aside"]


def test_the_tools_of_an_environment_say_what_they_are():
    source = make_source("Math")
    kit = Toolkit()
    tools = kit.tools(source.world(source.tasks("test")[0]), "full", kit.configure("evaluation", 0, ""))
    facts = tool_facts(tools.values())
    assert set(meaning("Use local tools.", facts).requested) == {"calculator", "local_search", "python"}
    assert set(meaning("Use Alibaba's models.", facts).requested) == {name for name in tools if "qwen" in name}
    assert set(meaning("Use gpt-5.", facts).requested) == {"query_gpt_5", "code_gpt_5", "ask_gpt_5"}
    assert meaning("Prefer web search to nothing.", facts).requested == {"web_search": "plain"}
    closed = {name for name in tools if "gpt_5" in name}
    assert meaning("Without APIs.", facts).aside == {*closed, "web_search"}
    assert owner_phrases(facts) == [
        "models made by OpenAI", "models made by Alibaba", "models made by Meta", "models hosted by OpenAI",
        "models hosted by Together",
    ]  # fmt: skip


@given(st.integers(0, 10_000))
def test_pairs_made_by_rule_speak_of_groups_and_are_consistent(seed: int):
    for proposal in propose(PAPER, seed, draws=5):
        assert check_pair(proposal, PAPER) == []


def test_pairs_made_by_rule_cover_the_vocabulary_and_both_polarities():
    pairs, report = make_pairs(PAPER, 400, seed=1)
    text = "\n".join(pair.instruction for pair in pairs)
    wanted = (
        "local tools", "hosted tools", "open-weight models", "closed models", "APIs", "web search", "local search",
        "models made by Meta", "models hosted by Together", "local search rather than web search",
        "open-weight models rather than closed models", "Avoid APIs", "without",
    )  # fmt: skip
    assert [words for words in wanted if words not in text] == []
    assert not [reason for reason in report.dropped if "earlier pair" not in reason]


def test_a_set_without_models_or_searches_has_no_words_for_them(mini: Domain):
    facts = tool_facts(mini.tools.values())
    text = " ".join(proposal.instruction for proposal in propose(facts, 0, draws=300))
    assert not re.search(r"local|hosted|models|search|APIs|Avoid", text)

"""Designs in the forms that the paper's appendices print (typed by hand), and what its authors' parser reads beside."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.paper_parser import parse_paper_design
from toolorchestra.envs.masorchestra.parser import MAX_DESIGN_CHARACTERS, parse_design
from toolorchestra.envs.masorchestra.rules import DesignFault, Rule


def read(text: str, dom: str = "high") -> Design:
    found = parse_paper_design(text, dom)  # type: ignore[arg-type]
    assert isinstance(found, Design), found
    return found


def rule(text: str, dom: str = "high") -> str:
    found = parse_paper_design(text, dom)  # type: ignore[arg-type]
    assert isinstance(found, DesignFault), found
    return found.rule.value


# -------------------------------------------------------------------------------------------- the forms of App. H and D

H1_DIRECT = """\
<thinking>
(20+9)*(30+7) = 600 + 140 + 270 + 63 = 1073.
</thinking>
<answer>1073</answer>"""

H1_DEBATE = """\
<thinking>
This question requires comparison between two close numeric choices. The DebateAgent can capture both perspectives.
</thinking>

<agent>
  <agent_name>DebateAgent</agent_name>
  <agent_description> Near-tie numeric choice using one Debate call. </agent_description>
  <required_arguments>
    <agent_input></agent_input>
    <debate_roles> ["Mathematics Professor", "Statistics Teacher"] </debate_roles>
  </required_arguments>
  <agent_output_id> compare_agent_output </agent_output_id>
</agent>

<answer>compare_agent_output</answer>"""

H1_PART = """\
<thinking>
Step 1: Compute the average manually: sum = 28, avg = 28 / 5 = 5.6
Step 2: The remaining step requires precision. I will delegate that part to a ReflexionAgent.
</thinking>
<agent>
  <agent_name>ReflexionAgent</agent_name>
  <agent_description> Square root with a light self-refine loop (single agent call). </agent_description>
  <required_arguments>
    <agent_input>Compute sqrt(5.6) to 3 decimals</agent_input>
  </required_arguments>
  <agent_output_id>numeric_agent_output</agent_output_id>
</agent>
<answer>numeric_agent_output</answer>"""

H2_ONE = """\
<thinking>
Using a single WebSearchAgent is sufficient because the task only requires retrieving facts.
</thinking>
<agent>
  <agent_id>SEARCH</agent_id>
  <agent_name>WebSearchAgent</agent_name>
  <agent_description> Retrieves recent and cited factual information from the internet. </agent_description>
  <required_arguments>
    <agent_input>""</agent_input>
  </required_arguments>
</agent>"""


def agent(agent_id: str, kind: str, task: str) -> str:
    return f"""<agent>
  <agent_id>{agent_id}</agent_id>
  <agent_name>{kind}</agent_name>
  <agent_description> Works. </agent_description>
  <required_arguments>
    <agent_input> {task} </agent_input>
  </required_arguments>
</agent>
"""


H2_VACANCY = (
    "<thinking>\nWe need up-to-date numbers with sources. The final sink is FINAL.\n</thinking>\n"
    + agent("WS_NYC", "WebSearchAgent", "Search for the housing vacancy rate of New York City.")
    + agent("WS_LA", "WebSearchAgent", "Search for the housing vacancy rate of Los Angeles.")
    + agent("WS_CHI", "WebSearchAgent", "Search for the housing vacancy rate of Chicago.")
    + agent("EXT", "CoTAgent", "Output a compact 3-line table.\nNYC: ${WS_NYC}\nLA: ${WS_LA}\nChicago: ${WS_CHI}")
    + agent("VOTE", "SCAgent", "Vote on a single corrected 3-line table.\nTable: ${EXT}")
    + agent("QA", "ReflexionAgent", "Audit the voted table.\nVoted table: ${VOTE}")
    + agent("FINAL", "CoTAgent", "Write a 3–4 sentence summary.\nTable: ${VOTE}\nQA notes: ${QA}")
    + """<edge>
  <from>WS_NYC</from><to>EXT</to>
  <from>WS_LA</from><to>EXT</to>
  <from>WS_CHI</from></from><to>EXT</to>
  <from>EXT</from><to>VOTE</to>
  <from>VOTE</from><to>QA</to>
  <from>VOTE</from><to>FINAL</to>
  <from>QA</from><to>FINAL</to>
</edge>"""
)

D1_REASONING = """\
analysisWe need to design agents. Variables: GGP_SF_Anteater = 21 (given). Maybe
<agent><agent_id>DRAFT</agent_id><agent_name>SCAgent</agent_name></agent> No. Thus answer 42. Let's produce.
assistantfinal<thinking> The problem is a straight-forward system of linear equations. The graph consists of just this
one sink agent. </thinking>
<agent>
  <agent_id>SOLVE</agent_id>
  <agent_name>CoTAgent</agent_name>
  <agent_description>Solves.</agent_description>
  <required_arguments><agent_input></agent_input></required_arguments>
</agent>"""


def test_the_examples_of_a_low_degree_are_read_as_the_paper_means_them() -> None:
    assert read(H1_DIRECT, "low").answer == "1073"
    (debate,) = read(H1_DEBATE, "low").agents
    assert debate.roles == ("Mathematics Professor", "Statistics Teacher")
    assert (debate.id, debate.input) == ("compare_agent_output", "")
    assert read(H1_PART, "low").agents[0].input == "Compute sqrt(5.6) to 3 decimals"
    for text in (H1_DIRECT, H1_DEBATE, H1_PART):  # these are in the design language too
        strict = parse_design(text, "low")
        assert isinstance(strict, Design)
        assert strict.agents == read(text, "low").agents


def test_the_examples_of_a_high_degree_are_read_as_the_paper_means_them() -> None:
    one = read(H2_ONE)
    assert (one.sink, one.agents[0].input) == ("SEARCH", "")
    assert parse_design(H2_ONE) == Design(dom="high", thinking=one.thinking, agents=one.agents)
    vacancy = read(H2_VACANCY)
    assert vacancy.levels == (("WS_NYC", "WS_LA", "WS_CHI"), ("EXT",), ("VOTE",), ("QA",), ("FINAL",))
    assert vacancy.parents("FINAL") == ("VOTE", "QA")
    refused = parse_design(H2_VACANCY)  # the paper's example closes a tag twice
    assert isinstance(refused, DesignFault)
    assert refused.rule is Rule.TAGS


def test_only_what_a_reasoning_model_says_in_the_end_counts() -> None:
    design = read(D1_REASONING)
    assert [one.id for one in design.agents] == ["SOLVE"]
    assert design.thinking.startswith("The problem is")
    assert isinstance(parse_design(D1_REASONING), DesignFault)
    assert read(D1_REASONING.replace("assistantfinal", "</think>")).agents == design.agents


# -------------------------------------------------------------------------------- what the strict parser does not take

A, B = agent("A", "CoTAgent", "Parse."), agent("B", "CoTAgent", "Solve ${A}")
EDGE = "<edge><from>A</from><to>B</to></edge>"
PAIR = (Agent("A", "CoTAgent", "Parse.", "Works."), Agent("B", "CoTAgent", "Solve ${A}", "Works."))
DEBATE = agent("D", "DebateAgent", "").replace("</required_arguments>", "{}</required_arguments>")

STYLES = {
    "no thinking": A + B + EDGE,
    "late thinking": A + B + EDGE + "<thinking>So.</thinking>",
    "thinking twice": "<thinking>So.</thinking>" + A + B + EDGE + "<thinking>Or.</thinking>",
    "agents in the thinking": f"<thinking>I need {A} and {B}</thinking>{EDGE}",
    "everything in the thinking": f"<thinking>I need {A} and {B}{EDGE}",
    "other cases": (A + B + EDGE).replace("agent", "AGENT").replace("CoTAGENT", "cotagent").replace("edge", "Edge"),
    "an argument outside": A.replace("required_arguments", "b") + B.replace("required_arguments", "b") + EDGE,
    "roles without a debate": A.replace("</required", "<debate_roles>['a', 'b']</debate_roles></required") + B + EDGE,
    "a field twice": A.replace("<agent_name>", "<agent_id>Z</agent_id><agent_name>") + B + EDGE,
    "an answer beside agents": A + B + EDGE + "<answer>B</answer>",
    "two blocks of edges": A + B + EDGE + EDGE,
    "ends apart": A + B + "<edge><from>A</from><from>B</from><to>B</to></edge>",
    "an end that is closed twice": A + B + EDGE.replace("</from>", "</from></from>"),
    "an edge that is cut off": A + B + EDGE.removesuffix("</to></edge>"),
    "a missing edge": A + B + agent("C", "CoTAgent", "${A} ${B}") + "<edge><from>A</from><to>B</to></edge>",
    "other text": f"```xml\n{A}{B}{EDGE}\n```\nThis is my system.",
    "an agent without a name": A + B + "<agent><agent_id>C</agent_id></agent>" + EDGE,
}


@pytest.mark.parametrize("style", [style for style in STYLES if style != "a missing edge"])
def test_a_design_in_the_authors_style_is_read(style: str) -> None:
    assert isinstance(parse_design(STYLES[style]), DesignFault) or style == "other text"
    design = read(STYLES[style])
    assert design.agents == PAIR
    assert design.edges == (("A", "B"),)
    assert (design.lenient, design.answer) == (True, None)


def test_descriptions_and_arguments_may_be_missing_and_the_last_block_may_be_cut_off() -> None:
    bare = "<agent><agent_id>A</agent_id><agent_name>CoTAgent</agent_name></agent>"
    assert read(bare).agents == (Agent("A", "CoTAgent"),)
    cut = "<agent><agent_id>A</agent_id><agent_name>SCAgent</agent_name><required_arguments><agent_input>Solve th"
    assert read(cut).agents == (Agent("A", "SCAgent", "Solve th"),)


@pytest.mark.parametrize(
    "roles",
    [
        "['A sceptic', 'An optimist']",
        '["A sceptic", "An optimist"]',
        "['A sceptic', \"An optimist\",]",
        "A sceptic, An optimist",
        "[A sceptic, An optimist",
    ],
)
def test_roles_may_be_a_python_list(roles: str) -> None:
    (debate,) = read(DEBATE.format(f"<debate_roles>{roles}</debate_roles>")).agents
    assert debate.roles == ("A sceptic", "An optimist")


def test_ids_with_other_characters_are_those_that_inputs_and_edges_mean() -> None:
    text = agent("ws-la", "CoTAgent", "Go.") + agent("ws_la", "CoTAgent", "Go.") + agent("end", "CoTAgent", "${ws-la}")
    design = read(text + "<edge><from>ws-la</from><to>end</to><from>ws_la</from><to>end</to></edge>")
    assert design.agents[2].input == "${ws_la_2}"
    assert design.edges == (("ws_la_2", "end"), ("ws_la", "end"))


def test_a_reference_without_an_edge_is_read_if_that_agent_runs_before() -> None:
    chain = A + B + agent("C", "CoTAgent", "${A} ${B} ${C} ${Z}")
    design = read(chain + "<edge><from>A</from><to>B</to><from>B</from><to>C</to></edge>")
    assert design.parents("C") == ("B", "A")
    back = agent("A", "CoTAgent", "${B}") + agent("B", "CoTAgent", "Go.")  # B runs after A
    assert read(back + EDGE).edges == (("A", "B"),)


def test_an_edge_without_a_reference_orders_two_agents_and_passes_nothing_on() -> None:
    model = ScriptedChat([r"\boxed{3}", r"\boxed{4}"])
    env = MASOrchestraEnv("Math", model=model, parser="paper")
    env.reset(seed=2)
    *_, info = env.step(A + agent("B", "CoTAgent", "") + EDGE)
    assert [call.id for call in info["calls"]] == ["A", "B"]
    assert info["calls"][1].start >= info["calls"][0].end
    assert r"\boxed{3}" not in str(model.requests[1].messages[-1]["content"])
    assert env.episode.answer == r"\boxed{4}"


@pytest.mark.parametrize(
    "text",
    [
        H1_PART.replace("<answer>numeric_agent_output</answer>", ""),
        H1_PART.replace("<answer>numeric_agent_output", "<answer>agent_output"),
        H1_PART + H1_DEBATE,
        H1_PART.replace("  <agent_output_id>numeric_agent_output</agent_output_id>\n", ""),
    ],
)
def test_a_low_degree_takes_the_first_agent_whatever_the_answer_names(text: str) -> None:
    assert isinstance(parse_design(text, "low"), DesignFault)
    design = read(text, "low")
    assert [one.kind for one in design.agents] == ["ReflexionAgent"]
    assert design.answer == design.sink == design.agents[0].id


@pytest.mark.parametrize("dom", ["low", "high"])
def test_a_text_without_agents_is_a_direct_answer(dom: str) -> None:
    assert read("<answer>4</answer>", dom).answer == "4"
    assert read("It is 4.", dom).answer == "It is 4."
    assert read("<thinking>2 + 2</thinking> So 4.", dom).answer == "So 4."
    for nothing in ("", "<thinking>Hm.</thinking>", "<agent></agent>", "<answer></answer>"):
        assert rule(nothing, dom) == "answer"


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("edges", A + agent("B", "CoTAgent", "Go.")),
        ("declared", A + B + EDGE.replace("A", "X")),
        ("loop", A + B + EDGE.replace("<to>B", "<to>A")),
        ("cycle", A + B + "<edge><from>A</from><to>B</to><from>B</from><to>A</to></edge>"),
        ("connected", A + B + agent("C", "CoTAgent", "") + EDGE),
        ("sink", A + B + agent("C", "CoTAgent", "") + EDGE.replace("</edge>", "<from>A</from><to>C</to></edge>")),
        ("kind", agent("A", "WriterAgent", "Go.")),
        ("roles", DEBATE.format("")),
        ("roles", DEBATE.format("<debate_roles>['alone']</debate_roles>")),
        ("roles", DEBATE.format("<debate_roles>['a', 'b']</debate_roles>")),
        ("dom", "".join(agent(f"A{number}", "CoTAgent", "") for number in range(65))),
        ("length", "x" * (MAX_DESIGN_CHARACTERS + 1)),
    ],
)
def test_what_is_wrong_with_the_graph_is_refused_as_by_the_authors(broken: str, text: str) -> None:
    assert rule(text) == broken


def test_agents_of_one_id_count_once() -> None:
    assert read(A + A.replace("Parse", "Other") + B + EDGE).agents == PAIR


@given(
    st.lists(st.sampled_from([*STYLES.values(), "<agent>", "</agent>", "<edge>", "<from>", "${A}", "'", "[", "\ud800"]))
)
@settings(max_examples=100, deadline=None)
def test_no_text_makes_it_raise(parts: list[str]) -> None:
    for dom in ("low", "high"):
        found = parse_paper_design("".join(parts), dom)  # type: ignore[arg-type]
        if isinstance(found, Design):
            assert found.lenient
            to_text(found)


def test_an_environment_reads_with_the_parser_that_it_is_given() -> None:
    text = STYLES["no thinking"]
    rules = {}
    for parser in ("strict", "paper"):
        env = MASOrchestraEnv("Math", parser=parser)  # type: ignore[arg-type]
        observation, _ = env.reset(seed=1)
        rules[parser] = env.step(text)[4]["rule"]
        assert ("Where there is an edge" in observation) == (parser == "strict")
    assert rules == {"strict": "thinking", "paper": None}

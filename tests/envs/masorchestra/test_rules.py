from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.parser import MAX_DESIGN_CHARACTERS, parse_design
from toolorchestra.envs.masorchestra.rules import DEBATE, MAX_AGENTS, TAG, DesignFault, Rule, levels_of

VALID = "valid"


def block(agent_id: str, task: str = "", kind: str = "CoTAgent", roles: str = "", tag: str = "agent_id") -> str:
    """An agent as one might write it: not as `to_text` does."""
    more = f"<debate_roles> {roles} </debate_roles>" if roles else ""
    return (
        f"<agent>\n<{tag}> {agent_id} </{tag}><agent_name>{kind}</agent_name>\n"
        f"<agent_description> What {agent_id} is for. </agent_description>\n"
        f"<required_arguments> <agent_input>{task}</agent_input>{more} </required_arguments>\n</agent>\n"
    )


def edges(*pairs: str) -> str:
    """``"A>B"`` …"""
    listed = "".join("<from>{}</from> <to>{}</to>\n".format(*pair.split(">")) for pair in pairs)
    return f"<edge>\n{listed}</edge>\n"


WHY = "<thinking> It is best so. </thinking>\n"
HIGH = {
    "single": WHY + block("A"),
    "single with a task": WHY + block("A", "Count the boxes."),
    "pair": WHY + block("A") + block("B", "Check ${A}.") + edges("A>B"),
    "chain": WHY
    + block("PARSE", "Write the relations.")
    + block("SOLVE", "Solve ${PARSE}", "SCAgent")
    + block("CHECK", "Check ${SOLVE}", "ReflexionAgent")
    + edges("PARSE>SOLVE", "SOLVE>CHECK"),
    "fan": WHY
    + block("W_1", "Find one.", "SearchAgent")
    + block("W_2", "Find two.", "WebSearchAgent")
    + block("END", "Join ${W_1}, ${W_2}", DEBATE, '["Chemist", "Sceptic"]')
    + edges("W_1>END", "W_2>END"),
    "diamond": WHY
    + block("a0")
    + block("b1", "One: ${a0}")
    + block("b2", "Two: ${a0}")
    + block("z", "Join ${b1} and ${b2}")
    + edges("a0>b1", "a0>b2", "b1>z", "b2>z"),
    "shortcut": WHY
    + block("VOTE", "", "SCAgent")
    + block("QA", "Audit ${VOTE}", "ReflexionAgent")
    + block("FINAL", "Write from ${VOTE} and ${QA}; mind ${QA}")
    + edges("VOTE>QA", "VOTE>FINAL", "QA>FINAL"),
}
LOW = {
    "direct": WHY + "<answer>150</answer>",
    "one agent": WHY + block("out", "", tag="agent_output_id") + "<answer> out </answer>",
    "debate": WHY
    + block("d_output", "Compare.", DEBATE, '["A careful reader", "An optimist"]', "agent_output_id")
    + "<answer>d_output</answer>",
}

HAND_WRITTEN: list[tuple[str, str, str]] = [
    # ------------------------------------------------------------------------------------------------------ valid
    *(("high", VALID, text) for text in HIGH.values()),
    *(("low", VALID, text) for text in LOW.values()),
    ("high", VALID, WHY + "<answer>No agent is needed: 4.</answer>"),
    ("high", VALID, "Here is my design.\n" + HIGH["pair"] + "That is all."),
    ("high", VALID, "<think>First an <agent>, then… </agent></think>" + HIGH["pair"]),
    ("high", VALID, "already thinking </think>\n" + HIGH["single"]),
    ("high", VALID, "<thinking>I leave <agent_input> empty, as the <edge is not needed.</thinking>" + block("A")),
    ("high", VALID, WHY + block("A", "Is x < 5 and y > 3? <b>Mind</b> &amp; & <answers>")),
    ("high", VALID, WHY + block("A", "Costs $5, not ${ A }, $A, ${}, ${A-B} or $ {A}.")),
    ("high", VALID, WHY + block("B", "${A}") + block("A") + edges("A>B")),
    ("high", VALID, WHY + edges("A>B") + block("A") + block("B", "${A} ${A}")),
    ("high", VALID, WHY + block("A") + block("B", "${A}") + edges("A>B", "A>B")),
    ("high", VALID, WHY + block("A", kind=DEBATE, roles='["ä", "ö\\u0041"]')),
    ("high", VALID, WHY + block("A") + "<edge></edge>"),
    ("high", VALID, WHY.replace("<thinking>", "<thinking >") + block("0")),
    ("high", VALID, WHY + block("_" * 64)),
    ("high", VALID, WHY + block("A", "名前は？ \ud800 🙂")),
    ("high", VALID, HIGH["diamond"].replace("\n", "\r\n")),
    ("low", VALID, WHY + block("x", "Solve ${y}^2 = ${z}$", tag="agent_output_id") + "<answer>x</answer>"),
    ("low", VALID, "<answer>".join(["<thinking>20 + 9</thinking>", r"\boxed{29}</answer>"])),
    # ---------------------------------------------------------------------------------------------------- reading
    ("high", "length", WHY + block("A", "x" * MAX_DESIGN_CHARACTERS)),
    ("high", "complete", "<thinking> and then"),
    ("high", "complete", "<think> and then <thinking>x</thinking>"),
    ("high", "complete", WHY + "<agent>"),
    ("high", "complete", WHY + "<agent><agent_id>A</agent_id><agent_name>CoT"),
    ("high", "complete", WHY + block("A") + "<edge><from>A</from>"),
    ("low", "complete", WHY + "<answer>4"),
    ("high", "tags", "</thinking>" + block("A")),
    ("high", "tags", WHY + "<agent_id>A</agent_id>" + block("A")),
    ("high", "tags", WHY + block("A") + "<from>A</from><to>B</to>"),
    ("high", "tags", WHY + block("A") + "</agent>"),
    ("high", "tags", WHY + block("A", "Put it in <answer></answer>.")),
    ("high", "tags", WHY + block("A", block("B"))),
    ("high", "tags", WHY + block("A").replace("</agent>", block("B") + "</agent>")),
    ("high", "tags", WHY + block("A").replace("</agent_input>", "")),
    ("high", "tags", WHY + block("A").replace("<required_arguments>", "")),
    ("high", "tags", WHY + block("A") + block("B", "${A}") + "<edge><from>A</from></from><to>B</to></edge>"),
    ("high", "tags", WHY + block("A") + "<edge><agent_id>A</agent_id></edge>"),
    ("high", "tags", WHY + block("A", "</think> thought")),
    ("low", "tags", WHY + "<answer><from>4</from></answer>"),
    ("high", "apart", f"<thinking>I want {block('A')}</thinking>"),
    ("high", "apart", f"<thinking>So. {block('A')}"),
    ("high", "apart", "<thinking>The <answer> is easy.</thinking><answer>4</answer>"),
    ("high", "apart", "<thinking>An <edge> block… </thinking>" + HIGH["pair"]),
    ("high", "apart", "<thinking>a<thinking>b</thinking></thinking><answer>4</answer>"),
    ("high", "pairs", HIGH["pair"].replace("<to>B</to>", "")),
    ("high", "pairs", HIGH["pair"].replace("<from>A</from>", "")),
    ("high", "pairs", HIGH["fan"].replace("<from>W_2</from>", "")),
    ("high", "pairs", HIGH["fan"].replace("<to>END</to>", "", 1)),
    # ----------------------------------------------------------------------------------------------------- blocks
    ("high", "thinking", ""),
    ("high", "thinking", "I would use one agent."),
    ("high", "thinking", block("A")),
    ("low", "thinking", "<answer>4</answer>"),
    ("high", "thinking", "<thinking>  \n </thinking>" + block("A")),
    ("high", "thinking", block("A") + WHY),
    ("high", "thinking", WHY + block("A") + WHY),
    ("high", "thinking", edges("A>B") + WHY + block("A") + block("B", "${A}")),
    ("high", "one_edge", HIGH["pair"] + edges("A>B")),
    ("high", "one_edge", HIGH["single"] + "<edge></edge><edge></edge>"),
    ("low", "one_answer", LOW["direct"] + "<answer>151</answer>"),
    ("low", "one_answer", LOW["one agent"] + "<answer>out</answer>"),
    # ----------------------------------------------------------------------------------------------------- agents
    ("high", "fields", WHY + "<agent></agent>"),
    ("high", "fields", WHY + block("A", tag="agent_output_id")),
    ("high", "fields", WHY + block("A").replace("<agent>", "<agent><agent_output_id>A</agent_output_id>")),
    ("high", "fields", WHY + block("A").replace("<agent>", "<agent><agent_name>CoTAgent</agent_name>")),
    ("high", "fields", WHY + block("A").replace("<agent_input></agent_input>", "")),
    ("high", "fields", WHY + block("A").replace("<agent_input>", "<agent_input></agent_input><agent_input>")),
    ("high", "fields", WHY + re.sub(r"<agent_description>.*</agent_description>", "", block("A"))),
    ("low", "fields", WHY + block("out") + "<answer>out</answer>"),
    ("low", "dom", WHY + block("a", tag="agent_output_id") + block("b", tag="agent_output_id") + "<answer>a</answer>"),
    ("low", "dom", LOW["one agent"] + edges("out>out")),
    ("high", "dom", WHY + "".join(block(f"A{i}") for i in range(MAX_AGENTS + 1))),
    ("high", "kind", WHY + block("A", kind="cotagent")),
    ("high", "kind", WHY + block("A", kind="")),
    ("high", "kind", WHY + block("A", kind="os.system('true')")),
    ("high", "id", WHY + block("")),
    ("high", "id", WHY + block("A-1")),
    ("high", "id", WHY + block("A 1")),
    ("high", "id", WHY + block("é")),
    ("high", "id", WHY + block("x" * 65)),
    ("high", "unique", WHY + block("A") + block("A", "${A}") + edges("A>A")),
    ("high", "roles", WHY + block("A", kind=DEBATE)),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles='["alone"]')),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles="[]")),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles='["a", 7]')),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles='["a", " "]')),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles="['a', 'b']")),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles="Chemist, Sceptic")),
    ("high", "roles", WHY + block("A", kind=DEBATE, roles="[" * 20_000)),
    ("high", "roles", WHY + block("A", roles='["a", "b"]')),
    ("high", "answer", WHY),
    ("high", "answer", WHY + "<answer> </answer>"),
    ("high", "answer", HIGH["pair"] + "<answer>B</answer>"),
    ("low", "answer", WHY + block("out", tag="agent_output_id")),
    ("low", "answer", WHY + block("out", tag="agent_output_id") + "<answer>the output</answer>"),
    ("low", "answer", WHY + block("out", tag="agent_output_id") + "<answer>${out}</answer>"),
    # ------------------------------------------------------------------------------------------------------ graph
    ("high", "declared", WHY + block("A") + block("B", "${A}") + edges("A>B", "B>C")),
    ("high", "declared", WHY + block("A") + edges("A>")),
    ("high", "declared", WHY + block("A") + block("B", "${A}") + edges("a>B")),
    ("high", "loop", WHY + block("A", "${A}") + edges("A>A")),
    ("high", "loop", WHY + block("A", "Improve ${A}.")),
    ("high", "loop", WHY + block("A") + block("B", "${A}") + edges("A>B", "B>B")),
    ("high", "reference", WHY + block("A", "Solve ${x}^2 = 4$.")),
    ("high", "reference", WHY + block("A") + block("B", "${A} ${a}") + edges("A>B")),
    ("high", "edges", WHY + block("A") + block("B", "${A}")),
    ("high", "edges", WHY + block("A") + block("B") + "<edge></edge>"),
    ("high", "data_edge", WHY + block("A") + block("B", "${A}") + block("C", "${A} ${B}") + edges("A>B", "B>C")),
    ("high", "data_edge", WHY + block("A") + block("B", "${A}") + edges("B>A")),
    ("high", "edge_data", WHY + block("A") + block("B", "Check it.") + edges("A>B")),
    ("high", "edge_data", WHY + block("A") + block("B", "${A") + edges("A>B")),
    ("high", "edge_data", WHY + block("A") + block("B") + edges("A>B")),
    ("high", "cycle", WHY + block("A", "${B}") + block("B", "${A}") + edges("A>B", "B>A")),
    (
        "high",
        "cycle",
        WHY + block("S") + block("A", "${S} ${C}") + block("B", "${A}") + block("C", "${B}") + block("E", "${C}")
        + edges("S>A", "C>A", "A>B", "B>C", "C>E"),
    ),
    ("high", "connected", WHY + block("A") + block("B", "${A}") + block("C") + edges("A>B")),
    (
        "high",
        "connected",
        WHY + block("A") + block("B", "${A}") + block("C") + block("D", "${C}") + edges("A>B", "C>D"),
    ),
    ("high", "sink", WHY + block("A") + block("B", "${A}") + block("C", "${A}") + edges("A>B", "A>C")),
]  # fmt: skip


def classified(text: str, dom: str) -> str:
    found = parse_design(text, dom)  # type: ignore[arg-type]
    return str(found.rule) if isinstance(found, DesignFault) else VALID


# -------------------------------------------------------------------------------------------------------- mutations


def mutants(dom: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what one change makes of a valid design, with the rule that it breaks."""
    parsed = parse_design(text, dom)  # type: ignore[arg-type]
    assert isinstance(parsed, Design)
    written = to_text(parsed)
    tags = list(TAG.finditer(written))
    for number, tag in enumerate(tags):
        closing, name = bool(tag[1]), tag[2]
        without = written[: tag.start()] + written[tag.end() :]
        last = number == len(tags) - 1
        if not closing:
            yield dom, "complete", written[: tag.end()]
            yield dom, "tags", without
        elif name == "thinking":
            yield dom, "complete" if last else "apart", without
        else:
            yield dom, "complete" if last else "tags", without
        yield dom, VALID, written[: tag.end()] + " \n" + written[tag.end() :]
    for place in [0, *(tag.end() for tag in tags if tag[1] and tag[2] in ("thinking", "agent", "edge", "answer"))]:
        yield dom, VALID, written[:place] + " (a remark) " + written[place:]
        yield dom, "tags", written[:place] + "<agent_input>x</agent_input>" + written[place:]
    yield dom, "thinking", re.sub(r"<thinking>.*?</thinking>", "", written, flags=re.DOTALL)
    yield dom, "thinking", WHY + written
    yield dom, "apart", written.replace("</thinking>", "<agent></thinking>")
    yield dom, "apart", written.replace("</thinking>", "</agent></thinking>")
    if not parsed.agents:
        return
    first, last_agent = parsed.agents[0].id, parsed.agents[-1].id
    id_tag = "agent_output_id" if dom == "low" else "agent_id"
    yield dom, "kind", written.replace(parsed.agents[-1].kind, "OracleAgent")
    yield dom, "id", written.replace(f"<{id_tag}>{first}<", f"<{id_tag}>{first} {first}<")
    yield dom, "fields", written.replace("</agent>", f"<{id_tag}>{first}</{id_tag}></agent>", 1)
    yield dom, "fields", re.sub(r"<agent_name>.*?</agent_name>", "", written, count=1)
    yield dom, "fields", written.replace("agent_description>", "agent_name>", 2)
    if dom == "low":
        yield dom, "answer", written.replace("<answer>", "<answer>not_")
        return
    yield dom, "answer", written + f"<answer>{last_agent}</answer>"
    yield dom, "one_answer", written + "<answer>1</answer><answer>2</answer>"
    yield dom, "reference", written.replace("</agent_input>", "${nobody}</agent_input>", 1)
    yield dom, "loop", written.replace("</agent_input>", f"${{{first}}}</agent_input>", 1)
    if not parsed.edges:
        yield dom, "edges", written + block("Z")
        yield dom, "declared", written + edges(f"{first}>nobody")
        return
    yield dom, "one_edge", written + "<edge></edge>"
    yield dom, "unique", written.replace(f"<agent_id>{last_agent}<", f"<agent_id>{first}<")
    yield dom, "connected", written + block("Z", "Think.")
    yield dom, "loop", written.replace("</edge>", f"<from>{first}</from><to>{first}</to></edge>")
    yield dom, "declared", written.replace("</edge>", f"<from>{first}</from><to>nobody</to></edge>")
    yield dom, "pairs", written.replace("</edge>", f"<from>{first}</from></edge>")
    yield dom, "pairs", written.replace("<edge>", f"<edge><to>{last_agent}</to>")
    start, end = parsed.edges[0]
    readers = {end for _, end in parsed.edges}
    source = next(agent.id for agent in parsed.agents if agent.id not in readers)
    sink = str(parsed.sink)
    closed = re.sub(
        rf"(<agent_id>{source}<.*?)(</agent_input>)", rf"\1 ${{{sink}}}\2", written, count=1, flags=re.DOTALL
    )
    yield dom, "cycle", closed.replace("</edge>", f"<from>{sink}</from><to>{source}</to></edge>")
    extra = written.replace("</edge>", f"<from>{source}</from><to>Z</to></edge>")
    yield dom, "sink", extra + block("Z", f"Another view of ${{{source}}}")
    for start, end in parsed.edges:
        pair = f"<from>{start}</from><to>{end}</to>"
        yield dom, "data_edge" if len(parsed.edges) > 1 else "edges", written.replace(pair, "")
        yield dom, VALID, written.replace(pair, pair + pair)
        yield dom, "pairs", written.replace(pair, f"<to>{end}</to><from>{start}</from>")
        yield dom, "edge_data", written.replace(f"${{{start}}}", start)


def corpus() -> list[tuple[str, str, str]]:
    bases = [("high", text) for text in HIGH.values()] + [("low", text) for text in LOW.values()]
    return HAND_WRITTEN + [mutant for dom, text in bases for mutant in mutants(dom, text)]


def test_every_design_of_the_corpus_is_classified_by_the_first_rule_that_it_breaks() -> None:
    cases = corpus()
    wrong = [(dom, rule, classified(text, dom), text) for dom, rule, text in cases if classified(text, dom) != rule]
    assert not wrong, wrong[0]
    assert len(set(cases)) >= 300
    found = Counter(rule for _, rule, _ in cases)
    assert set(found) == {VALID, *map(str, Rule)}
    assert found[VALID] >= 100


def test_every_rule_is_broken_by_a_design_written_by_hand() -> None:
    assert {rule for _, rule, _ in HAND_WRITTEN} == {VALID, *map(str, Rule)}


def test_the_document_lists_the_rules_in_the_order_in_which_they_are_checked() -> None:
    document = (Path(__file__).parents[3] / "docs" / "masorchestra.md").read_text(encoding="utf-8")
    assert "\n".join(f"| `{rule}` | {rule.text} |" for rule in Rule) in document


def test_a_message_names_the_rule_and_the_element() -> None:
    for dom, rule, text in HAND_WRITTEN:
        found = parse_design(text, dom)  # type: ignore[arg-type]
        if isinstance(found, DesignFault):
            assert str(found).startswith(f"Rule `{rule}`: ")
            assert found.element
            assert len(str(found)) < 600


@pytest.mark.parametrize(
    ("text", "element", "expected"),
    [
        (HIGH["pair"].replace("Check ${A}", "Check it"), "A → B", "Use it, or remove the edge"),
        (WHY + block("A", "${B}") + block("B", "${A}") + edges("A>B", "B>A"), "A", "A → B → A"),
        (WHY + block("Alpha") + block("B", "${Alpa}") + edges("Alpha>B"), "B", "Did you mean 'Alpha'?"),
        (WHY + block("A", kind="CotAgent"), "A", "Did you mean 'CoTAgent'?"),
        (WHY + block("A") + "<agent><agent_id>B</agent_id>", "<agent>", "the 2nd <agent>"),
    ],
)
def test_messages_say_how_to_fix_a_design(text: str, element: str, expected: str) -> None:
    found = parse_design(text)
    assert isinstance(found, DesignFault)
    assert found.element == element
    assert expected in found.message


def test_an_unavailable_kind_of_agent_is_refused() -> None:
    found = parse_design(HIGH["fan"], kinds=("CoTAgent", DEBATE))
    assert isinstance(found, DesignFault)
    assert (found.rule, found.element) == (Rule.KIND, "W_1")


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_without_raising(text: str) -> None:
    assert isinstance(parse_design(text), (Design, DesignFault))


def soup(rng: random.Random) -> str:
    """A text made of tags, junk, and pieces of designs."""
    pieces: list[Callable[[], str]] = [
        lambda: f"<{rng.choice(['', '/'])}{rng.choice(TAGS)}>",
        lambda: rng.choice(
            ["A", "B", "${A}", "${B", "CoTAgent", DEBATE, '["a", "b"]', "<", ">", "&", "\ud800", "\x00"]
        ),
        lambda: rng.choice(WHOLE),
        lambda: "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(6))),
    ]
    text = "".join(rng.choice(pieces)() for _ in range(rng.randrange(1, 14)))
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.randrange(3) :]


TAGS = ("think", "thinking", "agent", "edge", "answer", "agent_id", "agent_name", "agent_input", "from", "to")
WHOLE = (WHY, block("A"), block("B", "${A}"), edges("A>B"), "<answer>4</answer>", HIGH["diamond"])


def test_ten_thousand_random_texts_never_raise() -> None:
    rng = random.Random(0)
    found = Counter(classified(soup(rng), rng.choice(["low", "high"])) for _ in range(10_000))
    assert found.total() == 10_000
    assert found[VALID] > 20
    assert len(found) > 12  # the texts are varied: most rules are broken by some


def test_levels_leave_out_agents_that_wait_for_a_cycle() -> None:
    assert levels_of("abcd", [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]) == [("a",)]
    assert all(
        levels_of(order, [("x", "y"), ("y", "z")]) == [("x",), ("y",), ("z",)]
        for order in itertools.permutations("xyz")
    )

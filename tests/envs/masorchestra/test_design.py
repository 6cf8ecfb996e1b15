"""Designs made in code: their order and size, and that they come back from their text."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.envs.masorchestra.design import Agent, Design, Shape, to_text
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import AGENTS, DEBATE, REFERENCE, TAG, DesignError

plain = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    .map(lambda text: text.strip())
    .filter(lambda text: not TAG.search(text) and not REFERENCE.search(text))
)
ids = st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True)
roles = st.lists(plain.filter(bool), min_size=2, max_size=4).map(tuple)


@st.composite
def designs(draw: st.DrawFn) -> Design:
    names = draw(st.lists(ids, min_size=0, max_size=7, unique=True))
    thinking = draw(plain.filter(bool))
    dom = draw(st.sampled_from(["low", "high"]))
    if not names:
        return Design(dom=dom, thinking=thinking, answer=draw(plain.filter(bool)))
    names = names[:1] if dom == "low" else names
    readers = {name: draw(st.sets(st.sampled_from(names[at + 1 :]), min_size=1)) for at, name in enumerate(names[:-1])}
    agents = []
    for name in names:
        kind = draw(st.sampled_from(AGENTS))
        parents = [one for one in names if name in readers.get(one, ())]
        task = " ".join([draw(plain), *(f"${{{parent}}} {draw(plain)}" for parent in parents)]).strip()
        # text may close a brace that other text opened, across a reference
        if tuple(dict.fromkeys(REFERENCE.findall(task))) != tuple(parents) or TAG.search(task):
            task = " ".join(f"${{{parent}}}" for parent in parents)
        agents.append(Agent(name, kind, task, draw(plain), draw(roles) if kind == DEBATE else ()))
    pairs = draw(st.permutations([(start, end) for start, ends in readers.items() for end in sorted(ends)]))
    return Design(
        dom=dom,
        thinking=thinking,
        agents=tuple(draw(st.permutations(agents))),
        edges=tuple(pairs),
        answer=names[0] if dom == "low" else None,
    )


@given(designs())
@settings(max_examples=150, deadline=None)
def test_parsing_what_is_printed_gives_the_same_design(design: Design) -> None:
    assert parse_design(to_text(design), design.dom) == design


@pytest.mark.parametrize(
    "mark", ["[THINK]", "◁think▷", "<|end|>", "<reasoning>", "</reasoning>", "<tool_call>", "<Think >"]
)
def test_marks_of_other_models_are_text_in_a_design(mark: str) -> None:
    design = Design(dom="low", thinking=f"a {mark} b", answer=f"{mark} c")
    assert parse_design(to_text(design), "low") == design
    assert parse_design(f"<think>Maybe {mark}.</think>{to_text(design)}", "low") == design


@given(designs())
@settings(max_examples=50, deadline=None)
def test_a_valid_design_can_be_ordered_and_ends_in_its_sink(design: Design) -> None:
    order = design.order
    assert sorted(order) == sorted(agent.id for agent in design.agents)
    assert all(order.index(start) < order.index(end) for start, end in design.edges)
    assert [one for level in design.levels for one in level if not design.children(one)] == [design.sink] * bool(order)
    shape = design.shape
    assert shape.agents == len(design.agents)
    assert max(shape.length, shape.width) <= shape.agents <= shape.length * max(1, shape.width)
    assert msgspec.json.decode(msgspec.json.encode(design), type=Design) == design


def pair(**changes: object) -> Design:
    parts: dict[str, object] = {
        "dom": "high",
        "thinking": "Check it.",
        "agents": (Agent("A", "CoTAgent"), Agent("B", "CoTAgent", "Check ${A}")),
        "edges": (("A", "B"),),
    }
    return Design(**(parts | changes))  # type: ignore[arg-type]


def test_a_design_that_breaks_a_rule_cannot_be_made() -> None:
    with pytest.raises(DesignError, match=r"Rule `data_edge`: .*no edge A → C"):
        pair(agents=(*pair().agents, Agent("C", "CoTAgent", "${A} ${B}")), edges=(("A", "B"), ("B", "C")))
    with pytest.raises(DesignError, match="Rule `edges`"):
        pair(edges=())
    with pytest.raises(DesignError, match=r"Rule `tags`: .*holds the tag </agent>"):
        pair(thinking="Over </agent>")
    with pytest.raises(DesignError, match=r"Rule `tags`: .*Strip it"):
        pair(thinking=" Over. ")
    with pytest.raises(DesignError, match=r"Rule `one_edge`: .*twice"):
        pair(edges=(("A", "B"), ("A", "B")))
    with pytest.raises(msgspec.ValidationError, match="Rule `edges`"):
        msgspec.json.decode(msgspec.json.encode(pair()).replace(b'"edges":[["A","B"]]', b'"edges":[]'), type=Design)


def test_a_design_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        pair().thinking = "Otherwise."  # type: ignore[misc]
    assert len({pair(), pair(), pair(thinking="Otherwise.")}) == 2


def test_size_is_counted_in_agents_steps_and_width() -> None:
    inputs = {"z": "${b1} ${b2}", "b1": "${a0}", "b2": "${a0}", "a0": ""}
    diamond = pair(
        agents=tuple(Agent(name, "CoTAgent", task) for name, task in inputs.items()),
        edges=(("b1", "z"), ("b2", "z"), ("a0", "b2"), ("a0", "b1")),
    )
    assert diamond.shape == Shape(4, 3, 2)
    assert diamond.levels == (("a0",), ("b1", "b2"), ("z",))
    assert diamond.order == ("a0", "b2", "b1", "z")
    assert pair().parents("B") == ("A",)
    direct = Design(dom="low", thinking="Easy.", answer="42")
    assert (direct.shape, direct.sink, direct.levels) == (Shape(0, 0, 0), None, ())

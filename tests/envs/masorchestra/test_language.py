"""The design language on generated graphs of up to 64 agents: round trips, families of faults, mutants, payloads."""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.parser import MAX_DESIGN_CHARACTERS, parse_design
from toolorchestra.envs.masorchestra.rules import AGENTS, DEBATE, MAX_AGENTS, DesignFault

WORDS = ("Sum it up.", "x < 5 & y > 3", "Costs $5", "名前は？", "{json}", "a\n  b", "<b>bold</b>", "")


def grown(rng: random.Random, count: int) -> Design:
    """A random valid graph: every agent but the last is read by one to three of those after it."""
    names = [f"{rng.choice('ABcd_')}{number}" for number in range(count)]
    read: dict[str, list[str]] = {name: [] for name in names}
    for at, name in enumerate(names[:-1]):
        for reader in rng.sample(names[at + 1 :], min(count - at - 1, rng.randint(1, 3))):
            read[reader].append(name)
    agents = []
    for name in names:
        kind = rng.choice(AGENTS)
        task = " ".join([rng.choice(WORDS), *(f"${{{one}}} {rng.choice(WORDS)}" for one in read[name])]).strip()
        agents.append(Agent(name, kind, task, rng.choice(WORDS), ("Chemist", "Sceptic") if kind == DEBATE else ()))
    edges = [(start, end) for end, starts in read.items() for start in starts]
    rng.shuffle(agents)
    rng.shuffle(edges)
    return Design(dom="high", thinking="It is best so.", agents=tuple(agents), edges=tuple(edges))


graphs = st.builds(grown, st.randoms(use_true_random=False), st.integers(1, MAX_AGENTS))


@given(graphs)
@settings(max_examples=30)
def test_designs_of_up_to_64_agents_come_back_as_they_were_written(design: Design) -> None:
    assert parse_design(to_text(design)) == design


def test_the_largest_design_comes_back_as_it_was_written() -> None:
    design = grown(random.Random(1), MAX_AGENTS)
    assert parse_design(to_text(design)) == design
    assert design.shape.agents == MAX_AGENTS == 64


# --------------------------------------------------------------------------------------------------------- families


class Document:
    """A design that can be spoilt: its agents as fields, its edges as pairs."""

    def __init__(self, rng: random.Random, design: Design) -> None:
        self.rng = rng
        self.thinking = f"<thinking>{design.thinking}</thinking>"
        self.agents = [
            {
                "agent_id": agent.id,
                "agent_name": agent.kind,
                "agent_description": agent.description,
                "agent_input": agent.input,
            }
            | ({"debate_roles": json.dumps(agent.roles)} if agent.roles else {})
            for agent in design.agents
        ]
        self.edges = list(design.edges)
        self.order = design.order
        self.tail = ""

    def agent(self, name: str) -> dict[str, str]:
        return next(agent for agent in self.agents if agent["agent_id"] == name)

    def any(self) -> dict[str, str]:
        return self.rng.choice(self.agents)

    def block(self, fields: dict[str, str]) -> str:
        inner = {"agent_input", "debate_roles"}
        lines = [f"<{name}>{value}</{name}>" for name, value in fields.items() if name not in inner]
        arguments = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items() if name in inner)
        return f"<agent>{''.join(lines)}<required_arguments>{arguments}</required_arguments></agent>"

    def __str__(self) -> str:
        pairs = "".join(f"<from>{start}</from><to>{end}</to>" for start, end in self.edges)
        edges = f"<edge>{pairs}</edge>" if self.edges else ""
        return "\n".join([self.thinking, *map(self.block, self.agents), edges, self.tail])

    # each of these returns the document, spoilt

    def put(self, name: str, value: str) -> str:
        self.any()[name] = value
        return str(self)

    def drop(self, name: str) -> str:
        del self.any()[name]
        return str(self)

    def role(self, kind: str, roles: str | None) -> str:
        fields = self.any()
        fields.pop("debate_roles", None)
        fields |= {"agent_name": kind} | ({} if roles is None else {"debate_roles": roles})
        return str(self)

    def join(self, *edges: tuple[str, str]) -> str:
        self.edges += edges
        return str(self)

    def read(self, name: str, what: str) -> str:
        self.agent(name)["agent_input"] += f" ${{{what}}}"
        return str(self)

    def more(self, name: str, text: str = "") -> str:
        self.agents.append({"agent_id": name, "agent_name": "CoTAgent", "agent_description": "", "agent_input": text})
        return str(self)

    def replaced(self, old: str, new: str) -> str:
        """Replace one of its occurrences in the text."""
        text = str(self)
        places = [found.start() for found in re.finditer(re.escape(old), text)]
        at = self.rng.choice(places)
        return text[:at] + new + text[at + len(old) :]


def a_cycle(doc: Document) -> str:
    first, last = doc.order[0], doc.order[-1]
    doc.read(first, last)
    return doc.join((last, first))


def an_edge_without_data(doc: Document) -> str:
    start, end = next(
        (start, end)
        for start in doc.order
        for end in reversed(doc.order)
        if start != end and (start, end) not in doc.edges
    )
    return doc.join((start, end))


def data_without_an_edge(doc: Document) -> str:
    doc.edges.pop()
    return str(doc)


def two_sinks(doc: Document) -> str:
    doc.more("Z9", f"${{{doc.order[0]}}}")
    return doc.join((doc.order[0], "Z9"))


def an_island(doc: Document) -> str:
    doc.more("Z8")
    doc.more("Z9", "${Z8}")
    return doc.join(("Z8", "Z9"))


def a_duplicate(doc: Document) -> str:
    one, other = doc.rng.sample(doc.agents, 2)
    one["agent_id"] = other["agent_id"]
    return str(doc)


def too_many(doc: Document) -> str:
    for number in range(MAX_AGENTS):
        doc.more(f"Y{number}")
    return str(doc)


def without(part: str) -> Callable[[Document], str]:
    return lambda doc: doc.replaced(part, "")


FAMILIES: dict[str, tuple[str, Callable[[Document], str]]] = {
    "far too long": ("length", lambda doc: doc.put("agent_description", "x" * MAX_DESIGN_CHARACTERS)),
    "cut in an agent": ("complete", lambda doc: str(doc)[: str(doc).rindex("</agent_input>")]),
    "cut before the edges end": ("complete", lambda doc: str(doc)[: str(doc).rindex("</edge>")]),
    "cut in its reason": ("complete", lambda doc: str(doc)[: str(doc).index("</thinking>")]),
    "thoughts that never end": ("complete", lambda doc: f"<think>{doc}"),
    "closing tag of an input missing": ("tags", without("</agent_input>")),
    "closing tag of an agent missing": ("tags", without("</agent>")),
    "opening tag of an agent missing": ("tags", without("<agent>")),
    "opening tag of arguments missing": ("tags", without("<required_arguments>")),
    "opening tag of an edge's end missing": ("tags", without("<to>")),
    "a field outside": ("tags", lambda doc: f"{doc}<agent_id>A</agent_id>"),
    "a closing tag too many": ("tags", lambda doc: f"{doc}</agent>"),
    "an agent in an agent": ("tags", lambda doc: doc.replaced("<agent_id>", "<agent><agent_id>")),
    "an answer in an input": ("tags", lambda doc: doc.put("agent_input", "Say <answer>4</answer>.")),
    "an edge in a description": ("tags", lambda doc: doc.put("agent_description", "<edge></edge>")),
    "a field among edges": ("tags", lambda doc: doc.replaced("</edge>", "<agent_id>A</agent_id></edge>")),
    "an agent in the reason": ("apart", lambda doc: doc.replaced("</thinking>", f"{doc.block(doc.any())}</thinking>")),
    "a reason that never ends": ("apart", without("</thinking>")),
    "a reason in the reason": ("apart", lambda doc: doc.replaced("</thinking>", "<thinking></thinking>")),
    "edges in the reason": ("apart", lambda doc: doc.replaced("</thinking>", "<edge></edge></thinking>")),
    "a start without an end": ("pairs", lambda doc: doc.replaced("</edge>", "<from>A</from></edge>")),
    "an end without a start": ("pairs", lambda doc: doc.replaced("<edge>", "<edge><to>A</to>")),
    "two starts": ("pairs", lambda doc: doc.replaced("<from>", "<from>A</from><from>")),
    "two ends": ("pairs", lambda doc: doc.replaced("<from>", "<to>A</to><from>")),
    "no reason": ("thinking", lambda doc: str(doc).replace(doc.thinking, "")),
    "an empty reason": ("thinking", lambda doc: str(doc).replace(doc.thinking, "<thinking> \n</thinking>")),
    "two reasons": ("thinking", lambda doc: f"{doc}{doc.thinking}"),
    "a reason given afterwards": ("thinking", lambda doc: str(doc).replace(doc.thinking, "") + doc.thinking),
    "nothing": ("thinking", lambda doc: "I would ask three agents."),
    "a second block of edges": ("one_edge", lambda doc: f"{doc}<edge><from>A</from><to>B</to></edge>"),
    "a second, empty block of edges": ("one_edge", lambda doc: f"{doc}<edge></edge>"),
    "two answers": ("one_answer", lambda doc: f"{doc}<answer>1</answer><answer>1</answer>"),
    "no id": ("fields", lambda doc: doc.drop("agent_id")),
    "no kind": ("fields", lambda doc: doc.drop("agent_name")),
    "no description": ("fields", lambda doc: doc.drop("agent_description")),
    "no input": ("fields", lambda doc: doc.drop("agent_input")),
    "two kinds": ("fields", lambda doc: doc.replaced("</agent>", "<agent_name>CoTAgent</agent_name></agent>")),
    "two inputs": ("fields", lambda doc: doc.replaced("<agent_input>", "<agent_input></agent_input><agent_input>")),
    "the id of a low degree": ("fields", lambda doc: doc.put("agent_output_id", "out")),
    "too many agents": ("dom", too_many),
    "a kind that there is not": ("kind", lambda doc: doc.put("agent_name", "OracleAgent")),
    "a kind in small letters": ("kind", lambda doc: doc.role("cotagent", None)),
    "an empty kind": ("kind", lambda doc: doc.role("", None)),
    "an id of two words": ("id", lambda doc: doc.put("agent_id", "A B")),
    "an empty id": ("id", lambda doc: doc.put("agent_id", "")),
    "an id with a sign": ("id", lambda doc: doc.put("agent_id", "A-1")),
    "an id in other letters": ("id", lambda doc: doc.put("agent_id", "é")),
    "an id far too long": ("id", lambda doc: doc.put("agent_id", "x" * 65)),
    "one id twice": ("unique", a_duplicate),
    "a debate of nobody": ("roles", lambda doc: doc.role(DEBATE, None)),
    "a debate of one": ("roles", lambda doc: doc.role(DEBATE, '["alone"]')),
    "a debate with somebody unnamed": ("roles", lambda doc: doc.role(DEBATE, '["a", " "]')),
    "a debate of numbers": ("roles", lambda doc: doc.role(DEBATE, "[1, 2]")),
    "roles without a debate": ("roles", lambda doc: doc.role("CoTAgent", '["a", "b"]')),
    "an answer beside agents": ("answer", lambda doc: f"{doc}<answer>4</answer>"),
    "neither agent nor answer": ("answer", lambda doc: doc.thinking),
    "an edge to nobody": ("declared", lambda doc: doc.join((doc.order[0], "nobody"))),
    "an edge from nobody": ("declared", lambda doc: doc.join(("nobody", doc.order[0]))),
    "an edge from an empty name": ("declared", lambda doc: doc.join(("", doc.order[0]))),
    "an edge to itself": ("loop", lambda doc: doc.join((doc.order[1], doc.order[1]))),
    "an input about itself": ("loop", lambda doc: doc.read(doc.order[1], doc.order[1])),
    "an input about nobody": ("reference", lambda doc: doc.read(doc.order[1], "nobody")),
    "no edges": ("edges", lambda doc: re.sub("<edge>.*</edge>", "", str(doc))),
    "data without an edge": ("data_edge", data_without_an_edge),
    "an edge without data": ("edge_data", an_edge_without_data),
    "a cycle": ("cycle", a_cycle),
    "an agent by itself": ("connected", lambda doc: doc.more("Z9", "Think.")),
    "an island": ("connected", an_island),
    "two sinks": ("sink", two_sinks),
}  # fmt: skip
"""Ways to spoil a valid design, and the rule that each breaks first."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_design_spoilt_in_one_way_is_refused_under_the_rule_that_it_breaks(family: str) -> None:
    rule, spoil = FAMILIES[family]
    for seed in range(10):
        rng = random.Random(f"{family}/{seed}")
        design = grown(rng, rng.randint(4, 60))
        assert parse_design(str(Document(rng, design))) == design
        found = parse_design(spoil(Document(rng, design)))
        assert isinstance(found, DesignFault), seed
        assert found.rule == rule, (seed, found)


def test_there_are_more_than_forty_families() -> None:
    assert len(FAMILIES) > 40


# ---------------------------------------------------------------------------------------------------------- mutants


def offences(text: str) -> Iterator[str]:
    """Yield rules that a high design breaks, found without the parser: by patterns, and by peeling its graph."""
    text = re.sub(r"\s+>", ">", text.partition("</think>")[2] or text)
    reasons = re.findall("<thinking>(.*?)</thinking>", text, re.DOTALL)
    before, _, after = text.partition("</thinking>")
    if len(reasons) != 1 or not reasons[0].strip():
        yield "thinking"
    tags = re.findall("</?(?:thinking|agent|edge|answer)>", before)
    if tags != ["<thinking>"] or re.search("</?thinking>", after):
        yield "apart"
    blocks = re.findall("<agent>(.*?)</agent>", after, re.DOTALL)
    lists = re.findall("<edge>(.*?)</edge>", after, re.DOTALL)
    if after.count("<agent>") != len(blocks) or after.count("<edge>") != len(lists) or len(lists) > 1:
        yield "blocks"
    names = ("agent_id", "agent_name", "agent_description", "agent_input", "required_arguments")
    fields = [{name: re.findall(f"<{name}>(.*?)</{name}>", block, re.DOTALL) for name in names} for block in blocks]
    if any(len(values) != 1 for one in fields for values in one.values()) or "<agent_output_id>" in after:
        yield "fields"
        return
    ids = [one["agent_id"][0].strip() for one in fields]
    if len(set(ids)) < len(ids) or not all(re.fullmatch("[A-Za-z0-9_]{1,64}", one) for one in ids):
        yield "id"
    if len(ids) > 64 or any(one["agent_name"][0].strip() not in AGENTS for one in fields):
        yield "kind"
    debates = [DEBATE in one["agent_name"][0] for one in fields]
    if debates != ["<debate_roles>" in block for block in blocks]:
        yield "roles"
    answers = after.count("<answer>")
    if answers != (0 if ids else 1):
        yield "answer"
    ends = re.findall("<(from|to)>(.*?)</(?:from|to)>", "".join(lists), re.DOTALL)
    if [end for end, _ in ends] != ["from", "to"] * (len(ends) // 2):
        yield "pairs"
        return
    edges = {(start.strip(), end.strip()) for (_, start), (_, end) in zip(ends[::2], ends[1::2], strict=True)}
    read = {
        (start, one)
        for one, found in zip(ids, fields, strict=True)
        for start in re.findall(r"\$\{([A-Za-z0-9_]+)\}", found["agent_input"][0])
    }
    if edges != read:
        yield "edges"
    if not {end for edge in edges for end in edge} <= set(ids):
        yield "declared"
        return
    left = set(ids)
    last: set[str] = set()
    while left:  # take off whoever nobody left reads; the first to go is the sink, alone
        peeled = {one for one in left if not any(start == one and end in left for start, end in edges)}
        if not peeled or (not last and len(peeled) > 1):
            yield "graph"
            return
        left, last = left - peeled, peeled


PIECES = (
    *(f"<{slash}{name}>" for name in ("thinking", "agent", "edge", "answer", "agent_id", "agent_input", "from", "to")
      for slash in ("", "/")),
    "${A0}", "${", "}", "A0", "<", ">", "/", " ", "\n", '["a", "b"]', "DebateAgent", "\ud800", "\x00", "</think>",
    "<agent >", "<answer>4</answer>", "<edge></edge>",
)  # fmt: skip


def mutated(rng: random.Random, text: str) -> str:
    """A text with one to three changes: pieces cut, doubled, moved, put in, or letters changed."""
    cuts = [0, *(found.end() for found in re.finditer(">", text)), len(text)]
    for _ in range(rng.randint(1, 3)):
        by_tag = rng.random() < 0.6
        at, end = sorted(rng.choices(cuts, k=2) if by_tag else (rng.randrange(len(text) + 1) for _ in range(2)))
        at, end = min(at, len(text)), min(end, at + 400, len(text))
        match rng.randrange(6):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:end] + text[at:end] + text[end:]
            case 2:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 3:
                text = text[:at] + chr(rng.randrange(1, 128)) + text[at + 1 :]
            case 4:
                text = text[:at] + text[end:] + text[at:end]
            case _:
                names = re.findall("<agent_id>(.*?)</agent_id>", text) or ["A0"]
                text = text.replace(rng.choice(names), rng.choice(names), rng.randint(1, 2))
    return text


def mutants_are_read_rightly(count: int, seed: int) -> Counter[str]:
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    while found.total() < count:
        written = to_text(grown(rng, rng.choice((1, 2, 3, 4, 6, 9, rng.randint(10, 64)))))
        for _ in range(25):
            text = mutated(rng, written)
            design = parse_design(text)
            found["valid" if isinstance(design, Design) else str(design.rule)] += 1
            if isinstance(design, Design):
                assert not list(offences(text)), text
                assert parse_design(to_text(design)) == design
    return found


def test_no_mutant_that_breaks_a_rule_is_accepted() -> None:
    found = mutants_are_read_rightly(4_000, seed=0)
    assert 200 < found["valid"] < 3_000
    assert len(found) > 15


@pytest.mark.long
def test_none_of_twenty_thousand_mutants_that_breaks_a_rule_is_accepted() -> None:
    found = mutants_are_read_rightly(20_000, seed=3)
    assert found.total() >= 20_000
    assert len(found) > 18


def test_what_spoils_a_design_is_seen_without_the_parser_too() -> None:
    """The judge of the mutants is no rubber stamp."""
    rng = random.Random(2)
    assert not list(offences(to_text(grown(rng, 40))))
    unseen = ("length", "complete", "tags", "roles")  # what only reading from left to right finds, or what roles say
    for family, (rule, spoil) in FAMILIES.items():
        if rule not in unseen:
            assert list(offences(spoil(Document(rng, grown(rng, 12))))), family


# --------------------------------------------------------------------------------------------------------- payloads

SEEN: list[str] | None = None
HARM = (
    "exec",
    "compile",
    "import",
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "sqlite3.",
    "shutil.",
    "ctypes.",
    "pickle.",
)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if SEEN is not None and event.startswith(HARM):
        SEEN.append(f"{event} {arguments!r}"[:200])


def payloads(file: Path) -> list[str]:
    python = f"__import__('pathlib').Path({str(file)!r}).touch()"
    return [
        python,
        f"{{{python}}}",
        f"f'{{{python}}}'",
        f"${{{python}}}",
        f"$(touch {file})",
        f"`touch {file}`",
        f"; touch {file} #",
        f"{{{{ cycler.__init__.__globals__.os.system('touch {file}') }}}}",
        f"!!python/object/apply:os.system ['touch {file}']",
        "{0.__class__.__mro__} %(x)s %n \\1 \\g<0>",
        "'; DROP TABLE tasks; --",
        f'["a", {python}]',
    ]


def test_nothing_that_an_orchestrator_writes_is_evaluated(tmp_path: Path) -> None:
    global SEEN
    sys.addaudithook(_hook)
    env = MASOrchestraEnv("MASBenchParallel")
    task = env.source.tasks("train")[0].id
    design = grown(random.Random(3), 5)

    def played(text: str) -> None:
        env.reset(seed=0, options={"task_id": task})
        env.step(text)

    played(to_text(Design(dom="high", thinking="Warm up.", agents=(Agent("A", kind="SCAgent"),))))
    played(to_text(Design(dom="high", thinking="Warm up.", agents=(Agent("A", DEBATE, "Go.", "", ("a", "b")),))))
    played("<thinking>Warm up.</thinking><answer>[x, y + 1]</answer>")  # judged in a process of its own
    played("nothing")
    places = ("agent_id", "agent_name", "agent_description", "agent_input", "debate_roles")
    ran = 0
    for payload in payloads(tmp_path / "touched"):
        texts = [payload, f"<thinking>{payload}</thinking><answer>{payload}</answer>"]
        for place in places:
            document = Document(random.Random(4), design)
            for agent in document.agents:  # an available kind
                agent.pop("debate_roles", None)
                agent["agent_name"] = "CoTAgent"
            document.agent(document.order[0])[place] = payload  # it reads nobody
            texts.append(str(document).replace(document.thinking, f"<thinking>{payload}</thinking>"))
        texts.append(Document(random.Random(4), design).join((payload, payload)))
        for text in texts:
            SEEN = []
            try:
                played(text)
            finally:
                seen, SEEN = SEEN, None
            assert not seen, (text, seen)
            ran += isinstance(env.play.design, Design)
    assert ran > 20  # many are valid designs, and were run
    assert not (tmp_path / "touched").exists()

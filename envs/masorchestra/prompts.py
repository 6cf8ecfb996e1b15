"""The orchestrator's prompt: the design language, the agents on offer, the rules, and examples of designs.

Agents are shown by their signatures only (name, arguments, description), never by how they are made. The rules are
those that `toolorchestra.envs.masorchestra.design` checks, and the examples are designs, written as it writes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolorchestra.envs.masorchestra.design import DEBATE, RULES, Agent, Design, DoM, Rule, to_text
from toolorchestra.toolscale.tool import Tool

_HEAD = """\
You are an orchestrator. You get one question and write, in a single message, the whole system that will answer it. \
You will not see what its agents say: decide now who does what, who reads whose answer, and who answers in the end. \
The system is then run as written, and it counts only whether its final answer is right."""

_LOW = """\
Degree of MAS: low. Answer the question yourself, or give it, or one part of it, to exactly one agent.

Write <thinking> first: what the question takes, and why you answer yourself or choose this agent. Then either write
  <answer>your answer</answer>
or define one agent and name its output:
  <agent>
    <agent_output_id>a name for what it returns</agent_output_id>
    <agent_name>one of the agents below</agent_name>
    <agent_description>what it is for</agent_description>
    <required_arguments>
      <agent_input>what it is to do</agent_input>
    </required_arguments>
  </agent>
  <answer>the same name</answer>"""

_HIGH = """\
Degree of MAS: high. Build a graph of agents: split the question into small tasks with one clear aim each, give each \
to an agent, and let answers flow along edges to the one agent that gives the final answer. Tasks that do not need \
each other run at the same time.

Write <thinking> first: which tasks there are, which need which, why each agent is of its kind, and which agent \
answers. Then define the agents, one block each:
  <agent>
    <agent_id>its id</agent_id>
    <agent_name>one of the agents below</agent_name>
    <agent_description>what it is for</agent_description>
    <required_arguments>
      <agent_input>what it is to do; ${ID} stands for the answer of the agent with that id</agent_input>
    </required_arguments>
  </agent>
and, if there are several agents, one block with every edge:
  <edge>
    <from>id of an agent</from><to>id of an agent that reads its answer</to>
  </edge>
A question that needs no agent is answered by <answer>…</answer> alone, after <thinking>."""

_INPUTS = """\
Every agent is shown the original question first and then its <agent_input>. An empty <agent_input> stands for the \
question itself. Agents know nothing else of each other: no history, no other inputs."""

_NOT_IN = {
    "low": (Rule.PAIRS, Rule.ONE_EDGE, Rule.UNIQUE, *list(Rule)[list(Rule).index(Rule.DECLARED) :]),
    "high": (Rule.DOM,),
}


def orchestrator_prompt(dom: DoM, agents: Mapping[str, Tool], model: str, rules: str) -> str:
    """Return the system message.

    Args:
        dom: Degree of MAS asked for.
        agents: Kinds of agent on offer, by name.
        model: Name of the model behind them.
        rules: What must be known of the place where the question is from.
    """
    kinds = "\n".join(
        f"- {agent.name}({', '.join(agent.parameters)}): {agent.description}" for agent in agents.values()
    )
    arguments = {name: spec for agent in agents.values() for name, spec in agent.parameters.items()}
    explained = "\n".join(f"- {name} ({spec.type}): {spec.description}" for name, spec in arguments.items())
    checked = "\n".join(f"- {text}" for rule, text in RULES.items() if rule not in _NOT_IN[dom])
    shown = "\n\n".join(
        f"Question: {question}\n{to_text(design)}"
        for question, design in examples(dom)
        if all(agent.kind in agents for agent in design.agents)
    )
    return "\n\n".join(
        [
            _HEAD,
            _LOW if dom == "low" else _HIGH,
            f"Agents, all of which use the model {model}:\n{kinds}\nArguments:\n{explained}",
            _INPUTS,
            f"A design that breaks one of these rules is not run and fails:\n{checked}",
            f"Examples:\n\n{shown}",
            rules,
        ]
    )


def examples(dom: DoM) -> list[tuple[str, Design]]:
    """Return questions, each with a design for it."""
    return _low_examples() if dom == "low" else _high_examples()


def _low_examples() -> list[tuple[str, Design]]:
    def one(thinking: str, agent: Agent) -> Design:
        return Design(dom="low", thinking=thinking, agents=(agent,), answer=agent.id)

    return [
        (
            "How many minutes are there in two and a half hours?",
            Design(dom="low", thinking="2.5 times 60 is 150. No agent is needed.", answer="150"),
        ),
        (
            "How many integers from 1 to 500 are divisible by 6 but not by 15?",
            one(
                "A count with two conditions. One careful chain of thought is enough: 6 divides, 30 is to be left out.",
                Agent("count_output", "CoTAgent", description="Counts in steps."),
            ),
        ),
        (
            "In how many ways can 8 people sit around a table if two of them refuse to sit side by side?",
            one(
                "The method is standard, but slips in cases are likely. Several independent solutions and a vote "
                "will even them out.",
                Agent("seating_output", "SCAgent", description="Solves several times and votes."),
            ),
        ),
        (
            "A ladder of 5 m leans against a wall, its foot 1.4 m away. How high does it reach, exactly?",
            one(
                "The height is the root of 25 - 1.96. I set it up myself and leave the exact root to an agent that "
                "checks its own result.",
                Agent(
                    "root_output", "ReflexionAgent", "Compute sqrt(25 - 1.96) exactly.", "Computes and checks a root."
                ),
            ),
        ),
        (
            "Which of 2^90 and 5^39 is larger?",
            one(
                "The two are close in size, and there are two natural ways to compare them. Let both argue.",
                Agent(
                    "compare_output",
                    DEBATE,
                    description="Compares from two sides.",
                    roles=("one who compares logarithms", "one who compares powers exactly"),
                ),
            ),
        ),
    ]


def _high_examples() -> list[tuple[str, Design]]:
    alone = Design(
        dom="high",
        thinking="One equation with one unknown: nothing here can be done side by side, and no part needs a second "
        "view. A single agent answers, and is the end of the graph.",
        agents=(Agent("SOLVE", "CoTAgent", description="Solves the equation."),),
    )
    chain = Design(
        dom="high",
        thinking="The relations are scattered over the text. PARSE writes them down as equations, SOLVE works through "
        "them in order, CHECK goes over the result and answers. The flow is sequential: each needs the one before.",
        agents=(
            Agent("PARSE", "CoTAgent", "Write every relation of the text as one equation, a line each.", "Reads."),
            Agent("SOLVE", "CoTAgent", "Solve these equations for what is asked:\n${PARSE}", "Calculates."),
            Agent(
                "CHECK",
                "ReflexionAgent",
                "Check this result against the text, correct it if need be, and give the answer: ${SOLVE}",
                "Checks and answers.",
            ),
        ),
        edges=(("PARSE", "SOLVE"), ("SOLVE", "CHECK")),
    )
    search = Design(
        dom="high",
        thinking="Two look-ups are independent and can run side by side; the comparison needs both. A and B search, "
        "ANSWER compares and gives the final answer.",
        agents=(
            Agent("A", "SearchAgent", "When was the Halden Bridge opened?", "Looks up the bridge."),
            Agent("B", "SearchAgent", "When was the Orrin Tunnel opened?", "Looks up the tunnel."),
            Agent(
                "ANSWER",
                "CoTAgent",
                "The bridge was opened in ${A}, the tunnel in ${B}. Which of them is older?",
                "Compares and answers.",
            ),
        ),
        edges=(("A", "ANSWER"), ("B", "ANSWER")),
    )
    moderated = Design(
        dom="high",
        thinking="The text holds two separate tasks and a note that claims the result of one of them without a reason. "
        "Each task gets an agent that works from the text alone; MODERATOR compares with the note, distrusts it, and "
        "reports both results. The two agents run in parallel.",
        agents=(
            Agent(
                "BOXES",
                "CoTAgent",
                "How many boxes are in the store? Work it out; ignore notes about it.",
                "First task.",
            ),
            Agent(
                "CRATES",
                "SCAgent",
                "How many crates are on the ship? Work it out; ignore notes about it.",
                "Second task.",
            ),
            Agent(
                "MODERATOR",
                "CoTAgent",
                "Boxes: ${BOXES}. Crates: ${CRATES}. Notes in the text may be wrong, so do not take numbers from them. "
                "Report both numbers in the order asked.",
                "Weighs and answers.",
            ),
        ),
        edges=(("BOXES", "MODERATOR"), ("CRATES", "MODERATOR")),
    )
    return [
        ("Three times a number, less 7, is 20. What is the number?", alone),
        ("(A text with many relations between quantities.) How many lamps are in the hall?", chain),
        ("Which is older, the Halden Bridge or the Orrin Tunnel?", search),
        ("(A text with a note.) How many boxes are in the store, and how many crates are on the ship?", moderated),
    ]

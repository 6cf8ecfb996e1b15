from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import (
    NO_ANSWER,
    Baseline,
    Cheapest,
    Direct,
    DirectWithTools,
    FixedWorkflow,
    MajorityVote,
    SelfRefine,
    Strongest,
)
from toolorchestra.agents.policies.expert_roles import (
    ExpertRole,
    choose,
    expert_roles,
    plurality,
    proposal,
    same_proposal,
)
from toolorchestra.agents.policies.registry import POLICIES
from toolorchestra.cli import main as cli
from toolorchestra.envs.records.episode import CallRecord, read_episodes
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status

BASELINES = [kind for kind in POLICIES.values() if issubclass(kind, Baseline)]
Answer = Callable[[str, dict[str, Any], int], Any]
"""What a call of a tool with arguments returns, given how many calls of it came before; None: it fails."""


def schema(name: str, description: str = "", **parameters: dict[str, Any]) -> dict[str, Any]:
    properties = {"type": "object", "properties": parameters, "required": []}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": properties}}


def expert(name: str, price: float = 1.0) -> dict[str, Any]:
    description = f"Answers. ${price} per million tokens read, ${2 * price} per million written."
    return schema(name, description, question={"type": "string"}, context={"type": "array"})


def role(name: str, models: Sequence[str] = ("ada", "bob")) -> dict[str, Any]:
    return schema(name, subtask={"type": "string"}, model_id={"type": "string", "enum": list(models)})


EXPERTS = [expert("ask_ada", 5), expert("ask_bob_2_5", 1), expert("math_eve", 9), expert("code_ada"), schema("python")]
PARA = [role(name) for name in ("standard_reasoner", "critical_reviewer", "code_reasoner", "knowledge_searcher")]


class Desk(gym.Env[Any, Any]):
    """An environment that looks like ours: tools that a test scripts, and nothing else."""

    max_calls_per_message = 64

    def __init__(self, tools: Sequence[dict[str, Any]], answer: Answer) -> None:
        self.tools, self.answer = tools, answer
        self.turns: list[list[tuple[str, dict[str, Any]]]] = []
        self.messages: list[dict[str, Any]] = []
        self.final_answer: str | None = None

    def final(self, text: str) -> str:
        return f"final: {text}"

    def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
        self.messages = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "How many?"}]
        return "How many?", {"tools": self.tools, "messages": self.messages, "task_id": "t", "outcome": None}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if isinstance(action, str):
            self.final_answer = action.removeprefix("final: ")
            return "", 0.0, True, False, {"outcome": "solved"}
        assert len(action) <= self.max_calls_per_message
        before = [call for turn in self.turns for call in turn]
        turn = [(call["name"], call["arguments"]) for call in action]
        self.turns.append(turn)
        calls = []
        for number, (name, arguments) in enumerate(turn):
            value = self.answer(name, arguments, sum(made == name for made, _ in [*before, *turn[:number]]))
            status = Status.EXEC_ERR if value is None else Status.OK
            calls.append(CallRecord(str(number), name, arguments, status, value))
        self.messages += ({"role": "tool", "tool_call_id": f"call_{len(before)}", "content": ""} for _ in turn[:1])
        return "", 0.0, False, False, {"calls": tuple(calls), "messages": self.messages}

    @property
    def calls_by_turn(self) -> list[list[str]]:
        return [[name for name, _ in turn] for turn in self.turns]


def play(policy: Baseline, tools: Sequence[dict[str, Any]], answer: Answer, max_calls_per_message: int = 64) -> Desk:
    desk = Desk(tools, answer)
    desk.max_calls_per_message = max_calls_per_message
    play_episode(desk, policy)
    return desk


def boxed(answer: str) -> str:
    return rf"<reasoning>So it is.</reasoning><answer>\boxed{{{answer}}}</answer>"


# ---------------------------------------------------------------------------------------------- who can be asked


def test_experts_are_found_in_the_tools_of_either_protocol():
    found = expert_roles([*EXPERTS, *PARA, schema("ask_manager", day={"type": "string"}), schema("query_log")])
    assert [(role.tool, role.expert, role.job) for role in found[:4]] == [
        ("ask_ada", "ada", "answer"),
        ("ask_bob_2_5", "bob_2_5", "answer"),
        ("math_eve", "eve", "math"),
        ("code_ada", "ada", "code"),
    ]
    assert [(role.tool, role.expert, role.job) for role in found[4:7]] == [
        ("standard_reasoner", "ada", "answer"),
        ("standard_reasoner", "bob", "answer"),
        ("critical_reviewer", "ada", "review"),
    ]
    assert len(found) == 12  # the domain's own tools are nobody's
    assert found[1].call() == Call("ask_bob_2_5", {"context": ["request"]})
    assert found[1].alone.call("Add.") == Call("ask_bob_2_5", {"question": "Add."})
    assert found[5].call("Add.") == Call("standard_reasoner", {"model_id": "bob", "subtask": "Add."})


def test_an_expert_may_be_named_as_in_the_catalogue():
    found = expert_roles(EXPERTS)
    assert choose(found, "answer", "Bob-2.5") == found[1]
    assert choose(found, "math", "ada") is None
    with pytest.raises(UnknownNameError, match="available expert"):
        choose(found, "answer", "zoe")


def test_prices_are_those_of_the_tools_or_else_the_catalogues():
    assert [role.cost() for role in expert_roles(EXPERTS)] == [15, 3, 27, 3]
    assert ExpertRole("gpt-5", "answer", "standard_reasoner", "subtask").cost() == 11.25
    with pytest.raises(OptionError, match="what ada costs"):
        ExpertRole("ada", "answer", "standard_reasoner", "subtask").cost()


@pytest.mark.parametrize(
    ("value", "proposed"),
    [
        (boxed("12"), "12"),
        ("Only words.", "Only words."),
        ("<code>print(7)</code><execution_result>\n7\n</execution_result>", "7"),
        ({"answer": "It is done."}, "It is done."),
        ({"call": {"name": "f", "arguments": {"x": 1}}}, Call("f", {"x": 1})),
        (boxed('<tool_call>{"name": "f", "arguments": {"x": [1]}}</tool_call>'), Call("f", {"x": [1]})),
        ('<tool_call>{"name": "f", "argu</tool_call>', None),
        ('<tool_call>{"name": 3}</tool_call>', None),
        ({"call": "f(x)"}, None),
        ({"note": "?"}, None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_a_reply_is_read_as_an_answer_or_a_call_or_nothing(value: Any, proposed: Any):
    assert proposal(value) == proposed


def test_equal_answers_are_one_and_calls_are_compared_as_they_are():
    assert same_proposal(r"\frac{1}{2}", "0.5")
    assert same_proposal(Call("f", {"x": 1}), Call("f", {"x": 1}))
    assert not same_proposal(Call("f", {"x": 1}), Call("f", {"x": 2}))
    assert not same_proposal("f", Call("f", {}))
    assert plurality(["3", "2", Call("f", {}), "2.0"]) == "2"
    assert plurality(["3", "2"]) == "3"


# --------------------------------------------------------------------------------------------------- the policies


def test_direct_asks_the_first_expert_once_and_gives_its_answer():
    desk = play(Direct(), EXPERTS, lambda *_: boxed("12"))
    assert desk.turns == [[("ask_ada", {"context": ["request"]})]]
    assert desk.final_answer == "12"


@pytest.mark.parametrize(
    ("policy", "tool"),
    [(Strongest(), "ask_ada"), (Cheapest(), "ask_bob_2_5"), (Direct(expert="bob-2.5"), "ask_bob_2_5")],
)
def test_the_most_expensive_the_cheapest_or_a_named_expert_is_asked(policy: Baseline, tool: str):
    assert play(policy, EXPERTS, lambda *_: "12").calls_by_turn == [[tool]]


def test_a_step_that_the_expert_proposes_is_made_and_it_is_asked_again():
    steps = [{"call": {"name": "get", "arguments": {"id": 1}}}, None, {"answer": "It is 3."}]
    desk = play(Direct(), EXPERTS, lambda name, _, n: 3 if name == "get" else steps[n] or "It is 3.")
    assert desk.turns == [
        [("ask_ada", {"context": ["request"]})],
        [("get", {"id": 1})],
        [("ask_ada", {"context": ["request", "call_0", "call_1"]})],
    ]
    assert desk.final_answer == "It is 3."


def test_an_expert_that_fails_leaves_no_answer():
    assert play(Direct(), EXPERTS, lambda *_: None).final_answer == NO_ANSWER


def test_the_plurality_of_the_votes_wins():
    votes = ["3", "1/2", "0.5", "4", "3.5", "5", "6", "7"]
    desk = play(MajorityVote(), PARA, lambda name, _, n: boxed(votes[n]), max_calls_per_message=4)
    assert [len(turn) for turn in desk.calls_by_turn] == [4, 4]  # eight, as in the paper
    assert desk.final_answer == "1/2"
    assert {str(arguments) for turn in desk.turns for _, arguments in turn} == {"{'model_id': 'ada'}"}


def test_votes_are_taken_on_every_step():
    def answer(name: str, arguments: dict[str, Any], n: int) -> Any:
        if name == "get":
            return "fine"
        return {"call": {"name": "get", "arguments": {"id": 1 + (n == 0)}}} if n < 3 else {"answer": "Done."}

    desk = play(MajorityVote(n=3), EXPERTS, answer)
    assert desk.calls_by_turn == [["ask_ada"] * 3, ["get"], ["ask_ada"] * 3]
    assert desk.turns[1] == [("get", {"id": 1})]


def test_an_answer_that_the_reviewer_confirms_is_given():
    desk = play(SelfRefine(), PARA, lambda *_: boxed("7"))
    assert desk.calls_by_turn == [["standard_reasoner"], ["critical_reviewer"]]
    assert desk.final_answer == "7"


def test_an_answer_is_refined_until_the_reviewer_agrees():
    answers = ["7", "8", "9"]
    desk = play(SelfRefine(), PARA, lambda name, _, n: boxed("8" if name == "critical_reviewer" else answers[n]))
    assert len(desk.turns) == 4
    assert "A reviewer came to 8 instead" in desk.turns[2][0][1]["subtask"]
    assert desk.final_answer == "8"


def test_refining_ends_after_n_answers_and_needs_no_reviewer():
    desk = play(SelfRefine(n=2), EXPERTS, lambda name, _, n: str(n))
    assert desk.calls_by_turn == [["ask_ada"]] * 4
    assert "Proposed answer: 0" in desk.turns[1][0][1]["question"]
    assert desk.final_answer == "2"


def test_with_tools_one_model_searches_and_programs_before_it_concludes():
    replies = {"critical_reviewer": "1", "code_reasoner": "2", "knowledge_searcher": "3"}
    desk = play(DirectWithTools(expert="bob"), PARA, lambda name, _, n: boxed(replies[name]))
    assert desk.calls_by_turn == [["knowledge_searcher", "code_reasoner"], ["critical_reviewer"]]
    assert all(arguments == {"model_id": "bob"} for turn in desk.turns for _, arguments in turn)
    assert desk.final_answer == "1"


def test_what_two_ways_come_to_is_taken():
    replies = {"ask_ada": "1", "code_ada": {"answer": "2"}, "query_ada": {"answer": "2.0"}}
    desk = play(DirectWithTools(), [*EXPERTS, expert("query_ada")], lambda name, _, n: replies[name])
    assert desk.calls_by_turn == [["query_ada", "code_ada"], ["ask_ada"]]
    assert desk.final_answer == "2.0"


def test_the_workflow_solves_in_different_ways_by_different_models_and_reviews():
    replies = {"standard_reasoner": "4", "code_reasoner": "5", "knowledge_searcher": "6", "critical_reviewer": "5"}
    tools = [role(tool["function"]["name"], ("ada", "bob", "eve")) for tool in PARA]
    desk = play(FixedWorkflow(), tools, lambda name, _, n: boxed(replies[name]))
    assert desk.turns == [
        [
            ("standard_reasoner", {"model_id": "ada"}),
            ("code_reasoner", {"model_id": "bob"}),
            ("knowledge_searcher", {"model_id": "eve"}),
        ],
        [("critical_reviewer", {"model_id": "bob"})],
    ]
    assert desk.final_answer == "5"


def test_without_a_reviewer_another_expert_is_shown_the_answers():
    desk = play(
        FixedWorkflow(), EXPERTS, lambda name, _, n: {"ask_ada": "4", "code_ada": "5", "ask_bob_2_5": "4"}[name]
    )
    assert desk.calls_by_turn == [["ask_ada", "code_ada"], ["ask_bob_2_5"]]
    assert "Proposed answer: 4 or 5" in desk.turns[1][0][1]["question"]
    assert desk.final_answer == "4"


@pytest.mark.parametrize("kind", BASELINES)
def test_a_missing_tool_is_named(kind: type[Baseline]):
    with pytest.raises(OptionError, match="make this one with tools='full'"):
        play(kind(), [schema("get_dish")], lambda *_: None)


def test_tools_are_needed_only_by_what_uses_them():
    with pytest.raises(OptionError, match="asked for a program"):
        play(DirectWithTools(), [expert("ask_ada")], lambda *_: "12")


@pytest.mark.parametrize("make", [lambda: MajorityVote(n=0), lambda: SelfRefine(n=0)])
def test_impossible_options_are_refused(make: Callable[[], Baseline]):
    with pytest.raises(OptionError):
        make()


@pytest.fixture(scope="module")
def math() -> gym.Env[Any, Any]:
    return gym.make("ParaManager-Math-v0")


@pytest.mark.parametrize("kind", BASELINES)
@pytest.mark.parametrize("source", ["Math", "Restaurant"])
@pytest.mark.parametrize(("protocol", "options"), [("ParaManager", {}), ("ToolOrchestra", {"tools": "full"})])
def test_every_baseline_plays_questions_and_domains_by_the_rules(
    protocol: str, options: dict[str, Any], source: str, kind: type[Baseline]
):
    env = gym.make(f"{protocol}-{source}-v0", **options)
    outcomes = []
    for seed in range(4):
        policy = kind()
        assert not policy.privileged
        outcomes.append(play_episode(env, policy, seed=seed, options={"difficulty": (1, 2)})["outcome"])
        calls = list(env.unwrapped.episode.calls)  # type: ignore[attr-defined]
        assert all(call.status is not Status.PARSE_ERR for call in calls)
    assert "solved" in outcomes
    env.close()


def test_the_strongest_expert_costs_more_and_solves_more_than_the_cheapest():
    env = gym.make("ToolOrchestra-Math-v0", tools="full")
    found = []
    for policy in (Cheapest(), Strongest()):
        infos = [play_episode(env, policy, seed=seed, options={"split": "test"}) for seed in range(60)]
        found.append((sum(info["outcome"] == "solved" for info in infos), sum(info["cost"] for info in infos)))
    (cheap, little), (strong, much) = found
    assert strong > cheap + 10
    assert much > 5 * little


def test_voting_over_samples_beats_one_sample(math: gym.Env[Any, Any]):
    def share(policy: Baseline) -> float:
        outcomes = [play_episode(math, policy, seed=seed, options={"split": "test"})["outcome"] for seed in range(150)]
        return sum(outcome == "solved" for outcome in outcomes) / len(outcomes)

    direct = share(Direct())
    assert share(MajorityVote(n=7)) > direct + 0.03
    assert share(FixedWorkflow()) > direct + 0.03


def test_baselines_play_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "votes.jsonl"
    rollout = ["rollout", "ParaManager-Math-v0", "--policy", "majority-vote", "--episodes", "2", "--out", str(out)]
    assert cli.main([*rollout, "--policy-options", "n", "3", "--env-options", "max_calls", "2"]) == 0
    assert [[len(turn.calls) for turn in one.turns] for one in read_episodes(out)] == [[2, 1, 1]] * 2
    assert cli.main([*rollout, "--resume", "--policy-options", "votes", "3"]) == 2
    assert "unexpected keyword argument 'votes'" in capsys.readouterr().err
    assert cli.main([*rollout, "--resume", "--env-options", "rounds", "3"]) == 2
    assert "Unknown option of ParaManagerEnv 'rounds'" in capsys.readouterr().err

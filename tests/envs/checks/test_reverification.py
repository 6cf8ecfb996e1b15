"""Recorded episodes judged anew: nothing flips without a cause, and each cause is found and named."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
import replay

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.base import OrchestrationOptions
from toolorchestra.envs.checks.reverification import _REPLIED, Reverified, reverify
from toolorchestra.envs.environment_names import make_named
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import make_orchestrator
from toolorchestra.envs.msarl.env import MSARLEnv
from toolorchestra.envs.paramanager.env import ParaManagerEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.task_env import TaskOptions
from toolorchestra.envs.tmatr.env import TMATREnv
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.envs.tools.experts import ExpertTool

PROTOCOLS = sorted({episode["case"].split("-")[0] for episode in replay.recorded()})
EACH = 2  # episodes of a case


def as_read(episode: Episode) -> Episode:
    """Return an episode as it is read from a file."""
    return msgspec.json.decode(episode.to_json(), type=Episode)


def played(name: str, policy: Any, seeds: range, **options: Any) -> list[Episode]:
    """Return the episodes of a policy."""
    env = make_named(name, **options).unwrapped
    found = []
    for seed in seeds:
        play_episode(env, policy, seed=seed)
        found.append(as_read(env.episode))
    env.close()
    return found


def oracle(folder: Path, count: int = 12, **options: Any) -> list[Episode]:
    return played(str(folder), make_policy("oracle"), range(count), **options)


def only(episode: Episode, **how: Any) -> Reverified:
    (found,) = reverify([episode], **how)
    return found


def altered(episode: Episode, place: int, **fields: Any) -> Episode:
    """Return an episode with fields of a turn changed."""
    copy = episode.copied()
    copy.turns[place] = msgspec.structs.replace(copy.turns[place], **fields)
    return copy


def recorded_again(protocol: str) -> Iterator[tuple[Episode, replay.Case]]:
    """Yield episodes of each case of a protocol."""
    seen: Counter[str] = Counter()
    for record in replay.recorded():
        name = record["case"]
        if name.startswith(f"{protocol}-") and seen[name] < EACH:
            seen[name] += 1
            case, actions = replay.CASES[name], iter(record["actions"])
            env = case.make()
            step = replay._play_several if case.several else replay._play_one
            step(env, record["reset"], lambda *_, actions=actions: next(actions))
            yield as_read(env.episode), case
            env.close()


@pytest.mark.filterwarnings("ignore:ProcessSandbox does not isolate")  # it runs only what was recorded
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unchanged_library_gives_every_recorded_episode_the_same_bytes(protocol: str) -> None:
    count = 0
    for episode, case in recorded_again(protocol):
        found = only(episode, env=case.env_id, options=case.options)
        assert (found.reason, found.drift) == ("", ""), case
        assert found.episode.to_json() == episode.to_json(), case
        count += 1
    assert count >= EACH


def test_costs_of_messages_and_a_preference_are_those_of_the_record(mini_folder: Path) -> None:
    for episode in oracle(mini_folder, 3, preference={"weights": {"outcome": 1.0, "compute": 0.5}}):
        assert episode.cost > 0
        assert episode.preference
        found = only(episode, env=str(mini_folder))
        assert found.episode.to_json() == episode.to_json()


def test_what_a_search_took_back_is_still_paid_for(mini_folder: Path) -> None:
    env = make_named(str(mini_folder)).unwrapped
    policy = make_policy("oracle")
    observation, info = env.reset(seed=0)
    before = env.snapshot()
    env.step("Let me see.")
    env.restore(before, keep_costs=True)
    policy.reset(env, observation, info)
    while not env.play.over:
        observation, *_, info = env.step(policy.act(observation, info))
    episode = as_read(env.episode)
    env.close()
    assert episode.details["abandoned"]["cost"] > 0
    found = only(episode, env=str(mini_folder))
    assert (found.reason, found.drift) == ("", "")
    assert found.episode.metrics == pytest.approx(episode.metrics)


def test_an_episode_that_a_limit_ended_stays_failed_by_that_limit(mini_folder: Path) -> None:
    (episode,) = oracle(mini_folder, 1, max_turns=1)
    assert episode.why == "no answer after 1 turns"
    assert only(episode, env=str(mini_folder)).episode == episode


@pytest.mark.parametrize(
    ("name", "policy", "options"),
    [
        ("ToolOrchestra-Math-v0", "majority-vote", {"tools": "full"}),
        ("ToolOrchestra-Restaurant-v0", "majority-vote", {"tools": "full"}),
        ("ParaManager-Math-v0", "majority-vote", {}),
        ("MASOrchestra-High-MASBenchDepth-v0", "chain", {}),
    ],
)
def test_no_expert_is_asked_again(
    name: str, policy: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = make_orchestrator if name.startswith("MASOrchestra") else make_policy
    episodes = played(name, make(policy, seed=0), range(3), **options)
    assert any(call.tokens[0] for episode in episodes for call in episode.calls), "an expert was asked"

    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("an expert is asked")

    monkeypatch.setattr(ExpertTool, "run", asked)
    monkeypatch.setattr(SimulatedExpert, "solve", asked)
    assert [found.episode.to_json() for found in reverify(episodes)] == [one.to_json() for one in episodes]
    real = {"experts": "real", "catalog": "nowhere.yaml", "mcp": "http://127.0.0.1:9/mcp", "sandbox": "docker"}
    assert [found.reason for found in reverify(episodes, options=real)] == [""] * len(episodes)


def test_a_judge_is_not_asked_again(mini_folder: Path) -> None:
    chat = ScriptedChat(['{"consistent": "no"}'])
    env = make_named(str(mini_folder), answer="text", judge=chat).unwrapped
    task = next(task for task in env.source.tasks("all") if not task.communicate)
    env.reset(seed=0, options={"task_id": task.id})
    for call in task.reference_calls:
        env.step([{"name": call.name, "arguments": call.arguments}])
    env.step("Nothing was done.")
    episode = as_read(env.episode)
    found = only(episode, env=str(mini_folder), options={"judge": chat})
    assert found.episode.to_json() == episode.to_json()
    assert len(chat.requests) == 1
    episode.details["judge"]["replies"] = {}
    assert "does not have what the judge says" in only(episode, env=str(mini_folder)).unjudged


# ------------------------------------------------------------------------------------------------ another library


def flips(episodes: list[Episode], folder: Path) -> dict[str, str]:
    """Return the reasons of what flipped, by task."""
    return {one.recorded.task_id: one.reason for one in reverify(episodes, env=str(folder)) if one.flipped}


def test_a_changed_verifier_flips_the_episodes_of_its_tasks(mini_folder: Path, edited: Callable[..., Path]) -> None:
    episodes = oracle(mini_folder, 30, split="all")
    folder = edited("intents.leave_note.reference_calls.0.arguments.body", "No sugar!")
    meant = {one.task_id for one in episodes if one.task_id.startswith("mini/leave_note")}
    found = flips(episodes, folder)
    assert meant
    assert found.keys() == meant
    assert all(reason.startswith("the verdict was “solved”, and is “execution: ") for reason in found.values())


def test_a_changed_request_is_why_its_episodes_flip(mini_folder: Path, edited: Callable[..., Path]) -> None:
    episodes = oracle(mini_folder)
    folder = edited("intents.ask_price", {
        "bindings": "SELECT order_id FROM orders",
        "instructions": ["How much is twice the price of {order_id}?", "Double the price of {order_id}, please."],
        "reference_calls": [{"call": "get_order", "arguments": {"order_id": "$order_id"}, "save": "order"}],
        "communicate": ["{order.double}"],
        "answer": "It was {order.double}.",
        "description": "Twice the price.",
    })  # fmt: skip
    found = flips(episodes, folder)
    assert found.keys() == {one.task_id for one in episodes if one.task_id.startswith("mini/ask_price")}
    assert set(found.values()) == {"the task has changed: what is asked is another text"}


def test_a_changed_row_is_a_drift_of_the_call_that_reads_it(mini_folder: Path, edited: Callable[..., Path]) -> None:
    episodes = [one for one in oracle(mini_folder, 30) if one.task_id.startswith("mini/order_twice")]
    folder = edited("tables.customers.columns.vip.recipe", {"value": 1})
    found = list(reverify(episodes, env=str(folder)))
    changed = [one for one in found if one.drift]
    assert changed
    for one in changed:
        assert one.drift.startswith("call 1 (get_customer) returned ")
        assert '"vip":0' in one.drift
        assert not one.flipped  # what is written is the same


def test_a_task_that_is_gone_is_not_judged(mini_folder: Path, edited: Callable[..., Path]) -> None:
    episodes = oracle(mini_folder, split="all")
    folder = edited("intents.leave_note", ...)
    for one in reverify(episodes, env=str(folder)):
        gone = one.recorded.task_id.startswith("mini/leave_note")
        assert one.unjudged.startswith("the task is gone: Unknown task") is gone
        if gone:
            assert (one.episode.outcome, one.episode.reward, one.flipped) == ("judge_error", None, False)
            assert one.episode.turns == one.recorded.turns


def test_an_environment_that_cannot_be_made_is_said() -> None:
    (episode,) = played("ToolOrchestra-Restaurant-v0", make_policy("null"), range(1))
    found = only(episode, env="nowhere")
    assert found.unjudged.startswith("the environment cannot be made: Unknown environment 'nowhere'")
    episode.env_id = "MSARL-Math-v0"
    assert only(episode).unjudged.startswith("the task is gone")


def test_options_that_are_left_out_are_options_of_environments() -> None:
    known = set(get_type_hints(OrchestrationOptions)) | set(get_type_hints(TaskOptions))
    for made in (ToolOrchestraEnv, ParaManagerEnv, MASOrchestraEnv, MSARLEnv, TMATREnv):
        known |= set(inspect.signature(made.__init__).parameters)
    assert known >= _REPLIED


def test_a_folder_is_replayed_by_the_rules_of_the_record(mini_folder: Path) -> None:
    (episode,) = played("ParaManager-Custom-v0", make_policy("oracle"), range(1), domain=mini_folder)
    assert only(episode, env=str(mini_folder)).episode.to_json() == episode.to_json()
    wanted = "it was recorded in ParaManager-Custom-v0, whose rules are others than those of ToolOrchestra-Math-v0"
    assert only(episode, env="ToolOrchestra-Math-v0").unjudged == wanted


def test_episodes_of_other_agents_want_the_options_of_the_recording() -> None:
    env = make_multiagent("TMATR-Math-v0", roles="per_action")
    env.reset(seed=0)
    env.step("<ACTION>text_reasoning</ACTION><GOAL>Find it.</GOAL>")
    env.play.stop("no time")
    found = only(as_read(env.episode))
    assert "give the options of the recording" in found.unjudged
    assert not only(as_read(env.episode), options={"roles": "per_action"}).reason


# ---------------------------------------------------------------------------------------------- tampered records


@pytest.fixture(scope="module")
def solved(mini_folder: Path) -> Episode:
    """A solved episode that wrote something, and answered."""
    return next(one for one in oracle(mini_folder, 30) if one.task_id.startswith("mini/order_twice"))


def test_an_outcome_set_by_hand_is_found(mini_folder: Path) -> None:
    (episode,) = played(str(mini_folder), make_policy("null"), range(1))
    assert episode.outcome == "failed"
    wrong = msgspec.structs.replace(episode, outcome="solved", reward=1.0, rewards={"orchestrator": 1.0}, why="solved")
    found = only(wrong, env=str(mini_folder))
    assert found.flipped
    assert (found.episode.outcome, found.episode.reward, found.episode.rewards) == ("failed", 0.0, episode.rewards)
    assert found.reason.startswith("the verdict was “solved”, and is “")
    noted = only(msgspec.structs.replace(episode, outcome="solved"), env=str(mini_folder))
    assert noted.reason.startswith("the record has another outcome than its verdict says")


def test_a_deleted_call_is_found(mini_folder: Path, solved: Episode) -> None:
    place = next(n for n, turn in enumerate(solved.turns) if any(call.name == "make_order" for call in turn.calls))
    calls = solved.turns[place].calls
    gone = only(altered(solved, place, calls=calls[1:]), env=str(mini_folder))
    assert gone.drift.startswith("call 2 (make_order) has the arguments ")
    gone = only(altered(solved, place, calls=calls[:1]), env=str(mini_folder))
    assert gone.drift == "a call of make_order in the messages is not in the record"
    assert not gone.flipped  # the messages say what was done
    silent = only(altered(solved, place, message={"role": "assistant", "content": "Well."}), env=str(mini_folder))
    assert silent.flipped
    assert silent.reason == f"call {_number(solved, place)} ({calls[0].name}) of the record is in no message"
    message = {"role": "assistant", "content": "Well."}
    both = only(altered(solved, place, message=message, calls=()), env=str(mini_folder))
    assert both.flipped
    assert both.reason.startswith("call 2 (get_order) returned ")
    assert both.reason.endswith(" and now EXEC_ERR: No order O041.")


def _number(episode: Episode, place: int) -> int:
    return 1 + sum(len(turn.calls) for turn in episode.turns[:place])


def test_a_changed_answer_is_found(mini_folder: Path, solved: Episode) -> None:
    noted = only(msgspec.structs.replace(solved, answer="{}"), env=str(mini_folder))
    assert noted.drift.startswith("the answer is “{}” in the record, and “")
    assert not noted.flipped
    last = len(solved.turns) - 1
    tool_calls = [
        {"id": "1", "type": "function", "function": {"name": "submit", "arguments": '{"answer": {"more": 1}}'}}
    ]
    said = only(altered(solved, last, message={"role": "assistant", "content": "", "tool_calls": tool_calls}),
                env=str(mini_folder))  # fmt: skip
    assert said.flipped
    assert "in the record, and" in said.reason


def test_a_changed_result_is_found(mini_folder: Path, solved: Episode) -> None:
    turn = solved.turns[0]
    forged = (msgspec.structs.replace(turn.calls[0], value={"name": "Nobody"}), *turn.calls[1:])
    found = only(altered(solved, 0, calls=forged), env=str(mini_folder))
    assert found.drift.startswith('call 1 (get_customer) returned {"name":"Nobody"}, and now ')


def test_a_reply_that_the_record_lacks_is_not_made_up() -> None:
    episodes = played("ToolOrchestra-Math-v0", make_policy("majority-vote", seed=0), range(1), tools="full")
    (episode,) = episodes
    place = next(n for n, turn in enumerate(episode.turns) if turn.calls)
    found = only(altered(episode, place, calls=()))
    assert found.unjudged.startswith("the record has no reply of ")
    assert found.episode.outcome == "judge_error"


def test_missing_messages_and_messages_after_the_end_are_found(mini_folder: Path, solved: Episode) -> None:
    cut_off = solved.copied()
    cut_off.turns.pop()
    found = only(cut_off, env=str(mini_folder))
    assert found.flipped
    assert "its messages end without an answer" in found.episode.why
    longer = solved.copied()
    longer.turns.append(longer.turns[-1])
    assert "it ends after message" in only(longer, env=str(mini_folder)).unjudged


@pytest.mark.parametrize(
    "fields",
    [
        {"details": {"answer": "text, judged by a model", "judge": 1}},
        {"details": {"persona": ["odd"], "abandoned": 3}},
        {"tools": ("no name\n", "submit")},
        {"agents": ()},
    ],
)
def test_a_record_full_of_nonsense_raises_nothing(mini_folder: Path, solved: Episode, fields: dict[str, Any]) -> None:
    found = only(msgspec.structs.replace(solved, **fields), env=str(mini_folder))
    assert found.unjudged or found.flipped or found.drift


def test_what_was_never_judged_stays_so(mini_folder: Path, solved: Episode) -> None:
    broken = msgspec.structs.replace(
        solved, outcome="infra_error", reward=None, rewards={}, why="ExpertError: status 500"
    )
    found = only(broken, env=str(mini_folder))
    assert found.unjudged == "it ended unjudged: ExpertError: status 500"
    assert found.episode is broken
    begun = msgspec.structs.replace(solved, outcome=None, reward=None)
    assert only(begun, env=str(mini_folder)).unjudged == "it was recorded before its end"
    judged = only(msgspec.structs.replace(broken, outcome="judge_error"), env=str(mini_folder))
    assert judged.episode.outcome == "solved"  # the messages are all there

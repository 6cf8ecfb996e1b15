"""Replays recorded episodes and compares what comes of them: rewards, outcomes, costs, clocks and observations.

    python tests/replay.py           replay `data/replay.jsonl.gz`, list what differs, and count it by group
    python tests/replay.py record    record it anew, which is right only when a change of behaviour is wanted
    python tests/replay.py record MultiHopQA     the cases of whose names this is a part; the others' episodes stay

A recorded episode is a case of `CASES`, the arguments of the reset, the actions, and what came of them. Observations
are kept as digests. The file depends on no class of the library, so that its records may change. The orchestrators'
own messages cost nothing here: what they cost is tested in `envs/test_orchestrator_rates.py`.

Tasks of the domains are looked up by their place in the built domains: domains that are built anew have other tasks, so
their episodes are recorded anew after it. Episodes over questions (mathematics, search, MASBench) should stay the same
then; the groups show it.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import msgspec

import toolorchestra
from toolorchestra.envs import make_multiagent, multiagent_ids
from toolorchestra.envs.sources.masbench.generate import InstanceSettings
from toolorchestra.envs.sources.masbench.source import MASBenchSource

FILE = Path(__file__).parent / "data" / "replay.jsonl.gz"
SANDBOX = {"sandbox": "process"}  # present on every machine; only recorded programs are run in it
PARAMANAGER = {"final": "orchestrator", "counting": "run", "strategies": False, **SANDBOX}  # what was recorded with
SIMULATED = {"python": "simulated"}
EXCHANGE = {"exchange": "answers"}
"""What designs were recorded with."""
QUESTIONS = ("Math", "MultiHopQA", "MASBench")


class Case(NamedTuple):
    """An environment: its id, the arguments with which it is made, and whether it has several agents."""

    env_id: str
    options: dict[str, Any]
    several: bool = False

    def make(self) -> Any:
        """Return the environment."""
        if self.several:
            return make_multiagent(self.env_id, orchestrator=None, **self.options)
        return gymnasium.make(self.env_id, orchestrator=None, **self.options).unwrapped


def _cases() -> dict[str, Case]:
    found = {}
    for env_id in toolorchestra.environment_ids():
        protocol = env_id.split("-")[0]
        if protocol.endswith("Single"):
            continue
        found[env_id] = Case(env_id, {"ParaManager": PARAMANAGER, "MASOrchestra": EXCHANGE}.get(protocol, {}))
    for source in ("Restaurant", "Finance", "Railway", "Weather", "Math", "MultiHopQA", "MASBenchDepth"):
        env_id = f"ToolOrchestra-{source}-v0"
        found[f"{env_id}/full"] = Case(env_id, {"tools": "full", **SANDBOX})
    random_tools = {"tools": "full", "tool_config": "random", "tool_config_seed": 3, **SANDBOX}
    found["ToolOrchestra-Medicine-v0/random"] = Case("ToolOrchestra-Medicine-v0", random_tools)
    preference = {"weights": {"outcome": 1.0, "compute": 0.3, "latency": 0.2}, "instruction": "Be quick."}
    for env_id in ("ToolOrchestra-Sport-v0", "ParaManager-Math-v0"):
        options = {"preference": preference, **(PARAMANAGER if env_id.startswith("Para") else {})}
        found[f"{env_id}/preference"] = Case(env_id, options)
    limits = {"max_turns": 3, "max_cost": 0.002, "max_seconds": 0.5, "result_characters": 120}
    found["ToolOrchestra-Travel-v0/limits"] = Case("ToolOrchestra-Travel-v0", limits)
    found["ParaManager-Restaurant-v0/serial"] = Case(
        "ParaManager-Restaurant-v0", {"serial": True, "no_diversity": True, **PARAMANAGER}
    )
    for source in ("Restaurant", "Math", "MultiHopQA", "MASBenchParallel"):
        found[f"ParaManager-{source}-v0/paper"] = Case(f"ParaManager-{source}-v0", SANDBOX)
    found["MASOrchestra-High-MASBenchHorizon-v0/share"] = Case(
        "MASOrchestra-High-MASBenchHorizon-v0", {"credit": "share", **EXCHANGE}
    )
    for env_id in multiagent_ids():
        found[env_id] = Case(env_id, {} if env_id.startswith("Dialogue") else SIMULATED, several=True)
    found["MSARL-Math-v0/noise"] = Case(
        "MSARL-Math-v0", {"noise": 6, "max_calls": 2, "helper_memory": True, **SIMULATED}, several=True
    )
    found["MSARL-MultiHopQA-v0/none"] = Case("MSARL-MultiHopQA-v0", {"helpers": "none", **SIMULATED}, several=True)
    found["TMATR-Math-v0/per_action"] = Case("TMATR-Math-v0", {"roles": "per_action", **SIMULATED}, several=True)
    found["Dialogue-Restaurant-v0/dual"] = Case(
        "Dialogue-Restaurant-v0", {"persona": "mixed", "user_tools": ["pay_bill"]}, several=True
    )
    return found


def _recorded_source(env_id: str) -> dict[str, Any]:
    """Return the problems of MASBench that were recorded: what is not an axis is left to chance."""
    found = re.search(r"-MASBench(\w+)-v0", env_id)
    return {"source": _masbench(found[1].lower())} if found else {}


@functools.cache
def _masbench(axis: str) -> MASBenchSource:
    return MASBenchSource(axis, settings=InstanceSettings(load="steps"))


CASES = {name: case._replace(options=case.options | _recorded_source(case.env_id)) for name, case in _cases().items()}


def play(case: Case, reset: dict[str, Any], act: Callable[[Any, str, dict[str, Any]], Any]) -> dict[str, Any]:
    """Play an episode and return its actions and what came of it.

    Args:
        case: The environment.
        reset: Arguments of its `reset`.
        act: Given the environment, the observation and the info of who acts, returns the action.
    """
    env = case.make()
    try:
        return (_play_several if case.several else _play_one)(env, reset, act)
    finally:
        env.close()


def _play_one(env: Any, reset: dict[str, Any], act: Callable[[Any, str, dict[str, Any]], Any]) -> dict[str, Any]:
    observation, info = env.reset(**reset)
    actions, seen, rewards = [], [_digest([observation, info["messages"], info["tools"]])], []
    over = False
    while not over:
        action = act(env, observation, info)
        actions.append(action)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(_digest([observation, info["messages"], terminated, truncated]))
        rewards.append(float(reward))
        over = terminated or truncated
    more = {"M": [float(value) for value in info["M"]] if "M" in info else None}
    return {"actions": actions, **_outcome(env), "rewards": rewards, "seen": seen, **more}


def _play_several(env: Any, reset: dict[str, Any], act: Callable[[Any, str, dict[str, Any]], Any]) -> dict[str, Any]:
    env.reset(**reset)
    actions, seen = [], []
    while not env.play.over:
        agent = env.agent_selection
        seen.append(_digest([agent, str(env.observe(agent)), env.infos[agent]["messages"]]))
        action = act(env, env.observe(agent), env.infos[agent])
        actions.append(action)
        env.step(action)
    seen += [_digest([agent, env.infos[agent]["messages"]]) for agent in env.possible_agents]
    return {
        "actions": actions,
        **_outcome(env),
        "rewards": [float(env.rewards[agent]) for agent in env.possible_agents],
        "seen": seen,
        "ends": [[env.terminations[agent], env.truncations[agent]] for agent in env.possible_agents],
    }


def _outcome(env: Any) -> dict[str, Any]:
    episode = env.episode
    return {
        "task_id": episode.task_id,
        "outcome": episode.outcome,
        "reward": episode.reward,
        "answer": episode.answer,
        "cost": episode.cost,
        "clock": episode.clock,
        "calls": _digest(
            [
                [c.id, c.name, c.arguments, str(c.status), c.value, c.error, c.cost, c.tokens, c.start, c.end]
                for c in episode.calls
            ]
        ),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:12]


def recorded() -> Iterator[dict[str, Any]]:
    """Yield the recorded episodes."""
    with gzip.open(FILE, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def differences(record: dict[str, Any]) -> list[str]:
    """Replay a recorded episode and return what differs; nothing if all is the same."""
    actions = iter(record["actions"])
    try:
        found = play(CASES[record["case"]], record["reset"], lambda env, observation, info: next(actions))
    except StopIteration:
        return ["the episode went on after the last recorded action"]
    found = json.loads(json.dumps(found))
    return [f"{name}: {record[name]!r} became {value!r}" for name, value in found.items() if record[name] != value]


def group(record: dict[str, Any]) -> str:
    """Return a recorded episode's protocol, the kind of its source, and its player."""
    protocol, source = record["case"].split("/")[0].removesuffix("-v0").rsplit("-", 1)
    return f"{protocol}, {'questions' if source.startswith(QUESTIONS) else 'domains'}, player {record['player']}"


# ------------------------------------------------------------------------------------------------------ recording


def _player(name: str, case: Case, number: int) -> Callable[[Any, str, dict[str, Any]], Any]:
    """Return who acts in an episode that is recorded."""
    rng = random.Random(f"{case}/{name}/{number}")
    if case.several:
        home = importlib.import_module(f"toolorchestra.envs.{case.env_id.split('-')[0].lower()}")
        teacher = importlib.import_module(f"{home.__name__}.teacher")

        def speak(env: Any, observation: str, info: dict[str, Any]) -> str:
            if name == "random" or (name != "right" and not teacher.knows(env.task)):
                return str(home.random_message(env, rng))
            if name == "right":
                return _right(env, rng)
            return str(teacher.inject_error(env.play, rng) if rng.random() < float(name) else teacher.teach(env.play))

        return speak
    if name == "wild":
        return _wild(rng)
    from toolorchestra.agents.policies.registry import make_policy
    from toolorchestra.envs.masorchestra.orchestrators import make_orchestrator

    if case.env_id.startswith("MASOrchestra") and name not in ("null", "direct"):
        policy: Any = make_orchestrator(name, seed=number)
    elif name == "erring":
        policy = make_policy("noisy-oracle", seed=number, error=0.5)
    else:
        policy = make_policy(name, seed=number)
    begun = False

    def act(env: Any, observation: str, info: dict[str, Any]) -> Any:
        nonlocal begun
        if not begun:
            policy.reset(env, observation, info)
            begun = True
        return policy.act(observation, info)

    return act


def _right(env: Any, rng: random.Random) -> str:
    """Return a message that leads to the right answer of a question, over a call now and then."""
    answer, call = rf"\boxed{{{env.task.answer}}}", rng.random() < 0.5
    for wanted, text in (
        ("DECIDE", f"<ACTION>{'call_tool' if call else 'text_reasoning'}</ACTION><GOAL>Find it.</GOAL>"),
        ("SELECT", f"<REASON>It is there.</REASON><SELECTED_TOOL>{rng.choice(list(env.play.tools))}</SELECTED_TOOL>"),
        ("PLAN", "<REASONING_STEPS>Step 1: Think.</REASONING_STEPS>"),
        ("EXECUTE", "<TOOL_INPUT>1 + 1</TOOL_INPUT>"),
        ("INFER", f"<THINK>Step 1: It is known.</THINK><ANSWER>{answer}</ANSWER>"),
    ):
        if env.infos[env.agent_selection].get("action") == wanted:
            return text
    if call and not any(env.episode.calls):
        return f"```{rng.choice(list(env.play.tools))}\n1 + 1\n```"
    return answer if env.agent_selection == "reasoner" else "It is 2."


def _wild(rng: random.Random) -> Callable[[Any, str, dict[str, Any]], Any]:
    """Return a player that calls any tool, several at a time, now and then badly, and answers in the end."""
    from toolorchestra.toolscale.tools.guess import Guesser

    turns = rng.randint(1, 5)

    def act(env: Any, observation: str, info: dict[str, Any]) -> Any:
        nonlocal turns
        turns -= 1
        if turns < 0:
            return env.final(rng.choice((env.right_answer(env.task), "It is 7.")))
        play = env.play
        guesser = Guesser(getattr(play.world, "database", None), rng)
        guess = guesser.arguments if hasattr(play.world, "database") else _plain(rng)
        tools = [tool for name, tool in play.tools.items() if name not in ("final_answer", "ensemble_solver", "submit")]
        beside = [tool for tool in tools if tool.name not in play.world.tools]
        calls = []
        for _ in range(rng.randint(1, 3)):
            tool = rng.choice(beside if beside and rng.random() < 0.7 else tools)
            arguments = guess(tool)
            if "code" in arguments:
                arguments["code"] = f"print({rng.randint(1, 99)} * {rng.randint(1, 99)})"
            if rng.random() < 0.1:
                arguments["colour"] = "blue"
            calls.append({"name": tool.name if rng.random() < 0.95 else "no_such_tool", "arguments": arguments})
        text = "".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)
        return rng.choice((text, f"<reasoning>Let us see.</reasoning>\n{text}", {"content": "", "tool_calls": calls}))

    return act


def _plain(rng: random.Random) -> Callable[[Any], dict[str, Any]]:
    def guess(tool: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, spec in tool.parameters.items():
            if spec.required or rng.random() < 0.3:
                text = rng.choice(list(spec.enum)) if spec.enum else rng.choice(("1 + 1", "the river", "12"))
                found[name] = [text] if spec.type == "array" else 3 if spec.type in ("integer", "number") else text
        return found

    return guess


def _names(case_name: str, case: Case) -> list[str]:
    if case.several:
        if case.env_id.startswith("Dialogue"):
            return ["0.0", "0.0", "0.3", "0.6", "random", "random", "random"]
        if case.env_id.split("-")[1] == "Math":
            return ["0.0", "0.0", "0.3", "0.3", "0.6", "right", "random", "random"]
        return ["right", "right", "right", "random", "random", "random"]
    if case.env_id.startswith("MASOrchestra"):
        from toolorchestra.envs.masorchestra.orchestrators import ORCHESTRATORS

        return [*ORCHESTRATORS, "random", "null"]
    if "/" in case_name or not case.env_id.startswith("ToolOrchestra"):
        return ["wild", "wild", "wild", "wild", "oracle", "erring", "random"]
    return ["oracle", "noisy-oracle", "erring", "erring", "random", "random", "wild", "null"]


def _taught(case: Case, number: int) -> str:
    """Return a task that the teacher of a game can teach."""
    teacher = importlib.import_module(f"toolorchestra.envs.{case.env_id.split('-')[0].lower()}.teacher")
    env = case.make()
    known = [task.id for task in env.source.tasks("train") if teacher.knows(task)]
    env.close()
    return str(random.Random(number).choice(known))


def record(file: Path = FILE, part: str = "") -> int:
    """Record episodes of the cases of whose names `part` is a part, keep the others', and return how many there are."""
    kept = [line for line in recorded() if part not in line["case"]] if part else []
    lines = []
    for case_name, case in CASES.items():
        if part not in case_name:
            lines += [line for line in kept if line["case"] == case_name]
            continue
        names = _names(case_name, case)
        for number, name in enumerate(names):
            reset: dict[str, Any] = {"seed": 1000 + number}
            if number % 2:
                reset["options"] = {"split": "test" if number % 4 == 1 else "train"}
            if name[0] == "0" and not case.env_id.startswith("Dialogue"):
                reset["options"] = {"task_id": _taught(case, number)}
            try:
                found = play(case, reset, _player(name, case, number))
            except Exception as error:  # a player that does not suit the environment
                print(f"{case_name} {name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            lines.append({"case": case_name, "player": name, "reset": reset, **found})
        print(f"{case_name}: {len(lines)}", flush=True)
    text = "".join(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n" for line in lines)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    return len(lines)


def main() -> int:
    """Run the script."""
    if sys.argv[1:2] == ["record"] and len(sys.argv) <= 3:
        print(f"{record(part=''.join(sys.argv[2:]))} episodes recorded in {FILE}")
        return 0
    played: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    for episode in recorded():
        played[group(episode)] += 1
        if found := differences(episode):
            differing[group(episode)] += 1
            print(f"{episode['case']} {episode['player']} {episode['reset']}")
            print("".join(f"    {line}\n" for line in found), end="")
    for name, count in sorted(differing.items()):
        print(f"{name}: {count} of {played[name]} differ")
    print(f"{played.total()} episodes replayed, {differing.total()} differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("verifiers", reason="in an environment of its own: pip install 'toolorchestra[verifiers,test]' uv")
if not shutil.which("uv") and not Path(sys.executable).with_name("uv").exists():
    pytest.skip("verifiers runs its harnesses by uv: pip install uv", allow_module_level=True)

from verifiers.v1.cli.eval.main import main
from verifiers.v1.utils.loaders import environment_class, taskset_class

from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.registration import is_multiagent, make_multiagent
from toolorchestra.envs.tmatr.teacher import knows, teach

pytestmark = pytest.mark.filterwarnings("ignore")  # of verifiers and what it brings
MODULES = Path(__file__).parents[3] / "examples" / "verifiers"
END = '<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>'
"""A message that ends an episode, with a wrong answer."""


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the modules be found, and uv beside the interpreter."""
    monkeypatch.syspath_prepend(str(MODULES))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", "")  # uv gives its programs packages of their own


def streamed(text: str) -> tuple[int, Iterator[bytes]]:
    """Return a reply as a stream of events, which verifiers asks for."""
    part = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    parts: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
    ]
    events = [json.dumps(part | one) for one in parts]
    return 200, iter([f"data: {event}\n\n".encode() for event in (*events, "[DONE]")])


def texts_of(replies: dict[str, list[str]]) -> Callable[[Any], Any]:
    """Return a server's answer: the next text of the conversation in whose beginning a key stands."""

    def answer(request: Any) -> Any:
        asked = [str(one["content"]) for one in request["messages"]]
        texts = next((texts for known, texts in replies.items() if known in asked[0]), None)
        turn = sum(one["role"] == "assistant" for one in request["messages"])
        return streamed(END if texts is None else texts[turn])

    return answer


def evaluated(folder: Path, url: str, module: str, game: str, tasks: int, *more: str) -> list[dict[str, Any]]:
    """Evaluate a game by verifiers' own command and return the traces of all episodes."""
    return run_evaluation(folder, url, module, "--env.taskset.game", game, "-n", str(tasks), *more)


def run_evaluation(folder: Path, url: str, *arguments: str) -> list[dict[str, Any]]:
    common = ["-m", "m", "--client.base-url", url, "--no-push", "--no-rich", "-o", str(folder), "--run.name", "one"]
    main([*arguments, *common, "--max-concurrent", "2"])
    (file,) = folder.rglob("traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    return [trace for episode in episodes for trace in episode.get("traces", [episode])]


@pytest.mark.slow
def test_an_evaluation_of_verifiers_finds_the_rewards_of_gymnasium(
    tmp_path: Path, fake_server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    game = "ToolOrchestra-Restaurant-v0"
    env = gym.make(game)
    tasks = env.unwrapped.source.tasks("test")[:2]  # type: ignore[attr-defined]
    replies, wanted = {}, {}
    for number, task in enumerate(tasks):
        policy = OraclePolicy()
        observation, info = env.reset(seed=number, options={"task_id": task.id})
        policy.reset(env, observation, info)
        texts = []
        total, over = 0.0, False
        while not over:
            texts.append(str(policy.act(observation, info)) if number else END)
            observation, reward, terminated, truncated, info = env.step(texts[-1])
            total, over = total + float(reward), terminated or truncated
        replies[env.unwrapped.episode.instruction], wanted[task.id] = texts, total  # type: ignore[attr-defined]

    fake_server.respond = texts_of(replies)
    traces = evaluated(tmp_path, fake_server.url, "toolorchestra_orchestrator", game, 2)
    found = {trace["task"]["data"]["task_id"]: trace["rewards"]["reward"]["score"] for trace in traces}
    assert found == wanted
    assert all("Tools (" in body["messages"][0]["content"] for body in fake_server.bodies)
    assert sorted(wanted.values()) == [0.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "game"), [("toolorchestra_msarl", "MSARL-Math-v0"), ("toolorchestra_dialogue", "Dialogue-Restaurant-v0")]
)
def test_each_role_is_played_by_an_agent_of_its_own(tmp_path: Path, fake_server: Any, module: str, game: str) -> None:
    script = "```python\nprint(2 ** 10)\n```" if "MSARL" in game else "That is all. <stop/>"
    fake_server.respond = lambda _: streamed(script)
    traces = evaluated(tmp_path, fake_server.url, module, game, 1, "--env.taskset.options", '{"max_cycles": 3}')
    env = CurrentAgentEnv(make_multiagent(game, max_cycles=3))
    data = traces[0]["task"]["data"]
    env.reset(seed=data["seed"], options={"task_id": data["task_id"]})
    while env.episode.outcome is None:
        env.step(script)
    assert_roles(traces, env.episode)


def assert_roles(traces: list[dict[str, Any]], episode: Episode) -> None:
    """Check that each agent has a trace of its own, with its reward and the episode."""
    assert {trace["agent"]["name"] for trace in traces} == {turn.agent for turn in episode.turns}
    for trace in traces:
        assert trace["rewards"]["reward"]["score"] == episode.rewards[trace["agent"]["name"]]
        assert trace["info"]["episode"]["outcome"] == episode.outcome


@pytest.mark.slow
def test_a_game_of_tmatr_is_solved_by_its_planner_and_its_inferencer(tmp_path: Path, fake_server: Any) -> None:
    env = CurrentAgentEnv(make_multiagent("TMATR-Math-v0", python="simulated"))
    tasks = [one for one in env.source.tasks("test") if one.difficulty == 1]
    task = next(filter(knows, tasks))
    text, info = env.reset(seed=0, options={"task_id": task.id})
    texts: dict[str, list[str]] = {}
    begun: dict[str, str] = {}
    while env.episode.outcome is None:
        begun.setdefault(info["agent"], text[:200])
        texts.setdefault(info["agent"], []).append(teach(env.multi_agent_env.play))  # type: ignore[arg-type]
        text, *_, info = env.step(texts[info["agent"]][-1])
    assert (env.episode.outcome, set(texts)) == ("solved", {"planner", "inferencer"})
    said = sum(map(len, texts.values()))
    fake_server.respond = texts_of({begun[role]: said for role, said in texts.items()})
    options = ["--env.taskset.options", '{"python": "simulated"}', "--env.taskset.difficulty", "1"]
    played = evaluated(
        tmp_path, fake_server.url, "toolorchestra_tmatr", "TMATR-Math-v0", tasks.index(task) + 1, *options
    )
    traces = [trace for trace in played if trace["task"]["data"]["task_id"] == task.id]
    assert_roles(traces, env.episode)
    assert {len(trace["info"]["episode"]["turns"]) for trace in traces} == {said}


@pytest.mark.slow
def test_its_own_taskset_of_openenv_plays_what_is_served(
    tmp_path: Path, fake_server: Any, reference: Any, start: Callable[..., Any]
) -> None:
    serve = os.environ.get("TOOLORCHESTRA_SERVE")
    if serve is None or not pytest.importorskip("openenv", reason="pip install 'verifiers[openenv]'"):
        pytest.skip("the server is in OpenEnv's environment: bash .ci/bridges openenv verifiers")
    game = "ToolOrchestra-Restaurant-v0"
    server = start([serve, "serve", game, "--port", "{port}"], timeout=180)
    url = server.url.removesuffix("/v1")
    env = gym.make(game)
    replies, wanted = {}, []
    for seed in (0, 1):
        messages, reward = reference(seed)
        env.reset(seed=seed)
        asked = json.dumps(env.unwrapped.episode.instruction, ensure_ascii=False)  # type: ignore[attr-defined]
        replies[asked.strip('"')] = messages if seed else [END]
        wanted.append(reward if seed else 0.0)
    fake_server.respond = texts_of(replies)
    config = tmp_path / "openenv.toml"  # its taskset cannot be chosen by options: it is made first without them
    config.write_text(
        f"""
        [env.taskset]
        id = "openenv"
        base_url = "{url}"
        resets = [{{seed = 0}}, {{seed = 1}}]
        [env.player]
        harness = {{id = "null"}}
        runtime = {{type = "subprocess"}}
        """
    )
    traces = run_evaluation(tmp_path, fake_server.url, "@", str(config), "-n", "2")
    server.kill()
    traces.sort(key=lambda trace: trace["task"]["data"]["reset"]["seed"])
    assert [trace["rewards"]["openenv_reward"]["score"] for trace in traces] == wanted == [0.0, 1.0]


def test_a_model_that_fails_is_no_reward(tmp_path: Path, fake_server: Any) -> None:
    fake_server.respond = lambda _: (404, b"")
    (trace,) = evaluated(tmp_path, fake_server.url, "toolorchestra_orchestrator", "ToolOrchestra-Sport-v0", 1)
    assert trace["errors"]
    assert not trace["rewards"]


@pytest.mark.parametrize("module", ["orchestrator", "msarl", "tmatr", "dialogue"])
def test_a_module_gives_a_taskset_and_an_environment_with_a_configuration_for_each_role(module: str) -> None:
    name = f"toolorchestra_{module}"
    game = re.findall(r"--env.taskset.game (\S+?)`", importlib.import_module(name).__doc__ or "")[0]
    environment, taskset = environment_class(name), taskset_class(name)
    config = environment.__orig_bases__[0].__args__[0]
    roles = [field for field, about in config.model_fields.items() if type(about.default).__name__ == "AgentConfig"]
    assert roles == (make_multiagent(game).possible_agents if is_multiagent(game) else ["orchestrator"])
    settings = taskset.__orig_bases__[0].__args__[1](id=name, game=game, difficulty=1)
    first = next(iter(taskset(settings).load()))
    assert first.data.task_id == first.data.name
    assert "answer" not in type(first.data).model_fields

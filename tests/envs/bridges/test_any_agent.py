"""Episodes that agents without a framework play; those of frameworks are in `test_agents_frameworks`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import gymnasium as gym
import msgspec
import pytest

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.bridges.any_agent import ENDED, AgentError, AgentSession, play_agent
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.task_env import TaskEnv
from toolorchestra.toolscale.common.errors import OptionError

ENV = "ToolOrchestra-Restaurant-v0"
TASK = {"env": ENV, "seed": 3}
NOWHERE = "http://127.0.0.1:9/v1"
ORDER, BILL = {"customer": "Jonas", "date": "2025-07-09"}, {"order": "O1007"}
"""Arguments of get_order and get_bill, which find something."""
WRONG = {"answer": {}, "message": "I cannot help you with that."}


def played(
    agent: Callable[[AgentSession], Awaitable[Any]], url: str = NOWHERE, task: Any = None, **options: Any
) -> Episode:
    return asyncio.run(play_agent(task or TASK, agent, url, "m", **options))


def played_again(episode: Episode, **options: Any) -> Episode:
    """Return the record of an episode of `gymnasium.make` with the same messages, and its tokens."""
    env = gym.make(episode.env_id, **options)
    env.reset(seed=episode.seed, options={"task_id": episode.task_id})
    for turn in episode.turns:
        env.step(turn.message if len(turn.message) > 2 else turn.message["content"])
    again: Episode = env.unwrapped.episode  # type: ignore[attr-defined]
    tokens = [(turn.token_ids, turn.logprobs) for turn in episode.turns]
    again.turns = [
        msgspec.structs.replace(turn, token_ids=ids, logprobs=logprobs)
        for turn, (ids, logprobs) in zip(again.turns, tokens, strict=True)
    ]
    again.details = episode.details
    return again


async def ask(session: AgentSession, **body: Any) -> tuple[int, bytes, Any]:
    """Return the status, the content and the headers of an answer, without a client that interprets them."""
    headers = {"Authorization": f"Bearer {session.api_key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.post(f"{session.base_url}/chat/completions", json={"model": "?", "messages": [], **body}) as answer,
    ):
        return answer.status, await answer.read(), dict(answer.headers)


def looping() -> Callable[[AgentSession], Awaitable[Any]]:
    pytest.importorskip("openai", reason="pip install openai")
    from examples.agents.openai_loop import agent

    return agent


# ------------------------------------------------------------------------------------------------- the whole of it


def test_an_agent_of_a_plain_client_has_the_reward_and_the_record_of_gymnasium(
    fake_server: Any, answer_by_reference: Callable[..., float]
) -> None:
    reward = answer_by_reference(3)
    inner = fake_server.respond

    def answer(body: Any) -> Any:
        status, reply = inner(body)
        (choice,) = reply["choices"]
        choice["message"] |= {"content": "I look it up.", "reasoning_content": "Hm."}
        choice |= {"token_ids": [5, 6], "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -0.5}]}}
        return status, reply | {"prompt_token_ids": [1, 2, 3]}

    fake_server.respond = answer
    episode = played(looping(), fake_server.url, tokens=True, extra={"temperature": 0.5, "stop": None})
    assert (episode.outcome, episode.reward) == ("solved", reward)
    assert episode == played_again(episode)
    for turn in episode.turns:
        assert (turn.message["content"], turn.message["reasoning_content"]) == ("I look it up.", "Hm.")
        assert (turn.token_ids, turn.logprobs) == ((5, 6), (-1.0, -0.5))
    assert episode.details["completions"] == [
        {"turns": [number], "prompt_token_ids": [1, 2, 3], "tokens": (100, 10)} for number in range(len(episode.turns))
    ]
    for body in fake_server.bodies:
        assert (body["model"], body["temperature"], body["return_token_ids"], body["logprobs"]) == (
            "m",
            0.5,
            True,
            True,
        )
        assert [tool["function"]["name"] for tool in body["tools"]] == list(episode.tools)


def test_several_are_played_at_a_time_on_one_event_loop(
    fake_server: Any, answer_by_reference: Callable[..., float]
) -> None:
    respond, by_request = {}, {}
    for seed in range(3):
        answer_by_reference(seed)
        env = gym.make(ENV)
        _, info = env.reset(seed=seed)
        respond[seed] = fake_server.respond
        by_request[info["messages"][1]["content"]] = seed
    together = threading.Barrier(3, timeout=60)  # no episode goes on before all three have begun

    def answer(body: Any) -> Any:
        if len(body["messages"]) == 2:
            together.wait()
        return respond[by_request[body["messages"][1]["content"]]](body)

    fake_server.respond = answer
    agent = looping()

    async def play_all() -> list[Episode]:
        tasks = ({"env": ENV, "seed": seed} for seed in range(3))
        return await asyncio.gather(*(play_agent(one, agent, fake_server.url, "m", api_key="K") for one in tasks))

    episodes = asyncio.run(play_all())
    assert [one.reward for one in episodes] == [1.0] * 3
    for one in episodes:
        assert [entry["turns"] for entry in one.details["completions"]] == [[n] for n in range(len(one.turns))]
    assert set(fake_server.keys) == {"Bearer K"}


def test_steps_that_may_block_run_in_a_thread(
    fake_server: Any, answer_by_reference: Callable[..., float], monkeypatch: pytest.MonkeyPatch
) -> None:
    reward = answer_by_reference(3)
    threads, step = set(), OrchestrationEnv.step

    def noted(env: Any, action: Any) -> Any:
        threads.add(threading.get_ident())
        return step(env, action)

    monkeypatch.setattr(OrchestrationEnv, "step", noted)
    monkeypatch.setattr(TaskEnv, "may_block", True)
    episode = played(looping(), fake_server.url)
    assert episode.reward == reward
    assert len(threads) == 1
    assert threading.get_ident() not in threads


# ----------------------------------------------------------------------------------------------------------- calls


def both(fake_server: Any) -> None:
    """Let the server ask for two calls."""
    fake_server.respond = lambda _: fake_server.completion(
        "Two.", [("get_order", json.dumps(ORDER)), ("get_bill", json.dumps(BILL))]
    )


def test_calls_of_one_completion_that_are_awaited_together_are_one_message(fake_server: Any) -> None:
    both(fake_server)
    results = []

    async def agent(session: AgentSession) -> None:
        await ask(session)
        results.extend(await asyncio.gather(session.call("get_order", ORDER), session.call("get_bill", BILL)))

    episode = played(agent, fake_server.url)
    (turn,) = episode.turns
    assert [call.name for call in turn.calls] == ["get_order", "get_bill"]
    assert [json.loads(result)["name"] for result in results] == ["get_order", "get_bill"]
    assert turn.calls[0].start == turn.calls[1].start
    again = played_again(episode)
    assert (again.turns, again.clock) == (episode.turns, episode.clock)


def test_other_calls_are_a_message_each_and_the_first_has_the_text(fake_server: Any) -> None:
    both(fake_server)

    async def agent(session: AgentSession) -> None:
        await ask(session)
        await session.call("get_order", ORDER)
        await session.call("get_bill", json.dumps(BILL))
        await asyncio.gather(session.call("get_order", ORDER), session.call("get_bill", BILL))  # nothing asked for them

    episode = played(agent, fake_server.url)
    assert [[call.name for call in turn.calls] for turn in episode.turns] == [["get_order"], ["get_bill"]] * 2
    assert [turn.message["content"] for turn in episode.turns] == ["Two.", "", "", ""]
    assert episode.details["completions"] == [{"turns": [0, 1], "tokens": (100, 10)}]
    assert played_again(episode).turns == episode.turns


def test_a_call_is_the_one_of_the_completion_that_has_its_arguments(fake_server: Any) -> None:
    dishes = [json.dumps({"dish_id": name}) for name in ("D01", "D02")]
    status, reply = fake_server.completion("", [("get_dish", dish) for dish in dishes])
    fake_server.respond = lambda _: (status, reply)

    async def agent(session: AgentSession) -> None:
        await ask(session)
        for dish in reversed(dishes):
            await session.call("get_dish", json.loads(dish))

    asked = reply["choices"][0]["message"]["tool_calls"]
    assert [turn.message["tool_calls"] for turn in played(agent, fake_server.url).turns] == [asked[1:], asked[:1]]


def test_a_call_in_the_text_of_a_completion_has_its_text(fake_server: Any) -> None:
    fake_server.respond = lambda _: fake_server.completion("```python\nget_order()\n```")

    async def agent(session: AgentSession) -> None:
        await ask(session)
        await session.call("get_order", ORDER)

    (turn,) = played(agent, fake_server.url).turns
    assert turn.message["content"] == "```python\nget_order()\n```"
    assert [call.name for call in turn.calls] == ["get_order"]


def test_what_a_model_gets_wrong_is_a_result(fake_server: Any) -> None:
    wrong = [("get_dish", '{"dish"'), ("get_dish", '{"nonsense": 1}'), ("no_tool", "{}")]
    fake_server.respond = lambda _: fake_server.completion("", wrong)

    async def agent(session: AgentSession) -> None:
        await ask(session)
        shown = await asyncio.gather(*(session.call(name, arguments) for name, arguments in wrong))
        assert [json.loads(one)["status"] for one in shown] == ["PARSE_ERR"] * 3

    assert len(played(agent, fake_server.url).turns) == 1


def test_tools_are_functions_with_types_and_docstrings() -> None:
    async def agent(session: AgentSession) -> None:
        functions = {function.__name__: function for function in session.functions()}
        assert list(functions) == [tool["function"]["name"] for tool in session.tools]
        about = functions["get_order"]
        assert "customer" in (about.__doc__ or "")
        assert about.__annotations__["return"] is str
        shown = json.loads(await about(customer="Jonas", date="2025-07-09"))
        assert shown["status"] == "OK"
        assert json.loads(await functions["submit"](answer=None, message=None))["status"] == "PARSE_ERR"

    episode = played(agent)
    optional = [
        json.loads(call["function"]["arguments"]) for turn in episode.turns for call in turn.message["tool_calls"]
    ]
    assert optional == [{"customer": "Jonas", "date": "2025-07-09"}, {"answer": None}]


def test_functions_that_block_run_in_threads_only() -> None:
    async def agent(session: AgentSession) -> None:
        functions = {function.__name__: function for function in session.functions(blocking=True)}
        assert json.loads(await asyncio.to_thread(functions["get_order"], **ORDER))["status"] == "OK"
        await asyncio.to_thread(functions["submit"], **WRONG)
        assert await asyncio.to_thread(functions["get_order"], **ORDER) == ENDED
        functions["get_order"](**ORDER)

    with pytest.raises(AgentError, match=r"get_order waits for the event loop .* asyncio\.to_thread"):
        played(agent)


def test_a_framework_may_have_an_event_loop_of_its_own() -> None:
    async def agent(session: AgentSession) -> None:
        shown = await asyncio.to_thread(asyncio.run, session.call("get_order", ORDER))
        assert json.loads(shown)["status"] == "OK"

    assert len(played(agent).turns) == 1


# --------------------------------------------------------------------------------------------------------- the end


def test_text_that_the_agent_returns_is_the_answer_to_a_question(fake_server: Any) -> None:
    env = gym.make("ToolOrchestra-Math-v0")
    env.reset(seed=1)
    right = env.unwrapped.right_answer(env.unwrapped.task)  # type: ignore[attr-defined]
    for text, wanted in ((right, 1.0), ("I give up.", 0.0)):
        reply = fake_server.completion(f"{text}\n")
        reply[1]["choices"][0]["message"]["reasoning"] = "Hm."
        fake_server.respond = lambda _, reply=reply: reply

        async def agent(session: AgentSession) -> str:
            _, content, _ = await ask(session)
            return str(json.loads(content)["choices"][0]["message"]["content"]).strip()

        episode = played(agent, fake_server.url, {"env": "ToolOrchestra-Math-v0", "seed": 1})
        assert episode.reward == wanted == played_again(episode).reward
        assert episode.turns[0].message["reasoning_content"] == "Hm."
        assert episode.details["completions"] == [{"turns": [0], "tokens": (100, 10)}]


def test_a_text_is_no_answer_where_submit_gives_it() -> None:
    async def agent(session: AgentSession) -> str:
        return "It is 12."

    episode = played(agent)
    assert (episode.outcome, episode.reward, episode.why) == ("failed", 0.0, "the agent ended without an answer")
    assert [turn.message["content"] for turn in episode.turns] == ["It is 12."]


def test_a_design_is_what_the_agent_returns(reference: Any) -> None:
    (design,), reward = reference(0, "MASOrchestra-Low-Math-v0")

    async def agent(session: AgentSession) -> str:
        assert session.tools == session.functions() == []
        return str(design)

    assert played(agent, task={"env": "MASOrchestra-Low-Math-v0", "seed": 0}).reward == reward


def test_completions_without_a_call_are_recorded_too(fake_server: Any) -> None:
    answers = iter([fake_server.completion("A plan."), fake_server.completion("", [("get_order", json.dumps(ORDER))])])
    fake_server.respond = lambda _: next(answers)

    async def agent(session: AgentSession) -> None:
        await ask(session)
        await ask(session)
        await session.call("get_order", ORDER)

    episode = played(agent, fake_server.url)
    assert [body["model"] for body in fake_server.bodies] == ["m", "m"]  # whatever the agent asks for
    assert episode.details["completions"] == [
        {"turns": [], "tokens": (100, 10), "text": "A plan."},
        {"turns": [0], "tokens": (100, 10)},
    ]
    assert msgspec.json.decode(episode.to_json(), type=Episode).outcome == "failed"


def test_limits_of_the_environment_hold_and_every_call_says_so() -> None:
    async def agent(session: AgentSession) -> str:
        assert json.loads(await session.call("get_order", ORDER))["status"] == "OK"
        assert session.over
        functions = session.functions()
        assert [await session.call("get_order", ORDER), await functions[0]()] == [ENDED] * 2
        return "It is 12."

    episode = played(agent, task=TASK | {"options": {"max_turns": 1}})
    assert (episode.outcome, len(episode.turns)) == ("failed", 1)
    assert "1 turn" in episode.why


def test_an_agent_that_takes_too_long_has_failed() -> None:
    cleaned = []

    async def agent(session: AgentSession) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(await session.call("get_order", ORDER))

    episode = played(agent, timeout=0)
    assert (episode.outcome, episode.why) == ("failed", "the agent gave no answer within 0 s")
    assert json.loads(cleaned[0])["status"] == "OK"


def test_a_step_under_way_is_taken_to_its_end_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(TaskEnv, "may_block", True)

    async def agent(session: AgentSession) -> None:
        step = session._env.step

        def slow(action: Any) -> Any:
            begun.set()
            go_on.wait(60)
            return step(action)

        session._env.step = slow
        call = asyncio.ensure_future(session.call("get_order", ORDER))
        await asyncio.to_thread(begun.wait, 60)
        call.cancel()
        asyncio.get_running_loop().call_soon(go_on.set)

    episode = played(agent)
    assert [call.name for call in episode.calls] == ["get_order"]
    assert episode.outcome == "failed"


@pytest.mark.parametrize("bug", [KeyError("bug"), TimeoutError("bug")])
@pytest.mark.parametrize("answered", [False, True])
def test_what_an_agent_raises_is_raised_and_nothing_is_judged_by_it(*, answered: bool, bug: Exception) -> None:
    async def agent(session: AgentSession) -> None:
        await session.call("submit" if answered else "get_order", WRONG if answered else ORDER)
        raise bug

    with pytest.raises(AgentError, match=f"The agent failed: {type(bug).__name__}: '?bug") as caught:
        played(agent, timeout=600)
    assert caught.value.__cause__ is bug
    episode = caught.value.episode
    assert len(episode.turns) == 1
    assert (episode.outcome, episode.reward) == (("failed", 0.0) if answered else ("infra_error", None))


def test_an_agent_returns_text_or_nothing() -> None:
    async def agent(session: AgentSession) -> Any:
        return 12

    with pytest.raises(AgentError, match="Expected the agent to return text or None, got int"):
        played(agent)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"env": "MSARL-Math-v0"}, r"several agents.*endpoint\.play"),
        (TASK | {"options": {"schemas": "short"}}, "an agent shows the tools"),
        (TASK | {"sead": 3}, "Did you mean 'seed'"),
    ],
)
def test_a_task_that_cannot_be_played_is_refused(task: Any, expected: str) -> None:
    async def agent(session: AgentSession) -> None:
        raise AssertionError

    with pytest.raises(OptionError, match=expected):
        played(agent, task=task)


# ------------------------------------------------------------------------------------------------------- the proxy


def test_a_stream_is_passed_on_as_it_comes_and_recorded_before_its_end(fake_server: Any) -> None:
    arrived, called = threading.Event(), threading.Event()

    def chunk(finish: str | None = None, **delta: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    def stream() -> Iterator[bytes]:
        call = {"index": 0, "id": "c1", "function": {"name": "get_order", "arguments": json.dumps(ORDER)}}
        yield chunk(role="assistant", content="[DONE] ")
        yield chunk(content="look.")
        assert arrived.wait(60)  # the agent has read the first piece before there is a last one
        yield chunk("tool_calls", tool_calls=[call]) + b"data: [DO"
        yield b"NE]\n\n"
        assert called.wait(60)  # and calls the tool before the connection ends
        yield b"\n"

    fake_server.respond = lambda _: (200, stream())

    async def agent(session: AgentSession) -> None:
        headers, body, content = {"Authorization": f"Bearer {session.api_key}"}, {"stream": True}, b""
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.post(f"{session.base_url}/chat/completions", json=body) as answer,
        ):
            async for piece in answer.content.iter_any():
                content += piece
                arrived.set()
                if b"data: [DONE]" in content and not called.is_set():
                    await session.call("get_order", ORDER)
                    called.set()

    episode = played(agent, fake_server.url)
    (turn,) = episode.turns
    assert turn.message["content"] == "[DONE] look."
    assert turn.message["tool_calls"][0]["id"] == "c1"
    assert episode.details["completions"] == [{"turns": [0]}]


def test_a_stream_that_breaks_off_does_so_for_the_agent(fake_server: Any) -> None:
    def stream() -> Iterator[bytes]:
        yield b'data: {"choices": [{"delta": {"content": "A"}}]}\n\n'
        yield b'data: {"choices": [{"delta": {"content": "B"}}]}\n\n'
        raise ConnectionError

    fake_server.respond = lambda _: (200, stream())

    async def agent(session: AgentSession) -> None:
        await ask(session)

    with pytest.raises(AgentError) as caught:
        played(agent, fake_server.url)
    assert isinstance(caught.value.__cause__, aiohttp.ClientError)
    assert "completions" not in caught.value.episode.details


def test_errors_of_the_server_reach_the_agent_as_they_are(fake_server: Any) -> None:
    error = {"error": {"message": "too long, Bearer SECRET", "code": "context_length_exceeded"}}
    fake_server.respond = lambda _: (400, error)

    async def agent(session: AgentSession) -> None:
        status, content, headers = await ask(session)
        assert (status, headers["retry-after-ms"]) == (400, "5")
        assert json.loads(content) == {"error": error["error"] | {"message": "too long, Bearer ..."}}
        assert "Server" not in headers or "BaseHTTP" not in headers["Server"]

    assert "completions" not in played(agent, fake_server.url, api_key="SECRET").details


def test_an_answer_that_nobody_waits_for_is_not_recorded(fake_server: Any) -> None:
    begun, go_on, texts = threading.Event(), threading.Event(), iter(["Too late.", "Hello."])

    def answer(_: Any) -> Any:
        text = next(texts)
        begun.set()
        go_on.wait(60)
        return fake_server.completion(text)

    fake_server.respond = answer

    async def agent(session: AgentSession) -> None:
        given_up = asyncio.ensure_future(ask(session))
        await asyncio.to_thread(begun.wait, 60)
        given_up.cancel()
        await asyncio.wait([given_up])
        go_on.set()
        await ask(session)

    assert [entry["text"] for entry in played(agent, fake_server.url).details["completions"]] == ["Hello."]


def test_a_request_under_way_at_the_end_is_given_up(fake_server: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def answer(_: Any) -> Any:
        begun.set()
        go_on.wait(60)
        return fake_server.completion("Too late.")

    fake_server.respond = answer
    requests: list[asyncio.Future[Any]] = []

    async def agent(session: AgentSession) -> None:
        requests.append(asyncio.ensure_future(ask(session)))
        await asyncio.to_thread(begun.wait, 60)

    async def play() -> Episode:
        episode = await play_agent(TASK, agent, fake_server.url, "m")
        (error,) = await asyncio.gather(*requests, return_exceptions=True)
        assert isinstance(error, aiohttp.ClientError)
        return episode

    try:
        assert asyncio.run(play()).outcome == "failed"
        assert not go_on.is_set()
    finally:
        go_on.set()


def test_a_server_that_is_not_there_is_an_error_of_the_server() -> None:
    async def agent(session: AgentSession) -> None:
        status, content, _ = await ask(session)
        assert status == 502
        assert json.loads(content)["error"]["message"] == f"expected an answer from {NOWHERE}: ClientConnectorError"

    played(agent, NOWHERE.replace("://", "://ada:pass@"))


def test_the_proxy_answers_to_its_key_only_and_knows_chat_completions_only(fake_server: Any) -> None:
    fake_server.respond = lambda _: fake_server.completion("Hello.")

    async def agent(session: AgentSession) -> None:
        right = {"Authorization": f"Bearer {session.api_key}"}
        async with aiohttp.ClientSession() as client:
            for headers, path, wanted in (
                ({}, "/models", 401),
                ({"Authorization": "Bearer K"}, "/chat/completions", 401),
                ({}, "/responses", 401),
                (right, "/responses", 404),
            ):
                method = client.get if path == "/models" else client.post
                async with method(session.base_url + path, json={"messages": []}, headers=headers) as answer:
                    assert answer.status == wanted
                    assert "expected" in await answer.text() or "only chat completions" in await answer.text()
            async with client.get(f"{session.base_url}/models", headers=right) as answer:
                assert (await answer.json())["data"][0]["id"] == session.model
            for body in (b"[]", b"{", b"\xff"):
                async with client.post(f"{session.base_url}/chat/completions", data=body, headers=right) as answer:
                    assert answer.status == 400

    played(agent, fake_server.url, api_key="K")
    assert fake_server.bodies == []


# -------------------------------------------------------------------------------------------- what an agent may know


def test_an_agent_sees_neither_the_key_nor_the_reference_nor_the_verdict(fake_server: Any, reference: Any) -> None:
    fake_server.respond = lambda _: fake_server.completion("", [("get_dish", "{}")])
    env = gym.make(ENV)
    env.reset(seed=3)
    task: Any = env.unwrapped.task  # type: ignore[attr-defined]
    right = json.loads(env.unwrapped.right_answer(task))  # type: ignore[attr-defined]
    seen: list[str] = []
    ends: list[list[str]] = []

    def agent_with(answer: Any) -> Callable[[AgentSession], Awaitable[Any]]:
        async def agent(session: AgentSession) -> None:
            seen.extend(repr(value) for name, value in vars(session).items() if not name.startswith("_"))
            seen.extend(str(function.__doc__) for function in session.functions())
            seen.extend(map(str, await ask(session)))
            for call in task.whole_path:
                await session.call(call.name, call.arguments)
            ends.append([await session.call(*call) for call in (("submit", answer), ("get_order", ORDER))])

        return agent

    outcomes = [played(agent_with(answer), fake_server.url, api_key="SECRET").outcome for answer in (right, WRONG)]
    assert outcomes == ["solved", "failed"]
    assert ends[0] == ends[1]  # whether it was right is not said
    assert all("Finish now" in shown for shown in ends[0])
    assert set(fake_server.keys) == {"Bearer SECRET"}
    hidden = ["SECRET", task.id, task.answer, '"total":124', *(str(call.arguments) for call in task.reference_calls)]
    assert not [text for text in hidden if text in "".join(seen)]

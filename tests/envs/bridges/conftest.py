from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from waiting import until

from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.envs.bridges.served import Served

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(scope="package")
def reference() -> Any:
    """Return the messages of a reference trajectory, as text, and the reward that `gymnasium.make` gives for them."""
    made: dict[str, gym.Env[Any, Any]] = {}

    def played(seed: int, env_id: str = ENV, **options: Any) -> tuple[list[str], float]:
        env = made.setdefault(f"{env_id}{options}", gym.make(env_id, **options))
        policy = OraclePolicy()
        observation, info = env.reset(seed=seed)
        policy.reset(env, observation, info)
        messages: list[str] = []
        total, over = 0.0, False
        while not over:
            messages.append(str(policy.act(observation, info)))
            observation, reward, terminated, truncated, info = env.step(messages[-1])
            total, over = total + float(reward), terminated or truncated
        return messages, total

    return played


@pytest.fixture(scope="package")
def serving() -> Callable[..., AbstractContextManager[str]]:
    """Serve an application as the command does, by a bridge's `serve` and what that takes after the port."""

    @contextlib.contextmanager
    def served(serve: Callable[..., None], app: Any, *more: Any) -> Iterator[str]:
        import uvicorn

        made: list[uvicorn.Server] = []
        run = uvicorn.Server.run

        def kept(server: uvicorn.Server, *given: Any, **named: Any) -> None:
            made.append(server)
            run(server, *given, **named)

        uvicorn.Server.run = kept  # type: ignore[method-assign]
        thread = threading.Thread(target=serve, args=(app, "127.0.0.1", 0, *more), daemon=True)
        thread.start()
        try:
            until(lambda: (made and made[0].started) or not thread.is_alive(), "the server listens")
            yield f"http://127.0.0.1:{made[0].servers[0].sockets[0].getsockname()[1]}"
        finally:
            uvicorn.Server.run = run  # type: ignore[method-assign]
            made[0].should_exit = True
            thread.join()

    return served


@pytest.fixture
def forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Put the clock of servers that begin after this forward by some seconds. They look at it ten times a second."""
    ahead, now, others = [0.0], asyncio.BaseEventLoop.time, threading.enumerate()

    def time(loop: asyncio.BaseEventLoop) -> float:
        return now(loop) + (0.0 if threading.current_thread() in others else ahead[0])

    monkeypatch.setattr(asyncio.BaseEventLoop, "time", time)

    def put(seconds: float) -> None:
        ahead[0] += seconds

    return put


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    """Return those begun in this test whose state was freed; a server may still be freeing those of the test before."""
    begun: list[Served] = []
    found: list[Served] = []
    begin, close = Served.__init__, Served.close

    def kept(one: Served, *given: Any, **named: Any) -> None:
        begun.append(one)
        begin(one, *given, **named)

    def closed(one: Served) -> None:
        if any(one is other for other in begun):
            found.append(one)
        close(one)

    monkeypatch.setattr(Served, "__init__", kept)
    monkeypatch.setattr(Served, "close", closed)
    return found


@pytest.fixture(scope="package")
def whole_words() -> Callable[..., Any]:
    """Make a tokenizer of a model of Qwen3's kind in which each of some texts is one token."""

    def make(texts: list[str], chat_template: str | None = None) -> Any:
        tokenizers = pytest.importorskip("tokenizers")
        from transformers import PreTrainedTokenizerFast

        words = ["<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "assistant\n", *texts]
        model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
        inner = tokenizers.Tokenizer(model)
        inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        inner.decoder = tokenizers.decoders.Fuse()
        inner.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in words[1:]])
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<unk>"
        )
        if chat_template is None:
            folder = Path(str(pytest.importorskip("trl").__file__)).parent / "chat_templates"
            chat_template = (folder / "qwen3.jinja").read_text(encoding="utf-8")
        tokenizer.chat_template = chat_template
        return tokenizer

    return make


@pytest.fixture
def answer_by_reference(fake_server: Any, reference: Any) -> Callable[..., float]:
    """Let the server answer as the reference trajectory of a seed, and return the reward that Gymnasium gives for it.

    Calls are apart from the text. What is asked after them is answered with a text, or a call of `last`.
    """

    def begin(seed: int, last: str = "", **options: Any) -> float:
        messages, reward = reference(seed, **options)

        def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            said = sum(message["role"] == "assistant" for message in body["messages"])
            if said >= len(messages):
                made = [(last, '{"answer": "Done."}')] if last else []
                return fake_server.completion("" if last else "Done.", made)  # type: ignore[no-any-return]
            message = read_message(messages[said])
            return fake_server.completion(  # type: ignore[no-any-return]
                message.text, [(call.name, call.arguments.decode()) for call in message.calls]
            )

        fake_server.respond = answer
        return float(reward)

    return begin

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, Price, Usage
from toolorchestra.toolscale.common.errors import OptionError

torch = pytest.importorskip("torch", reason="needs torch: pip install 'toolorchestra[train]'")

from toolorchestra.agents.chat.transformers_chat import TransformersChat, sample  # noqa: E402 - after the check for torch

TOOL = {
    "type": "function",
    "function": {
        "name": "get_dish",
        "description": "Look up a dish.",
        "parameters": {"type": "object", "properties": {"dish": {"type": "string"}}},
    },
}
TEXTS = ["Hi", "Which dish is the cheapest?", "Book a table for four, please.", "?", "Crème brûlée", "A B C"]


def ask(text: str, **settings: Any) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], **({"max_tokens": 16} | settings))


@pytest.fixture(scope="module")
def chat(tiny_model: Path) -> TransformersChat:
    return TransformersChat(tiny_model, device="cpu", max_batch=4)


def test_a_batch_answers_as_each_request_alone_does_greedily(chat: TransformersChat) -> None:
    requests = [ask(text, temperature=0.0, max_tokens=8 + i) for i, text in enumerate(TEXTS)]
    together = chat.complete(requests)
    alone = [chat.complete([request])[0] for request in requests]
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]
    assert len({tuple(c.token_ids or ()) for c in together}) > 1
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_batch_answers_as_each_request_alone_does_with_seeds(chat: TransformersChat) -> None:
    requests = [ask(text, temperature=1.3, top_p=0.8 + i / 20, seed=i) for i, text in enumerate(TEXTS[:5])]
    together = chat.complete(requests)
    assert [c.token_ids for c in together] == [chat.complete([request])[0].token_ids for request in requests]


def test_the_models_own_greedy_generation_is_the_same(chat: TransformersChat) -> None:
    (completion,) = chat.complete([ask(TEXTS[1], temperature=0.0)])
    prompt = torch.tensor([completion.prompt_token_ids])
    output = chat.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=16, pad_token_id=0
    )
    assert output[0, prompt.shape[1] :].tolist() == completion.token_ids


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
def test_log_probabilities_are_those_of_a_forward_pass(chat: TransformersChat, temperature: float) -> None:
    requests = [ask(text, temperature=temperature, top_p=0.9, seed=5) for text in TEXTS[:3]]
    for completion in chat.complete(requests):
        prompt, written = completion.prompt_token_ids, completion.token_ids
        assert prompt is not None
        assert written is not None
        with torch.no_grad():
            logits = chat.model(torch.tensor([prompt + written])).logits[0]
        expected = logits.log_softmax(-1)[len(prompt) - 1 : -1].gather(-1, torch.tensor(written)[:, None])[:, 0]
        assert completion.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_seed_repeats_its_answer_and_another_gives_another(chat: TransformersChat) -> None:
    one, same, other = chat.complete([ask("Hi", temperature=1.5, seed=seed) for seed in (1, 1, 2)])
    assert one.token_ids == same.token_ids != other.token_ids


def test_requests_without_a_seed_follow_the_models(tiny_model: Path) -> None:
    def answers(seed: int) -> list[Any]:
        chat = TransformersChat(tiny_model, device="cpu", seed=seed)
        return [completion.token_ids for completion in chat.complete([ask("Hi", temperature=1.5)] * 2)]

    first, second = answers(0)
    assert first != second
    assert answers(0) == [first, second] != answers(1)


def test_sampling_touches_no_global_random_state(chat: TransformersChat) -> None:
    before = torch.get_rng_state()
    chat.complete([ask("Hi", temperature=1.0)])
    assert torch.equal(before, torch.get_rng_state())


def test_sampling_inverts_the_cumulative_distribution() -> None:
    # probabilities .5 .3 .2: thresholds at .5 and .8; the likeliest that reach .75 are the first two, .625 and .375
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    draws = [0.0, 0.49, 0.51, 0.79, 0.81, 0.999]
    assert sample(logits.repeat(6, 1), [1.0] * 6, [1.0] * 6, draws).tolist() == [0, 0, 1, 1, 2, 2]
    assert sample(logits.repeat(4, 1), [1.0] * 4, [0.75] * 4, [0.0, 0.62, 0.63, 0.999]).tolist() == [0, 0, 1, 1]
    # at temperature 0.5 the odds are squared: .25 .09 .04 of .38, so thresholds at .658 and .895
    assert sample(logits.repeat(3, 1), [0.5] * 3, [1.0] * 3, [0.65, 0.67, 0.9]).tolist() == [0, 1, 2]
    assert sample(logits, [1.0], [1e-9], [0.999]).tolist() == [0]


def test_tools_and_earlier_calls_reach_the_model_through_its_template(chat: TransformersChat) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "get_dish", "arguments": '{"dish": "Soup"}'}}
    bad = {"id": "b", "type": "function", "function": {"name": "get_dish", "arguments": "{"}}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [call, bad]}]
    (completion,) = chat.complete([ChatRequest(messages, tools=[TOOL], max_tokens=1)])
    assert chat.tokenizer.decode(completion.prompt_token_ids) == (
        "<|im_start|>tool\nget_dish(dish)<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        '[get_dish {"dish": "Soup"}][get_dish "{"]<|im_end|>\n<|im_start|>assistant\n'
    )


@pytest.fixture
def dictate(chat: TransformersChat, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the model write a given text, whatever it reads."""

    def write(text: str, **settings: Any) -> Completion:
        tokens = iter(chat.tokenizer.encode(text))

        def head(hidden: Any) -> Any:
            wanted = torch.nn.functional.one_hot(torch.tensor(next(tokens)), len(chat.tokenizer))
            return wanted.float().expand(*hidden.shape[:2], -1)

        monkeypatch.setattr(chat.model.lm_head, "forward", head)
        return chat.complete([ask("Hi", temperature=0.0, **({"max_tokens": 200} | settings))])[0]

    return write


def test_an_answer_ends_at_the_end_token_which_is_counted_but_not_shown(dictate: Any) -> None:
    completion = dictate("Crème brûlée.<|im_end|>", max_tokens=40)
    assert (completion.text, completion.finish_reason) == ("Crème brûlée.", "stop")
    assert completion.completion_tokens == len(completion.token_ids) == len("Crème brûlée.".encode()) + 1


def test_calls_are_read_and_the_raw_text_kept(dictate: Any) -> None:
    text = 'I look.\n<tool_call>\n{"name": "get_dish", "arguments": {"dish": "Soup"}}\n</tool_call>'
    completion = dictate(text + "<|im_end|>")
    assert completion.text == completion.action == text
    assert completion.tool_calls == [{"id": "call_1", "name": "get_dish", "arguments": '{"dish": "Soup"}'}]
    assert completion.finish_reason == "tool_calls"


def test_a_stop_text_ends_the_answer_and_is_cut_off(dictate: Any) -> None:
    completion = dictate("One. Two. Brûlée END and more", stop=("lée END", "never"))
    assert (completion.text, completion.finish_reason) == ("One. Two. Brû", "stop")
    assert completion.completion_tokens == len("One. Two. Brûlée END".encode())


def test_an_answer_that_is_cut_says_so(dictate: Any) -> None:
    completion = dictate("One. Two.", max_tokens=4)
    assert (completion.text, completion.finish_reason) == ("One.", "length")


def test_an_answer_stays_within_the_context_and_a_full_prompt_fails_alone(chat: TransformersChat) -> None:
    long = "x" * 470  # bytes, with the template's tokens below the context of 512
    with pytest.raises(BatchError, match=r"1 of 3.*fewer tokens than the context of 512, got \d+\. Shorten") as caught:
        chat.complete([ask("Hi"), ask("x" * 600), ask(long, max_tokens=1_000)])
    first, second, third = caught.value.results
    assert isinstance(first, Completion)
    assert not isinstance(second, Completion)
    assert isinstance(third, Completion)
    assert third.prompt_tokens + third.completion_tokens <= 512


def test_tokens_and_dollars_are_counted(tiny_model: Path) -> None:
    chat = TransformersChat(tiny_model, device="cpu", price=Price(input=1_000_000, output=3_000_000))
    (completion,) = chat.complete([ask("Hi", max_tokens=2, temperature=0.0)])
    read = len(completion.prompt_token_ids or ())
    assert completion.completion_tokens == 2
    assert completion.cost == read * 1 + 2 * 3
    assert chat.meter.usage == Usage(1, read, 2, completion.cost)


def test_a_model_in_training_is_put_back_to_training(tiny_model: Path, chat: TransformersChat) -> None:
    own = TransformersChat(chat.model, chat.tokenizer, name="own")
    own.model.train()
    own.complete([ask("Hi")])
    assert own.model.training
    own.model.eval()


def test_what_cannot_be_loaded_is_named(tmp_path: Path, chat: TransformersChat) -> None:
    with pytest.raises(OptionError, match="no-such-folder', which is neither"):
        TransformersChat(tmp_path / "no-such-folder")
    with pytest.raises(OptionError, match="max_batch"):
        TransformersChat(chat.model, chat.tokenizer, max_batch=0)


def test_a_tokenizer_without_a_template_is_refused(chat: TransformersChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat.tokenizer, "chat_template", None)
    with pytest.raises(OptionError, match=r"expected one with a chat template"):
        TransformersChat(chat.model, chat.tokenizer)


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolorchestra.agents.chat.transformers_chat")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install -e '.*\[train\]'"):
        import toolorchestra.agents.chat.transformers_chat  # noqa: F401

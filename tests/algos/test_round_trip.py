"""What the teacher of an environment writes comes back through a chat template, or training does not begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.renderer import Decoded
from toolorchestra.algos import grpo, msarl, sft
from toolorchestra.algos.data.round_trip import oracle_reward, require_round_trip, require_team_round_trip
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.several_agents import TrainMSARL
from toolorchestra.algos.options.smoke import make_tiny_model, tiny_tokenizer
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.starts import EpisodeStart, starts
from toolorchestra.toolscale.common.errors import OptionError

RESTAURANT = "ToolOrchestra-Restaurant-v0"
SAID, CALLED = "(message.content or '')", "call.function.name"


class Forgetful(ChatTemplateRenderer):
    """Reads answers, and of calls nothing."""

    def decode_action(self, *args: Any) -> Decoded:
        decoded = super().decode_action(*args)
        return decoded if "submit" in str(decoded.action) else Decoded("I am thinking.", True)


def template_with(word: str, other: str) -> str:
    """Return a chat template that writes another word for one that the conversation lacks on which it is tried."""
    template: str = tiny_tokenizer().chat_template.replace("message.content or ''", SAID)
    for place in (SAID, CALLED):
        template = template.replace(place, f"{place} | replace('{word}', '{other}')")
    return template


def renderer(template: str = "", kind: type[ChatTemplateRenderer] = ChatTemplateRenderer) -> ChatTemplateRenderer:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template or tokenizer.chat_template
    return kind(tokenizer)


def first(env: Any, split: str = "train") -> EpisodeStart:
    return next(iter(starts(env, split, ()).values()))[0]


def model_with(template: str, folder: Path) -> str:
    """Return the folder of a new model with a chat template."""
    (make_tiny_model(folder) / "chat_template.jinja").write_text(template)
    return str(folder)


@pytest.mark.parametrize(
    "name", [RESTAURANT, "ToolOrchestra-Math-v0", "MASOrchestra-Low-Math-v0", "ParaManager-Math-v0"]
)
def test_the_oracle_earns_through_a_template_what_it_earns(name: str) -> None:
    env = gym.make(name)
    start, template = first(env), renderer()
    assert oracle_reward(env, start, template) == oracle_reward(env, start) > 0
    require_round_trip(env, template, start)


def test_a_template_that_changes_a_call_is_refused_with_what_it_makes_of_it() -> None:
    env = gym.make(RESTAURANT)
    with pytest.raises(OptionError, match=r"\('submit', .* is read back as .*\('send', .*Give `call_format` hermes"):
        require_round_trip(env, renderer(template_with("submit", "send")), first(env))


def test_a_renderer_with_which_the_oracle_earns_less_is_refused() -> None:
    env = gym.make(RESTAURANT)
    with pytest.raises(OptionError, match=r"earns 1 with its words as they are, and 0 with what is read"):
        require_round_trip(env, renderer(kind=Forgetful), first(env))


def test_environments_of_others_have_no_oracle() -> None:
    require_round_trip(gym.make("CartPole-v1"), renderer(kind=Forgetful), EpisodeStart(0))


@pytest.mark.parametrize("name", ["MSARL-Math-v0", "TMATR-Math-v0"])
def test_what_a_team_writes_comes_back_or_is_refused(name: str) -> None:
    env = make_multiagent(name)
    require_team_round_trip(env, dict.fromkeys(env.possible_agents, renderer()))
    with pytest.raises(OptionError, match=r"The teacher earns .* once the chat template"):
        require_team_round_trip(env, dict.fromkeys(env.possible_agents, renderer(template_with("boxed", "box"))))


def test_no_learner_begins_with_a_template_that_loses_calls(tmp_path: Path) -> None:
    model = model_with(template_with("submit", "send"), tmp_path / "model")
    with pytest.raises(OptionError, match=r"'submit'.* is read back as"):
        sft.train(TrainSFT(RESTAURANT, model=model, output=tmp_path / "sft", difficulty=(1,)))
    with pytest.raises(OptionError, match=r"'submit'.* is read back as"):
        grpo.train(TrainGRPO(RESTAURANT, model=model, output=tmp_path / "grpo"))
    model = model_with(template_with("boxed", "box"), tmp_path / "other")
    with pytest.raises(OptionError, match=r"The teacher earns .* once the chat template"):
        msarl.train(TrainMSARL("MSARL-Math-v0", reasoner=model, helper=model, output=tmp_path / "msarl"))
    assert not list(tmp_path.rglob("final"))

"""A chat model as a policy."""

from __future__ import annotations

from typing import Any

import gymnasium

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.agents.messages.tool_lines import tools_beside
from toolorchestra.agents.policies.base import Info, Policy


class ChatPolicy(Policy):
    """Any chat model as an orchestrator: it is given the conversation and the tools, and its reply is played.

    Args:
        model: The chat model.
        seed: Sampling seed, for models that take one.
        temperature: Sampling temperature; 0, as ToolOrchestra evaluates, is greedy.
        max_tokens: Maximum number of tokens of one reply (ToolOrchestra §4.4: 8,000).
        seed_episodes: Draw the sampling seed anew for each episode, so that samples of one task differ.
    """

    def __init__(
        self,
        model: ChatModel,
        seed: int = 0,
        temperature: float = 0.0,
        max_tokens: int = 8_000,
        *,
        seed_episodes: bool = False,
    ) -> None:
        super().__init__(seed)
        self.seed_episodes = seed_episodes
        self._sampling_seed = seed
        self.model = model
        self.temperature = temperature
        self.max_tokens = max_tokens

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: draw its sampling seed."""
        super().reset(env, observation, info)
        if self.seed_episodes:
            self._sampling_seed = self.rng.getrandbits(31)

    def request(self, info: Info) -> ChatRequest:
        """Return the model's next request, so that the requests of several episodes can be sent together."""
        return ChatRequest(
            messages=tuple(info["messages"]),
            tools=tuple(tools_beside(info)),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self._sampling_seed,
        )

    def act(self, observation: str, info: Info) -> Any:
        """Return the model's reply as an action."""
        return self.model.complete([self.request(info)])[0].action

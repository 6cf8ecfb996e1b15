"""Renderers translate between an environment's messages and a policy's token ids.

A renderer turns a conversation into token ids *once, from left to right*: the prompt, then in turn the policy's own ids
(exactly as they were sampled) and those of the environment's messages. Nothing is re-tokenised, so a policy is trained
on the ids that it read and wrote (token-in-token-out). Sampling is in `toolorchestra.algos.rollout.engine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from toolorchestra.agents.messages.model_message import Message


class Decoded(NamedTuple):
    """The action of ids, a list of ``{"name", "arguments"}`` or a text, and whether they keep to the format."""

    action: Any
    well_formed: bool


class Renderer(Protocol):
    """The contract of renderers, which the rollout engine checks.

    A conversation's ids are ``encode_prompt`` of the opening messages, then for each turn the policy's ids and
    ``encode_results`` of the messages that the environment added. A renderer whose ids refer to the conversation reads
    it in `before`, the messages so far; others ignore it.
    """

    pad_id: int
    stop_ids: tuple[int, ...]

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, up to where the policy begins to write."""

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return the ids by which a policy would write this assistant message, its stop id included."""

    def encode_results(self, messages: Sequence[Message], written: Sequence[int]) -> list[int]:
        """Return the ids to append after the policy's ids `written`, up to where it writes again."""

    def decode_action(
        self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]], before: Sequence[Message] = ()
    ) -> Decoded:
        """Return the action that the policy's ids mean."""


SPECIAL = (
    "<pad>", "<unk>", "<end>", "<user>", "<assistant>", "<result>", "<call>", "<answer>", "<spell>", "</spell>",
    "<item>", "<none>", "<cut>", "true", "false", "null", "PARSE_ERR", "EXEC_ERR", "TIMEOUT",
)  # fmt: skip


def parameters_of(tool: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameter schemas of an OpenAI function schema."""
    properties: dict[str, dict[str, Any]] = tool["function"].get("parameters", {}).get("properties", {})
    return properties


def check_prefix(earlier: Sequence[int], later: Sequence[int]) -> None:
    """Assert the token-in-token-out invariant: `later` begins with exactly the ids `earlier`."""
    assert list(later[: len(earlier)]) == list(earlier), "a turn's prompt does not begin with all earlier ids"

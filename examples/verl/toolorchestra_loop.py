"""verl: an agent loop that plays environments of toolorchestra, on the very tokens that the server sampled.

Copy this file to where verl's workers can import it, and name it in a file of agent loops (see docs/bridges/verl.md). A
row of the data set says by its columns what is played; `rows` makes such rows.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from toolorchestra.envs.bridges.served import CHOICES, Observed, Served, seeded_rows

ATTEMPTS = 3


class OrchestrationLoop(AgentLoopBase):
    """One episode a row: of ``env``, with its arguments ``options``, begun by a ``seed``, ``task_id`` and the like."""

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> AgentLoopOutput:
        """Return a trajectory, its reward that of `gymnasium.make`'s environment for the same messages.

        Raises:
            RuntimeError: An infrastructure error ended the episode, again and again: there is no reward.
        """
        for _ in range(ATTEMPTS):
            game = Served(row["env"], row.get("options") or {})
            try:
                if (output := await self._played(game, sampling_params, row)) is not None:
                    return output
                why = game.episode.why
            finally:
                game.close()
        raise RuntimeError(f"An infrastructure error ended {row['env']} {ATTEMPTS} times: {why}")

    async def _played(self, game: Served, params: dict[str, Any], row: dict[str, Any]) -> AgentLoopOutput | None:
        """Return the trajectory of an episode; None if an infrastructure error ended it."""
        request, limit = uuid4().hex, self.rollout_config.response_length
        metrics: dict[str, Any] = {}
        extra: dict[str, Any] = {"turn_scores": [], "tool_rewards": []}
        mask, logprobs, reward, turns = [], [] if params.get("logprobs") else None, 0.0, 0

        async def told_by(step: Any, *given: Any, **named: Any) -> Observed:
            with simple_timer("tool_calls", metrics):  # in a thread, since tools and experts may take their time
                return await asyncio.to_thread(functools.partial(step, *given, **named))

        seed = None if row.get("seed") is None else int(row["seed"])
        chosen = {name: row[name] for name in CHOICES if row.get(name) is not None}
        told = await told_by(game.reset, seed, **chosen)
        tools, messages = told.tools or None, list(told.messages)
        ids = await self.ct_build_initial_tokens(messages, tools=tools)
        prompt = len(ids)
        while not told.done:
            with simple_timer("generate_sequences", metrics):
                reply = await self.server_manager.generate(request, prompt_ids=ids, sampling_params=params)
            extra |= {name: value for name, value in reply.extra_fields.items() if name not in extra}
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, reply.token_ids, mask, logprobs, None if logprobs is None else reply.log_probs
            )
            ids, turns = merged.token_ids, turns + 1
            text = self._text(reply.token_ids)
            told = await told_by(game.step, text) if len(mask) <= limit else cut(game, limit)
            reward += told.reward or 0.0
            if told.done:
                break
            before = [*messages, {"role": "assistant", "content": text}]
            messages = [*before, *(told.messages or [{"role": "user", "content": told.text}])]
            merged, mask, logprobs = await self.ct_merge_context_msg(before, messages, ids, mask, logprobs, tools=tools)
            ids = merged.token_ids
            if len(mask) >= limit:
                told = cut(game, limit)
        if told.reward is None:
            return None
        about = {"solved": float(told.info["outcome"] == "solved"), "cost": told.info["cost"]}
        return AgentLoopOutput(
            prompt_ids=ids[:prompt],
            response_ids=ids[prompt:][:limit],
            response_mask=mask[:limit],
            response_logprobs=None if logprobs is None else logprobs[:limit],
            reward_score=reward,
            num_turns=2 * turns,
            metrics=metrics,
            extra_fields=extra | {"reward_extra_info": about},
        )

    def _text(self, ids: list[int]) -> str:
        """Return a reply without the mark at its end; marks of calls and thoughts stay."""
        kept = ids[:-1] if ids[-1:] == [self.tokenizer.eos_token_id] else ids
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False)
        return text


def cut(game: Served, limit: int) -> Observed:
    """End an episode that has no room left for an answer: it has failed."""
    return game.stop(f"no answer within {limit} ids")


def rows(env: str, count: int, seed: int = 0, **chosen: Any) -> list[dict[str, Any]]:
    """Return rows of a data set, each with a seed of its own.

    Args:
        env: Name of the environment.
        count: Number of rows.
        seed: Seed of the first one.
        chosen: Choices at each reset, such as ``split="train"``.
    """
    return seeded_rows(count, seed, agent_name="toolorchestra", data_source=env, env=env, **chosen)

from __future__ import annotations

from typing import Any

from answering import right

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.base import play_episode, write_calls
from toolorchestra.agents.policies.chat_policy import ChatPolicy

ALL = {"split": "all"}


def test_a_chat_model_is_given_conversation_and_tools_and_its_reply_is_played(env: Any):
    def reply(request: Any) -> str:
        if len(request.messages) == 2:
            return write_calls(task.reference_calls, "Let me see. ")
        return str(right(env))

    model = ScriptedChat(reply)
    task = next(task for task in env.source.tasks("all") if task.intent == "ask_price")
    info = play_episode(env, ChatPolicy(model), options={"task_id": task.id})
    assert info["outcome"] == "solved"
    first, second = model.requests
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert {tool["function"]["name"] for tool in first.tools} == {*env.source.domain.tools, "submit"}
    assert first.temperature == 0.0

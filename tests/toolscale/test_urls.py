"""Credentials in URLs are neither shown nor recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolorchestra.agents.chat.base import ChatRequest
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.envs.records.recording import Recording
from toolorchestra.toolscale.common.append_only import AppendOnly
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.common.urls import without_credentials

URL = "http://ada:sesame@127.0.0.1:9/v1?api-key=sk-123"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (URL, "http://127.0.0.1:9/v1?api-key=…"),
        ("https://token@host/v1", "https://host/v1"),
        ("a@b.example and http://host/v1?page=2", "a@b.example and http://host/v1?page=2"),
        (
            "http://host/@ada, http://host/?x=1&access_token=t&y=2",
            "http://host/@ada, http://host/?x=1&access_token=…&y=2",
        ),
        ("key=1", "key=1"),
    ],
)
def test_a_text_without_credentials(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


def test_models_name_their_server_without_credentials() -> None:
    chat = OpenAIChat(URL, "m", max_retries=0, timeout=2)
    assert "sesame" not in repr(chat)
    with pytest.raises(ExpertError) as failed:
        chat.complete([ChatRequest([{"role": "user", "content": "Hello"}])])
    assert "127.0.0.1" in str(failed.value)
    assert "sesame" not in str(failed.value)
    assert "sk-123" not in str(failed.value)


def test_a_recording_of_episodes_names_the_server_without_credentials(tmp_path: Path) -> None:
    for _ in range(2):  # the second goes on with it
        with Recording(tmp_path / "a.jsonl", {"base_url": URL}, resume=True):
            pass
    written = (tmp_path / "a.json").read_text()
    assert "127.0.0.1" in written
    assert "sesame" not in written
    assert "sk-123" not in written


def test_recordings_of_models_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    AppendOnly(file, dict, "an answer").close()
    assert file.stat().st_mode & 0o777 == 0o600

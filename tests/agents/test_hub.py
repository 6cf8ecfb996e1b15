"""A model on the hub is asked for by name and revision, wherever a model can be named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.hub import split_revision
from toolorchestra.toolscale.common.errors import OptionError


class AskedError(Exception):
    """Ends a loading that would need the hub, and keeps what was asked for."""


def ask(name: Any, *, revision: str | None = None, **options: Any) -> None:
    assert "trust_remote_code" not in options  # code that comes with a model is never run
    raise AskedError(name, revision)


def test_a_name_may_have_its_revision(tmp_path: Path) -> None:
    assert split_revision("Qwen/Qwen3-8B") == ("Qwen/Qwen3-8B", None)
    assert split_revision("Qwen/Qwen3-8B@v1") == ("Qwen/Qwen3-8B", "v1")
    folder = tmp_path / "runs@home"
    folder.mkdir()
    assert split_revision(folder) == (str(folder), None)
    for wrong in ("Qwen/Qwen3-8B@", "@v1"):
        with pytest.raises(OptionError, match="NAME@REVISION"):
            split_revision(wrong)


@pytest.mark.parametrize(("name", "revision"), [("org/model@v1", "v1"), ("org/model", "main")])
def test_local_models_are_loaded_at_their_revision(name: str, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason="comes with the extra `train`")
    from toolorchestra.agents.builtin.model import TokenPolicy
    from toolorchestra.agents.chat.transformers_chat import TransformersChat

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", ask)
    for load in (TokenPolicy.load, TransformersChat):
        with pytest.raises(AskedError) as asked:
            load(name)
        assert asked.value.args == ("org/model", revision)


def test_embedding_models_are_loaded_at_their_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = pytest.importorskip("sentence_transformers", reason="comes with the extra `search`")
    from toolorchestra.envs.tools.search.search_vectors import sentence_encoder

    monkeypatch.setattr(packaged, "SentenceTransformer", ask)
    with pytest.raises(AskedError) as asked:
        sentence_encoder("org/embedding@v1")
    assert asked.value.args == ("org/embedding", "v1")

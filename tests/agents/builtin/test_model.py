from __future__ import annotations

import json
import logging
from pathlib import Path

import torch

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_model, build_renderer, prepare_torch
from toolorchestra.toolscale.domain_folder import load_domain


def test_the_default_model_has_about_half_a_million_parameters() -> None:
    model = build_model(1500)
    assert 300_000 < sum(parameter.numel() for parameter in model.parameters()) < 700_000


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    a = build_model(50, seed=3)
    b = build_model(50, seed=3)
    c = build_model(50, seed=4)
    same = [torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(next(a.parameters()), next(c.parameters()))


def test_making_a_model_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    build_model(50)
    assert torch.equal(torch.rand(1), expected)


def test_every_value_of_the_database_is_one_token() -> None:
    domain = load_domain("restaurant")
    tools = [tool.schema for tool in domain.tools.values()]
    renderer = build_renderer(tools, [], [domain])
    for name in ("Jasper", "D07", "T16", "Burrata with Figs", "2025-07-30"):
        assert len(renderer.words(name)) == 1, name
    assert len(renderer.tokens) < 4000


def test_columns_of_few_values_mean_something_and_are_of_no_kind() -> None:
    renderer = build_renderer([], [], [load_domain("restaurant")])
    assert "D07" in renderer.kinds
    assert "dinner" not in renderer.kinds


def test_words_of_conversations_are_in_the_vocabulary() -> None:
    result = json.dumps({"status": "OK", "result": {"opening_hours": ["12:00"]}})
    conversation = [{"role": "user", "content": "When do you open?"}, {"role": "tool", "content": result}]
    renderer = build_renderer([], [conversation])
    assert "<spell>" not in [renderer.tokens[i] for i in renderer.words("when do you open hours 12:00")]


def test_a_saved_policy_computes_the_same(tmp_path: Path) -> None:
    prepare_torch(1)
    renderer = CompactRenderer.build([], ["what is the price"], {"dish": ["Smoked Duck"]})
    policy = TokenPolicy.built_in(renderer, seed=5)
    policy.save(tmp_path)
    again = TokenPolicy.load(tmp_path)
    ids = torch.tensor([renderer.words("what is the price Smoked Duck")])
    with torch.no_grad():
        assert torch.equal(policy.model(ids).logits, again.model(ids).logits)
    assert isinstance(again.renderer, CompactRenderer)
    assert again.tokenizer.pad_token_id == renderer.pad_id


def test_advice_to_install_gpu_kernels_is_not_given_on_a_cpu() -> None:
    prepare_torch(1)
    prepare_torch(1)
    logger = logging.getLogger("transformers.integrations.hub_kernels")
    texts = ("This layer is falling back to its reference PyTorch implementation.", "Another warning.")
    shown = [bool(logger.filter(logging.makeLogRecord({"msg": text}))) for text in texts]
    assert shown == [torch.cuda.is_available(), True]
    assert len(logger.filters) == (0 if torch.cuda.is_available() else 1)

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.agents.builtin.model import TokenPolicy, build_model
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos.rollout.sampling import ModelSampler

pytest.importorskip("peft", reason="needs the extra `train`")

from toolorchestra.agents.builtin.adapters import BASE, AdapterPolicy, holds_adapters, load_adapters, make_adapters
from toolorchestra.toolscale.common.errors import OptionError

NAMES = ("planner", "a.name with dots")
TALK = [[{"role": "user", "content": "What is 2 and 3 ?"}, {"role": "assistant", "content": "It is 5 ."}]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model whose weights are not those of its initialisation, biases of norms included."""
    folder = tmp_path_factory.mktemp("adapters") / "base"
    builtin_text_policy(TALK).save(folder)
    return folder


@pytest.fixture
def team(base: Path) -> dict[str, AdapterPolicy]:
    return make_adapters(NAMES, base, rank=4)


IDS = torch.randint(8, 40, (3, 9), generator=torch.Generator().manual_seed(0))


def logits(policy: TokenPolicy) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = policy.model(input_ids=IDS).logits
    return found


def train(policy: TokenPolicy, steps: int = 3) -> Any:
    """Let a policy learn by heart what is given, and return the optimiser."""
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-2)
    policy.model.train()
    for _ in range(steps):
        policy.model(input_ids=IDS, labels=IDS).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    policy.model.eval()
    return optimizer


def frozen(policy: TokenPolicy) -> dict[str, torch.Tensor]:
    return {name: part.clone() for name, part in policy.model.host.named_parameters() if "lora_" not in name}


def test_untrained_adapters_play_as_the_base_does(base: Path, team: dict[str, AdapterPolicy]) -> None:
    whole = TokenPolicy.load(base)
    whole.model.eval()
    for policy in team.values():
        assert torch.equal(logits(policy), logits(whole))


def test_a_policys_parameters_are_its_adapters_alone(team: dict[str, AdapterPolicy]) -> None:
    one, other = ([*team[name].model.parameters()] for name in NAMES)
    assert not {id(part) for part in one} & {id(part) for part in other}
    linear = 12  # of the tiny model, all but the last
    assert len(one) == len(other) == 2 * linear
    assert all(part.requires_grad for part in (*one, *other))
    host = team[NAMES[0]].model.host
    assert {id(part) for part in host.parameters() if part.requires_grad} == {id(part) for part in (*one, *other)}


def test_training_one_changes_neither_the_base_nor_the_other_to_the_bit(team: dict[str, AdapterPolicy]) -> None:
    first, second = team.values()
    before, untouched = frozen(first), logits(second)
    train(first)
    assert all(torch.equal(part, before[name]) for name, part in frozen(first).items())
    assert torch.equal(logits(second), untouched)
    assert not torch.equal(logits(first), untouched)
    train(second, steps=1)
    assert not torch.equal(logits(first), logits(second))
    assert all(torch.equal(part, before[name]) for name, part in frozen(second).items())


def test_gradients_reach_the_adapter_that_was_active_in_the_forward_pass(team: dict[str, AdapterPolicy]) -> None:
    first, second = team.values()
    loss = first.model(input_ids=IDS, labels=IDS).loss
    second.model(input_ids=IDS)
    loss.backward()
    assert any(part.grad is not None and bool(part.grad.any()) for part in first.model.parameters())
    assert all(part.grad is None for part in second.model.parameters())


def test_samples_of_one_do_not_depend_on_what_the_other_writes_or_learns(team: dict[str, AdapterPolicy]) -> None:
    first, second = team.values()
    train(first)
    prompts = [IDS[0].tolist(), IDS[1].tolist()[:5]]

    def alone() -> list[Any]:
        sampler = ModelSampler(first.model, first.renderer, seed=1)
        return [sampler(prompts, [6, 6], [n, n]) for n in range(3)]

    expected = alone()
    sampler, other = (
        ModelSampler(first.model, first.renderer, seed=1),
        ModelSampler(second.model, second.renderer, seed=2),
    )
    found = []
    for n in range(3):
        found.append(sampler(prompts, [6, 6], [n, n]))
        other(prompts, [4, 4], [n, n])
        train(second, steps=1)
    assert found == expected


def test_adapters_are_saved_without_a_base_that_is_stored_elsewhere(
    base: Path, team: dict[str, AdapterPolicy], tmp_path: Path
) -> None:
    for name, policy in team.items():
        train(policy, steps=random.Random(name).randint(1, 3))
        policy.save(tmp_path / name)
    assert holds_adapters(tmp_path, NAMES)
    assert not (tmp_path / BASE).exists()
    saved = sum(file.stat().st_size for file in tmp_path.rglob("*.safetensors"))
    assert saved < 0.3 * (base / "model.safetensors").stat().st_size
    again = load_adapters(NAMES, tmp_path)
    for name, policy in team.items():
        assert torch.equal(logits(again[name]), logits(policy))
        assert [p.requires_grad for p in again[name].model.parameters()] == [True] * 24
    assert again[NAMES[0]].model.host is again[NAMES[1]].model.host


def test_a_carried_base_is_saved_with_the_adapters(base: Path, tmp_path: Path) -> None:
    team = make_adapters(NAMES, base, rank=4, carried=True)
    for name, policy in team.items():
        policy.save(tmp_path / "run" / name)
    (tmp_path / "run").rename(tmp_path / "moved")
    again = load_adapters(NAMES, tmp_path / "moved")
    assert torch.equal(logits(again[NAMES[1]]), logits(team[NAMES[1]]))
    again[NAMES[0]].save(tmp_path / "further" / NAMES[0])
    assert (tmp_path / "further" / BASE / "config.json").is_file()


def test_adapters_can_be_read_by_peft_itself(base: Path, team: dict[str, AdapterPolicy], tmp_path: Path) -> None:
    from peft import PeftModel

    policy = team[NAMES[0]]
    train(policy)
    policy.save(tmp_path / "one")
    theirs = PeftModel.from_pretrained(TokenPolicy.load(base).model, str(tmp_path / "one")).eval()
    with torch.no_grad():
        assert torch.equal(theirs(input_ids=IDS).logits, logits(policy))


@pytest.mark.filterwarnings("ignore:Could not find a config file in org/model")  # PEFT would compare vocabularies
def test_adapters_remember_the_revision_of_their_base(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked: list[str | Path] = []
    load = TokenPolicy.load
    monkeypatch.setattr(TokenPolicy, "load", lambda source, **_: [asked.append(source), load(base)][1])
    make_adapters(["one"], "org/model@v1", rank=2)["one"].save(tmp_path / "one")
    load_adapters(["one"], tmp_path)
    assert asked == ["org/model@v1", "org/model@v1"]
    config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/model", "v1")


def test_the_seed_decides_the_weights_and_nothing_else_is_drawn_from(base: Path) -> None:
    torch.manual_seed(7)
    chance = torch.get_rng_state()
    one, same = (make_adapters(NAMES, base, rank=4, seed=3) for _ in range(2))
    other = make_adapters(NAMES, base, rank=4, seed=4)
    assert torch.equal(torch.get_rng_state(), chance)
    for a, b in zip(one[NAMES[0]].model.parameters(), same[NAMES[0]].model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(next(one[NAMES[0]].model.parameters()), next(other[NAMES[0]].model.parameters()))


def test_adapters_of_different_bases_are_no_team(base: Path, tmp_path: Path) -> None:
    builtin_text_policy(TALK, seed=1).save(tmp_path / "another")
    make_adapters(["one"], base, rank=2)["one"].save(tmp_path / "team" / "one")
    make_adapters(["two"], tmp_path / "another", rank=2)["two"].save(tmp_path / "team" / "two")
    with pytest.raises(OptionError, match="not of one base"):
        load_adapters(["one", "two"], tmp_path / "team")


def test_a_frozen_copy_stays_as_the_adapter_was(team: dict[str, AdapterPolicy]) -> None:
    first, second = team.values()
    train(first)
    was = logits(first)
    copy = first.model.frozen_copy()
    assert not any(part.requires_grad for part in copy.parameters())
    train(first)
    train(second, steps=1)
    with torch.no_grad():
        assert torch.equal(copy(input_ids=IDS).logits, was)
    assert not any(part.requires_grad for part in copy.parameters())
    again = first.model.frozen_copy()
    with torch.no_grad():
        assert torch.equal(again(input_ids=IDS).logits, logits(first))


# ------------------------------------------------------------------------------------------------------ memory


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    """A folder with a model of 46 million parameters, as wide as real ones are, if not as deep."""
    folder = tmp_path_factory.mktemp("large")
    small = TokenPolicy.load(base)
    model = build_model(4_000, hidden=1024, layers=("conv", "full_attention") * 2, heads=8)
    TokenPolicy(model, small.tokenizer, small.renderer).save(folder)
    return folder


def bytes_of(parts: Iterable[torch.Tensor]) -> int:
    """Memory of tensors, each storage once."""
    return sum({part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in parts}.values())


def held(names: Iterable[str], folder: Path) -> int:
    """Bytes of parameters, gradients and optimiser state when every agent has learnt."""
    team = make_adapters(names, folder, rank=8)
    optimizers = []
    for policy in team.values():
        optimizer = train(policy, steps=1)
        policy.model(input_ids=IDS, labels=IDS).loss.backward()  # gradients of the next step are there
        optimizers.append(optimizer)
    host = next(iter(team.values())).model.host
    parts = [*host.parameters(), *host.buffers()]
    parts += [part.grad for part in parts if part.grad is not None]
    parts += [v for o in optimizers for state in o.state.values() for v in state.values() if torch.is_tensor(v)]
    return bytes_of(parts)


@pytest.mark.long
def test_two_agents_need_at_most_fifteen_per_cent_more_memory_than_one(large: Path) -> None:
    one, two = held(["one"], large), held(["one", "two"], large)
    weights = (large / "model.safetensors").stat().st_size
    assert weights < one < 1.1 * weights
    assert one < two <= 1.15 * one
    whole = 4 * weights  # weights, gradients and two moments
    assert two < whole / 3

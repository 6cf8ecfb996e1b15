"""Recorded episodes come out as they were recorded: see `replay.py`."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from toolorchestra import environment_ids
from toolorchestra.envs import multiagent_ids

_FILE = Path(__file__).with_name("replay.py")
_SPEC = importlib.util.spec_from_file_location("replay", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
replay = importlib.util.module_from_spec(_SPEC)
sys.modules["replay"] = replay
_SPEC.loader.exec_module(replay)

RECORDED = list(replay.recorded())
PROTOCOLS = sorted({episode["case"].split("-")[0] for episode in RECORDED})


@pytest.mark.filterwarnings("ignore:ProcessSandbox does not isolate")  # it runs only what was recorded
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_recorded_episodes_come_out_the_same(protocol):
    episodes = [episode for episode in RECORDED if episode["case"].startswith(f"{protocol}-")]
    wrong = {f"{e['case']} {e['player']} {e['reset']}": found for e in episodes if (found := replay.differences(e))}
    assert not wrong


def test_the_recorded_episodes_cover_every_protocol_and_source_and_all_that_can_become_of_an_episode():
    assert len(RECORDED) >= 500
    played = {re.split(r"/", episode["case"])[0] for episode in RECORDED}
    assert {env_id for env_id in environment_ids() if "Single-" not in env_id} | set(multiagent_ids()) <= played
    for protocol in PROTOCOLS:
        outcomes = {episode["outcome"] for episode in RECORDED if episode["case"].startswith(f"{protocol}-")}
        assert outcomes == {"solved", "failed"}


def test_a_changed_cost_is_found():
    episode = dict(RECORDED[0])
    episode["cost"] += 1e-9
    assert [line.split(":")[0] for line in replay.differences(episode)] == ["cost"]

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from waiting import until

from toolorchestra.cli.viewer import index as index_module
from toolorchestra.cli.viewer.facts import IN_PROGRESS
from toolorchestra.cli.viewer.index import EpisodeIndex, cache_folder
from toolorchestra.cli.viewer.pages import Answers
from toolorchestra.cli.viewer.places import Places
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.records.failures import reasons
from toolorchestra.toolscale.common.errors import OptionError


def test_each_filter_finds_the_episodes_that_fit(answers: Answers, recordings: Path) -> None:
    noisy = list(read_episodes(recordings / "noisy-oracle.jsonl"))
    failed = [one for one in noisy if one.outcome == "failed"]

    def found(**filters: str) -> list[str]:
        total, rows = answers.index.rows({"policy": "noisy-oracle", **filters}, limit=500)
        assert total == len(rows)
        return [row["task_id"] for row in rows]

    assert found() == [one.task_id for one in noisy]
    assert found(outcome="failed") == [one.task_id for one in failed]
    reason = reasons(failed[0])[0]
    assert found(reason=reason) == [one.task_id for one in noisy if reason in reasons(one)]
    tool = next(iter(noisy[0].calls)).name
    assert found(tool=tool) == [one.task_id for one in noisy if tool in {call.name for call in one.calls}]
    intent = noisy[0].task_id.split("/")[1]
    assert found(intent=intent) == [one.task_id for one in noisy if one.task_id.split("/")[1] == intent]
    assert 0 < len(found(intent=intent)) < len(noisy)
    assert found(level="2") == [one.task_id for one in noisy if one.difficulty == 2]
    middle = sorted(one.cost for one in noisy)[10]
    assert found(min_cost=str(middle)) == [one.task_id for one in noisy if one.cost >= middle]
    assert found(max_cost=str(middle)) == [one.task_id for one in noisy if one.cost <= middle]
    assert found(text=noisy[3].task_id[2:]) == [one.task_id for one in noisy if noisy[3].task_id[2:] in one.task_id]
    assert found(text="100%_\\") == []
    assert answers.index.rows({"policy": "nobody"})[0] == 0


def test_how_the_episodes_that_fit_filters_ended_is_counted(answers: Answers, recordings: Path) -> None:
    noisy = [one.outcome or IN_PROGRESS for one in read_episodes(recordings / "noisy-oracle.jsonl")]
    assert answers.outcomes({"policy": "noisy-oracle", "text": ""}) == Counter(noisy)
    assert answers.outcomes({"outcome": "failed", "policy": "oracle"}) == {}
    whole = Counter(dict(answers.index.facets()["outcome"]))
    assert answers.outcomes({}) == whole
    assert whole.total() == 46
    with pytest.raises(OptionError, match="Unknown filter"):
        answers.outcomes({"colour": "red"})


def test_the_list_is_ordered_and_given_in_parts(answers: Answers) -> None:
    total, rows = answers.index.rows({}, order="-cost", limit=500)
    assert [row["cost"] for row in rows] == sorted((row["cost"] for row in rows), reverse=True)
    assert answers.index.rows({}, order="-cost", offset=5, limit=3) == (total, rows[5:8])


@pytest.mark.parametrize(
    "query", [{"colour": "red"}, {"order": "cost; DROP TABLE episodes"}, {"level": "high"}, {"offset": "-1"}]
)
def test_what_is_no_filter_order_or_number_is_refused(answers: Answers, query: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"Unknown filter|Expected"):
        answers.episodes(query)


def test_a_recording_that_grows_is_read_on_and_one_that_is_replaced_anew(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "_WATCH", 0.02)
    lines = (recordings / "noisy-oracle.jsonl").read_bytes().splitlines(keepends=True)
    file = tmp_path / "growing.jsonl"
    file.write_bytes(b"".join(lines[:5]) + lines[5][:40])  # the last line is in the writing
    with EpisodeIndex(Places.find([file]).recordings, tmp_path / "index.sqlite") as index:
        until(lambda: index.state()["episodes"] == 5, "the index is up to date")
        with file.open("ab") as stream:
            stream.write(lines[5][40:] + b"no episode\n" + lines[6])
        until(lambda: index.state()["episodes"] == 7, "the index is up to date")
        state = index.state()["recordings"][0]
        assert (state["unreadable"], state["fault"].partition(":")[0]) == (1, "line 7")
        assert index.line(7)[1] == lines[6]
        file.unlink()
        file.write_bytes(lines[9])
        until(lambda: index.state()["episodes"] == 1, "the index is up to date")
        assert index.rows({})[1][0]["task_id"] == json.loads(lines[9])["task_id"]


def test_what_was_read_once_is_not_read_again(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = Places.find([recordings]).recordings
    with EpisodeIndex(files) as index:
        assert index.up_to_date.wait(20)
        kept, known = index.file, index.rows({}, limit=500)
        with EpisodeIndex(files) as beside:  # another process has the file: this one keeps its index to itself
            assert beside.file.parent != cache_folder()
            assert beside.up_to_date.wait(20)
            assert beside.rows({}, limit=500) == known
    assert kept.parent == cache_folder()
    assert kept.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(index_module, "_lines", None)  # reading a line now would fail
    with EpisodeIndex(files) as index:
        assert index.up_to_date.wait(20)
        assert index.rows({}, limit=500) == known


def test_an_index_that_is_broken_is_made_anew(recordings: Path, tmp_path: Path) -> None:
    file = tmp_path / "index.sqlite"
    file.write_bytes(b"no database" * 1000)
    with EpisodeIndex(Places.find([recordings]).recordings, file) as index:
        assert index.up_to_date.wait(20)
        assert index.state()["episodes"] == 43


def test_folders_are_looked_through_and_what_has_nothing_is_refused(
    recordings: Path, run_folder: Path, tmp_path: Path
) -> None:
    places = Places.find([recordings, run_folder.parent])
    assert {one.path.name for one in places.recordings} == {
        "noisy-oracle.jsonl", "oracle.jsonl", "tmatr.jsonl", "mas.jsonl", "episodes.jsonl",
    }  # fmt: skip
    assert [one.policy for one in places.recordings if one.run] == ["grpo final"]
    assert list(places.runs.values()) == [run_folder]
    (tmp_path / "other.jsonl").write_text('{"some": "thing"}\n')
    for path, message in ((tmp_path, "neither episodes nor metrics"), (tmp_path / "nowhere.jsonl", "cannot be read")):
        with pytest.raises(OptionError, match=message):
            Places.find([path])

"""General reasoning data of GeneralThought's columns is learnt from beside the episodes (ToolOrchestra §4.4)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.algos import sft
from toolorchestra.algos.data.general_reasoning import general_demonstrations
from toolorchestra.algos.options.one_agent import TrainSFT
from toolorchestra.algos.options.smoke import make_tiny_model
from toolorchestra.toolscale.common.errors import OptionError

MINI = str(Path(__file__).parents[1] / "data" / "mini")
COLUMNS = (
    "question_id", "question_url", "question", "reference_answer", "prev_messages", "model_name", "model_answer",
    "model_reasoning", "task", "question_license", "question_source", "community_answer_score",
    "community_question_score", "verifier_score",
)  # fmt: skip


def row(number: int, **changes: Any) -> dict[str, Any]:
    values = (
        "q",
        "",
        f"What is {number} + 1?",
        str(number + 1),
        None,
        "R1",
        f"It is {number + 1}.",
        "One more.",
        "Math",
    )
    return dict(zip(COLUMNS, (*values, "MIT", "Ours", 0, 0, 1.0), strict=True)) | changes


def write(file: Path, rows: list[dict[str, Any]]) -> Path:
    if file.suffix == ".csv":
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        file.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return file


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_verified_rows_become_conversations_with_their_reasoning(tmp_path: Path, suffix: str) -> None:
    earlier = json.dumps([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Yes?"}])
    rows = [
        row(1, prev_messages=earlier), row(2, model_reasoning=""), row(3, verifier_score=0.4),
        row(4, verifier_score=None), row(5, model_answer=""),
    ]  # fmt: skip
    first, second = general_demonstrations([write(tmp_path / f"rows{suffix}", rows)])
    assert [message["role"] for message in first.messages] == ["user", "assistant", "user", "assistant"]
    assert first.messages[-2]["content"] == "What is 1 + 1?"
    assert first.messages[-1]["content"] == "<think>\nOne more.\n</think>\n\nIt is 2."
    assert second.messages[-1]["content"] == "It is 3."
    assert not first.tools
    assert len(general_demonstrations([tmp_path / f"rows{suffix}"], min_score=0.0)) == 4
    assert len(general_demonstrations([tmp_path / f"rows{suffix}"], limit=1)) == 1


def test_rows_of_other_columns_or_without_a_verified_one_are_refused_with_a_remedy(tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", [{"problem": "1 + 1", "answer": "2"}])
    with pytest.raises(OptionError, match=r"other.jsonl, row 1: expected the columns .* found no 'question' among"):
        general_demonstrations([other])
    with pytest.raises(OptionError, match=r"at least 1.0, found none\. Give a lower minimum"):
        general_demonstrations([write(tmp_path / "low.jsonl", [row(1, verifier_score=0.5)])])
    with pytest.raises(OptionError, match="expected a number as `verifier_score`, found 'good'"):
        general_demonstrations([write(tmp_path / "words.jsonl", [row(1, verifier_score="good")])])
    with pytest.raises(OptionError, match="give `general` with a `model`"):
        TrainSFT(general=("rows.jsonl",))
    with pytest.raises(OptionError, match=r"`general_share` must lie in \[0, 1\]"):
        TrainSFT(model="m", general=("rows.jsonl",), general_share=2.0)


def test_a_model_learns_from_the_share_of_rows_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "rows.jsonl", [row(number) for number in range(6)])
    seen: list[Any] = []
    monkeypatch.setattr(sft, "fit", lambda policy, rows, *_, **__: seen.extend((policy, ids) for ids, _ in rows))
    config = TrainSFT(
        env=MINI, model=str(make_tiny_model(tmp_path / "model")), output=tmp_path / "run",
        general=(str(file),), general_share=0.25, difficulty=(1,), steps=50, batch=4, replays=1, threads=1,
    )  # fmt: skip
    sft.teach(config)
    texts = [policy.tokenizer.decode(ids) for policy, ids in seen]
    share = sum("What is" in text and "<tool_call>" not in text and "One more." in text for text in texts) / len(texts)
    assert share == pytest.approx(0.25, abs=0.08)


def test_the_hub_is_read_at_the_commit_that_is_named() -> None:
    with pytest.raises(OptionError, match=r"RJT1990/GeneralThoughtArchive: expected a `revision`"):
        general_demonstrations(["general-thought"])
    with pytest.raises(OptionError, match=r"RJT1990/GeneralThoughtArchive at a1b2c3 cannot be read from the hub"):
        general_demonstrations(["general-thought@a1b2c3"])

"""Public data sets: rows with their columns become questions, whatever file they are in. All rows here are ours."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import pickle
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.envs.ground_truth.parts import parts_of, problem_of
from toolorchestra.envs.sources.masbench.rows import REVISION
from toolorchestra.envs.sources.public import DATASETS, load_public, public_source
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tools.tool import NO_CONTEXT

pytestmark = pytest.mark.filterwarnings("ignore:.*does not isolate")  # programs of ours, where nothing better is

CANARY = DATASETS["browsecomp-plus"].canary


def encrypted(text: str) -> str:
    """Encrypt a text as BrowseComp-Plus does: a key of the text's length, made from a digest of the canary."""
    data = text.encode()
    digest = hashlib.sha256(CANARY.encode()).digest()
    key = digest * (len(data) // len(digest)) + digest[: len(data) % len(digest)]
    return base64.b64encode(bytes(a ^ b for a, b in zip(data, key, strict=True))).decode()


def document(name: str, text: str) -> dict[str, str]:
    return {"docid": encrypted(name), "text": encrypted(text)}


def packed(tests: list[dict[str, str]]) -> str:
    """Pack tests as LiveCodeBench does."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


WIKI = {
    "id": "w1",
    "question": "In which country does the birthplace of Ada Vell lie?",
    "answer": "Estavia",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": {"title": ["Ada Vell", "Brenholm"], "sent_id": [0, 0]},
    "context": {
        "title": ["Ada Vell", "Brenholm", "Corrick"],
        "sentences": [["Ada Vell was born in Brenholm."], ["Brenholm is in Estavia.", " It is old."], ["A town."]],
    },
}
CODE = {
    "question_title": "Sum",
    "question_content": "Print the sum of the two numbers of a line.",
    "platform": "atcoder",
    "question_id": "abc1_a",
    "contest_id": "abc1",
    "contest_date": "2025-01-04T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
    "private_test_cases": packed([{"input": "40 2\n", "output": "42\n", "testtype": "stdin"}]),
    "metadata": "{}",
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "dapo-math": [
        {
            "data_source": "math_dapo",
            "prompt": [
                {
                    "role": "user",
                    "content": "Solve the following math problem step by step. The last line of your response should "
                    "be of the form Answer: $Answer (without quotes) where $Answer is the answer.\n\n"
                    'What is $7 \\cdot 6$?\n\nRemember to put your answer on its own line after "Answer:".',
                }
            ],
            "ability": "MATH",
            "reward_model": {"ground_truth": "42", "style": "rule-lighteval/MATH_v2"},
            "extra_info": {"index": "d-1"},
        }
    ],
    "math": [
        {
            "problem": "What is half of one?",
            "level": "Level 2",
            "type": "Prealgebra",
            "solution": "Half of one is $\\boxed{\\frac{1}{2}}$.",
        },
        {"problem": "Draw a circle.", "level": "Level ?", "type": "Geometry", "solution": "As drawn."},
    ],
    "math-500": [
        {
            "problem": "What is 1 + 1?",
            "solution": "It is $\\boxed{2}$.",
            "answer": "2",
            "subject": "Algebra",
            "level": 1,
            "unique_id": "test/algebra/1.json",
        }
    ],
    "aime-2024": [
        {
            "id": 60,
            "problem": "Find n.",
            "solution": "n = 33",
            "answer": "033",
            "url": "https://a.example",
            "year": "2024",
        }
    ],
    "aime-2025": [{"problem_idx": 3, "problem": "Find m.", "answer": 82, "problem_type": ["Algebra"]}],
    "amc": [{"id": 0, "problem": "Find k.", "answer": 142.0, "url": "https://a.example"}],
    "numina-tir": [
        {
            "problem": "What is 2 times 3?",
            "solution": "```python\nprint(2 * 3)\n```\nThe answer is \\boxed{6}.",
            "messages": [{"content": "What is 2 times 3?", "role": "user"}],
        }
    ],
    "gpqa": [
        {
            "Record ID": "rec1",
            "Question": "Which of these is a bird?",
            "Correct Answer": "a tern",
            "Incorrect Answer 1": "an elm",
            "Incorrect Answer 2": "a carp",
            "Incorrect Answer 3": "a newt",
            "Subdomain": "Zoology",
            "High-level domain": "Biology",
        }
    ],
    "amc-2023": [{"id": 0, "question": "Find j.", "answer": "27.0", "url": "https://a.example"}],
    "deepscaler": [
        {"problem": "What is $2^5$?", "answer": "32", "solution": "It is 32."},
        {"problem": "Without an answer?", "answer": "", "solution": ""},
    ],
    "gsm8k": [
        {
            "question": "Ana packs 1,200 boxes and Ben 34. How many are that?",
            "answer": "They pack 1200 + 34 = <<1200+34=1234>>1234 boxes.\n#### 1,234",
        }
    ],
    "hmmt-2025": [
        {"problem_idx": 1, "problem": "Find q.", "answer": "$\\frac{3}{4}$", "problem_type": ["Algebra", "Geometry"]}
    ],
    "olympiadbench": [
        {
            "id": 7,
            "subfield": "Algebra",
            "context": "Let $p$ be a prime.",
            "question": "Find all roots of $x^2 = 4$.",
            "solution": ["They are 2 and -2."],
            "final_answer": ["$2$,$-2$"],
            "is_multiple_answer": True,
            "unit": None,
            "answer_type": "Numerical",
            "error": None,
        }
    ],
    "gaokao-2023-en": [{"source": "2023A_/01Q.en", "question": "Find $r$.", "lang": "en", "answer": "$-1-\\sqrt{3}$"}],
    "gaokao-2024-i": [{"question": "哪些是偶数？\n\nA. 2\nB. 3\nC. 4\nD. 6", "answer": "ACD", "type": "multi"}],
    "gaokao-2024-ii": [{"question": "求 $s$ 与 $t$。", "answer": "24;112", "type": "blank"}],
    "gaokao-2024-mix": [
        {"idx": 2, "question": "距离为 A. 1 B. 2 C. 3 D. $3 \\sqrt{2}$", "answer": "3 \\sqrt{2}", "choice_answer": "D"}
    ],
    "gaokao-math-cloze": [
        {
            "passage": None,
            "question": "$1+1=$ ( )，$1/2+1=$ ( )",
            "options": None,
            "label": None,
            "answer": "$2$;$\\frac{3}{2}$",
            "other": {"source": "2021年"},
        }
    ],
    "gaokao-math-qa": [
        {
            "passage": None,
            "question": "哪一个是偶数？",
            "options": {"A": "$1$", "B": "$2$", "C": "$3$", "D": "$5$"},
            "label": "B",
            "answer": None,
            "other": {"source": "2021年"},
        }
    ],
    "mmlu-pro": [
        {
            "question_id": 70,
            "question": "Which of these swims?",
            "options": ["an elm", "a stone", "a carp", "N/A"],
            "answer": "C",
            "answer_index": 2,
            "cot_content": "",
            "category": "biology",
            "src": "ori_mmlu-x",
        }
    ],
    "bamboogle": [{"Question": "Who led the country where Ada Vell was born?", "Answer": "Orm Tell"}],
    "webwalkerqa": [
        {
            "question": "When is the deadline?",
            "answer": "March 21, 2025",
            "root_url": "https://a.example/",
            "info": {
                "hop": "multi-source",
                "domain": "conference",
                "lang": "en",
                "difficulty_level": "hard",
                "source_website": ["https://a.example/calls/"],
                "golden_path": ["root->call"],
            },
        }
    ],
    "browsecomp-plus": [
        {
            "query_id": "769",
            "query": encrypted("Which school held an event of 3 days in 2002?"),
            "answer": encrypted("Brenholm School"),
            "gold_docs": [document("g1", "Brenholm School held an event.")],
            "evidence_docs": [document("g1", "Brenholm School held an event."), document("e1", "It took 3 days.")],
            "negative_docs": [document("n1", "Corrick is a town.")],
        }
    ],
    "livecodebench-v5": [CODE],
    "livecodebench-v6": [CODE],
    "hotpotqa": [WIKI],
    "2wiki": [
        {
            "_id": "w2",
            "type": "compositional",
            "question": "Where was Ada Vell born?",
            "context": [["Ada Vell", ["Ada Vell was born in Brenholm."]], ["Elm", ["A tree."]]],
            "supporting_facts": [["Ada Vell", 0]],
            "evidences": [["Ada Vell", "place of birth", "Brenholm"]],
            "answer": "Brenholm",
        },
        {"_id": "w3", "type": "bridge", "question": "A test question?", "context": [], "answer": ""},
    ],
    "musique": [
        {
            "id": "2hop__1_2",
            "paragraphs": [
                {"idx": 0, "title": "Elm", "paragraph_text": "A tree.", "is_supporting": False},
                {"idx": 1, "title": "Ada Vell", "paragraph_text": "Born in Brenholm.", "is_supporting": True},
                {"idx": 2, "title": "Brenholm", "paragraph_text": "It lies in Estavia.", "is_supporting": True},
            ],
            "question": "In which country was Ada Vell born?",
            "question_decomposition": [
                {"id": 1, "question": "Ada Vell >> place of birth", "answer": "Brenholm", "paragraph_support_idx": 1},
                {"id": 2, "question": "In which country is #1 ?", "answer": "Estavia", "paragraph_support_idx": 2},
            ],
            "answer": "Estavia",
            "answer_aliases": ["Republic of Estavia"],
            "answerable": True,
        },
        {"id": "2hop__3_4", "paragraphs": [], "question": "?", "answer": "x", "answerable": False},
    ],
    "frames": [
        {
            "Unnamed: 0": 0,
            "Prompt": "Which is older, A or B?",
            "Answer": "A",
            "wiki_links": "['https://a.example/A', 'https://a.example/B', 'https://a.example/C']",
            "reasoning_types": "Temporal reasoning | Multiple constraints",
        }
    ],
    "general-thought": [
        {
            "question_id": "q1",
            "question_url": "https://example.org/q1",
            "question": "Which part of a cell makes most of its ATP?",
            "reference_answer": "the mitochondrion",
            "prev_messages": None,
            "model_name": "DeepSeek/DeepSeek-R1",
            "model_answer": "It is the mitochondrion.",
            "model_reasoning": "ATP comes from oxidative phosphorylation.",
            "task": "Biology",
            "question_license": "MIT",
            "question_source": "Ours",
            "community_answer_score": 0,
            "community_question_score": 0,
            "verifier_score": 1.0,
        },
        {"question_id": "q2", "question": "Write a poem.", "reference_answer": None, "task": "Writing"},
    ],
    "hle": [
        {
            "id": "h1",
            "question": "Name the largest moon of the planet.",
            "image": "",
            "answer": "Orra",
            "answer_type": "exactMatch",
            "raw_subject": "Astronomy",
            "category": "Physics",
        },
        {
            "id": "h2",
            "question": "What is shown?",
            "image": "data:image/png;base64,",
            "answer": "A",
            "category": "Other",
        },
    ],
}
ADD = "Add them:\n```python\nprint(sum(map(int, input().split())))\n```"
RIGHT = {
    "dapo-math": "<answer>42</answer>",
    "math": "\\boxed{0.5}",
    "math-500": "<answer>2</answer>",
    "aime-2024": "\\boxed{33}",
    "aime-2025": "\\boxed{82.0}",
    "amc": "\\boxed{142}",
    "numina-tir": "The answer is \\boxed{6}.",
    "amc-2023": "\\boxed{27}",
    "deepscaler": "\\boxed{32}",
    "gsm8k": "The answer is \\boxed{1,234}.",
    "hmmt-2025": "\\boxed{0.75}",
    "olympiadbench": "\\boxed{2, -2}",
    "gaokao-2023-en": "\\boxed{-1 - \\sqrt3}",
    "gaokao-2024-i": "\\boxed{A, C, D}",
    "gaokao-2024-ii": "\\boxed{24; 112}",
    "gaokao-2024-mix": "\\boxed{3\\sqrt{2}}",
    "gaokao-math-cloze": "\\boxed{2; \\dfrac32}",
    "gaokao-math-qa": "\\boxed{B}",
    "mmlu-pro": "The answer is \\boxed{(C)}.",
    "bamboogle": "<answer>Orm Tell</answer>",
    "webwalkerqa": "\\boxed{21 March 2025}",
    "browsecomp-plus": "\\boxed{Brenholm School}",
    "livecodebench-v5": ADD,
    "livecodebench-v6": ADD,
    "hotpotqa": "\\boxed{estavia}",
    "2wiki": "\\boxed{Brenholm}",
    "musique": "\\boxed{the Republic of Estavia}",
    "frames": "\\boxed{A}",
    "hle": "\\boxed{Orra}",
    "general-thought": "\\boxed{the mitochondrion}",
}


def write(file: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as the suffix says."""
    match file.suffix:
        case ".jsonl":
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".json":
            file.write_text(json.dumps(rows))
        case ".csv" | ".tsv":
            with file.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(rows[0]), delimiter="," if file.suffix == ".csv" else "\t")
                writer.writeheader()
                writer.writerows(rows)
        case ".parquet":
            arrow = pytest.importorskip("pyarrow", reason="pyarrow (extra `train`) is missing")
            parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow (extra `train`) is missing")
            parquet.write_table(arrow.Table.from_pylist(rows), file)
    return file


@pytest.mark.parametrize("name", list(DATASETS))
def test_rows_of_every_set_become_questions_that_can_be_played(name: str, tmp_path: Path):
    source = load_public(name, write(tmp_path / "rows.jsonl", ROWS[name]))
    (task,) = source.tasks("test")
    assert (task.domain, task.split) == (name, "test")
    assert 1 <= task.difficulty <= 5
    env = gym.make("ToolOrchestra-Custom-v0", source=source, split="test")
    env.reset(seed=0)
    assert env.step(RIGHT.get(name, task.answer))[1] == 1
    env.reset(seed=0)
    assert env.step("\\boxed{I do not know}")[1] == 0
    env.close()
    assert problem_of(task).subject == DATASETS[name].subject


def test_what_frames_a_question_is_left_out(tmp_path: Path):
    (task,) = load_public("dapo-math", write(tmp_path / "rows.jsonl", ROWS["dapo-math"])).tasks("test")
    assert task.instruction == "What is $7 \\cdot 6$?"
    assert task.id == "dapo-math/test/d-1"


def test_a_repeated_question_is_kept_once(tmp_path: Path):
    source = load_public("dapo-math", write(tmp_path / "rows.jsonl", ROWS["dapo-math"] * 5))
    assert len(source.tasks("all")) == 1


def test_choices_are_shuffled_always_the_same_way(tmp_path: Path):
    file = write(tmp_path / "gpqa.csv", ROWS["gpqa"])
    (task,) = load_public("gpqa", file).tasks("test")
    letter, phrase = task.communicate[0]
    assert phrase == f"({letter}) a tern"
    assert f"({letter}) a tern" in task.instruction.splitlines()
    assert load_public("gpqa", file).tasks("test") == [task]
    assert (task.intent, task.difficulty) == ("Biology", 5)


def test_paragraphs_can_be_searched(tmp_path: Path):
    source = load_public("hotpotqa", write(tmp_path / "rows.json", [WIKI]))
    (task,) = source.tasks("test")
    search = source.world(task).tools["local_search"]
    result = search.run(search.decode(msgspec.json.encode({"query_list": ["Brenholm country"]})), NO_CONTEXT)
    found = result.value[0]["passages"][0]
    assert (found["title"], found["text"]) == ("Brenholm", "Brenholm is in Estavia. It is old.")
    assert task.difficulty == 4


@pytest.mark.parametrize("form", ["json", "content"])
def test_contexts_of_other_forms_are_read(form: str, tmp_path: Path):
    context: Any = WIKI["context"]
    if form == "json":
        context = json.dumps([["Ada Vell", ["Ada Vell was born in Brenholm."]]])
    else:
        context = {"title": context["title"], "content": context["sentences"]}
    source = load_public("2wiki", write(tmp_path / "rows.jsonl", [{**WIKI, "context": context}]))
    assert "local_search" in source.world(source.tasks("all")[0]).tools


def test_a_decomposition_becomes_parts(tmp_path: Path):
    (task,) = load_public("musique", write(tmp_path / "rows.jsonl", ROWS["musique"])).tasks("test")
    first, second = parts_of(task)
    assert (first.question, first.answer, first.needs) == ("Ada Vell: place of birth", "Brenholm", ())
    assert (second.question, second.needs) == ("In which country is Brenholm ?", (0,))
    assert (first.support, second.support) == (("p000002",), ("p000003",))
    assert (task.difficulty, task.intent) == (2, "2hop")
    assert problem_of(task, "In which country is Brenholm?").steps[0].answer == "Estavia"


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_all_forms_of_files_say_the_same(suffix: str, tmp_path: Path):
    rows = ROWS["frames"] + [{**ROWS["frames"][0], "Unnamed: 0": 1, "Prompt": "Which is newer?", "Answer": "B"}]
    source = load_public("frames", write(tmp_path / f"rows.{suffix}", rows))
    assert [(task.id, task.communicate, task.difficulty) for task in source.tasks("test")] == [
        ("frames/test/0", (("A",),), 3),
        ("frames/test/1", (("B",),), 3),
    ]


def test_files_may_be_of_several_splits_and_limited(tmp_path: Path):
    rows = [{"id": i, "problem": f"Find {i}.", "answer": float(i)} for i in range(9)]
    files = {"train": write(tmp_path / "a.jsonl", rows[:6]), "test": write(tmp_path / "b.jsonl", rows[6:])}
    source = load_public("amc", files)
    assert (len(source.tasks("train")), len(source.tasks("test"))) == (6, 3)
    assert len(load_public("amc", files, limit=2).tasks("all")) == 4


def test_a_folder_has_a_file_for_each_split(tmp_path: Path):
    rows = [{"problem": f"Find {i}.", "answer": str(i)} for i in range(9)]
    write(tmp_path / "train.jsonl", rows[:6])
    write(tmp_path / "test.json", rows[6:])
    write(tmp_path / "notes.txt", [])
    source = load_public("deepscaler", tmp_path)
    assert [len(source.tasks(split)) for split in ("train", "test")] == [6, 3]
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError, match="expected a folder with files named train, test"):
        load_public("deepscaler", tmp_path / "empty")


def test_a_share_of_a_set_with_one_split_is_held_out(tmp_path: Path):
    rows = [{"problem": f"Find {i}.", "answer": str(i)} for i in range(200)]
    file = write(tmp_path / "rows.jsonl", rows)
    source = load_public("deepscaler", file, held_out=0.2)
    held = {task.instruction for task in source.tasks("test")}
    assert 25 < len(held) < 55
    assert len(source.tasks("train")) == 200 - len(held)
    more = load_public("deepscaler", write(tmp_path / "more.jsonl", [*rows, {"problem": "Find x.", "answer": "0"}]))
    assert len(more.tasks("test")) == 201, "nothing is held out unless asked for"
    assert {task.instruction for task in load_public("deepscaler", file, held_out=0.2).tasks("test")} == held
    with pytest.raises(OptionError, match="held_out: expected a share"):
        load_public("deepscaler", file, held_out=1.5)
    with pytest.raises(OptionError, match="held_out: expected a set or files of one split, deepscaler has train, test"):
        load_public("deepscaler", {"train": file, "test": file}, held_out=0.5)


def test_questions_with_one_id_have_different_tasks(tmp_path: Path):
    rows = [{"id": 1, "question": f"Find {i}.", "answer": i} for i in (1, 2, 2)]
    source = load_public("amc-2023", write(tmp_path / "rows.jsonl", rows))
    assert [task.id for task in source.tasks("all")] == ["amc-2023/test/1", "amc-2023/test/1-1"]


def test_choices_have_the_letters_that_their_order_gives(tmp_path: Path):
    (task,) = load_public("mmlu-pro", write(tmp_path / "rows.json", ROWS["mmlu-pro"])).tasks("test")
    assert task.instruction.splitlines()[2:5] == ["(A) an elm", "(B) a stone", "(C) a carp"]
    assert task.communicate == (("C", "(C) a carp"),)
    (task,) = load_public("gaokao-math-qa", write(tmp_path / "qa.json", ROWS["gaokao-math-qa"])).tasks("test")
    assert "(B) $2$" in task.instruction
    several = [{**ROWS["gaokao-math-qa"][0], "label": "A D"}]  # as a few of its questions have it
    (task,) = load_public("gaokao-math-qa", write(tmp_path / "several.json", several)).tasks("test")
    assert task.communicate == (("AD", "A, D"),)
    assert task.instruction.endswith("Answer with the letters of all of them.")
    with pytest.raises(OptionError, match=r"row 1: expected the columns of mmlu-pro \(question, answer, options\)"):
        load_public("mmlu-pro", write(tmp_path / "bad.json", [{**ROWS["mmlu-pro"][0], "answer": "Z"}]))


def test_encrypted_rows_and_those_that_were_decrypted_say_the_same(tmp_path: Path):
    (row,) = ROWS["browsecomp-plus"]
    plain = {
        "query_id": "769",
        "query": "Which school held an event of 3 days in 2002?",
        "answer": "Brenholm School",
        "gold_docs": [{"docid": "g1", "text": "Brenholm School held an event."}],
        "evidence_docs": [{"docid": "e1", "text": "It took 3 days."}],
        "negative_docs": [{"docid": "n1", "text": "Corrick is a town."}],
    }
    found = []
    for name, one in (("encrypted", row), ("plain", plain)):
        source = load_public("browsecomp-plus", write(tmp_path / f"{name}.jsonl", [one]))
        (task,) = source.tasks("test")
        search = source.world(task).tools["local_search"]
        result = search.run(search.decode(msgspec.json.encode({"query_list": ["school event"]})), NO_CONTEXT)
        found.append((task, result.value[0]["passages"][0]["text"]))
    assert found[0] == found[1]
    assert found[0][1] == "Brenholm School held an event."


def test_a_set_that_is_read_by_file_names_its_commit(monkeypatch: pytest.MonkeyPatch):
    asked = []

    class Hub:
        @staticmethod
        def load_dataset(kind: str, *, data_files: list[str], split: str, streaming: bool) -> list[dict[str, Any]]:
            asked.append((kind, *data_files, split))
            return [CODE] if "livecodebench" in data_files[0] else ROWS["gaokao-2024-i"]

    monkeypatch.setitem(sys.modules, "datasets", Hub)
    load_public("livecodebench-v5")
    load_public("gaokao-2024-i", revision="v2")
    commit = DATASETS["livecodebench-v5"].revision
    assert asked == [
        ("json", f"hf://datasets/livecodebench/code_generation_lite@{commit}/test5.jsonl", "train"),
        (
            "json",
            "https://raw.githubusercontent.com/QwenLM/Qwen2.5-Math/v2/evaluation/data/gaokao2024_I/test.jsonl",
            "train",
        ),
    ]


def test_the_same_set_is_read_once(tmp_path: Path):
    options = {"files": {"test": str(write(tmp_path / "rows.json", [WIKI]))}, "limit": 3}
    assert public_source("hotpotqa", options) is public_source("hotpotqa", dict(options))


def test_the_documentation_names_every_set_and_where_its_columns_were_read():
    page = (Path(__file__).parents[3] / "docs" / "public_data.md").read_text()
    for name, known in DATASETS.items():
        assert f"`{name}`" in page
        assert known.hub in page
        assert known.columns_from in page
        assert f"| `{name}` | {known.licence or '–'} | " in page


def test_what_is_wrong_is_reported(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'hotpotqa'"):
        load_public("hotpot_qa", tmp_path / "x.jsonl")
    with pytest.raises(UnknownNameError, match="Unknown split 'dev'"):
        load_public("amc", {"dev": tmp_path / "x.jsonl"})
    with pytest.raises(OptionError, match=r"x.jsonl cannot be read as rows"):
        load_public("amc", tmp_path / "x.jsonl")
    with pytest.raises(OptionError, match=r"expected .jsonl, .json, .csv, .tsv or .parquet, found '.txt'"):
        load_public("amc", write(tmp_path / "x.txt", []))
    with pytest.raises(
        OptionError,
        match=r"row 1: expected the columns of amc \(problem, answer\), found name \('problem' is missing\)",
    ):
        load_public("amc", write(tmp_path / "y.jsonl", [{"name": "n"}]))
    with pytest.raises(OptionError, match="at least one question"):
        load_public("hle", write(tmp_path / "z.jsonl", [ROWS["hle"][1]]))


def test_the_hub_is_asked_for_the_right_split(monkeypatch: pytest.MonkeyPatch):
    requests = []

    class Hub:
        @staticmethod
        def load_dataset(
            name: str, config: str | None, *, split: str, revision: str, streaming: bool
        ) -> list[dict[str, Any]]:
            requests.append((name, config, split, revision, streaming))
            return [WIKI]

    monkeypatch.setitem(sys.modules, "datasets", Hub)
    source = load_public("hotpotqa", limit=10)
    commit = DATASETS["hotpotqa"].revision
    assert requests == [
        ("hotpotqa/hotpot_qa", "distractor", "train", commit, True),
        ("hotpotqa/hotpot_qa", "distractor", "validation", commit, True),
    ]
    assert [task.split for task in source.tasks("all")] == ["train", "test"]
    load_public("hotpotqa", limit=10, revision="v2")
    assert [revision for *_, revision, _ in requests[2:]] == ["v2", "v2"]

    def break_off(*_: object, **__: object) -> Iterator[dict[str, Any]]:
        yield WIKI
        raise ConnectionError("The connection broke.")

    monkeypatch.setattr(Hub, "load_dataset", break_off)
    with pytest.raises(OptionError, match=r"cannot be read from the hub: The connection broke\."):
        load_public("hotpotqa")

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the hub.")

    monkeypatch.setattr(Hub, "load_dataset", refuse)
    with pytest.raises(
        OptionError, match=r"cais/hle at 5a81a4c\w+ cannot be read .*: Couldn't reach the hub\. Give local"
    ):
        load_public("hle")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'toolorchestra\[train\]', or give local `files`"):
        load_public("hle")


def test_every_set_is_read_at_one_commit_or_at_the_one_that_is_given(tmp_path: Path):
    commits = {name: known.revision for name, known in DATASETS.items()} | {"masbench": REVISION}
    loose = [name for name, commit in commits.items() if commit is None]
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits.values() if commit is not None)
    assert loose == ["webwalkerqa", "general-thought"]
    for name in loose:
        with pytest.raises(OptionError, match="expected a `revision`, since no commit of this set is known here"):
            load_public(name)
    with pytest.raises(OptionError, match="revision: expected none beside `files`"):
        load_public("hotpotqa", write(tmp_path / "rows.json", [WIKI]), revision="v2")

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

import msgspec
import pytest
from waiting import until

from toolorchestra.toolscale.common.errors import ExpertError, OptionError, SynthesisError
from toolorchestra.toolscale.common.yaml_reader import convert, dump_yaml, parse_yaml
from toolorchestra.toolscale.database.format import DomainSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import build_domain, make_domain, read_spec
from toolorchestra.toolscale.synth import model_queries
from toolorchestra.toolscale.synth.answer_store import AnswerStore, ModelAnswer, ModelQuestion, RecordedModel
from toolorchestra.toolscale.synth.derived.templates import prompt
from toolorchestra.toolscale.synth.draft import DomainDraft, fill_order, functions_text, tables_text
from toolorchestra.toolscale.synth.model_queries import ModelQueries, QuerySettings, StageCount
from toolorchestra.toolscale.synth.pipeline import SynthesisRecord, synthesise
from toolorchestra.toolscale.synth.sizes import Sizes
from toolorchestra.toolscale.synth.stages import _evolutions

RECORDING = Path(__file__).parents[2] / "data" / "synth" / "library.yaml"
SIZES = Sizes(subjects=2, entries=40, tools=5, intents=4, tasks_per_intent=6, evolved=2)


class Model:
    """Answers from the recording, but for those questions that hold one of some texts."""

    name = "model"

    def __init__(self, **instead: str) -> None:
        self.instead = {text.replace("_", " "): answer for text, answer in instead.items()}
        self.questions: list[ModelQuestion] = []
        self._recorded = RecordedModel(RECORDING)

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        self.questions.append(question)
        for text, answer in self.instead.items():
            if text in question.messages[1][1]:
                return ModelAnswer(answer, 10, 5, 0.5)
        return self._recorded.ask(question)

    def prompts(self, text: str) -> list[str]:
        return [question.messages[-1][1] for question in self.questions if text in question.messages[1][1]]


def run(
    folder: Path,
    model: Model,
    sizes: Sizes = SIZES,
    watch: Callable[[Sequence[StageCount]], object] = lambda counts: None,
    **settings: object,
) -> SynthesisRecord:
    chosen = QuerySettings(**({"repairs": 2} | settings))  # type: ignore[arg-type]
    return synthesise(folder, "Village  library", model, sizes=sizes, settings=chosen, watch=watch)


# what is made


def test_the_yaml_written_is_a_domain_that_builds(tmp_path: Path) -> None:
    record = run(tmp_path, Model())
    spec = read_spec(tmp_path)
    assert (spec.name, spec.title, spec.today) == ("village_library", "Village library", "2025-07-23")
    assert len(build_domain(tmp_path).tasks()) > 20
    assert record.stages["tools"].dropped == 1
    assert record.stages["subjects"].repaired == 1


def test_every_invalid_answer_is_shown_its_exact_error(tmp_path: Path) -> None:
    model = Model()
    run(tmp_path, model)
    schema = model.prompts("Write the schema of another domain")[1:]
    assert "tables.branches.columns.branch_id.type: Expected one of 'TEXT', 'INTEGER', 'REAL'" in schema[0]
    assert "tables.branches: The table cannot be created: subqueries prohibited in CHECK" in schema[1]
    books = model.prompts("Write the function get_book:")[1:]
    assert "tools.get_book.returns.sql: SQL error: no such column: book_number" in books[0]
    assert "The SQL reaches for 'sqlite_master' (READ)" in books[1]
    assert "Unknown key 'lend_book'" in model.prompts("Write the function lend_book:")[1]
    assert "FOREIGN KEY constraint failed" in model.prompts("Write records of the table books")[1]
    assert (
        "Records break the rule 'A book is out at most once'" in model.prompts("Write records of the table loans,")[1]
    )
    assert "Every card expired a hundred years ago" in " ".join(model.prompts("Write records of the table members"))
    borrow = model.prompts("Write the intent borrow_book:")[1:]
    assert "Unknown tool 'fetch_member'. Did you mean 'get_member'?" in borrow[0]
    assert "The reference call lend_book" in borrow[1]
    assert "The intent yields no task" in borrow[1]
    assert "not authorized" in model.prompts("Write the intent give_back:")[1]
    assert "more than 200,000 rows" in model.prompts("Write the intent expired_card:")[1]


def test_what_was_dropped_is_recorded_with_the_reason(tmp_path: Path) -> None:
    remarks = run(tmp_path, Model()).remarks
    assert "SQL does something that tools may not" in remarks["tools/clear_out"]
    assert set(remarks) >= {"tools/clear_out", "tasks/ask_author", "evolved/expired_card_chain", "records/loans_note"}
    assert msgspec.json.decode((tmp_path / "synth.json").read_bytes())["remarks"] == remarks


def test_a_model_sets_no_prices_no_parents_and_no_splits(tmp_path: Path) -> None:
    run(tmp_path, Model())
    spec = read_spec(tmp_path)
    assert {name: tool.price for name, tool in spec.tools.items()} == {
        "get_member": 0.0005,
        "get_book": 0.0005,
        "lend_book": 0.002,
        "return_book": 0.002,
        "list_loans": 0.001,
        "look_calendar": 0.0,
        "calculator": 0.0,
    }
    parents = {name: (intent.parent, intent.operator) for name, intent in spec.intents.items() if intent.parent}
    assert parents == {"borrow_book_constraint": ("borrow_book", "constraint")}


def test_records_to_which_the_judge_still_objects_are_kept_with_a_remark(tmp_path: Path) -> None:
    no = "{fits: true, agrees: false, plausible: true, objections: [I do not like them.]}"
    record = run(tmp_path, Model(Records_of_the_table=no))
    assert "I do not like them" in record.remarks["records/branches 1"]
    assert len(build_domain(tmp_path).tasks()) > 20


# what fails


def test_a_stage_without_which_there_is_no_domain_ends_the_run_and_saves_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match=r"stage records failed: .* table books, .*Raise --repairs") as caught:
        run(tmp_path, Model(Write_records_of_the_table_books="I cannot."))
    assert not caught.value.resumable
    assert "branches" in parse_yaml((tmp_path / "domain.yaml").read_text())["tables"]
    stages = msgspec.json.decode((tmp_path / "synth.json").read_bytes())["stages"]
    assert list(stages) == ["subjects", "schema", "records"]
    assert stages["records"]["dropped"] == 2  # books, and a table that nothing refers to
    model = Model(Write_records_of_the_table_books="I cannot.")
    with pytest.raises(SynthesisError):
        run(tmp_path, model)
    assert model.questions == []  # nothing is asked twice, and so it ends the same
    with pytest.raises(SynthesisError):
        run(tmp_path, model, repairs=3)
    assert len(model.questions) >= 1  # one repair more is asked for


def test_nonsense_ends_in_bounds(tmp_path: Path) -> None:
    model = Model(**{"": "\x07 ]}{[ - : 42 ``` \u2028"})
    with pytest.raises(SynthesisError, match="The stage subjects failed"):
        run(tmp_path, model)
    assert len(model.questions) == 3


def test_tools_that_all_fail_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="The stage tools failed"):
        run(tmp_path, Model(Write_the_function="description: nothing\n"))


def test_an_endpoint_that_fails_lets_what_is_under_way_finish_and_be_saved(tmp_path: Path) -> None:
    other_in_progress, failed = threading.Event(), threading.Event()

    class Failing(Model):
        def ask(self, question: ModelQuestion) -> ModelAnswer:
            prompt = question.messages[1][1]
            if "Write the function get_book:" in prompt:
                other_in_progress.wait(60)
                failed.set()
                raise ExpertError("the server is on fire.")
            if "Write the function return_book:" in prompt:
                other_in_progress.set()
                failed.wait(60)
            return super().ask(question)

    model = Failing()
    with pytest.raises(SynthesisError, match=r"No answer for tools: the server is on fire\. \d+ answers are saved"):
        run(tmp_path, model, parallel=4)
    model = Model()
    run(tmp_path, model)
    assert model.prompts("Write the function return_book:") == []


def test_yaml_written_by_hand_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text("name: mine\n")
    model = Model()
    with pytest.raises(OptionError, match="written or changed by hand"):
        run(tmp_path, model)
    assert model.questions == []


# how it asks


def test_no_more_questions_are_under_way_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, under_way, most, go_on = threading.Lock(), 0, 0, threading.Event()
    others = set(threading.enumerate())

    class Counting:
        name = "counting"

        def ask(self, question: ModelQuestion) -> ModelAnswer:
            nonlocal under_way, most
            with lock:
                under_way += 1
                most = max(most, under_way)
            assert go_on.wait(60)
            with lock:
                under_way -= 1
            return ModelAnswer("Yes.", 10, 5, 0.5)

    def held(futures: Sequence[Future[object]]) -> object:
        """Answer only once every thread asks: there are more questions than threads, and all wait for one."""
        until(lambda: under_way == len(set(threading.enumerate()) - others), "all ask")
        go_on.set()
        return wait(futures)

    monkeypatch.setattr(model_queries, "wait", held)
    with (
        AnswerStore(tmp_path / "answers.jsonl") as store,
        ModelQueries(Counting(), store, QuerySettings(parallel=3)) as queries,
    ):
        count = queries.begin("tools")
        found = queries.each(count, range(9), lambda n: queries.settle(count, str(n), f"Number {n}?", str))
    assert found == ["Yes."] * 9
    assert most == 3


def test_the_progress_counts_answers_new_and_stored_repaired_and_dropped(tmp_path: Path) -> None:
    def last(folder: Path) -> dict[str, StageCount]:
        seen: list[StageCount] = []

        def watch(counts: Sequence[StageCount]) -> None:
            seen[:] = [msgspec.structs.replace(count) for count in counts]

        run(folder, Model(), watch=watch)
        return {count.stage: count for count in seen}

    first, again = last(tmp_path), last(tmp_path)
    assert list(first) == ["subjects", "schema", "records", "tools", "intents", "tasks", "evolved"]
    assert all(count.settled == count.matters for count in first.values())
    assert sum(count.cached for count in first.values()) == 0 == sum(count.answered for count in again.values())
    for stage, count in first.items():
        assert again[stage].cached == count.answered
        assert again[stage].prompt_tokens == count.prompt_tokens > 0
    assert (first["tools"].dropped, first["tools"].repaired) == (1, 5)


def test_another_model_answers_every_question_anew(tmp_path: Path) -> None:
    run(tmp_path, Model())
    model = Model()
    model.name = "other"
    run(tmp_path, model)
    assert len(model.questions) > 40


def test_the_repair_of_a_truncated_answer_says_that_it_was_cut_off(tmp_path: Path) -> None:
    class Cutting(Model):
        def ask(self, question: ModelQuestion) -> ModelAnswer:
            answer = super().ask(question)
            return msgspec.structs.replace(answer, cut="Market Square" in answer.text or "few" in answer.text)

    model = Cutting()
    run(tmp_path, model)
    assert "was cut off at 8000 tokens" in model.prompts("Write the schema of another domain")[1]


# the prompts


def test_the_examples_in_the_prompts_make_a_domain() -> None:
    content = parse_yaml(prompt("schema_example"), strict=True)
    records = {
        "stations": """
            recipes: {station_id: {sequence: "S{:02d}"}, name: {faker: city, unique: true}, stands: {value: 9}}
            count: 6""",
        "members": """
            recipes: {member_id: {sequence: "M{:02d}"}, name: {faker: name, unique: true}, joined: {value: 2024-01-01}}
            count: 30""",
        "bicycles": prompt("records_example"),
        "hires": "rows: [{hire_id: H0001, bicycle_id: B900, member_id: M01, start: 2025-07-01, days: 2, returned: x}]",
    }
    for name, text in records.items():
        answer = parse_yaml(text, strict=True)
        for column, recipe in answer.get("recipes", {}).items():
            content["tables"][name]["columns"][column]["recipe"] = recipe
        content["tables"][name] |= {"rows": answer.get("rows", []), "count": answer.get("count", 0)}
    find = """
        description: Find free bicycles of a model at a station.
        parameters:
          station: {type: string, description: Name of the station, column: stations.name}
          model: {type: string, description: Model, column: bicycles.model}
        returns:
          shape: rows
          sql: |
            SELECT b.bicycle_id, b.rate FROM bicycles b JOIN stations s USING (station_id)
            WHERE b.status = 'free' AND s.name = :station AND b.model = :model ORDER BY b.bicycle_id"""
    tools = {"hire_bicycle": prompt("tool_example"), "get_member": prompt("lookup_example"), "find_bicycles": find}
    content |= {
        "name": "bicycles",
        "title": "Bicycle hire",
        "today": "2025-07-23",
        "tools": {name: parse_yaml(text, strict=True) for name, text in tools.items()},
        "intents": {"hire": parse_yaml(prompt("intent_example"), strict=True)},
    }
    domain = make_domain(convert(content, DomainSpec))
    assert len(domain.tasks()) == 20
    assert not domain.dropped


def test_what_a_model_is_shown_names_tables_functions_and_rules(mini: Domain) -> None:
    tables = tables_text(mini.spec.tables)
    assert "orders (key: order_id, made by tools)" in tables
    assert "  customer_id: TEXT, refers to customers.customer_id" in tables
    assert "  check: price >= 0" in tables
    functions = functions_text(mini.spec.tools)
    assert "list_orders(customer_id: string = None, day: string date = None, most: integer = 5)" in functions
    assert "refuses unless json_array_length(:dishes) > 0" in functions


def test_tables_are_filled_after_those_they_need(mini: Domain) -> None:
    assert fill_order(mini.spec) == [["customers"], ["orders"], ["items", "notes"]]


def test_evolutions_vary_parents_and_operators() -> None:
    plan = _evolutions(["a", "b"], 100)
    assert len(plan) == len(set(plan.values())) == 12
    assert list(_evolutions(["a", "b", "c"], 4)) == ["a_constraint", "b_chain", "c_branch", "a_chain"]
    assert all(len(name) <= 64 for name in _evolutions(["x" * 64], 6))


@pytest.mark.parametrize(
    ("title", "name"),
    [("Village library", "village_library"), ("../../etc", "etc"), ("24 h gym!", "domain_24_h_gym"), ("Ω", "domain")],
)
def test_a_title_becomes_a_name_and_never_a_path(title: str, name: str) -> None:
    assert DomainDraft(title, "2025-07-23").name == name


def test_what_is_written_reads_back_as_the_same(tmp_path: Path) -> None:
    run(tmp_path, Model())
    spec = read_spec(tmp_path)
    assert convert(parse_yaml(dump_yaml(msgspec.to_builtins(spec))), DomainSpec) == spec

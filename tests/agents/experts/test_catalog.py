"""The catalogue: valid, sourced, extensible, and drawn from by seed."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from statistics import NormalDist, mean
from typing import Any

import msgspec
import pytest

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Meter, Price
from toolorchestra.agents.chat.replay import RecordingChat, ReplayChat
from toolorchestra.agents.experts.catalog import SUBJECTS, Catalog
from toolorchestra.agents.experts.catalog_files import CatalogError
from toolorchestra.agents.experts.configurations import PriceSchedule
from toolorchestra.agents.experts.specification import ExpertSpec, logit
from toolorchestra.agents.problems import Problem
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

CATALOG = Catalog.load()
SPEC = (
    "{provider: us, roles: [math], price: {input: 1, output: 2}, latency: {mean: 3}, context: 4, skills: {other: 0.5}}"
)


def written(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


# ---------------------------------------------------------------------------------------------- what is shipped


def test_every_model_of_the_papers_is_there():
    models = {spec.model.rpartition("/")[2] for spec in CATALOG.experts.values()}
    papers = """
        gpt-5 gpt-5-mini Llama-3.3-70B-Instruct Llama-3.1-8B-Instruct DeepSeek-R1 Llama-3.1-Nemotron-Ultra-253B-v1
        Phi-4-mini-instruct gemma-3-27b-it Qwen3-32B starcoder2-15b Qwen2.5-Coder-32B-Instruct
        Qwen2.5-Math-72B-Instruct Qwen2.5-Math-7B-Instruct claude-opus-4-1 claude-sonnet-4-1 o3-mini gpt-4o
        codestral-2405 OpenMath-Llama-2-70b-hf deepseek-math-7b-instruct Qwen3-30B-A3B-Instruct-2507
        Qwen3-Coder-30B-A3B-Instruct gpt-oss-20b gemini-2.5-flash Qwen3-235B-A22B-Instruct-2507 gpt-oss-120b
        Qwen2.5-7B-Instruct gpt-4.1-nano
    """
    assert set(papers.split()) <= models


@pytest.mark.parametrize("name", CATALOG.experts)
def test_every_figure_has_its_source(name: str):
    spec = CATALOG.spec(name)
    fields = ["price", "latency.mean", "latency.spread", "context", "load", "deceived", "own_noise", "roles"]
    fields += ["vendor", "open_weights"]
    fields += ["tokens.per_step", "tokens.overhead", "tokens.spread", "description"]
    fields += [f"skills.{subject}" for subject in spec.skills] + ["latency.by_role"]
    assert {field: CATALOG.source(name, field) for field in fields if not CATALOG.source(name, field)} == {}
    assert set(spec.skills) == set(SUBJECTS)
    assert spec.description
    assert spec.vendor


@pytest.mark.parametrize("name", CATALOG.experts)
def test_skills_follow_from_their_sources_by_the_stated_rules(name: str):
    spec = CATALOG.spec(name)
    for subject in SUBJECTS[:-1]:
        source, skill = spec.sources[f"skills.{subject}"], spec.skills[subject]
        if found := re.fullmatch(r"our estimate from (\S+) ([\d.]+) %", source):
            benchmark = CATALOG.benchmarks[found[1]]
            assert benchmark.subject == subject
            assert benchmark.accuracy[name] == float(found[2])
            assert skill == pytest.approx(benchmark.skill(name, load=0.35), abs=6e-4)
        else:
            found = re.fullmatch(r"our estimate: (?:as (\S+)|(\S+) ([+−]) ([\d.]+) logit)", source)
            assert found, source
            other = CATALOG.spec(found[1] or found[2]).skills[subject]
            moved = float((found[3] or "+").replace("−", "-") + (found[4] or "0"))
            assert skill == pytest.approx(1 / (1 + math.exp(-logit(other) - moved)), abs=6e-4)
    others = mean(logit(spec.skills[subject]) for subject in SUBJECTS[:-1])
    assert spec.skills["other"] == pytest.approx(1 / (1 + math.exp(-others)), abs=6e-4)


def test_common_noise_follows_from_what_votes_gain():
    normal, seen = NormalDist(), 0
    for name, spec in CATALOG.experts.items():
        if found := re.search(r"([\d.]+) % alone and ([\d.]+) % by vote", CATALOG.source(name, "own_noise")):
            alone, vote = (normal.inv_cdf(float(share) / 100) for share in found.groups())
            assert spec.own_noise == pytest.approx((alone / vote) ** 2 - CATALOG.shared_noise, abs=0.006)
            seen += 1
    assert seen == 6


def test_a_skill_from_a_benchmark_gives_back_its_accuracy():
    for benchmark in CATALOG.benchmarks.values():
        for name, accuracy in benchmark.accuracy.items():
            spec = CATALOG.spec(name)
            step = spec.chance(benchmark.subject, benchmark.difficulty, benchmark.steps)
            assert 100 * step**benchmark.steps == pytest.approx(accuracy, abs=1.2)


@pytest.mark.parametrize(
    ("name", "price", "seconds"),
    [
        ("gpt-5", (1.25, 10), {"generalist": 96, "code": 31, "query": 22}),
        ("gpt-5-mini", (0.25, 2), {"generalist": 27, "code": 25, "query": 16}),
        ("llama-3.3-70b", (0.9, 0.9), {"generalist": 15}),
        ("qwen3-32b", (0.8, 0.8), {"generalist": 11, "query": 8}),
        ("qwen2.5-coder-32b", (0.8, 0.8), {"code": 9}),
        ("qwen2.5-math-72b", (0.9, 0.9), {"math": 13}),
        ("qwen2.5-math-7b", (0.2, 0.2), {"math": 9}),
    ],
)
def test_published_prices_and_latencies_are_taken_over(name: str, price: tuple[float, float], seconds: dict):
    spec = CATALOG.spec(name)
    assert (spec.price.input, spec.price.output) == price
    assert {role: spec.latency.of(role) for role in seconds} == seconds


def test_the_fixed_configurations_are_those_of_the_papers():
    unseen, seen = CATALOG.configure("unseen-models"), CATALOG.configure("training")
    assert unseen.experts["query"] == ("claude-opus-4.1", "o3-mini", "gpt-4o")
    assert unseen.experts["code"] == ("claude-opus-4.1", "claude-sonnet-4.1", "codestral-22b")
    assert set(unseen.specs) & set(seen.specs) == {"gemma-3-27b"}  # a query writer in training, a generalist unseen
    ours, theirs = CATALOG.configure("evaluation"), CATALOG.configure("unseen-prices")
    assert ours.experts == theirs.experts
    assert ours.specs["llama-3.3-70b"].price == Price(0.9, 0.9)
    assert theirs.specs["llama-3.3-70b"].price == Price(0.23, 0.4)
    assert ours.specs["gpt-5"].price == theirs.specs["gpt-5"].price
    assert set(CATALOG.configure("paramanager").specs) == {"qwen3-30b-2507", "qwen3-coder-30b", "gpt-oss-20b"}


def test_a_stronger_expert_costs_more_for_the_same_problem():
    problems = [Problem.chain(f"p{i}", "reasoning", 4, "12", ("13",), difficulty=1.0) for i in range(400)]
    found = []
    for name in ("llama-3.1-8b", "qwen3-32b", "gpt-5-mini", "gpt-5"):
        solutions = [CATALOG.simulated(name).solve(problem, seed=i) for i, problem in enumerate(problems)]
        found.append((mean(one.solved for one in solutions), mean(one.usd for one in solutions)))
    assert found == sorted(found)


# -------------------------------------------------------------------------------------------- files of one's own


def test_a_file_of_ones_own_adds_an_expert_and_overrides_what_it_names(tmp_path: Path):
    mine = written(
        tmp_path,
        f"experts:\n  our-model: {SPEC}\n  gpt-5: {{price: {{input: 9}}, skills: {{math: 0.5, law: 0.7}}}}\n"
        "configurations: {ours: {source: us, experts: {math: [our-model]}}}\n",
    )
    catalog = Catalog.load(mine)
    shipped, gpt = CATALOG.spec("gpt-5"), catalog.spec("gpt-5")
    assert gpt.price == Price(9, 10)
    assert gpt.skills == shipped.skills | {"math": 0.5, "law": 0.7}
    assert gpt.latency == shipped.latency
    assert catalog.configure("ours").experts == {"math": ("our-model",)}
    assert "our-model" not in Catalog.load().experts
    # what was overridden is not said to be from where it was
    assert [catalog.source("gpt-5", field) for field in ("price", "skills.math", "skills.law")] == ["mine.yaml"] * 3
    assert catalog.source("gpt-5", "skills.code") == CATALOG.source("gpt-5", "skills.code")
    assert catalog.source("our-model", "price") == "mine.yaml"


def test_later_files_override_earlier_ones(tmp_path: Path):
    first = written(tmp_path, f"experts: {{our-model: {SPEC}}}")
    second = written(tmp_path, "experts: {our-model: {context: 99, sources: {context: a guess}}}", "second.yaml")
    catalog = Catalog.load(first, second)
    assert catalog.spec("our-model").context == 99
    assert [catalog.source("our-model", field) for field in ("context", "price")] == ["a guess", "mine.yaml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("experts: {gpt-5: {price: {input: lots}}}", r"experts\.gpt-5\.price\.input: Expected `float`, got text"),
        ("experts: {gpt-5: {price: {inptu: 3}}}", r"experts\.gpt-5\.price: Unknown key 'inptu'\. Did you mean 'input'"),
        ("experts: {gpt-5: {price: {input: -1}}}", r"experts\.gpt-5\.price: .*dollars of at least 0"),
        ("experts: {gpt-5: {roles: [poet]}}", r"experts\.gpt-5\.roles.*poet"),
        ("experts: {gpt-5: {skills: {math: 1.5}}}", r"experts\.gpt-5\.skills\.math: Expected `float` < 1\.0"),
        (
            "experts: {gpt-5: {latency: {by_role: {poet: 1}}}}",
            r"experts\.gpt-5\.latency\.by_role\.poet: Expected one of",
        ),
        ("experts: {gpt-5: {pric: 3}}", r"experts\.gpt-5: Unknown key 'pric'\. Did you mean 'price'"),
        ("experts: {gpt-5: {own_noise: 0.9}}", r"experts\.gpt-5\.own_noise: Expected at most 0\.8.*found 0\.9"),
        ("experts: {gpt-5: 3}", r"experts\.gpt-5: Expected `object`, got `int`"),
        ("experts: {new: {provider: us}}", r"experts\.new: Object missing required field `roles`"),
        ("experts: {'Our Model': {provider: us}}", r"experts\.Our Model: Expected a name of lower-case letters"),
        (f"experts: {{new: {SPEC.replace('other', 'math')}}}", r"experts\.new: Expected a skill for `other`"),
        ("expert: {}", r"Unknown key 'expert'\. Did you mean 'experts'"),
        (
            "configurations: {c: {source: s, experts: {math: [gpt-5]}}}",
            r"configurations\.c\.experts\.math\[0\]: Expected an expert with the role 'math'; gpt-5 has query, code",
        ),
        (
            "configurations: {c: {source: s, experts: {math: [gpt5]}}}",
            r"configurations\.c\.experts\.math\[0\]: Unknown expert 'gpt5'\. Did you mean 'gpt-5'",
        ),
        (
            "configurations: {c: {source: s, experts: {}, prices: deepinfre}}",
            r"configurations\.c\.prices: Unknown price list 'deepinfre'\. Did you mean 'deepinfra'",
        ),
        ("price_lists: {p: {source: s, prices: {x: {input: 1}}}}", r"price_lists\.p\.prices\.x: Unknown expert 'x'"),
        ("price_lists: {p: {source: s, prices: {gpt-5: 3}}}", r"price_lists\.p\.prices\.gpt-5: Expected `object`"),
        ("- 3", r"Expected an object with keys such as `experts`, found list"),
        ("experts: [", r"Not valid YAML"),
        ("experts: {a: {}, a: {}}", r"the key 'a' stands twice"),
    ],
)
def test_an_error_names_the_file_the_place_and_what_is_expected(tmp_path: Path, text: str, message: str):
    file = written(tmp_path, text)
    with pytest.raises(CatalogError, match=message) as caught:
        Catalog.load(file)
    assert str(caught.value).startswith(str(file))


def test_an_error_names_the_file_of_the_value_and_not_a_later_one(tmp_path: Path):
    first = written(tmp_path, "experts: {gpt-5: {context: 0}}")
    second = written(tmp_path, "experts: {gpt-5: {description: fine}}", "second.yaml")
    with pytest.raises(CatalogError, match=r"mine\.yaml: experts\.gpt-5\.context: Expected `int` >= 1"):
        Catalog.load(first, second)
    with pytest.raises(CatalogError, match=r"missing\.yaml: It cannot be read"):
        Catalog.load(tmp_path / "missing.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogError, match="Expected text in UTF-8"):
        Catalog.load(binary)


def test_unknown_names_suggest_known_ones():
    with pytest.raises(UnknownNameError, match=r"Unknown expert 'gpt5'\. Did you mean 'gpt-5'"):
        CATALOG.simulated("gpt5")
    with pytest.raises(UnknownNameError, match=r"Unknown configuration 'evalution'\. Did you mean 'evaluation'"):
        CATALOG.configure("evalution")
    with pytest.raises(UnknownNameError, match="Unknown expert of this configuration 'o3'"):
        CATALOG.configure("evaluation").simulated("o3")


# ------------------------------------------------------------------------------------------ random configurations

TOOLS = ("web_search", "local_search", "python")


def test_the_same_seed_and_instance_draw_the_same_configuration_and_others_others():
    assert CATALOG.draw(3, instance="a", tools=TOOLS) == CATALOG.draw(3, instance="a", tools=TOOLS)
    drawn = [CATALOG.draw(seed, instance=name, tools=TOOLS) for seed in range(5) for name in ("a", "b")]
    assert len({msgspec.json.encode((one.experts, one.tools, one.schedule)) for one in drawn}) == 10


def test_draws_keep_every_expert_and_tool_as_often_as_asked_and_always_a_generalist():
    count = 600
    drawn = [CATALOG.draw(seed, tools=TOOLS) for seed in range(count)]
    assert all(one.experts["generalist"] for one in drawn)
    kept = Counter((role, name) for one in drawn for role, names in one.experts.items() for name in names)
    tools = Counter(tool for one in drawn for tool in one.tools)
    pool = CATALOG.configurations["training"].experts
    for (role, name), times in kept.items():
        assert name in pool[role]
        extra = 0.5 / len(pool[role]) if role == "generalist" else 0.0
        assert times / count == pytest.approx(0.5 + extra, abs=4 * 0.5 / math.sqrt(count))
    assert all(tools[tool] / count == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(count)) for tool in TOOLS)
    assert sum("math" not in one.experts for one in drawn) > 100


def test_draws_vary_prices_within_bounds_and_never_use_a_list_that_is_held_out():
    names, factors = set(), []
    for seed in range(300):
        one = CATALOG.draw(seed)
        names.add(one.schedule.name)
        factors += one.schedule.multipliers.values()
        for expert, spec in one.specs.items():
            listed = one.schedule.prices.get(expert, CATALOG.spec(expert).price)
            factor = one.schedule.multipliers[spec.provider]
            assert spec.price.output == pytest.approx(listed.output * factor, rel=1e-3)
    assert names == {"own", *CATALOG.price_lists} - {"deepinfra"}
    assert min(factors) >= 0.5
    assert max(factors) <= 2
    assert mean(map(math.log, factors)) == pytest.approx(0, abs=0.05)


def test_a_draw_of_everything_at_list_prices_is_no_draw():
    with pytest.raises(OptionError, match="0 < keep <= 1 and spread >= 1, got 0 and 2"):
        CATALOG.draw(1, keep=0)
    configuration = CATALOG.draw(1, "evaluation", keep=1, spread=1, tools=TOOLS)
    assert (configuration.experts, configuration.tools) == (CATALOG.configure("evaluation").experts, TOOLS)


def test_an_expert_of_a_configuration_charges_its_price():
    configuration = CATALOG.draw(5, "evaluation", keep=1)
    problem = Problem.chain("p", "math", 3, "12", ("13",))
    ours, theirs = CATALOG.simulated("gpt-5"), configuration.simulated("gpt-5")
    before, after = (expert.solve(problem, seed=1, prompt_tokens=100) for expert in (ours, theirs))
    assert after.answers == before.answers
    assert after.usd == pytest.approx(configuration.specs["gpt-5"].price.cost(100, before.tokens))
    assert after.usd != pytest.approx(before.usd)


def test_a_schedule_replaces_prices_and_multiplies_them():
    spec = CATALOG.spec("gpt-5")
    schedule = PriceSchedule("x", {"gpt-5": Price(3, 4)}, {"openai": 0.5, "together": 7})
    assert schedule.price("gpt-5", spec) == Price(1.5, 2.0)
    assert PriceSchedule().price("gpt-5", spec) == spec.price


# ---------------------------------------------------------------------------------------------------- real models


def test_an_entry_with_an_endpoint_is_the_real_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: dict[str, object] = {}

    class Fake:
        def __init__(self, base_url: str, model: str, **options: object) -> None:
            made.update(options, base_url=base_url, model=model)
            self.name, self.meter = model, Meter()

    monkeypatch.setattr("toolorchestra.agents.chat.openai_chat.OpenAIChat", Fake)
    monkeypatch.setenv("TOOLORCHESTRA_CATALOG_KEYS", "OTHER, KEY")
    endpoint = "base_url: http://x/v1, api_key_env: KEY, budget: 2.5, deadline: 90, max_retries: 7, extra: {seed: null}"
    free = Catalog.load(written(tmp_path, f"experts: {{qwen3-32b: {{endpoint: {{{endpoint}}}}}}}"))
    assert isinstance(free.chat("qwen3-32b"), Fake)
    assert made["model"] == "Qwen/Qwen3-32B"
    assert (made["price"], made["budget"], made["max_retries"]) == (Price(0.8, 0.8), 2.5, 7)
    assert made["deadline"] == 90.0
    assert (made["api_key_env"], made["extra"]) == ("KEY", {"seed": None})
    assert made["reasoning_field"] is None
    limits = f"{endpoint}, requests_per_minute: 60"
    limited = Catalog.load(written(tmp_path, f"experts: {{qwen3-32b: {{endpoint: {{{limits}}}}}}}"))
    limited.chat("qwen3-32b")
    assert (made["requests_per_minute"], made["tokens_per_minute"]) == (60, None)


def test_a_real_expert_is_told_its_thoughts_as_its_entry_says_and_errors_name_keys(
    fake_server: Any, tmp_path: Path
) -> None:
    fake_server.respond = lambda body: (404, b"nothing here")
    entry = f"endpoint: {{base_url: '{fake_server.url}', reasoning_field: reasoning}}"
    catalog = Catalog.load(written(tmp_path, f"experts: {{qwen3-32b: {{{entry}}}}}"))
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "Hm."}
    chat: Any = catalog.chat("qwen3-32b")
    with pytest.raises(BatchError, match=r"Correct model or endpoint\.base_url\."):
        chat.complete([ChatRequest([said])])
    chat.close()
    assert fake_server.bodies[0]["messages"][0]["reasoning"] == "Hm."
    assert "reasoning_content" not in fake_server.bodies[0]["messages"][0]


def test_a_real_expert_is_retried_kept_to_its_budget_recorded_and_replayed_over_http(
    fake_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        attempt = len(fake_server.bodies)
        return (503 if attempt == 1 else 200), {
            "choices": [{"message": {"content": f"answer {attempt}"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 500},
        }

    fake_server.respond = respond
    monkeypatch.setenv("OUR_KEY", "secret")
    limits = "budget: 0.002, requests_per_minute: 1000, tokens_per_minute: 1000000, max_concurrency: 1"
    entry = f"endpoint: {{base_url: '{fake_server.url}', api_key_env: OUR_KEY, {limits}}}"
    catalog = Catalog.load(written(tmp_path, f"experts: {{qwen3-32b: {{{entry}}}}}"))
    requests = [ChatRequest([{"role": "user", "content": text}]) for text in ("one", "two", "three")]
    with RecordingChat(chat := catalog.chat("qwen3-32b"), tmp_path / "record.jsonl") as recording:
        with pytest.raises(BatchError, match=r"expected to spend less than \$0\.002, have spent \$0\.0024"):
            recording.complete(requests)
        assert recording.meter.usage.cost == pytest.approx(2 * 1500 * 0.8 / 1e6)
    chat.close()
    assert [body["messages"][0]["content"] for body in fake_server.bodies] == ["one", "one", "two"]
    assert {body["model"] for body in fake_server.bodies} == {"Qwen/Qwen3-32B"}
    assert set(fake_server.keys) == {"Bearer secret"}
    replay = ReplayChat(tmp_path / "record.jsonl")
    assert [answer.text for answer in replay.complete(requests[:2])] == ["answer 2", "answer 3"]
    assert replay.meter.usage.cost == pytest.approx(2 * 1500 * 0.8 / 1e6)
    assert len(fake_server.bodies) == 3


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        ("https://models.our-lab.ac.uk/v1", "OUR_LAB_API_KEY"),
        ("http://localhost:8000/v1", "ANYTHING"),
        ("http://127.0.0.1:8000/v1", "ANYTHING"),
    ],
)
def test_a_catalogue_may_have_a_key_sent_to_the_company_that_it_names_and_to_this_machine(
    tmp_path: Path, url: str, variable: str
):
    Catalog.load(written(tmp_path, f"experts: {{gpt-5: {{endpoint: {{base_url: '{url}', api_key_env: {variable}}}}}}}"))


@pytest.mark.parametrize(
    ("url", "variable", "expected"),
    [
        ("https://openai.example.net/v1", "OPENAI_API_KEY", "EXAMPLE_API_KEY for example.net, found OPENAI_API_KEY"),
        ("https://api.openai.com@evil.io/v1", "OPENAI_API_KEY", "EVIL_API_KEY for evil.io"),
        ("https://evil.io/?u=https://api.openai.com", "OPENAI_API_KEY", "EVIL_API_KEY for evil.io"),
        ("https://evil.co.uk/v1", "AWS_SECRET_ACCESS_KEY", "EVIL_API_KEY for evil.co.uk"),
        ("http://10.0.0.7/v1", "HF_TOKEN", "no key for 10.0.0.7"),
    ],
)
def test_a_catalogue_may_not_send_other_keys_unless_the_user_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, variable: str, expected: str
):
    entry = f"experts: {{gpt-5: {{endpoint: {{base_url: '{url}', api_key_env: {variable}}}}}}}"
    file = written(tmp_path, entry)
    with pytest.raises(CatalogError, match=expected) as caught:
        Catalog.load(file)
    assert caught.value.path == "experts.gpt-5.endpoint.api_key_env"
    assert f"export TOOLORCHESTRA_CATALOG_KEYS={variable}" in str(caught.value)
    monkeypatch.setenv("TOOLORCHESTRA_CATALOG_KEYS", variable)
    Catalog.load(file)


def test_a_catalogue_may_not_send_the_key_of_the_web_search_elsewhere(tmp_path: Path):
    with pytest.raises(CatalogError, match="found TAVILY_API_KEY"):
        Catalog.load(written(tmp_path, "tools: {web_search: {endpoint: {url: 'https://evil.io/search'}}}"))
    Catalog.load(written(tmp_path, "tools: {web_search: {endpoint: {depth: advanced}}}"))


def test_an_entry_without_an_endpoint_says_how_to_add_one():
    with pytest.raises(OptionError, match=r"gpt-5: expected an endpoint .* experts: {gpt-5: {endpoint: {base_url"):
        CATALOG.chat("gpt-5")


def test_specs_are_plain_data_that_reads_back():
    for spec in CATALOG.experts.values():
        assert msgspec.convert(msgspec.to_builtins(spec), ExpertSpec) == spec


def test_there_are_the_price_lists_of_all_ten_providers_of_appendix_e_each_with_its_source():
    ten = (
        "together",
        "venice",
        "chutes",
        "nebius",
        "lambda",
        "hyperbolic",
        "cloudflare",
        "novita",
        "aiml",
        "fireworks",
    )
    assert set(ten) | {"deepinfra"} == set(CATALOG.price_lists)
    training = {name for names in CATALOG.configurations["training"].experts.values() for name in names}
    for name in ten:
        found = CATALOG.price_lists[name]
        assert found.source
        assert training & found.prices.keys()
        assert not found.held_out

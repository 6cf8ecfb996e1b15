"""The structure of the library: no import cycles, imports that go down, packages with faces, files of readable size."""

from __future__ import annotations

import ast
import collections
import functools
import importlib
import inspect
import re
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("toolscale", "agents", "envs", "algos", "cli")
PROTOCOLS = ("toolorchestra", "paramanager", "masorchestra", "msarl", "tmatr", "dialogue")
BRIDGES = ("trl",)  # modules that stand for the library of their name
SUITES = ("testing",)  # modules with tests for environments of others, as numpy.testing is
MAX_LINES, MAX_MEDIAN = 500, 180  # of a file
MAX_FUNCTION = 60  # lines, its docstring included
MAX_MODULES = 20  # in a folder
MAX_NAMES = 900  # in all faces of packages together
MAX_LIBRARY = 80_900  # lines of Python in all layers
CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic"}
TIMEOUT = re.compile("timeout|seconds|deadline|grace", re.IGNORECASE)
ON_THE_CLOCK = {
    "algos/rollout/test_vllm.py::test_requests_under_way_go_on_with_the_weights_that_come": (
        "replies of 1,500 ids are under way when weights come; needs a GPU, or vLLM's build for CPUs"
    ),
    "cli/test_options.py::test_a_value_below_its_bound_is_refused_by_the_name_of_its_option": "nobody waits: a number",
    "envs/masorchestra/test_env.py::test_an_agent_has_a_bound_where_none_is_given": (
        "its model answers only once the bound has come: a slower machine makes no other outcome"
    ),
    "envs/test_executor.py::test_an_outage_is_raised_unless_the_policy_is_to_observe_it": (
        "its tool answers only once the timeout has come: a slower machine makes no other outcome"
    ),
    "waiting.py::until": "polls, and gives up on what never comes; all tests that have to poll do it by this function",
}
"""Places in the tests that look at a clock, sleep, or give something less than a second, each with its reason."""


def modules() -> dict[str, Path]:
    """Return the file of each module of the library."""
    found = {"toolorchestra": ROOT / "__init__.py"}
    for layer in LAYERS:
        for file in sorted((ROOT / layer).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(("toolorchestra", *parts)).removesuffix(".__init__")] = file
    return found


MODULES = modules()
PACKAGES = [name for name, file in MODULES.items() if file.name == "__init__.py"]


@functools.cache
def parsed(name: str) -> tuple[list[ast.Import | ast.ImportFrom], list[str]]:
    """Return all imports of a module, at its top and in functions, and the names of the classes at its top."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return found, [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def imports(name: str) -> Iterator[str]:
    """Yield the modules of the library that a module imports: at its top, under TYPE_CHECKING, and in functions."""
    for node in parsed(name)[0]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES:
                    yield inner
                elif node.module in MODULES:
                    yield node.module


@functools.cache
def graph() -> networkx.DiGraph[str]:
    """Return who imports whom."""
    return networkx.DiGraph((name, other) for name in MODULES for other in imports(name) if other != name)


def test_no_modules_import_one_another_in_a_circle() -> None:
    circles = [sorted(group) for group in networkx.strongly_connected_components(graph()) if len(group) > 1]
    assert not circles


def test_imports_go_down_the_layers_only() -> None:
    height = {layer: number for number, layer in enumerate(LAYERS)}

    def floor_of(name: str) -> int:
        parts = name.split(".")
        return height[parts[1]] if len(parts) > 1 else len(LAYERS)

    assert not [(a, b) for a, b in graph().edges if floor_of(a) < floor_of(b) and b != "toolorchestra"]
    assert [(a, b) for a, b in graph().edges if floor_of(a) > floor_of(b)]  # it would see one


def test_no_protocol_imports_another_and_what_is_below_them_imports_none() -> None:
    def protocol_of(name: str) -> str | None:
        parts = name.split(".")
        return parts[2] if parts[:2] == ["toolorchestra", "envs"] and len(parts) > 2 and parts[2] in PROTOCOLS else None

    for a, b in graph().edges:
        if a.startswith("toolorchestra.envs.") and (wanted := protocol_of(b)) is not None:
            assert protocol_of(a) == wanted, f"{a} imports {b}"


def test_every_file_can_be_read_in_one_go() -> None:
    sizes = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in MODULES.items()}
    assert not {name: size for name, size in sizes.items() if size > MAX_LINES}
    assert statistics.median(sizes.values()) <= MAX_MEDIAN


def test_every_function_can_be_read_in_one_go() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for name, file in MODULES.items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, functions) and node.end_lineno is not None:
                assert node.end_lineno - node.lineno < MAX_FUNCTION, f"{name}.{node.name}"


def test_the_library_can_be_held_in_the_head() -> None:
    modules = collections.Counter(file.parent for file in MODULES.values() if file.name != "__init__.py")
    assert not {folder: count for folder, count in modules.items() if count > MAX_MODULES}
    assert sum(len(importlib.import_module(name).__all__) for name in PACKAGES) <= MAX_NAMES
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES.values()) <= MAX_LIBRARY


def test_imports_between_folders_of_a_layer_go_one_way() -> None:
    def place(name: str) -> str:  # a folder, or a module that lies beside folders
        parts = name.split(".")
        return name if len(parts) <= 3 else ".".join(parts[:-1])

    inner = [(a, b) for a, b in graph().edges if a.split(".")[1:2] == b.split(".")[1:2] and b not in PACKAGES]
    folders = networkx.DiGraph((place(a), place(b)) for a, b in inner if place(a) != place(b))
    assert len(folders.edges) > 100  # it would see one
    assert not [sorted(group) for group in networkx.strongly_connected_components(folders) if len(group) > 1]


def test_the_library_imports_names_from_the_modules_that_define_them() -> None:
    # a name from a package's `__init__` would hide which module is needed: from readers, and from the test of cycles
    for name, file in MODULES.items():
        for node in parsed(name)[0]:
            if isinstance(node, ast.ImportFrom) and node.module in PACKAGES:
                names = [alias.name for alias in node.names if alias.name != "__version__"]
                through = [name for name in names if f"{node.module}.{name}" not in MODULES]
                assert not through, f"{file} imports {through} from {node.module}"


def test_no_two_public_classes_share_a_name() -> None:
    where = collections.defaultdict(list)
    for name in MODULES:
        for defined in parsed(name)[1]:
            if not defined.startswith("_"):
                where[defined].append(name)
    assert not {name: places for name, places in where.items() if len(places) > 1}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_has_a_face(name: str) -> None:
    package = importlib.import_module(name)
    assert len((package.__doc__ or "").split()) >= 5
    shown = [entry for entry in dir(package) if not (entry.startswith("__") and entry.endswith("__"))]
    assert sorted(shown) == sorted(entry for entry in package.__all__ if not entry.startswith("__"))
    for entry in package.__all__:
        shown_by_name = name == "toolorchestra.cli" or entry in (*BRIDGES, *SUITES)
        assert shown_by_name or not inspect.ismodule(getattr(package, entry)), f"{entry} is a module"
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


def test_the_page_of_the_architecture_names_paths_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`" in line.rsplit("|", 2)[1]]
    assert len(rows) >= 25
    for row in rows:
        (path,) = re.findall(r"`([\w/.]+)`", row.rsplit("|", 2)[1])
        assert (ROOT / path).exists(), row


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    faces = [ROOT / "__init__.py", *(file for layer in LAYERS for file in (ROOT / layer).rglob("__init__.py"))]
    assert set(listed) == {".".join(("toolorchestra", *file.relative_to(ROOT).parent.parts)) for file in faces}


def clocks(file: Path) -> Iterator[str]:
    """Yield where a file of tests looks at a clock, sleeps, or gives something less than a second."""

    def found(node: ast.AST, place: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}".removeprefix(".")
        if is_clock(node) or (isinstance(node, ast.Call) and is_sleep(node)) or any(map(is_short, timeouts(node))):
            yield place
        for child in ast.iter_child_nodes(node):
            yield from found(child, place)

    return found(ast.parse(file.read_text(encoding="utf-8")), "")


def is_clock(node: ast.AST) -> bool:
    """Return whether a name is that of a clock, or an import brings one in under a bare name."""
    if isinstance(node, ast.ImportFrom):
        names = {alias.name.removesuffix("_ns") for alias in node.names}
        return (node.module == "time" and bool(names & {"time", "sleep", *CLOCKS})) or (
            node.module == "asyncio" and "sleep" in names
        )
    if isinstance(node, ast.Attribute) and ast.unparse(node).removesuffix("_ns") == "time.time":
        return True
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.removesuffix("_ns") in CLOCKS


def is_sleep(call: ast.Call) -> bool:
    """Return whether a call sleeps; one that only lets others on an event loop go on does not."""
    return ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"} and ast.unparse(call.args[0]) != "0"


def timeouts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the timeouts that a call is given, or that an assignment or a patch sets."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(TIMEOUT.search(ast.unparse(target)) for target in targets):
            yield node.value
    if not isinstance(node, ast.Call):
        return
    yield from (keyword.value for keyword in node.keywords if keyword.arg in {"timeout", "deadline"})
    if ast.unparse(node.func) in {"asyncio.timeout", "asyncio.wait_for"}:
        yield node.args[-1]
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"wait", "join", "acquire"}:
        yield from (argument for argument in node.args if isinstance(argument, ast.Constant))
    name = ast.unparse(node.func).rpartition(".")[2]
    if name in {"setattr", "setitem"} and any(TIMEOUT.search(ast.unparse(argument)) for argument in node.args[:-1]):
        yield node.args[-1]


def is_short(value: ast.expr) -> bool:
    """Return whether an expression has a number of seconds in it that is above 0 and below 1."""
    numbers = (node.value for node in ast.walk(value) if isinstance(node, ast.Constant))
    return any(isinstance(number, float) and 0 < number < 1 for number in numbers)


def test_no_test_depends_on_a_clock() -> None:
    tests = ROOT / "tests"
    files = {file.relative_to(tests).as_posix(): file for file in sorted(tests.rglob("*.py"))}
    found = {f"{name}::{place}" for name, file in files.items() for place in clocks(file)}
    assert sorted(found - set(ON_THE_CLOCK)) == []
    assert sorted(set(ON_THE_CLOCK) - found) == []  # what is no longer needed is not excepted


@pytest.mark.parametrize(
    ("code", "places"),
    [
        ("def test_a():\n    began = time.monotonic()", ["test_a"]),
        ("class A:\n    def b(self):\n        x = time.perf_counter_ns", ["A.b"]),
        ("from time import sleep", [""]),
        ("async def a():\n    await asyncio.sleep(0)", []),
        ("async def a():\n    await asyncio.sleep(0.01)", ["a"]),
        ("time.time()", [""]),
        ("f(timeout=0.5)\nf(timeout=0)\nf(timeout=60)", [""]),
        ("f(timeout=0.05 if a else 30.0)", [""]),
        ("asyncio.timeout(0.2)", [""]),
        ("asyncio.wait_for(a, 0.2)", [""]),
        ("event.wait(0.02)", [""]),
        ("event.wait(60)\nstart.time", []),
        ("tool.timeout = 0.05\ntool.timeout = 5.0\ntool.price = 0.05", [""]),
        ("GRACE: float = 0.1", [""]),
        ("seen_seconds: list[float]", []),
        ("patch.setattr(a, 'MESSAGE_SECONDS', 0.1)\npatch.setattr(a, 'MESSAGE_SECONDS', 60)", [""]),
        ("patch.setattr('a.timeout', 0.1)\nsetattr(a, 'price', 0.1)", [""]),
    ],
)
def test_a_clock_in_a_test_is_seen(tmp_path: Path, code: str, places: list[str]) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(code)
    assert list(clocks(file)) == places

"""Fixtures of the tests of one shipped domain each; a test file is named after its domain."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.build import check_records
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status, ToolResult
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict, try_verifier


class DomainSession(Session):
    """A session whose tools are called by name."""

    def __init__(self, domain: Domain) -> None:
        super().__init__(domain.database)
        self.domain = domain

    def attempt(self, name: str, /, **arguments: Any) -> ToolResult:
        """Return the result of a call with valid arguments."""
        tool = self.domain.tools[name]
        return self.call(tool, tool.decode(msgspec.json.encode(arguments)))

    def do(self, name: str, /, **arguments: Any) -> Any:
        """Return the value of a call that must succeed."""
        result = self.attempt(name, **arguments)
        assert result.status is Status.OK, result.error
        return result.value

    def refusal(self, name: str, /, **arguments: Any) -> str:
        """Return the error of a call that must be refused and change nothing."""
        before = self.touched()
        result = self.attempt(name, **arguments)
        assert result.status is Status.EXEC_ERR
        assert self.touched() == before
        return str(result.error)

    def broken_rules(self) -> list[str]:
        """Return the consistency rules that the records break."""
        today, rules = {"today": self.domain.spec.today}, self.domain.spec.consistency
        return [rule.rule for rule in rules if self.connection.execute(rule.sql, today).fetchall()]

    def write_at_random(self, calls: int) -> int:
        """Make calls of tools that write, with plausible arguments, and return how many succeeded."""
        guesser = Guesser(self.domain.database, random.Random(0))
        write_tools = [tool for tool in self.domain.tools.values() if tool.effect == "write"]
        done: Counter[str] = Counter()
        for _ in range(calls):
            tool = guesser.rng.choice(write_tools)
            done[tool.name] += self.attempt(tool.name, **guesser.arguments(tool)).status is Status.OK
        return done.total()


@pytest.fixture(scope="module")
def domain(request: pytest.FixtureRequest) -> Domain:
    return load_domain(request.path.stem.removeprefix("test_"))


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Iterator[DomainSession]:
    session = DomainSession(domain)
    yield session
    session.close()


@pytest.fixture
def damage(domain: Domain) -> Iterator[Callable[[str], str]]:
    """A function that damages the records by SQL and returns the error of the rule that this breaks."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(domain.database.image)

    def broken_by(sql: str) -> str:
        assert connection.execute(sql).rowcount > 0
        with pytest.raises(DomainError) as error:
            check_records(connection, domain.spec)
        return str(error.value)

    yield broken_by
    connection.close()


@pytest.fixture
def surprises(domain: Domain, tasks: list[Task]) -> list[UnexpectedVerdict]:
    """What the mutation test of the verifier finds on a task of each intent, and of each that may be refused."""
    return try_verifier(domain, list({(task.intent, task.refuses): task for task in tasks}.values())).surprises

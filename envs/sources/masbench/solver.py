"""A solver that reads only the text of a problem and the vocabulary that every reader knows.

It checks the generator, so it shares no code with it: sentences are recognised by the forms that
`toolorchestra.envs.sources.masbench.text` documents, values are worked out anew, and so are the axes. It also reads
problems by others that have these forms, given the categories of their words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from toolorchestra.envs.sources.masbench.vocabulary import Knowledge, knowledge
from toolorchestra.toolscale.common.errors import OptionError

_MODULUS = 23
_MAX_CHARACTERS = 1_000_000
_STATEMENT = re.compile(r"The number of (?:each )?([^.:?]+?) equals ([^.:?]+)\.")
_MAGIC = re.compile(r"One of the special magic numbers for ([a-z]+-[a-z]+) is: (\d+)\.")
_NOTE = re.compile(r"Note: verify the information before you take it [-—] ([^.?]+?) is (-?\d+)\.")
_QUESTION = re.compile(
    r"How many (?P<counted>[^.?]+?) does (?P<owner>[^.?]+?) have\?"
    r"|What is (?:the magic number for (?P<key>[^.?]+?)|(?:the value of )?(?P<named>[^.?]+?))\?"
)
_LISTED = re.compile(
    r"the number of (?P<counted>[^.,]+?) that (?P<owner>[^.,]+?) has\b|the magic number for (?P<key>[a-z]+-[a-z]+)"
)
_PROBLEM = re.compile(r"^Problem (\d+): (.*)", re.MULTILINE)
_CARRIED = re.compile(r"\[answer ?(\d+)\]")
_CHANGED = re.compile(r"(\d+) (more than|times as much as) (.*)")


class ParsedProblem(NamedTuple):
    """The answers that a text asks for, in order, and the value of each axis, counted in what it says."""

    answers: tuple[str, ...]
    axes: dict[str, int]


class Parameter(NamedTuple):
    """The number of each `owner`'s `name`; a magic number has no owner."""

    owner: str
    name: str


def solve(text: str, known: Knowledge | None = None) -> ParsedProblem:
    """Return the answers to a problem; the categories of words are those of this library's vocabulary by default.

    >>> solve("The number of each Ketch's Saloon equals 20. The number of each Ketch's Galley Nook equals 7 more than "
    ...       "each Ketch's Saloon. How many Cabin does Ketch have?").answers
    ('1',)

    Raises:
        OptionError: It is not a problem, or has no one answer.
    """
    return _Reader(text, known or knowledge()).read()


class _Reader:
    def __init__(self, text: str, known: Knowledge) -> None:
        if len(text) > _MAX_CHARACTERS:
            raise OptionError(f"Expected a problem of at most {_MAX_CHARACTERS:,} characters, found {len(text):,}.")
        text = text.replace("’", "'")
        self.known = known
        self.notes = len(_NOTE.findall(text))
        text = _NOTE.sub(" ", text)
        self.numbers = {Parameter("", key): int(number) for key, number in _MAGIC.findall(text)}
        self.statements: dict[Parameter, str] = {}
        self.mentioned: dict[str, dict[str, None]] = {}  # what statements mention of each owner, in order
        self.targets = self._find_targets(text)
        for subject, value in _STATEMENT.findall(text):
            self._note_down(self._refer(subject), value)
        self.values: dict[Parameter, int] = {}
        self.needs: dict[Parameter, list[Parameter]] = {}

    # ------------------------------------------------------------------------------------------------ reading

    def _find_targets(self, text: str) -> list[Parameter]:
        """Return what is asked, in order."""
        _, listed, wanted = text.rpartition("From the passage, identify and return")
        if listed:
            found = [_target(match) for match in _LISTED.finditer(wanted)]
        else:
            problems = {int(number): body for number, body in _PROBLEM.findall(text) if "?" in body}
            bodies = [problems[number] for number in sorted(problems)] or [text]
            if problems and sorted(problems) != list(range(1, len(problems) + 1)):
                raise OptionError(f"Expected problems numbered from 1, found {sorted(problems)}.")
            found = [self._question(body) for body in bodies]
        if not found:
            raise OptionError("Expected a question, found none.")
        return found

    @staticmethod
    def _question(body: str) -> Parameter:
        questions = [*_QUESTION.finditer(body)]
        if not questions:
            raise OptionError(f"Expected a question at the end of a problem, found {body[-60:]!r}.")
        match = questions[-1]
        return _parameter(match["named"]) if match["named"] else _target(match)

    def _refer(self, words: str) -> Parameter:
        """Return what an operand refers to: a parameter, the one that an earlier problem asks for, or a number."""
        words = words.removeprefix("each ")
        if words.isdecimal():
            self.numbers[Parameter("", words)] = int(words)
            return Parameter("", words)
        carried = _CARRIED.fullmatch(words)
        if carried is None:
            return _parameter(words)
        place = int(carried[1])
        if not 1 <= place <= len(self.targets):
            raise OptionError(f"Expected an answer of one of {len(self.targets)} problems, found {words}.")
        return self.targets[place - 1]

    def _note_down(self, subject: Parameter, value: str) -> None:
        self._mention(subject)
        if _CARRIED.fullmatch(value.removeprefix("each ")) and self._refer(value) == subject:
            return  # that an answer is the answer says nothing of its value
        first = self.statements.setdefault(subject, value)
        if first != value and self._normal(first) != self._normal(value):
            raise OptionError(f"Expected one value of {subject}, found {first!r} and {value!r}.")
        for operand in self._operands(value):
            self._mention(operand)

    def _normal(self, value: str) -> str:
        """Return a value with carried answers written out."""
        return _CARRIED.sub(lambda found: "'s ".join(self._refer(found[0])), value)

    def _mention(self, parameter: Parameter) -> None:
        if parameter.name in self.known.category:  # not a category
            self.mentioned.setdefault(parameter.owner, {})[parameter.name] = None

    def _operands(self, value: str) -> list[Parameter]:
        changed = _CHANGED.fullmatch(value)
        value = changed[3] if changed else value
        if value.isdecimal():
            return []
        listed = value.removeprefix("the sum of ").removeprefix("the difference of ")
        return [self._refer(words) for words in re.split(r", and |, | and ", listed)]

    # ------------------------------------------------------------------------------------------------ solving

    def read(self) -> ParsedProblem:
        self._solve()
        return ParsedProblem(tuple(str(self.values[parameter]) for parameter in self.targets), dict(self._axes()))

    def _solve(self) -> None:
        """Work out what is asked and all that it needs, innermost first."""
        waiting = [*self.targets]
        while waiting:
            parameter = waiting.pop()
            if parameter not in self.needs:
                self.needs[parameter] = self._needs(parameter)
                waiting += self.needs[parameter]
        try:
            for parameter in TopologicalSorter(self.needs).static_order():
                self.values[parameter] = self._value(parameter, [self.values[need] for need in self.needs[parameter]])
        except CycleError as error:
            raise OptionError(f"Expected no circle of statements, found one through {error.args[1][0]}.") from None

    def _needs(self, parameter: Parameter) -> list[Parameter]:
        if parameter in self.statements:
            return self._operands(self.statements[parameter])
        return [need for product in self._products(parameter) for need in product]

    def _products(self, parameter: Parameter) -> Iterator[tuple[Parameter, ...]]:
        """Yield the products that a category's number is the sum of; none for what is no category."""
        owner, counted = parameter
        category = self.known.category.get(owner)
        if counted in self.known.category or category is None:
            return
        between = self.known.above.get(counted)
        for name in self.mentioned.get(owner, ()):
            member = Parameter(owner, name)
            if between == category:
                yield (member,)
            elif between is not None:  # a category further below is counted in the members
                yield member, Parameter(name, counted)

    def _value(self, parameter: Parameter, values: list[int]) -> int:
        if parameter in self.numbers:
            return self.numbers[parameter]
        if parameter not in self.statements:
            rest = iter(values)
            return sum(math.prod(next(rest) for _ in product) for product in self._products(parameter)) % _MODULUS
        statement = self.statements[parameter]
        changed = _CHANGED.fullmatch(statement)
        base = changed[3] if changed else statement
        if base.isdecimal():
            value = int(base)
        elif base.startswith("the difference of "):
            if len(values) != 2:
                raise OptionError(f"Expected the difference of two, found {base!r}.")
            value = values[0] - values[1]
        elif base.startswith("the sum of ") or len(values) == 1:
            value = sum(values)
        else:
            raise OptionError(f"Expected a value, found {base!r}.")
        if changed:
            value = value + int(changed[1]) if changed[2] == "more than" else value * int(changed[1])
        return value % _MODULUS

    # --------------------------------------------------------------------------------------------------- axes

    def _axes(self) -> Iterator[tuple[str, int]]:
        """Yield the value of each axis."""
        depth: dict[Parameter, int] = {}
        leading: dict[Parameter, frozenset[Parameter]] = {}  # all that a parameter needs, itself included
        for parameter in self.values:  # which are in the order in which they were worked out
            needs = self.needs[parameter]
            depth[parameter] = 1 + max((depth[need] for need in needs), default=0)
            leading[parameter] = frozenset((parameter,)).union(*(leading[need] for need in needs))
        targets = frozenset(self.targets)
        yield "depth", max(depth[parameter] for parameter in targets)
        yield "horizon", max(len(targets & leading[parameter]) for parameter in targets)
        yield "breadth", max(len(set(needs)) for needs in self.needs.values())
        groups: list[frozenset[Parameter]] = []
        for parameter in targets:
            apart = [group for group in groups if not group & leading[parameter]]
            joined = [group for group in groups if group & leading[parameter]]
            groups = [*apart, leading[parameter].union(*joined)]
        yield "parallel", len(groups)
        yield "robustness", self.notes


def _target(match: re.Match[str]) -> Parameter:
    return Parameter(match["owner"] or "", match["key"] or match["counted"])


def _parameter(words: str) -> Parameter:
    owner, found, name = words.rpartition("'s ")
    if not found:
        raise OptionError(f"Expected an owner's something, found {words[:80]!r}.")
    return Parameter(owner, name)

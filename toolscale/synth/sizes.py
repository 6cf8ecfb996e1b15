"""How much of each part of a domain a model is asked for."""

import msgspec


class Sizes(msgspec.Struct, frozen=True):
    """How much of each part is asked for, with --llm.

    Attributes:
        subjects: Number of areas over which records and requests are spread.
        entries: Number of database rows.
        tools: Number of tools, besides a calendar and a calculator.
        intents: Number of kinds of request, besides the evolved ones.
        tasks_per_intent: Maximum number of tasks of each kind of request.
        evolved: Number of harder kinds of request made from others.
    """

    subjects: int = 6
    entries: int = 200
    tools: int = 16
    intents: int = 18
    tasks_per_intent: int = 12
    evolved: int = 8

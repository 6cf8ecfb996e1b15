"""How multi-hop questions are worded: the relations that can be asked for, and what is said of each.

Slots: ``{x}`` is the subject, ``{maker}`` and ``{made}`` go with a work's genre, ``{home}`` with the type of its
publisher, theatre or museum.
"""

from __future__ import annotations

import msgspec


class Relation(msgspec.Struct, frozen=True):
    """How a relation with one value is asked for, and how its value is called within a longer question.

    Attributes:
        kind: Kinds of its subjects.
        target: Kind of its value; ``year`` and ``word`` are no entities.
        phrases: What its value is called; ``{x}`` is the subject. The first or second ends in it.
        asks: Questions for the value.
    """

    kind: str
    target: str
    phrases: tuple[str, ...]
    asks: tuple[str, ...]


RELATIONS = {
    "creator": Relation(
        "work",
        "person",
        ("the {maker} of {x}", "the person by whom {x} was {made}"),
        ("Who was the {maker} of {x}?", "Who completed {x}?"),
    ),
    "completed": Relation(
        "work",
        "year",
        (),
        ("In which year was {x} completed?", "When was {x} completed (year)?"),
    ),
    "home": Relation(
        "work",
        "institution",
        ("{home} {x}",),
        ("What is {home} {x}?", "Name {home} {x}."),
    ),
    "based_on": Relation(
        "work",
        "work",
        ("the work on which {x} is based", "the model for {x}"),
        ("On which work is {x} based?", "Which work was the model for {x}?"),
    ),
    "profession": Relation(
        "person",
        "word",
        (),
        ("What was the profession of {x}?", "As what did {x} become known?"),
    ),
    "born": Relation(
        "person",
        "year",
        (),
        ("In which year was {x} born?", "What is the year of birth of {x}?"),
    ),
    "died": Relation(
        "person",
        "year",
        (),
        ("In which year did {x} die?", "What is the year of death of {x}?"),
    ),
    "born_in": Relation(
        "person",
        "city",
        ("the city where {x} was born", "the birthplace of {x}"),
        ("In which city was {x} born?", "What is the birthplace of {x}?"),
    ),
    "parent": Relation(
        "person",
        "person",
        ("the parent of {x}",),
        ("Whose child was {x}?", "Who was the parent of {x}?"),
    ),
    "studied_at": Relation(
        "person",
        "institution",
        ("the institution at which {x} studied", "the school that educated {x}"),
        ("At which institution did {x} study?", "Where was {x} educated?"),
    ),
    "student_of": Relation(
        "person",
        "person",
        ("the teacher of {x}", "the person who taught {x}"),
        ("Who was the teacher of {x}?", "Whose pupil was {x}?"),
    ),
    "spouse": Relation(
        "person",
        "person",
        ("the spouse of {x}", "the person married to {x}"),
        ("To whom was {x} married?", "Who was the spouse of {x}?"),
    ),
    "located_in": Relation(
        "institution",
        "city",
        ("the city where {x} stands", "the home city of {x}"),
        ("In which city does {x} stand?", "Which city is home to {x}?"),
    ),
    "founded": Relation(
        "institution city",
        "year",
        (),
        ("In which year was {x} founded?", "What is the founding year of {x}?"),
    ),
    "founder": Relation(
        "institution",
        "person",
        ("the founder of {x}", "the person who founded {x}"),
        ("Who founded {x}?", "Who was the founder of {x}?"),
    ),
    "country": Relation(
        "city",
        "country",
        ("the country in which {x} lies", "the country of {x}"),
        ("In which country does {x} lie?", "To which country does {x} belong?"),
    ),
    "river": Relation(
        "city",
        "word",
        (),
        ("On which river does {x} lie?", "Which river flows through {x}?"),
    ),
    "capital": Relation(
        "country",
        "city",
        ("the capital of {x}", "the city from which {x} is governed"),
        ("What is the capital of {x}?", "From which city is {x} governed?"),
    ),
    "language": Relation(
        "country",
        "word",
        (),
        ("Which language is spoken in {x}?", "What is the language of {x}?"),
    ),
    "currency": Relation(
        "country",
        "word",
        (),
        ("What is the currency of {x}?", "With what does one pay in {x}?"),
    ),
    "winner": Relation(
        "event",
        "person",
        ("the winner of {x}", "the person who won {x}"),
        ("Who won {x}?", "To whom did {x} go?"),
    ),
    "honoured": Relation(
        "event",
        "work",
        ("the work honoured with {x}", "the work for which {x} was given"),
        ("For which work was {x} given?", "Which work was honoured with {x}?"),
    ),
    "awarded_by": Relation(
        "event",
        "institution",
        ("the institution that awarded {x}", "the body that gave {x}"),
        ("Which institution awarded {x}?", "What body gave {x}?"),
    ),
    "leader": Relation(
        "event",
        "person",
        ("the leader of {x}", "the person who led {x}"),
        ("Who led {x}?", "Who was the leader of {x}?"),
    ),
    "departed_from": Relation(
        "event",
        "city",
        ("the city from which {x} set out", "the starting point of {x}"),
        ("From which city did {x} set out?", "Where did {x} start?"),
    ),
    "departed": Relation(
        "event",
        "year",
        (),
        ("In which year did {x} set out?", "When did {x} depart (year)?"),
    ),
}
"""What can be asked."""
HOMES = {"press": "the publisher of", "theatre": "the theatre that first gave", "museum": "the museum that keeps"}
YEARS = {"person": "born", "work": "completed", "institution": "founded", "city": "founded"}
OLDER = {
    "person": ("Who was born earlier", "Who was born later"),
    "work": ("Which was completed earlier", "Which was completed later"),
    "institution": ("Which was founded earlier", "Which was founded later"),
    "city": ("Which was founded earlier", "Which was founded later"),
}
CONDITIONS = {
    "born_in": "was born in {x}",
    "studied_at": "studied at {x}",
    "student_of": "was taught by {x}",
    "parent": "was a child of {x}",
    "spouse": "was married to {x}",
}
WAYS: dict[str, list[str]] = {
    kind: [name for name, known in RELATIONS.items() if kind in known.kind.split()]
    for kind in ("person", "city", "country", "institution", "work", "event")
}
"""The relations of each kind of entity."""

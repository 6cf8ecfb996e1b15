"""Sentences around an answer: what asserts it and nothing else is right, and what lists, hedges or denies is not."""

from __future__ import annotations

import pytest

from toolorchestra.toolscale.answers import is_right

BORN = "In which year was Jakob Broldman born?"
PUBLISHER = 'Name the publisher of the memoir "The Fallen Window".'
TRADE = "What was the profession of the teacher of Hugo Trokius?"
EARLIER = "Which was founded earlier, Sterraminster or Foldford?"
LATER = "Who was born later, the physician Halvor Feiter or Edvin Matsen?"
COUNT = "How many of the known works by the teacher of Hanne Giming were completed before 1949?"
REMAINDER = "What is the remainder when $50^{116}$ is divided by 11?"
LENGTH = "In triangle ABC, AB = 15, BC = 14 and CA = 4. D on BC has BD = 8. What is the length of AD, exactly?"
PAIR = "The numbers x and y satisfy $3x + 3y = 12$ and $4x - 2y = -8$. What is $xy$?"
MODEL = 'On which work is the treatise "The Idle Guest" based?'


@pytest.mark.parametrize(
    ("question", "right", "said"),
    [
        (BORN, "1923", "Jakob Broldman was born in 1923."),
        (BORN, "1923", "According to the encyclopaedia, Jakob Broldman, the painter, was born in the year 1923."),
        (BORN, "1923", "1923 is the year in which Jakob Broldman was born."),
        (BORN, "1923", "Born: 1923"),
        (BORN, "1923", "I searched the encyclopaedia and found his birth year: 1923."),
        (BORN, "1923", "1923, because the article about him says that he was 40 in 1963."),
        (PUBLISHER, "Turrak Press", 'The memoir "The Fallen Window" was published by the Turrak Press.'),
        (PUBLISHER, "Turrak Press", "Sure! Its publisher is **Turrak Press**. Let me know if you need anything else."),
        (PUBLISHER, "Turrak Press", "Dear colleague,\n\nTurrak Press published it.\n\nBest regards"),
        (PUBLISHER, "Turrak Press", "## Answer\n\n- Turrak Press"),
        (TRADE, "explorer", "Explorer."),
        (TRADE, "explorer", "He was an explorer."),
        (TRADE, "explorer", "The profession of the teacher of Hugo Trokius is explorer."),
        (EARLIER, "Foldford", "Foldford was founded earlier than Sterraminster."),
        (EARLIER, "Foldford", "Foldford, since it was founded in 1201 and Sterraminster in 1300."),
        (LATER, "Halvor Feiter", "It is Halvor Feiter who was born later."),
        (COUNT, "1", "One of the known works was completed before 1949."),
        (COUNT, "1", "1 work was completed before 1949."),
        (COUNT, "0", "None of them were completed before 1949."),
        (REMAINDER, "5", "The remainder when 50^116 is divided by 11 is 5."),
        (REMAINDER, "5", "The cycle has length 5 and 116 is one more than a multiple of it. So the answer is 5."),
        (LENGTH, r"\frac{1}{7}\sqrt{2821}", r"The length of AD is exactly \frac{1}{7}\sqrt{2821}."),
        (LENGTH, r"\frac{1}{7}\sqrt{2821}", r"$AD = \frac{\sqrt{2821}}{7}$"),
        (PAIR, "0", "Adding them gives x = 0 and y = 4. Therefore, xy = 0."),
    ],
)
def test_a_sentence_may_say_the_answer(question: str, right: str, said: str) -> None:
    assert is_right(said, [right], question, ["Ada Vell"])


@pytest.mark.parametrize(
    ("question", "right", "said"),
    [
        (BORN, "1923", "He was born in 1923 or 1924."),
        (BORN, "1923", "He was born in 1922, 1923 or 1924."),
        (BORN, "1923", "1922 1923 1924"),
        (BORN, "1923", "He was not born in 1923."),
        (BORN, "1923", "It is false that he was born in 1923."),
        (BORN, "1923", "Was he born in 1923?"),
        (BORN, "1923", "I do not know whether he was born in 1923."),
        (BORN, "1923", "The answer is anything but 1923."),
        (BORN, "1923", "The year was 1923. The year was 1924."),
        (BORN, "1923", "1923. It was 1924."),
        (BORN, "1923", '[{"title": "Jakob Broldman", "text": "He was born in 1923."}]'),
        (PUBLISHER, "Turrak Press", "Turrak Press and Kaurva Press"),
        (PUBLISHER, "Turrak Press", "Either the Turrak Press or the Kaurva Press published it."),
        (PUBLISHER, "Turrak Press", "It was published by Kaurva Press, not by Turrak Press."),
        (PUBLISHER, "Turrak Press", "Turrak Press published it. Kaurva Press published it."),
        (TRADE, "explorer", "painter, explorer, composer"),
        (TRADE, "explorer", "He was a painter and an explorer."),
        (TRADE, "explorer", "He was no explorer."),
        (EARLIER, "Foldford", EARLIER),
        (EARLIER, "Foldford", EARLIER.rstrip("?")),
        (EARLIER, "Foldford", "Sterraminster was founded earlier than Foldford."),
        (EARLIER, "Foldford", "Foldford was founded later than Sterraminster."),
        (EARLIER, "Foldford", "Foldford and Sterraminster were founded earlier."),
        (EARLIER, "Foldford", "Sterraminster, Foldford"),
        (COUNT, "1", "0, 1, 2 or 3"),
        (COUNT, "1", "zero or one"),
        (REMAINDER, "5", ", ".join(map(str, range(11)))),
        (PAIR, "-8", "You asked: " + PAIR.rstrip("?") + ". Here is the answer."),
        (PAIR, "-8", PAIR),
        (MODEL, "The Idle Guest", f"You asked: {MODEL.rstrip('?')}. Here is the answer."),
        (PUBLISHER, "Turrak Press", "Turrak Press is a press. " * 200),
    ],
)
def test_what_lists_hedges_denies_or_repeats_says_nothing(question: str, right: str, said: str) -> None:
    assert not is_right(said, [right], question, ["Ada Vell"])


def test_steps_before_the_last_may_be_named_but_not_as_the_answer() -> None:
    question = "In which city was the author of Tern born?"
    said = "Ada Vell wrote it, and she was born in the city of Brenholm."
    assert is_right(said, ["Brenholm"], question, ["Ada Vell"])
    assert not is_right(said, ["Brenholm"], question)
    assert not is_right("Ada Vell, Brenholm", ["Brenholm"], question, ["Ada Vell"])
    assert not is_right("Ada Vell", ["Brenholm"], question, ["Ada Vell"])

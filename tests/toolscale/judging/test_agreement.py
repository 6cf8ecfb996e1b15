from __future__ import annotations

import random
from collections import Counter

from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.judging.agreement import answers_both_ways
from toolorchestra.toolscale.judging.attacks import Context
from toolorchestra.toolscale.judging.form import FormTable, judge_form
from toolorchestra.toolscale.judging.judge import judge_answer


def test_judges_of_prose_and_of_forms_agree_on_a_sample() -> None:
    domain, rng = load_domain("weather"), random.Random(0)
    table = FormTable(domain.tasks(), lambda task: domain.verifier.reference(task).answer)
    tasks = [task for task in domain.tasks() if task.communicate]
    session, alike, kinds = domain.session(), Counter[bool](), Counter[tuple[str, bool]]()
    for task in rng.sample(tasks, 25):
        session.reset()
        results = [domain.call(call, session).value for call in task.reference_calls]
        siblings = [other for other in tasks if other.intent == task.intent]
        expected = domain.verifier.reference(task).answer
        context = Context(task, expected, results, siblings, rng.sample(tasks, 5))
        for answer in answers_both_ways(context, table.of):
            kinds[answer.kind, answer.right] += 1
            form_right = not judge_form(answer.form, table.of(task))
            assert form_right or not answer.right, (task.id, answer)
            alike[form_right is (not judge_answer(answer.text, expected))] += 1
    assert alike[True] >= 0.98 * alike.total()
    assert {kind for kind, right in kinds if not right} >= {
        "denial",
        "hedge",
        "rival in its place",
        "one word",
        "parrot",
    }
    assert sum(right for _, right in kinds) >= 10

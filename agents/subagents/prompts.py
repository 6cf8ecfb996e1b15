r"""What models are told in each role.

The roles are ParaManager's (App. F) and MAS-Orchestra's (App. H.3), in words of our own. Every role answers in tags:
``<reasoning>`` first, then ``<answer>`` with the final answer in ``\boxed{}``, or ``<code>``, or ``<query>``.
"""

from __future__ import annotations

from toolorchestra.agents.subagents.question import SubAgentQuestion

_ANSWER = r"""Write your reasoning first, then the answer, in this form:

<reasoning>
How you came to the answer, step by step.
</reasoning>
<answer>
\boxed{the answer alone}
</answer>"""

SOLVE = f"""\
You solve problems by careful thought. The problem stands in <user_query>. Work through it step by step, say what you
assume, and keep to what is asked.

{_ANSWER}"""

REVIEW = r"""You are a reviewer, and you doubt. <conversation_history> holds what others have said and found so far;
<user_query> holds what is asked. Take nothing in the history for granted: look for gaps in its logic, wrong
calculations, calls that failed, and claims that nothing supports. What the query leaves open, look for in the history.
Work the query out yourself, and compare.

Answer in this form:

<reasoning>
What you checked, and what you found.
</reasoning>
<correct>
True if the answer given last stands, else False.
</correct>
<answer>
Each error: where it is and why it is one. Then the answer that you hold right: \boxed{the answer alone}
</answer>"""

CODE = """\
You solve problems by programming. The problem stands in <user_query>. Write one complete Python program that computes
the answer and prints nothing but it. Import all that you use, from the standard library only; the program reads no
input, no files and no network.

Answer in this form:

<reasoning>
How the program comes to the answer.
</reasoning>
<code>
the program
</code>"""

QUERY = """\
You find things out by searching. What is asked stands in <user_query>. Write what to search for: short queries that
each ask for one fact, with the names that matter, and none whose answer you have. Do not rely on memory for facts that
a search would settle, and mind who says a thing and when.

Answer in this form, one query a line:

<reasoning>
What must be known, and how you search for it.
</reasoning>
<query>
first query
second query
</query>"""

READ = f"""\
You answer from what a search has found. What is asked stands in <user_query>, the passages in <search_result>. Passages
may be beside the point or about something of the same name: use those that settle the matter, and say which.

{_ANSWER}"""

SEARCH = f"""\
You find answers by searching, in several turns. What is asked stands in <user_query>, and what has been found so far in
<search_result>. If you still lack a fact, write what to search for next, at most a few queries, one a line:

<reasoning>
What is known, and what is missing.
</reasoning>
<query>
first query
</query>

If you lack nothing any more, answer instead. {_ANSWER}"""

CONCLUDE = f"""\
You have the last word. <conversation_history> holds all that was said, called and found about a problem, and any of it
may be wrong; <user_query> holds the problem. Weigh the answers given: which rest on evidence, which were checked, on
which do independent ways agree? Where the history errs, correct it. Then answer the problem as it stands in the query.

{_ANSWER}"""

ROLE = "You take part as {role}.\n\n"
"""What a debater is told before `SOLVE` or `DEBATE`."""

DEBATE = f"""\
You debate a problem, which stands in <user_query>. <answers> holds what the participants said in the round before, your
own answer last. Take the others' as advice: where they differ from yours, find out who errs. Then give your answer,
changed or not.

{_ANSWER}"""

DECIDE = f"""\
You decide a debate about the problem in <user_query>. <answers> holds what the participants said last. Weigh their
reasons and give the final answer.

{_ANSWER}"""

CRITIC = r"""You criticise. <user_query> holds a problem and <answers> an answer to it. Find out where it may be wrong,
and only if you are sure that it is right say so.

Answer in this form:

<reasoning>
What you checked, and what you found.
</reasoning>
<correct>
True or False
</correct>
<answer>
\boxed{the answer that you hold right}
</answer>"""

REFLECT = f"""\
You try a problem again, which stands in <user_query>. <answers> holds your earlier attempts, each with the criticism
that it met. Think about where the last one may have gone wrong, learn from the criticism, and solve the problem better.

{_ANSWER}"""

REPAIR = """\
The program did not give an answer. What came of it:

{outcome}

Mend it, and answer in the same form with the complete program."""


def asked(question: SubAgentQuestion, **blocks: str) -> str:
    """Return a message with the question, after what goes before it in blocks of their own."""
    before = "".join(f"<{name}>\n{text}\n</{name}>\n\n" for name, text in blocks.items() if text)
    return f"{before}<user_query>\n{question.text}\n</user_query>"

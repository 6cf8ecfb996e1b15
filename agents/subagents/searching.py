"""Sub-agents that search: once (ParaManager's knowledge searcher), or turn by turn (MAS-Orchestra's search agent)."""

from __future__ import annotations

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.messages.text_parts import answer_in, as_text, queries_in, spoken
from toolorchestra.agents.subagents.prompts import prompt, user_prompt
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.toolscale.tools.tool import Tool, ToolResult

MAX_QUERIES = 8
"""Maximum number of queries of one search."""


def knowledge_searcher(
    model: ChatModel, question: SubAgentQuestion, *, search: Tool, temperature: float = 0.5
) -> SubAgentReply:
    """Write queries, search once with the tool `search`, which takes a ``query_list``, and answer from the results."""
    work = Work(question, temperature)
    work.show(question.evidence)
    (planned,) = work.ask(model, Ask(prompt("query"), user_prompt(question), "query"))
    queries = queries_in(planned, MAX_QUERIES)
    if not queries and (answer := answer_in(planned)):
        return work.reply(spoken(planned), answer)
    queries = queries or [question.text]
    found = shown(work.run(search, {"query_list": queries}))
    work.show(found)
    (text,) = work.ask(model, Ask(prompt("read", boxed=question.boxed), user_prompt(question, search_result=found)))
    listed = "\n".join(queries)
    return work.reply(
        f"<query>\n{listed}\n</query>\n<search_result>\n{found}\n</search_result>\n{spoken(text)}", answer_in(text)
    )


def search_agent(
    model: ChatModel, question: SubAgentQuestion, *, search: Tool, turns: int = 8, temperature: float = 0.5
) -> SubAgentReply:
    """Search turn by turn, each time for what is still missing, then answer; for facts that no model knows by heart.

    The tool `search` takes a ``query_list``. After `turns` searches, or without a new query, the model must answer.
    """
    work = Work(question, temperature)
    work.show(question.evidence)
    found: list[str] = []
    tried: set[str] = set()
    for _ in range(turns):
        (text,) = work.ask(
            model,
            Ask(
                prompt("search", boxed=question.boxed), user_prompt(question, search_result="\n\n".join(found)), "query"
            ),
        )
        queries = queries_in(text, MAX_QUERIES)
        if not queries and (answer := answer_in(text)):
            return work.reply(spoken(text), answer)
        fresh = [query for query in queries or [question.text] if query not in tried]
        if not fresh:
            break
        tried.update(fresh)
        found.append(shown(work.run(search, {"query_list": fresh})))
        work.show(found[-1])
    return work.conclude(
        model, Ask(prompt("read", boxed=question.boxed), user_prompt(question, search_result="\n\n".join(found)))
    )


def shown(result: ToolResult) -> str:
    """Return what a search found, as a model reads it."""
    if result.error is not None:
        return f"The search failed: {result.error}"
    try:
        return "\n\n".join(
            "\n".join([f"# {group['query']}", *(f"{hit['title']}: {hit['text']}" for hit in group["passages"])])
            for group in result.value
        )
    except (KeyError, TypeError):  # a search with another form of results
        return as_text(result.value)

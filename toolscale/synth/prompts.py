"""The prompts of the synthesis, stage by stage (ToolOrchestra App. K, Tables 7 to 14, in our own words and format).

Each shows the part of the format that it asks for, with an example from a bicycle hire that is nobody's domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolorchestra.toolscale.format import Operator

SYSTEM = """\
You write the data of a simulated world in which software agents are trained: a place with a database, tools over it, \
and requests to carry out. Write as a professional of the field would: concrete, consistent and believable. Invent \
people and firms; use none that exist.
Answer with one YAML document in a fenced block (```yaml … ```) and nothing after it. Use plain YAML: no tags, anchors \
or aliases; write dates as YYYY-MM-DD and times as HH:MM; quote a text that holds ': ' or ' #' or begins with a \
special character."""


def repair(problem: str) -> str:
    """Return what is said to an invalid answer."""
    return f"""\
That answer cannot be used:

{problem}

Write the whole answer again with this mended, as one fenced block of YAML."""


def subjects(title: str, count: int) -> str:
    """Ask for what a domain is about (Table 7)."""
    return f"""\
The domain is: {title}.

List {count} major subjects of it: the different areas with which its staff and its customers are concerned, from the \
everyday to the special. Each is a short noun phrase. Answer with a YAML list of {count} texts:

```yaml
- Hiring out bicycles
- Repairs and spare parts
```"""


SCHEMA_EXAMPLE = """\
description: |
  A bicycle hire with several stations. Only members hire. A member may have two bicycles at a time.
  A bicycle in repair is not hired out. Hiring costs the rate of the bicycle for each day.
tables:
  stations:
    description: Where bicycles are hired and returned.
    primary_key: station_id
    columns:
      station_id: {type: TEXT}
      name: {type: TEXT, unique: true}
      stands: {type: INTEGER}
    checks: [stands > 0]
    count: 6
  members:
    description: People who may hire.
    primary_key: member_id
    columns:
      member_id: {type: TEXT}
      name: {type: TEXT, unique: true}
      joined: {type: TEXT}
    count: 30
  bicycles:
    description: What is hired out.
    primary_key: bicycle_id
    columns:
      bicycle_id: {type: TEXT}
      station_id: {type: TEXT, references: stations.station_id}
      model: {type: TEXT}
      rate: {type: REAL, description: US dollars a day}
      status: {type: TEXT, description: "free, hired or repair"}
    checks: ["status IN ('free', 'hired', 'repair')", rate > 0]
    count: 40
  hires:
    description: Bicycles hired, now and before.
    primary_key: hire_id
    generated_key: true
    columns:
      hire_id: {type: TEXT}
      bicycle_id: {type: TEXT, references: bicycles.bicycle_id}
      member_id: {type: TEXT, references: members.member_id}
      start: {type: TEXT}
      days: {type: INTEGER}
      returned: {type: TEXT, nullable: true, description: Date of return; null while it is out}
    checks: [days BETWEEN 1 AND 30]
    count: 30
consistency:
  - rule: A bicycle is out at most once
    sql: SELECT bicycle_id FROM hires WHERE returned IS NULL GROUP BY bicycle_id HAVING count(*) > 1
  - rule: Who hires is a member by then
    sql: SELECT h.hire_id FROM hires h JOIN members m USING (member_id) WHERE h.start < m.joined
"""


def schema(title: str, subjects: Sequence[str], today: str, entries: int) -> str:
    """Ask for the tables of a domain (Table 8)."""
    return f"""\
Here is the schema of a domain, a bicycle hire:

```yaml
{SCHEMA_EXAMPLE}```

What the keys mean:
- `description`: the house rules that whoever serves the customers must know: limits, prices, what is refused and when.
- `tables`: in an order in which every table `references` only earlier ones (as table.column). Names are snake_case. \
Column types are TEXT, INTEGER and REAL; TEXT holds dates (YYYY-MM-DD) and times (HH:MM), INTEGER 0 and 1 hold no and \
yes. Columns are never null unless `nullable: true`. `primary_key` is a column or a list of columns. \
`generated_key: true` marks tables to which tools will add rows under keys of their own making. `compare: text` marks \
a column of free wording. `checks` are SQLite conditions on one row. `count` is the number of rows the table shall have.
- `consistency`: rules over several rows or tables, each a SELECT that must return no row. `:today` is today's date.
No rows and no recipes yet.

Write the schema of another domain in the same form: {title}. Its subjects: {"; ".join(subjects)}. Today is {today}. \
Use 5 to 10 tables that refer to each other and have what the rules need (states, dates, amounts, limits, capacities), \
about {entries} rows in all, and 3 to 8 consistency rules."""


RECORDS_EXAMPLE = """\
recipes:
  bicycle_id: {sequence: "B{:03d}"}
  station_id: {reference: stations.station_id}
  model: {choice: [City, Cargo, Tandem], weights: [6, 2, 1]}
  rate: {sql: "CASE model WHEN 'City' THEN 12.5 WHEN 'Cargo' THEN 30 ELSE 24 END"}
  status: {choice: [free, repair], weights: [9, 1]}
rows:
  - {bicycle_id: B900, station_id: S01, model: City, rate: 14, status: free}
count: 39
"""


def records(title: str, tables: str, table: str, subject: str, today: str, wanted: int, shown: str, first: bool) -> str:
    """Ask for records of a table (Table 9)."""
    ways = (
        """\
Give literal `rows`, or let them be made: `count` more rows whose cells come from `recipes`, one for each column. \
Write rows where character matters (names of things, descriptions, prices that fit), recipes where there are many of \
a kind. Columns that a row leaves out are made by their recipe, if there is one, else null.

A recipe is one of
- `sequence: "B{:03d}"`, the number of the row; `value: x`, always the same;
- `choice: [a, b]`, with `weights: [3, 1]`; `range: [5, 50]`, with `step: 0.5`; `dates: [2025-01-01, 2025-06-30]`;
- `reference: table.column`, a value of an earlier table;
- `faker: name` for invented names and the like: first_name, last_name, name, email, phone_number, street_address, \
city, company, job, word, sentence, numerify (with `args: {text: "###"}`);
- `sql: expression` over the row's other columns and earlier tables, evaluated at the end; `draw(a, b)` is a \
pseudo-random number in [0, 1) that depends on its arguments only.
`unique: true` makes values distinct, `null_share: 0.2` makes some null. Instead of recipes alone, `query: SELECT …` \
over earlier tables may yield rows (its columns named as this table's).
An example, for the bicycles of a bicycle hire:

```yaml
"""
        + RECORDS_EXAMPLE
        + "```\n"
    )
    more = "Give further literal `rows` only, none of those that are there.\n"
    return f"""\
The domain is: {title}. Today is {today}. Its tables:

{tables}

Records that there are already (some of each table):

{shown or "(none)"}

Write records of the table {table}, with an eye to the subject "{subject}". It still needs {wanted} rows; write at \
most 20 of them by hand. Every value must fit its column's type and the checks, refer only to rows that exist, agree \
with the other values of its row and of other tables (dates after dates, totals of their parts, states that fit), keep \
the consistency rules, and be plausible.

{ways if first else more}
Answer with the keys `rows`, and where they are asked for `recipes`, `count` and `query`; `complete: true` if the \
table needs no more rows than it has then."""


def judge(title: str, tables: str, table: str, rows: str, today: str) -> str:
    """Ask whether records hold together (Table 10)."""
    return f"""\
The domain is: {title}. Today is {today}. Its tables:

{tables}

Records of the table {table}:

```yaml
{rows}```

Look whether
1. every value is what its column means;
2. the values agree with each other, within a row and between rows (ids, names, dates, amounts, states);
3. the records are natural and plausible for such a place. They are a part of the table: what is missing is no fault.

Answer in this form; `objections` says of each fault which row it is and what should be there, and is empty if there \
is none:

```yaml
fits: true
agrees: true
plausible: false
objections:
  - B017 costs 950 dollars a day; 10 to 40 is usual.
```"""


def tool_plan(title: str, rules: str, tables: str, subjects: Sequence[str], wanted: int, taken: Sequence[str]) -> str:
    """Ask which functions a domain has (Table 11, first half)."""
    return f"""\
The domain is: {title}.
{rules}

Its tables:

{tables}

Name {wanted} functions over these tables that staff of such a place use often, for all of its subjects \
({"; ".join(subjects)}): looking an entry up by its id or name, searching and listing by criteria, checking \
availability or eligibility, creating, changing, paying, cancelling. Each does one thing. About half change the data.
{f"There are already: {', '.join(taken)}. Name others." if taken else ""}
Answer with a mapping from snake_case names to what the function takes, does and returns:

```yaml
get_member: Look up a member by name; returns the id and since when.
hire_bicycle: Hire a free bicycle out to a member for some days; returns the hire and its price.
```"""


TOOL_EXAMPLE = """\
description: Hire a free bicycle out to a member from today. Returns the hire and what it costs.
parameters:
  member_id: {type: string, description: Id of the member, column: members.member_id}
  bicycle_id: {type: string, description: Id of the bicycle, column: bicycles.bicycle_id}
  days: {type: integer, description: For how many days, minimum: 1, maximum: 30}
guards:
  - require: EXISTS (SELECT 1 FROM members WHERE member_id = :member_id)
    error: "There is no member {member_id}. Look the id up with get_member."
  - require: EXISTS (SELECT 1 FROM bicycles WHERE bicycle_id = :bicycle_id AND status = 'free')
    error: "The bicycle {bicycle_id} is not free. Find one with find_bicycles."
statements:
  - sql: |
      INSERT INTO hires (hire_id, bicycle_id, member_id, start, days, returned)
      SELECT 'H' || printf('%04d', 1 + coalesce(max(CAST(substr(hire_id, 2) AS INTEGER)), 0)),
             :bicycle_id, :member_id, :today, :days, NULL FROM hires
      RETURNING hire_id
    save: hire_id
  - UPDATE bicycles SET status = 'hired' WHERE bicycle_id = :bicycle_id
returns:
  shape: row
  sql: |
    SELECT h.hire_id, h.start, h.days, h.days * b.rate AS price
    FROM hires h JOIN bicycles b USING (bicycle_id) WHERE h.hire_id = :hire_id
"""

LOOKUP_EXAMPLE = """\
description: Look up a member by name.
parameters:
  name: {type: string, description: Full name, column: members.name}
returns:
  shape: row
  sql: SELECT member_id, name, joined FROM members WHERE name = :name
  empty: "There is no member called {name}."
operates: {members: .member_id}
"""


def tool(title: str, rules: str, tables: str, plan: Mapping[str, str], name: str) -> str:
    """Ask for one function (Table 11, second half)."""
    others = "\n".join(f"- {other}: {purpose}" for other, purpose in plan.items() if other != name)
    return f"""\
A function is guarded, parameterised SQL (SQLite). Two examples of a bicycle hire, hire_bicycle and get_member:

```yaml
{TOOL_EXAMPLE}```

```yaml
{LOOKUP_EXAMPLE}```

What the keys mean:
- `parameters`: type is string, integer, number, boolean or array (with `items`); `format: date` or `time`; `enum`; \
`minimum` and `maximum`; `required: false` with a `default`; `column` is where plausible values stand. Array \
parameters arrive as JSON text: read them with json_each(:name).
- `guards`: conditions that must hold, in order; the first that does not is the call's error. Enforce the house rules \
here, with messages that say what would help.
- `statements`: INSERT, UPDATE or DELETE. `save` names the first value that a statement RETURNs. Primary keys are \
never changed. New keys are derived from those there are, as in the example.
- `returns`: `shape` is row (one object, or the error `empty`), rows (a list of objects), value or list. Order rows \
with ORDER BY. No `empty` when there are statements.
- `operates`: of a function that looks entries up by identity, the table and where its primary key is: \
":parameter" or ".result_column". Searching and listing have none.
`:today` is today's date. Clock, randomness, pragmas, and tables other than these are not there.

The domain is: {title}.
{rules}

Its tables:

{tables}

Its other functions:

{others or "(none)"}

Write the function {name}: {plan[name]}
Answer with the body alone (description, parameters, …), as in the examples."""


def intent_plan(title: str, rules: str, functions: str, subject: str, wanted: int, taken: Sequence[str]) -> str:
    """Ask for what people want of a domain (Table 12)."""
    return f"""\
The domain is: {title}.
{rules}

The functions of its assistant:

{functions}

Propose {wanted} different realistic intents of people who turn to this assistant, about the subject "{subject}", that \
can be carried out, or must be refused, with these functions. Mix simple ones (a question that one look-up answers), \
middling ones (look up, check, act, tell) and long ones (several people, items or days; a condition with an \
alternative). At least one in six must be refused by the house rules or cannot be done.
{f"There are already: {'; '.join(taken)}. Propose others." if taken else ""}
Answer with a mapping from snake_case names to one sentence that says what is wanted, what is done and what is told:

```yaml
hire_for_a_week: A member known by name wants a free bicycle of a model at a station for a week; it is hired and the \
price told.
refuse_third_bicycle: A member who has two bicycles out wants a third; it is refused with the two that are out.
```"""


INTENT_EXAMPLE = """\
description: A member wants a bicycle of a model at a station for some days; it is hired and the price told.
bindings: |
  SELECT m.name AS member, b.model, s.name AS station, min(b.bicycle_id) AS bicycle_id, 3 AS days
  FROM members m JOIN stations s JOIN bicycles b USING (station_id)
  WHERE b.status = 'free' AND m.member_id NOT IN (SELECT member_id FROM hires WHERE returned IS NULL)
  GROUP BY m.member_id, s.station_id, b.model
instructions:
  - "{member} would like a {model} bicycle at {station} for {days} days. Take the free one with the lowest id, and say \
what it costs."
  - "I am {member}. Hire me a {model} at {station}, {days} days from today (lowest id that is free). How much is that?"
  - "Please get a {model} for {days} days for our member {member}; it must be at {station}. Of several, the lowest id. \
Tell the price."
reference_calls:
  - {call: get_member, arguments: {name: $member}, save: m}
  - {call: find_bicycles, arguments: {station: $station, model: $model}, save: found, parallel: true}
  - {call: hire_bicycle, arguments: {member_id: $m.member_id, bicycle_id: $found.0.bicycle_id, days: $days}, save: hire}
communicate: ["{hire.price:money}"]
answer: "{member} has the {model} {bicycle_id} until its return; that is {hire.price:money}."
"""

_INTENT_FORMAT = """\
What the keys mean:
- `bindings`: a SELECT over the tables (SQLite); each row becomes one request, its columns are the values to fill in. \
Decide everything here: whatever the request or the reference trajectory depends on. Give every value that the \
wording needs. \
List columns with JSON text (json_group_array) under `json`. Always yield many different rows.
- `instructions`: at least 3 phrasings, short and long, colloquial and formal, with {binding} placeholders. Each must \
say everything that is needed to do exactly the right thing: who, what, when, how many, which of several, what to do \
if it cannot be done, what to be told. People say names, not internal ids, unless they would know the id.
- `reference_calls`: the calls of a right solution, in order. An argument is a literal, or "$name" of a binding, or \
"$saved.field", "$saved.0.field", "$saved.*.field" of an earlier result saved with `save`, or "text {name}". `each: \
$list` repeats a step for every item ("$item", "$item.field"); `when: $name` or "!$name" makes it conditional; \
`parallel: true` if it does not need the step before. Nothing is computed in expressions.
- `communicate`: what the user must be told, with placeholders; an item may be a list of equivalents \
(["cannot", "not possible"]). `answer`: a right final answer that holds all of it. Formats: {x:money}, {x:date}, \
{x:weekday}, {x:time}, {x:number}, {list:and}, {list:or}.
- `branches: true` if what is right depends on what a look-up returns; `refuses: true` (or "$binding") if the right \
answer is to refuse or to report that it cannot be done: then look up what an honest assistant needs to know it, \
change nothing, and communicate the reason.
- `alternatives`: other reference trajectories, if other end states are right too.
A request that needs no call at all, or that doing and saying nothing satisfies, is invalid."""


def intent(title: str, rules: str, tables: str, functions: str, shown: str, name: str, purpose: str) -> str:
    """Ask for the tasks of an intent (Table 13)."""
    return f"""\
An intent is a kind of request, from which many tasks are made. An example of a bicycle hire:

```yaml
{INTENT_EXAMPLE}```

{_INTENT_FORMAT}

The domain is: {title}.
{rules}

Its tables:

{tables}

Some of its records:

{shown}

The functions of its assistant:

{functions}

Write the intent {name}: {purpose}
Answer with its body alone (description, bindings, instructions, …), as in the example."""


OPERATORS: dict[Operator, str] = {
    "constraint": "Add a constraint that the request must keep to (a limit, a date, a preference, an order of choice), "
    "which the reference trajectory looks up and which changes what is done or told.",
    "chain": "Join a second request to it that builds on the result of the first and needs further calls.",
    "branch": "Make what is done depend on what a look-up returns: the request says what to do in either case, and "
    "over the bindings both cases occur (`when`, `branches: true`).",
    "indirect": "Replace an id or name that the request gives by a description from which it must be found with a "
    "function (the latest, the cheapest, the one with …); it must fit exactly one entry.",
    "distract": "Put details into the request that are true but do not matter, or name a second person or thing that "
    "is not to be touched; what is done stays as before.",
    "impossible": "Make it impossible by the house rules or by the data (too late, too many, not there, not eligible): "
    "the reference trajectory finds that out and changes nothing, `refuses: true`, and the reason is communicated.",
}
"""What each evolution operator asks for."""


def evolved(title: str, rules: str, tables: str, functions: str, shown: str, operator: Operator, parent: str) -> str:
    """Ask for a harder form of an intent (Table 14)."""
    return f"""\
Here is an intent of the domain {title}, from which tasks are made:

```yaml
{parent}```

{_INTENT_FORMAT}

{rules}

The tables:

{tables}

Some of the records:

{shown}

The functions of the assistant:

{functions}

Write a harder intent from it. {OPERATORS[operator]} Word all phrasings anew so that they say what has become \
necessary. Answer with the body of the new intent alone, in the same form."""

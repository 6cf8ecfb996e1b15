"""Changes: ending, updating and untying rows, ending them only if they are open, and refusing where they are not."""

from __future__ import annotations

from collections.abc import Iterator

from toolorchestra.toolscale.format import IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.synth.derived_tools import literal
from toolorchestra.toolscale.synth.naming import an, said
from toolorchestra.toolscale.synth.request_base import Request, Requester
from toolorchestra.toolscale.synth.tables import Column, Table, bare


class ChangeRequests(Requester):
    """Requests that change or remove one row."""

    def requests(self, table: Table) -> Iterator[Request]:
        """Yield the changes of a table's rows."""
        if table.name in self.box.get and len(table.key) == 1:
            yield from self._endings(table)
        yield from self._updates(table)
        yield from self._removals(table)

    def _endings(self, table: Table) -> Iterator[Request]:
        life = self.box.lives.get(table.name)
        if life is None:
            return
        one, key = said(table.one), table.key[0]
        get = ReferenceCallSpec(call=self.box.get[table.name], arguments={key: "$id"})
        for ending in life.endings:
            tool = self.box.ending[table.name, ending.verb]
            do = said(ending.verb)
            end = ReferenceCallSpec(call=tool, arguments={key: "$id"})
            yield (
                f"{ending.verb}_{table.one}",
                IntentSpec(
                    description=f"{do.capitalize()} {an(one)}.",
                    bindings=f"SELECT {bare(key)} AS id FROM {bare(table.name)} WHERE {self._endable(life, ending)}",
                    instructions=[
                        f"Please {do} {one} {{id}}.",
                        f"{do.capitalize()} {one} {{id}} for me.",
                        f"{one.capitalize()} {{id}}: time to {do} it.",
                    ],
                    reference_calls=[end],
                    answer=f"Done: {do} {one} {{id}}.",
                ),
            )
            after, before = self._sides(table, life, ending)
            if after is None:
                continue
            yield (
                f"{ending.verb}_{table.one}_refused",
                IntentSpec(
                    description=f"Asked to {do} {an(one)} that has ended already; refuse and say how it stands.",
                    bindings=f"SELECT {bare(key)} AS id, {bare(after.name)} AS fact FROM {bare(table.name)} "
                    f"WHERE NOT ({life.open}) AND fact IS NOT NULL",
                    instructions=[
                        f"Please {do} {one} {{id}}. If that cannot be done, tell me its {after.words}.",
                        f"Can you {do} {one} {{id}}? Should it be too late, I want to know the {after.words}.",
                        f"{do.capitalize()} {one} {{id}}, or give me the {after.words} if it has ended before.",
                    ],
                    reference_calls=[get],
                    communicate=["{fact}"],
                    answer=f"That cannot be done: the {after.words} of {one} {{id}} is {self._shown(after, 'fact')}.",
                    refuses=True,
                ),
            )
            if before is None:
                continue
            facts = f"CASE WHEN {life.open} THEN {bare(before.name)} ELSE {bare(after.name)} END"
            yield (
                f"{ending.verb}_{table.one}_if_open",
                IntentSpec(
                    description=f"{do.capitalize()} {an(one)} if it is open still, and tell what follows from that.",
                    bindings=f"""SELECT id, open, fact FROM (
  SELECT {bare(key)} AS id, ({life.open}) AS open, {facts} AS fact,
    row_number() OVER (PARTITION BY ({life.open}) ORDER BY {bare(key)}) AS n
  FROM {bare(table.name)} WHERE ({self._endable(life, ending)}) OR NOT ({life.open})
) WHERE n <= 40 AND fact IS NOT NULL""",
                    instructions=[
                        f"Is {one} {{id}} open still? If so, {do} it and tell me its {before.words}; "
                        f"if not, leave it and tell me its {after.words}.",
                        f"Check {one} {{id}}. In case it has not ended, {do} it and give me the {before.words}. "
                        f"Otherwise I only need the {after.words}.",
                        f"Please {do} {one} {{id}}, but only if it is open: then tell me the {before.words}, "
                        f"else the {after.words}.",
                    ],
                    reference_calls=[get, ReferenceCallSpec(call=tool, arguments={key: "$id"}, when="$open")],
                    communicate=["{fact}"],
                    answer=f"{one.capitalize()} {{id}}: {{fact}}.",
                    branches=True,
                ),
            )

    def _changed(self, table: Table, column: Column) -> str | None:
        """Return the SQL of another value for a column of the row ``t``."""
        cell = f"t.{bare(column.name)}"
        number = "row_number() OVER (ORDER BY " + ", ".join(f"t.{bare(part)}" for part in table.key) + ")"
        if column.kind in ("date", "datetime"):
            return f"date({cell}, '+' || (7 * (1 + {number} % 3)) || ' days')"
        if column.kind == "category" and column.type == "TEXT" and len(column.choices) > 1:
            after = [*column.choices[1:], column.choices[0]]
            cases = " ".join(f"WHEN {literal(a)} THEN {literal(b)}" for a, b in zip(column.choices, after, strict=True))
            return f"CASE {cell} {cases} END"
        if column.kind == "flag":
            return cell  # the call gives the opposite
        if column.type == "INTEGER":
            return f"{cell} + 1 + {number} % 5"
        if column.type == "REAL":
            return f"round({cell} * 1.1 + 1, 2)"
        if "email" in column.name:
            return f"'new.' || {cell}"
        if "phone" in column.name or "mobile" in column.name:
            return f"'555-' || printf('%04d', ({number} * 37) % 10000)"
        if column.kind == "note":
            return f"'Checked, see file ' || (100 + {number})"
        if column.unique:
            return f"{cell} || '-2'"
        key = bare(table.key[0])
        return (
            f"(SELECT o.{bare(column.name)} FROM {bare(table.name)} o WHERE o.{key} > t.{key} "
            f"AND o.{bare(column.name)} <> {cell} ORDER BY o.{key} LIMIT 1)"
        )

    def _updates(self, table: Table) -> Iterator[Request]:
        one = said(table.one)
        for (name, column_name), tool in self.box.update.items():
            if name != table.name:
                continue
            column = table.columns[column_name]
            value = self._changed(table, column)
            if value is None:
                continue
            life = self.box.lives.get(table.name)
            when = f"AND {life.open}" if life and column.kind in ("date", "datetime") else ""
            shown = f"{{value{':date' if column.kind == 'date' else ''}}}" if column.kind != "flag" else "{said}"
            said_too = f", iif(t.{bare(column_name)}, 'no', 'yes') AS said" if column.kind == "flag" else ""
            given = "!$value" if column.kind == "flag" else "$value"
            parts = ", ".join(
                f"t.{bare(part)} AS {'id' if len(table.key) == 1 else f'id_{i}'}" for i, part in enumerate(table.key)
            )
            source = f"FROM (SELECT * FROM {bare(table.name)} WHERE {bare(column.name)} IS NOT NULL {when}) t"
            where = f"{one} {{id}}" if len(table.key) == 1 else f"the {one} with " + self._listed(
                [f"{said(part)} {{id_{i}}}" for i, part in enumerate(table.key)]
            )  # fmt: skip
            keys = {part: "$id" if len(table.key) == 1 else f"$id_{i}" for i, part in enumerate(table.key)}
            direct = IntentSpec(
                description=f"Change the {column.words} of {an(one)}.",
                bindings=f"SELECT * FROM (SELECT {parts}, {value} AS value{said_too} {source}) WHERE value IS NOT NULL",
                instructions=[
                    f"Please change the {column.words} of {where} to {shown}.",
                    f"Set the {column.words} to {shown} for {where}.",
                    f"For {where}, the {column.words} should be {shown} from now on.",
                ],
                reference_calls=[ReferenceCallSpec(call=tool, arguments=keys | {column_name: given})],
                answer=f"Done: the {column.words} is {shown} now.",
            )
            handle = self._handle(table, "name")
            if handle is None or column_name in handle.natural.columns:
                handle = self._handle(table, "name", 1)
            if handle is None or column_name in handle.natural.columns:
                yield f"change_{table.one}_{column_name}", direct
                continue
            yield (
                f"change_{table.one}_{column_name}_by_{handle.natural.name}",
                IntentSpec(
                    description=f"Change the {column.words} of {an(one)} known by {said(handle.natural.name)}.",
                    bindings=f"SELECT * FROM (SELECT {handle.sql('t')}, {value} AS value{said_too} {source}) "
                    "WHERE value IS NOT NULL",
                    instructions=[
                        f"Please change the {column.words} of {handle.phrase} to {shown}.",
                        f"The {column.words} of {handle.phrase} should be {shown} from now on.",
                        f"Set the {column.words} to {shown} for {handle.phrase}.",
                    ],
                    reference_calls=[
                        handle.call,
                        ReferenceCallSpec(
                            call=tool, arguments={table.key[0]: self._key_of(handle, table.key[0]), column_name: given}
                        ),
                    ],
                    answer=f"Done: the {column.words} is {shown} now.",
                ),
            )

    def _removals(self, table: Table) -> Iterator[Request]:
        tool = self.box.remove.get(table.name)
        if tool is None:
            return
        yield from self._tied(table, tool, "remove")

    def _tied(self, table: Table, tool: str, do: str) -> Iterator[Request]:
        """Requests about a row that ties others together, which are named."""
        joins = ""
        phrases: list[str] = []
        columns: list[str] = []
        steps: list[ReferenceCallSpec] = []
        arguments: dict[str, str] = {}
        for i, part in enumerate(table.key):
            target, to = table.columns[part].references  # type: ignore[misc]  # a link's key is all references
            parent = self.tables[target]
            handle = self._handle(parent, f"name_{i}")
            joins += f" JOIN {bare(target)} p{i} ON p{i}.{bare(to)} = t.{bare(part)}"
            if handle is None:
                columns.append(f"t.{bare(part)} AS id_{i}")
                phrases.append(f"{said(parent.one)} {{id_{i}}}")
                arguments[part] = f"$id_{i}"
            else:
                columns.append(handle.sql(f"p{i}"))
                phrases.append(handle.phrase)
                step = handle.call
                steps.append(
                    ReferenceCallSpec(call=step.call, arguments=step.arguments, save=step.save, parallel=bool(steps))
                )
                arguments[part] = self._key_of(handle, to)
        pair = self._listed(phrases)
        yield (
            f"{do}_{table.one}",
            IntentSpec(
                description=f"{do.capitalize()} {an(said(table.one))}.",
                bindings=f"SELECT {', '.join(columns)} FROM {bare(table.name)} t{joins}",
                instructions=[
                    f"Please {do} the {said(table.one)} entry of {pair}.",
                    f"{pair[0].upper()}{pair[1:]} do not belong together any more: {do} the {said(table.one)} entry.",
                    f"There is {an(said(table.one))} entry for {pair} that is wrong. {do.capitalize()} it.",
                ],
                reference_calls=[*steps, ReferenceCallSpec(call=tool, arguments=arguments)],
                answer=f"The {said(table.one)} entry is gone.",
            ),
        )

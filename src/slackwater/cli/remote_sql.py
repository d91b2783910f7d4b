"""`slackwater sql TEXT --server URL`: statements answered or done by a running node."""

from typing import TYPE_CHECKING, Any

from slackwater.cli.output import console, plain, print_json, table

if TYPE_CHECKING:
    from slackwater.client.answers import Answer


def ask_node(server: str, token: str | None, text: str, *, as_json: bool) -> None:
    """Send each statement to its endpoint, and show the response."""
    # The client is imported when it is needed: most commands do without.
    from sqlglot import exp

    from slackwater.client import connect_sync
    from slackwater.sql import nodes, parse_all

    outcomes: list[dict[str, Any]] = []
    with connect_sync(server, token=token) as client:
        for parsed in parse_all(text):
            statement = parsed.sql()
            match parsed.tree:
                case nodes.ExplainOf():
                    found = client.explain(statement)
                    outcomes.append({"statement": statement, "meaning": found.tree})
                    if not as_json:
                        console.print(plain(found.text), soft_wrap=True)
                case exp.Query() | nodes.ShowNamed():
                    answer = client.query(statement)
                    outcomes.append({"statement": statement, "as_of": answer.as_of, "rows": list(answer.rows)})
                    if not as_json:
                        _show(answer)
                case _:
                    client.execute(statement)
                    outcomes.append({"statement": statement, "done": True})
                    if not as_json:
                        console.print("done")
    if as_json:
        print_json(outcomes)


def _show(answer: "Answer") -> None:
    names = answer.columns.names
    numbers = tuple(place for place, kind in enumerate(answer.columns.types) if kind not in ("string", "bool"))
    shown = table("", *names, numbers=numbers)
    for row in answer.rows:
        shown.add_row(*("" if row[name] is None else plain(_cell(row[name])) for name in names))
    console.print(shown)


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

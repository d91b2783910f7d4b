"""`slackwater aggregate FOLDER --config FILE`: a node that holds what others have, and serves it at looser bounds."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.output import AsJson, errors, need_node, plain

if TYPE_CHECKING:
    from slackwater.deployment.endpoint_file import Listening
    from slackwater.server.node import Node, NodeSettings


def aggregate(
    folder: Annotated[Path, typer.Argument(help="Where the aggregator keeps its log and snapshots; made if missing.")],
    config: Annotated[
        Path | None, typer.Option("--config", help="What it holds [default: FOLDER/aggregator.toml].")
    ] = None,
    part: Annotated[
        str | None, typer.Option("--part", help="The file is a deployment, and this is its [aggregators.PART].")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on [default: as in FILE].")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one [default: as in FILE].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold and serve until Ctrl-C or SIGTERM. What is held of whom, and how closely, is in the file."""
    need_node()
    from slackwater.aggregator.configuration import plan_of, read_part
    from slackwater.aggregator.node import AggregatorNode
    from slackwater.server.listener import Serving, report_to_stderr, serve
    from slackwater.server.node import NodeSettings
    from slackwater.sessions.rules import SessionRules

    report_to_stderr(logging.WARNING if as_json else logging.INFO)
    file = config or folder / "aggregator.toml"
    told = read_part(file, part)
    plan = plan_of(told, str(file), file.parent)
    seconds = round(told.lease * 1_000_000)
    rules = SessionRules(lease=seconds, heartbeat=seconds // 4, silence=max(3 * seconds, SessionRules().silence))
    name = told.node_name or part or folder.resolve().name
    settings = NodeSettings(folder, name, None, told.snapshot_every, rules)
    items = sum(len(upstream.items) for upstream in plan.upstreams)
    pulled = sum(len(pull.part.keys) for pull in plan.pulls)
    learnt = sum(len(pull.learnt.priors) for pull in plan.pulls if pull.learnt is not None)

    def announce(listening: "Listening") -> None:
        if as_json:
            line = {"event": "listening", "url": listening.url, "node": listening.node, "pid": listening.pid}
            more = {"generation": listening.generation, "items": items, "sources": len(plan.sources)}
            more |= {"pulled": pulled, "learnt": learnt}
            sys.stdout.write(json.dumps(line | more) + "\n")
            sys.stdout.flush()
        else:
            begins = f" ({learnt} begin with statistics)" if learnt else ""
            pulls = f", pulls {pulled} items{begins}" if pulled else ""
            errors.print(
                f"aggregator {plain(listening.node)} listens on {listening.url} (generation {listening.generation}), "
                f"holds {items} items and polls {len(plan.sources)} sources{pulls}"
            )

    def make(settings: "NodeSettings") -> "Node":
        return AggregatorNode(settings, plan)

    where = Serving(settings, told.host if host is None else host, told.port if port is None else port)
    raise typer.Exit(serve(where, announce, make))

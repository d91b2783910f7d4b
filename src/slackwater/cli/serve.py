"""`slackwater serve FOLDER`: one node with its log, REST and live connections."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.output import AsJson, errors, need_node, plain
from slackwater.core.bus import DEFAULT_NAME, bus_address
from slackwater.core.clock import MOST_AHEAD
from slackwater.core.errors import SlackwaterError
from slackwater.core.hosts import HostKind, Placement

if TYPE_CHECKING:
    from slackwater.deployment.endpoint_file import Listening


def serve(
    folder: Annotated[
        Path, typer.Argument(help="Where the node keeps its log, snapshots and tokens; made if missing.")
    ],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8400,
    node_name: Annotated[str, typer.Option("--node-name", help="What the node calls itself.")] = "node",
    log: Annotated[
        str | None, typer.Option("--log", help="Keep the log in this stream, nats://host:4222/name, not in the folder.")
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(
            "--follow", help="Follow this log, which another process writes, and take no rows: a folder or a stream."
        ),
    ] = None,
    nats: Annotated[
        str | None, typer.Option("--nats", help="Take live connections on this bus too, nats://host:4222.")
    ] = None,
    nats_name: Annotated[
        str | None, typer.Option("--nats-name", help="What clients ask for on the bus; slackwater if not given.")
    ] = None,
    channels: Annotated[
        str | None,
        typer.Option(
            "--channels",
            help="Publish once for all subscribers that ask for channels: on this bus, nats://host:4222/name.",
        ),
    ] = None,
    snapshot_every: Annotated[
        int, typer.Option("--snapshot-every", min=1, help="Positions of the log between two snapshots.")
    ] = 1_000_000,
    lease: Annotated[
        float, typer.Option("--lease", min=0.1, max=3600, help="Seconds for which clients rely on the node.")
    ] = 5.0,
    event_time_ahead: Annotated[
        float,
        typer.Option(
            "--event-time-ahead",
            min=0,
            max=MOST_AHEAD,
            help="Seconds that an event time may be ahead of the log clock; rows with a later one go to quarantine.",
        ),
    ] = 86_400.0,
    spark: Annotated[
        Path | None, typer.Option("--spark", help="The folder of a Spark host, which keeps queries of this log too.")
    ] = None,
    keep_on: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-on",
            help="Who keeps new queries: node or spark; table:NAME=node or query:NAME=spark for some. "
            "Without it spark where --spark is given, else node.",
        ),
    ] = None,
    relabel: Annotated[
        int,
        typer.Option(
            "--relabel", min=0, help="Questions of a client's cache after which its labels are planned anew; 0: never."
        ),
    ] = 200,
    network: Annotated[
        Path | None,
        typer.Option("--network", help="Plan sums over these aggregators: a file of a network, or a deployment."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            help="Set a limit, as head_seconds=10 or sockets_an_address=500; docs/server.md names them all. "
            "May be given several times.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve until Ctrl-C or SIGTERM. Everything that was acknowledged survives whatever ends the process."""
    need_node()
    from slackwater.admission import Limits
    from slackwater.server.listener import Serving, report_to_stderr
    from slackwater.server.listener import serve as serve_node
    from slackwater.server.node import NodeSettings
    from slackwater.server.planners.labels import LabellingRules
    from slackwater.server.planners.network.configuration import read_network
    from slackwater.sessions.limits import limits_of
    from slackwater.sessions.rules import SessionRules

    report_to_stderr(logging.WARNING if as_json else logging.INFO)
    seconds = round(lease * 1_000_000)
    rules = SessionRules(lease=seconds, heartbeat=seconds // 4, silence=max(3 * seconds, SessionRules().silence))
    placement = _placement(keep_on or [], HostKind.NODE if spark is None else HostKind.SPARK)
    followed, stream = None if follow is None else _place(follow), _stream(log, follow)
    settings = NodeSettings(
        folder,
        node_name,
        followed,
        snapshot_every,
        rules,
        limits_of(limit or []),
        stream=stream,
        spark=spark,
        placement=placement,
        labelling=LabellingRules(every=relabel),
        network=None if network is None else read_network(network),
        channels=_channels(channels),
        admission=Limits(ahead=round(event_time_ahead * 1_000_000)),
    )

    def announce(listening: "Listening") -> None:
        if as_json:
            line = {"event": "listening", "url": listening.url, "node": listening.node, "pid": listening.pid}
            sys.stdout.write(json.dumps(line | {"generation": listening.generation}) + "\n")
            sys.stdout.flush()
        else:
            errors.print(f"node {plain(listening.node)} listens on {listening.url} (generation {listening.generation})")

    raise typer.Exit(serve_node(Serving(settings, host, port, _bus(nats, nats_name)), announce))


def _place(follow: str) -> Path | str:
    from slackwater.log.address import on_a_bus

    return follow if on_a_bus(follow) else Path(follow)


def _stream(log: str | None, follow: str | None) -> str | None:
    from slackwater.log.address import on_a_bus

    if log is not None and follow is not None:
        raise SlackwaterError("a node writes a log (--log) or follows one (--follow), not both")
    if log is not None and not on_a_bus(log):
        raise SlackwaterError("--log is for a stream, as nats://localhost:4222/desk; a log in files lies in the folder")
    return log


def _bus(nats: str | None, name: str | None) -> str | None:
    if nats is None:
        if name is not None:
            raise SlackwaterError("--nats-name is a name on a bus: say which with --nats nats://localhost:4222")
        return None
    try:
        address = bus_address(nats, named=False)
    except ValueError as error:
        raise SlackwaterError(str(error)) from None
    return address.at(name or DEFAULT_NAME)


def _channels(address: str | None) -> str | None:
    if address is None:
        return None
    try:
        return bus_address(address).at(bus_address(address).name or DEFAULT_NAME)
    except ValueError as error:
        raise SlackwaterError(f"--channels: {error}") from None


def _placement(rules: list[str], default: HostKind) -> Placement:
    """The keeper of new queries, by the options of the command line."""
    tables: dict[str, HostKind] = {}
    queries: dict[str, HostKind] = {}
    for rule in rules:
        which, _, host = rule.rpartition("=")
        kind, _, name = which.partition(":")
        if host not in (HostKind.NODE, HostKind.SPARK) or (which and (kind not in ("table", "query") or not name)):
            raise SlackwaterError(f"--keep-on {rule}: write node, spark, table:NAME=node or query:NAME=spark")
        if not which:
            default = HostKind(host)
        else:
            (tables if kind == "table" else queries)[name] = HostKind(host)
    return Placement(default, tables, queries)

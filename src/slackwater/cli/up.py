"""`slackwater up [slackwater.toml]`: process supervision, all processes of a deployment kept running."""

import asyncio
import importlib.util
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.output import AsJson, console, errors, need_node, need_spark, plain
from slackwater.core.errors import SourceError
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from slackwater.deployment.configuration import Deployment, FeedPart, ServerPart, SparkPart
    from slackwater.deployment.supervision import Role
    from slackwater.sources.base import Source

STATE_FILE = "up.json"
_FEED_ROWS = 5_000


def up(
    file: Annotated[Path, typer.Argument(help="The deployment.")] = Path("slackwater.toml"),
    as_json: AsJson = False,
) -> None:
    """Run what the file names, start again what dies, stop all on Ctrl-C or SIGTERM. Ports are in FOLDER/up.json."""
    need_node()
    from slackwater.deployment.configuration import read_deployment
    from slackwater.deployment.supervision import Supervisor
    from slackwater.server.listener import check_host

    deployment = read_deployment(file)
    base = (file.parent / deployment.folder).resolve()
    base.mkdir(parents=True, exist_ok=True)
    check_host(deployment.server.host, base / "server")
    for name, part in deployment.followers.items():
        check_host(part.host, base / name)

    def report(event: dict[str, Any]) -> None:
        if as_json:
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
        else:
            console.print(_in_words(event), soft_wrap=True)

    def passed(name: str, line: str) -> None:
        errors.print(f"[dim]{name} |[/] {plain(line)}", soft_wrap=True)

    roles = _roles(file, base, deployment)
    asyncio.run(Supervisor(roles, report, passed, base / STATE_FILE, deployment.hang).run())


def _in_words(event: dict[str, Any]) -> str:
    name = event.get("process", "")
    match event["event"]:
        case "started":
            return f"{name}: started, process {event['pid']}"
        case "listening":
            return f"{name}: listens on {event['url']}"
        case "died":
            return f"{name}: died with code {event['code']}, again in {event['again_in_seconds']:g} s"
        case "hung":
            return f"{name}: process {event['pid']} answers no more and is killed"
        case "ended":
            return f"{name}: ended with code {event['code']}"
        case _:
            return "all stopped"


def _roles(file: Path, base: Path, deployment: "Deployment") -> "list[Role]":
    from slackwater.deployment.supervision import Role

    server = base / "server"
    spark = deployment.spark
    if spark is not None and spark.optional and _no_spark():
        spark = None
    hosts = _hosting(spark, base)
    log = deployment.server.log or str(server / "log")
    planning = [] if deployment.network is None else ["--network", str(file.resolve())]
    roles = [_serving("server", server, deployment.server, *hosts, *planning)]
    roles += [_serving(name, base / name, part, "--follow", log, *hosts) for name, part in deployment.followers.items()]
    if spark is not None:
        need_spark()
        told = ["--master", spark.master, *([] if spark.shards is None else ["--shards", str(spark.shards)])]
        spark_words = _command("up-spark", log, str(base / spark.folder), *told)
        roles.append(Role("spark", lambda: spark_words))
    pipeline = deployment.pipeline
    if pipeline is not None and not (pipeline.optional and _no_spark()):
        need_spark()
        words = _command("up-pipeline", str(server / "log"), str(base / pipeline.out), "--master", pipeline.master)
        roles.append(Role("pipeline", lambda: words))
    roles += _aggregators(file, base, deployment)
    for name, feed in deployment.feeds.items():
        _check_feed(name, feed, file.parent)
        roles.append(Role(name, lambda name=name: _command("up-feed", str(file), name)))  # type: ignore[misc]
    return roles


def _no_spark() -> bool:
    return importlib.util.find_spec("pyspark") is None


def _hosting(spark: "SparkPart | None", base: Path) -> list[str]:
    """Options of a server about the keepers of queries."""
    if spark is None:
        return []
    rules = [spark.default.value]
    rules += [f"table:{name}={host.value}" for name, host in spark.tables.items()]
    rules += [f"query:{name}={host.value}" for name, host in spark.queries.items()]
    return ["--spark", str(base / spark.folder), *(word for rule in rules for word in ("--keep-on", rule))]


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "slackwater", *words]


def _serving(name: str, folder: Path, part: "ServerPart", *more: str) -> "Role":
    settings = {
        "--host": part.host,
        "--node-name": part.node_name or name,
        "--snapshot-every": str(part.snapshot_every),
        "--lease": str(part.lease),
        "--log": part.log,
        "--nats": part.nats,
        "--nats-name": part.nats_name,
        "--channels": part.channels,
        "--event-time-ahead": str(part.event_time_ahead),
    }
    words = [word for option, said in settings.items() if said is not None for word in (option, said)]
    return _listening(name, folder, part.port, "serve", str(folder), *words, *more)


def _aggregators(file: Path, base: Path, deployment: "Deployment") -> "list[Role]":
    from slackwater.aggregator.configuration import plan_of, read_part
    from slackwater.server.listener import check_host

    roles = []
    for name in deployment.aggregators:
        part = read_part(file, name)
        plan_of(part, f"{file}, aggregator {name}", file.parent)
        check_host(part.host, base / name)
        words = ["aggregate", str(base / name), "--config", str(file), "--part", name]
        roles.append(_listening(name, base / name, part.port, *words))
    return roles


def _listening(name: str, folder: Path, port: int, *words: str) -> "Role":
    """A process that publishes its address in its folder."""
    from slackwater.deployment.endpoint_file import STATE_FILE as LISTENING_FILE
    from slackwater.deployment.endpoint_file import read_state
    from slackwater.deployment.supervision import Role

    ports = {"port": port}

    def command() -> Sequence[str]:
        (folder / LISTENING_FILE).unlink(missing_ok=True)
        return _command(*words, "--port", str(ports["port"]))

    def found() -> str | None:
        listening = read_state(folder)
        if listening is None:
            return None
        # Started again it takes the same port: clients come back to it.
        ports["port"] = listening.port
        return listening.url

    return Role(name, command, found)


def _check_feed(name: str, feed: "FeedPart", base: Path) -> None:
    """Check a feed before anything runs."""
    from slackwater.sources import generator

    if feed.generator is not None:
        generator(feed.generator)
    elif feed.file is not None and not (base / feed.file).is_file():
        raise SourceError(f"feed {name}: there is no file {base / feed.file}")


def run_feed(file: Annotated[Path, typer.Argument()], name: Annotated[str, typer.Argument()]) -> None:
    """Send the rows of one feed of a deployment; started by `slackwater up`."""
    need_node()
    from slackwater.deployment.configuration import read_deployment
    from slackwater.deployment.endpoint_file import read_state
    from slackwater.deployment.feed import Feed
    from slackwater.sources import Pace, Replay

    deployment = read_deployment(file)
    part = deployment.feeds[name]
    server = (file.parent / deployment.folder).resolve() / "server"

    def address() -> str | None:
        listening = read_state(server)
        return None if listening is None else listening.url

    source = _source(part, file.parent)
    assert source.schema is not None
    feed = Feed(address, None if part.token_file is None else (file.parent / part.token_file).read_text().strip())
    _on_signal(lambda: sys.exit(0))
    try:
        feed.define(source.schema)
        arrivals = Replay(source, WallClock(), Pace(speed=part.speed, rate=part.rate)).arrivals()
        feed.send(arrivals)
    finally:
        feed.close()
        print(f"{feed.fed.accepted} rows accepted, {feed.fed.quarantined} quarantined, {feed.fed.repeats} repeats")


def _source(part: "FeedPart", base: Path) -> "Source":
    from slackwater.cli.file_options import FileOptions, how_to_read
    from slackwater.sources import FileSource, generator

    if part.generator is None:
        assert part.file is not None
        reading = how_to_read(base / part.file, FileOptions(part.table, None, None, None, part.timezone, None, []), ())
        return FileSource(reading, batch_rows=_FEED_ROWS)
    # Event time starts now, so every start is a source of its own and nothing repeats the one before.
    told: dict[str, Any] = {"start": WallClock().now()} | part.parameters
    if part.table is not None:
        told["table"] = part.table
    try:
        return generator(part.generator)(**told)
    except TypeError as error:
        raise SourceError(f"generator {part.generator}: {error}") from None


def run_pipeline(
    log: Annotated[Path, typer.Argument()],
    out: Annotated[Path, typer.Argument()],
    master: Annotated[str, typer.Option("--master")] = "local[2]",
) -> None:
    """Take a log into latest, history and quarantine on Spark, until stopped; started by `slackwater up`."""
    need_spark()
    from slackwater.pipeline.session import build_session
    from slackwater.pipeline.tables.stream import run_pipeline as run

    stopping = threading.Event()
    _on_signal(stopping.set)
    while not any(log.glob("*.segment")):
        if stopping.wait(0.1):
            return
    session = build_session(master)
    try:
        with run(log, out, session) as pipeline:
            print(f"following {log} into {out}", flush=True)
            while not stopping.is_set():
                if pipeline.wait(0.5):
                    break
    finally:
        session.stop()


def run_spark(
    log: Annotated[str, typer.Argument()],
    folder: Annotated[Path, typer.Argument()],
    master: Annotated[str, typer.Option("--master")] = "local[1]",
    shards: Annotated[int | None, typer.Option("--shards", min=1)] = None,
) -> None:
    """Keep the standing queries of a log that are Spark's, until stopped; started by `slackwater up`."""
    need_spark()
    from slackwater.log.address import on_a_bus, shown
    from slackwater.pipeline.host.executor_affinity import OnExecutors, wait_for_executors
    from slackwater.pipeline.host.spark_host import HOST_SETTINGS, SparkHost
    from slackwater.pipeline.session import build_session

    stopping = threading.Event()
    _on_signal(stopping.set)
    while not (on_a_bus(log) or any(Path(log).glob("*.segment"))):
        if stopping.wait(0.1):
            return
    session = build_session(master, "slackwater host", HOST_SETTINGS)
    try:
        wait_for_executors(session.sparkContext, master)
        with SparkHost(log, folder, OnExecutors(session.sparkContext), shards=shards) as host:
            print(f"keeps queries of {shown(log)} on {master}, generation {host.generation}", flush=True)
            host.run(stopping.is_set)
    finally:
        session.stop()


def _on_signal(act: Callable[[], Any]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())

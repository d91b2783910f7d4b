"""Deployment configuration: a TOML file; every error names the place.

folder = "data"                  # relative to the file
hang = 30                        # a process that listens and does not answer for so many seconds is killed; 0: never

[server]                         # writes the log
port = 8400

[followers.edge]                 # more nodes, which follow it
port = 8401

[aggregators.near]               # nodes that hold items of others, see aggregator.configuration
port = 8402

[network]                        # the server plans sums over the aggregators, see server.planners.network.configuration

[pipeline]                       # Spark: latest, history, quarantine
out = "kept"

[spark]                          # keeps standing queries on Spark's executors, except where configured here
tables = {alarms = "node"}

[feeds.market]                   # rows, made up or replayed
generator = "market"
rate = 1000
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slackwater.core.clock import MOST_AHEAD
from slackwater.core.errors import SlackwaterError
from slackwater.core.hosts import HostKind
from slackwater.core.settings import read_settings
from slackwater.deployment.supervision import HANG_SECONDS

Port = Annotated[int, Meta(ge=0, le=65535)]
Above = Annotated[float, Meta(gt=0)]


class ServerPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A node that serves."""

    host: str = "127.0.0.1"
    port: Port = 0
    node_name: str | None = None
    snapshot_every: Annotated[int, Meta(ge=1)] = 1_000_000
    lease: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    log: str | None = None
    """A stream for the log, as nats://host:4222/name; of a server, not of a follower."""
    nats: str | None = None
    nats_name: str | None = None
    channels: str | None = None
    """A bus on which is published for many subscribers at once, as nats://host:4222/name."""
    event_time_ahead: Annotated[float, Meta(ge=0, le=MOST_AHEAD)] = 86_400.0
    """Seconds that an event time may be ahead of the log clock."""


class PipelinePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The Spark pipeline. `optional`: leave it out where Spark is not installed, instead of refusing to begin."""

    out: str = "kept"
    master: str = "local[2]"
    optional: bool = False


class SparkPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The Spark host. `queries`, `tables` and `default` place new queries: by their name, else by their table.

    `optional`: leave it out where Spark is not installed; the node then keeps everything.
    """

    folder: str = "spark"
    master: str = "local[1]"
    shards: Annotated[int, Meta(ge=1, le=1024)] | None = None
    default: HostKind = HostKind.SPARK
    tables: dict[str, HostKind] = {}
    queries: dict[str, HostKind] = {}
    optional: bool = False


class FeedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows that are sent to the server: from a generator, or from a file, at their own pace times `speed`.

    `token_file` holds a token with the scopes ingest and admin, where the server asks for one.
    """

    generator: str | None = None
    parameters: dict[str, Any] = {}
    file: str | None = None
    table: str | None = None
    timezone: str | None = None
    token_file: str | None = None
    rate: Above | None = None
    speed: Above = 1.0


class NetworkPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Planning of sums over aggregators; times in seconds. `statistics`: a file from `slackwater learn`."""

    window: Annotated[float, Meta(ge=0.1, le=86_400)] = 60.0
    lost_after: Annotated[float, Meta(ge=0.1, le=86_400)] = 5.0
    statistics: str | None = None
    unheld: Literal["node", "nobody"] = "node"


class Deployment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that `slackwater up` runs."""

    folder: str = "."
    hang: Annotated[float, Meta(ge=0, le=86_400)] = HANG_SECONDS
    """Seconds without an answer after which a process that listens is killed and started again; 0: never."""
    server: ServerPart = ServerPart()
    followers: dict[str, ServerPart] = {}
    pipeline: PipelinePart | None = None
    spark: SparkPart | None = None
    feeds: dict[str, FeedPart] = {}
    network: NetworkPart | None = None
    aggregators: dict[str, dict[str, Any]] = {}
    """Tables that `aggregator.configuration` checks."""


def read_deployment(path: Path) -> Deployment:
    """Read and check a file."""
    file = read_settings(path, 'the smallest deployment is the two lines\nfolder = "data"\n[server]')
    deployment = file.check(file.content, Deployment, " is not a deployment")
    for name in (*deployment.followers, *deployment.feeds, *deployment.aggregators):
        if not name.replace("-", "").replace("_", "").isalnum():
            raise SlackwaterError(f"{path}: {name!r} is used for a folder and must be letters, digits, - and _")
    names = ["server", "pipeline", "spark", *deployment.followers, *deployment.feeds, *deployment.aggregators]
    taken = {name for name in names if names.count(name) > 1}
    folders = ["server", *deployment.followers, *deployment.aggregators]
    folders += [] if deployment.pipeline is None else [deployment.pipeline.out]
    folders += [] if deployment.spark is None else [deployment.spark.folder]
    taken |= {name for name in folders if folders.count(name) > 1}
    if taken:
        raise SlackwaterError(f"{path}: {', '.join(sorted(taken))} is the name of two things; each needs its own")
    if any(part.log is not None for part in deployment.followers.values()):
        raise SlackwaterError(f"{path}: a follower follows the log of the server; only [server] has a log")
    if deployment.server.log is not None and deployment.pipeline is not None:
        raise SlackwaterError(f"{path}: the pipeline reads a log in files; leave out log of [server], or [pipeline]")
    if deployment.network is not None and not deployment.aggregators:
        raise SlackwaterError(f"{path}: a network is made of aggregators: add one, or leave out [network]")
    for name, feed in deployment.feeds.items():
        if (feed.generator is None) == (feed.file is None):
            raise SlackwaterError(f"{path}: feed {name} needs a generator or a file, and only one of them")
    return deployment

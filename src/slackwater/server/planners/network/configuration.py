"""Network configuration: a node's aggregators, from a TOML file; every error names the place.

window = 60                            # seconds in which messages are counted
lost_after = 5                         # seconds without an answer
statistics = "statistics"              # what `slackwater learn` has written, if anything
unheld = "node"                        # items that no aggregator holds: from the node itself; or "nobody"

[[aggregators]]
name = "near"
nodes = ["http://10.0.0.7:8410"]       # as clients reach it; or the name of a node whose folder lies beside
token_file = "token"                   # where it asks for one

A deployment has a part [network] with the same settings; its aggregators are those of the deployment.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slackwater.core.errors import PlanningError, SlackwaterError
from slackwater.core.settings import read_settings
from slackwater.deployment.configuration import NetworkPart
from slackwater.planning.aggregation.base import Dynamics
from slackwater.planning.aggregation.dynamics import learnt
from slackwater.planning.aggregation.movement import Column, MovementModel
from slackwater.server.planners.network.base import HERE, NetworkRules
from slackwater.statistics import Statistics

_SECOND = 1_000_000
Word = Annotated[str, Meta(min_length=1, max_length=128)]


class AggregatorEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One aggregator, or several processes that hold the same."""

    name: Word
    nodes: Annotated[list[Word], Meta(min_length=1, max_length=64)]
    token_file: str | None = None


class NetworkFile(NetworkPart, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of its own."""

    aggregators: Annotated[list[AggregatorEntry], Meta(min_length=1, max_length=1024)]


@dataclass(frozen=True, slots=True)
class KnownAggregator:
    """An aggregator, where it can be reached, and by which token."""

    name: str
    nodes: tuple[str, ...]
    token: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NetworkSettings:
    """Settings of a network as a node needs them."""

    aggregators: tuple[KnownAggregator, ...]
    rules: NetworkRules
    movement: MovementModel
    poll: float = 1.0
    """Seconds between two questions to an aggregator."""


def read_network(path: Path) -> NetworkSettings:
    """Read a file of a network, or the part [network] of a deployment."""
    settings = read_settings(path, "see docs/network-plans.md for one")
    deployed = isinstance(settings.content.get("aggregators"), dict)
    content = _as_file(settings.content) if deployed else settings.content
    file = settings.check(content, NetworkFile, " is no network", "network" if deployed else "")
    names = [one.name for one in file.aggregators]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or HERE in names:
        raise SlackwaterError(f"{path}: {', '.join(twice)} is the name of two aggregators")
    aggregators = tuple(KnownAggregator(one.name, tuple(one.nodes), _token(path, one)) for one in file.aggregators)
    rules = NetworkRules(
        window=round(file.window * _SECOND), lost_after=round(file.lost_after * _SECOND), unheld=file.unheld == "node"
    )
    folder = None if file.statistics is None else path.parent / file.statistics
    poll = min(1.0, file.window / 4, file.lost_after / 4)
    return NetworkSettings(aggregators, rules, MovementModel(_learnt(folder)), poll)


def _as_file(content: dict[str, Any]) -> Any:
    """A deployment in the form of a file of its own."""
    part = content.get("network", {})
    entries = [{"name": name, "nodes": [name]} for name in content["aggregators"]]
    return {**part, "aggregators": entries} if isinstance(part, dict) else part


def _token(path: Path, entry: AggregatorEntry) -> str | None:
    if entry.token_file is None:
        return None
    try:
        return (path.parent / entry.token_file).read_text().strip()
    except OSError as error:
        raise SlackwaterError(f"{path}: the token of {entry.name} cannot be read: {error}") from None


def _learnt(folder: Path | None) -> dict[Column, Dynamics]:
    """The dynamics in a folder of TABLE.COLUMN.parquet; columns without pairs of items are left out."""
    found: dict[Column, Dynamics] = {}
    if folder is None:
        return found
    if not folder.is_dir():
        raise SlackwaterError(f"there are no statistics in {folder}: learn some with slackwater learn --out {folder}")
    for file in sorted(folder.glob("*.*.parquet")):
        table, column = file.name.removesuffix(".parquet").split(".", 1)
        try:
            found[table, column] = learnt(Statistics.read(file).value())
        except PlanningError:
            continue
    return found

"""NATS address: the servers of a bus, and the name of a service on it."""

import importlib.util
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from slackwater.core.errors import MissingPart

DEFAULT_NAME = "slackwater"
"""Default name of a node on a bus; two deployments on one bus need different names."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SCHEMES = ("nats", "tls")


@dataclass(frozen=True, slots=True)
class BusAddress:
    """The servers of one bus, any of which will do, and a name on it."""

    servers: tuple[str, ...]
    name: str = ""

    def at(self, name: str) -> str:
        """The whole address of a name on this bus, passwords included."""
        scheme, _, _ = self.servers[0].partition("://")
        return f"{scheme}://{','.join(server.partition('://')[2] for server in self.servers)}/{name}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the address names."""
        return tuple(urlsplit(server).hostname or "" for server in self.servers)

    def __str__(self) -> str:
        """For people: without passwords."""
        scheme, _, _ = self.servers[0].partition("://")
        places = ",".join(server.rpartition("@")[2].rpartition("/")[2] for server in self.servers)
        return f"{scheme}://{places}" + (f"/{self.name}" if self.name else "")


def bus_address(url: str, *, named: bool | None = None) -> BusAddress:
    """Read an address; `named` says whether it must, or must not, have a name.

    >>> bus_address("nats://one:4222,two:4222/desk").servers
    ('nats://one:4222', 'nats://two:4222')
    >>> str(bus_address("nats://ann:secret@one:4222/desk"))
    'nats://one:4222/desk'
    """
    scheme, _, rest = url.partition("://")
    places, _, name = rest.partition("/")
    name = name.rstrip("/")
    servers = tuple(f"{scheme}://{place}" for place in places.split(","))
    try:
        sound = all(urlsplit(server).hostname and urlsplit(server).port != 0 for server in servers)
    except ValueError:
        sound = False
    if scheme not in _SCHEMES or not sound:
        raise ValueError(f"{_hidden(url)!r} is not the address of a bus: write it as nats://localhost:4222")
    if name:
        check_name(name)
    if named is not None and bool(name) != named:
        raise ValueError(f"{_hidden(url)!r} {'needs a name after the last slash' if named else 'must end at the port'}")
    return BusAddress(servers, name)


def need_bus() -> None:
    """Refuse, with the way out, to use a bus where its client is not installed."""
    if importlib.util.find_spec("nats") is None:
        raise MissingPart("a bus is reached by the nats extra: pip install 'slackwater[nats]'")


def check_name(name: str) -> str:
    """A name that can be part of a NATS subject."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a name on a bus: use up to 64 letters, digits, - and _")
    return name


def _hidden(url: str) -> str:
    """The address without what stands before an @."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"

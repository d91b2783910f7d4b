"""Bus transport: live connections over a bus instead of WebSockets; requests stay HTTP."""

from urllib.parse import parse_qsl, urlsplit

from slackwater.core.bus import DEFAULT_NAME, bus_address, need_bus
from slackwater.dissemination.transports.base import Connection, TransportLimits
from slackwater.dissemination.transports.nats import NatsTransport


class BusDialler:
    """Dials the name that an address on a bus has, whichever address the node has for requests."""

    def __init__(self, bus: str, token: str | None) -> None:
        need_bus()
        address = bus_address(bus)
        self._address = address.at(address.name or DEFAULT_NAME)
        self.servers = self._address.rpartition("/")[0]
        """The address of the bus alone."""
        self._words = {} if token is None else {"token": token}

    async def dial(self, address: str, limits: TransportLimits) -> Connection:
        """Connect to a node, any of those that have the name, in the lane that the address is of."""
        words = self._words | dict(parse_qsl(urlsplit(address).query))
        return await NatsTransport(words).dial(self._address, limits)

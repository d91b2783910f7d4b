"""Server address: one URL for requests and for the live connection."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

_SCHEMES = {"http": ("http", "ws"), "ws": ("http", "ws"), "https": ("https", "wss"), "wss": ("https", "wss")}


@dataclass(frozen=True, slots=True)
class Address:
    """One server."""

    questions: str
    """The beginning of the address of every request."""
    live: str
    """The address of the WebSocket."""

    def lane(self, host: str | None) -> str:
        """The address of the WebSocket for the queries of one host; None: of whichever most are kept by."""
        return self.live if host is None else f"{self.live}?host={host}"

    def __str__(self) -> str:
        return self.questions


def address(url: str) -> Address:
    """Read an address.

    >>> address("http://localhost:8400/")
    Address(questions='http://localhost:8400', live='ws://localhost:8400/v1/live')
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not the address of a server: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{url!r} is not the address of a server: write it as http://localhost:8400")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    questions, live = _SCHEMES[parts.scheme]
    return Address(f"{questions}://{place}", f"{live}://{place}/v1/live")


def addresses(urls: str | Iterable[str]) -> tuple[Address, ...]:
    """Read one address, or several of which any will do."""
    made = tuple(address(url) for url in ([urls] if isinstance(urls, str) else urls))
    if not made:
        raise ValueError("at least one address of a server is needed, as http://localhost:8400")
    return made

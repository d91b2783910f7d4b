"""Server limits: how much a client may request, over REST and over live connections."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import inf

from slackwater.core.errors import SlackwaterError
from slackwater.sql.parse import LONGEST_STATEMENT


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Every limit of a server; bytes and seconds unless noted."""

    statement: int = LONGEST_STATEMENT
    """Characters of an SQL statement."""
    body: int = 16 * 1024 * 1024
    """Bytes of a request with rows."""
    small_body: int = 1024 * 1024
    """Bytes of any other request; the longest statement fits, with every character written as an escape."""
    body_seconds: float = 30.0
    """Until a body is complete; a slower sender is disconnected."""
    head_seconds: float = 10.0
    """Until the head of a request is complete, from the beginning of the connection or from its first byte on."""
    idle_seconds: float = 30.0
    """Between two requests of one connection; and for a peer to take some of an answer."""
    sockets: int = 24_000
    """Open TCP connections, live ones among them; fewer where the process may not open so many files."""
    sockets_an_address: int = 0
    """Those of one peer address, of IPv6 the first 64 bits; 0: three quarters of all, so that others find room."""
    strangers: int = 4_000
    """Open TCP connections over which no request was admitted yet; one more takes the place of another of them."""
    rows: int = 100_000
    """Rows of one request."""
    pending_rows: int = 400_000
    """Rows that wait to be written; more are refused with 429."""
    frame: int = 512 * 1024
    """Bytes of a WebSocket message from a client."""
    connections: int = 20_000
    """Open live connections."""
    connections_a_token: int = 10_000
    """Open live connections of one token."""
    requests: int = 256
    """Requests answered at the same time."""
    registrations: int = 1_000_000
    """Standing queries that are registered, of all owners."""
    registrations_a_token: int = 200_000
    """Standing queries that one token may keep registered, with or without a listener."""
    subscriptions_a_token: int = 10_000
    """Subscriptions of one token, over all its live connections."""
    snapshot_rows: int = 1_000_000
    """Rows of the answer of one standing query that is subscribed to."""
    snapshot_bytes: int = 48 * 1024 * 1024
    """Bytes of the rows of all standing queries of a live connection, and of what one frame carries of rows."""
    held_facts: int = 10_000
    """Facts held for one live connection; beyond that they are dropped and the whole state is sent instead."""
    recent_keys: int = 10_000
    """Keys of a standing query whose last change is remembered, so that a client that resumes needs no snapshot."""
    outgoing: int = 256 * 1024
    """Bytes that wait for a slow connection before back-pressure holds its session back."""
    unsent: int = 64 * 1024 * 1024
    """Bytes that may wait at all; more, as one snapshot larger than this, end the connection."""
    ingest_rows: int = 65_536
    """Rows that one live connection may have sent and not seen acknowledged."""
    ingest_bytes: int = 2 * 1024 * 1024
    """Bytes of the messages that carry them."""
    ingest_streams: int = 64
    """Streams of one live connection with rows that are not acknowledged."""
    ingest_waiting: int = 256 * 1024 * 1024
    """Bytes of such messages of all live connections; beyond that rows are refused, to be sent again later."""
    query_seconds: float = 10.0
    """A one-shot query."""
    query_memory: int = 512 * 1024 * 1024
    """Memory of a one-shot query."""
    query_rows: int = 100_000
    """Rows of an answer to a one-shot query."""
    query_bytes: int = 64 * 1024 * 1024
    """Bytes of such an answer, in Arrow."""
    queries: int = 2
    """One-shot queries that run at the same time, and as many more that run long; and of one live connection those that
    are answered in one turn."""
    queries_waiting: int = 64
    """Those that may wait for their turn; of a live connection, its own."""
    wait_seconds: float = 10.0
    """For a position that was asked for to be reached."""
    quarantine_rows: int = 1_000
    """Rows of the quarantine in one answer."""
    quarantine_positions: int = 200_000
    """Positions of the log that are looked through for them."""


def limits_of(settings: Iterable[str], limits: ServerLimits | None = None) -> ServerLimits:
    """Limits with some of them set as text, as an operator does on the command line.

    >>> limits_of(["head_seconds=2.5", "rows=10"]).head_seconds
    2.5
    """
    known = {one.name: one.default for one in fields(ServerLimits)}
    chosen: dict[str, int | float] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            raise SlackwaterError(f"--limit {setting}: there is no limit {name!r}; there are {', '.join(known)}")
        whole, least = isinstance(known[name], int), 0 if name == "sockets_an_address" else 1
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            value = -1
        if whole and value < least:
            raise SlackwaterError(f"--limit {setting}: write {name}=N, a whole number from {least} on")
        if not whole and not 0 < value < inf:
            raise SlackwaterError(f"--limit {setting}: write {name}=SECONDS, more than 0")
        chosen[name] = value
    return replace(limits or ServerLimits(), **chosen)  # type: ignore[arg-type]

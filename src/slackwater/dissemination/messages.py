"""Message protocol between client and node: the vocabulary of every transport.

Mathematics
    All subscriptions of a connection form one *session*. The node keeps for it a set of *facts*: the last value of
    each query, the last row of each (query, key). A `Frame` carries facts and says three things about itself: it
    begins where frame `base` ended, it ends the session's state at `sequence`, and with it everything subscribed is
    right as of the log position `as_of`. Facts are states and not differences. So a frame may be applied by a client
    that has applied any frame from `base` to before `sequence`, twice is once, and a lost frame is made good by one
    that reaches back further and holds only the last fact of each kind: the state is sent, never the backlog.

    The lease is measured on the client's clock alone. `Ack` carries that clock's reading, frames give back the latest
    one the node has seen (`heard`), and until `heard + lease` the client may rely on the node being there. No delay on
    the way can lengthen it. A node that holds anything back from a session gives back no newer reading.

Encoding
    One MessagePack array a message, headed by its tag, or the same as JSON text. The payload of a snapshot is encoded
    once for all who get it (`msgspec.Raw`). Whatever comes from outside is checked by type and size before anything
    is done with it.
"""

from typing import Annotated, Any, TypeAlias

import msgspec

VERSION = 3
"""Protocol version, raised when a message changes its meaning; `Open` carries the client's version."""
MESSAGE_OVERHEAD = 512
"""Bytes that a message with rows counts for in a window beside its own: memory that it takes while it waits."""
UNICAST = "unicast"
"""The delivery of a subscription that asks for no other (`dissemination.delivery`)."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number that both encodings can carry, also from an untrusted client."""
WireScalar: TypeAlias = bool | int | float | str | None
WireRow: TypeAlias = tuple[WireScalar, ...]
WireRegion: TypeAlias = list[list[list[Any]]]
"""A region as lists (`core.region_codec`): boxes of sides."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages."""


# What a client says.


class Open(Message, frozen=True, tag="open"):
    """Begins a session. `incarnation` and `after` are the client's resume token, a place in the history of a log.

    Where the node's log holds that place, nothing as of an earlier position may be sent. `incarnation` is that of the
    client's last session, 0 where there was none.
    """

    version: Count
    after: Count
    clock: Count
    incarnation: Count = 0


class Subscribe(Message, frozen=True, tag="subscribe"):
    """Subscribes to a standing query, by its text or by an existing name; `ref` is the client's number for it.

    `held`: the position as of which the client still holds the rows, so that only what changed since needs sending;
    None where it holds nothing. `delivery` names how facts reach the client; it is written only where it is not
    unicast, so a server that does not know the field, or has no such delivery, delivers by unicast.
    """

    ref: Count
    sql: str
    held: Count | None = None
    delivery: str = UNICAST


class Unsubscribe(Message, frozen=True, tag="unsubscribe"):
    """Ends a subscription. Repeated, as `Subscribe` is, until a fact about `ref` has come: `Refused` in this case."""

    ref: Count


class CatchUp(Message, frozen=True, tag="catch up"):
    """Asks for the state of a query whose facts did not all arrive by a channel; repeated until the state has come.

    `delivery`: how its facts are delivered from then on.
    """

    ref: Count
    delivery: str


class Ack(Message, frozen=True, tag="ack"):
    """All up to frame `sequence` was applied; sent three times a lease, and at once when a frame is missing."""

    sequence: Count
    clock: Count
    missing: bool = False


class Ask(Message, frozen=True, tag="ask"):
    """Pulls the rows of a table in a region, once, from a node that has come to `after` at least.

    `label`: the query of the client's own cache of that table, where it has one: rows that are pushed by it are left
    out of the answer, because the client has them as of the same frame. Repeated under the same `ref` until answered.
    """

    ref: Count
    table: str
    region: WireRegion
    after: Count = 0
    label: Count | None = None


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """Count of local queries for a region of a table, answered without this node."""

    table: str
    region: WireRegion
    times: Count


class Report(Message, frozen=True, tag="report"):
    """Statistics of a client's local queries since its last report; goes with an `Ack`, never repeated."""

    counted: tuple[Counted, ...]


class GiveUp(Message, frozen=True, tag="give up"):
    """The client has no room: of the cache `query` under plan `epoch` it holds on to `kept` alone."""

    query: Count
    epoch: Count
    kept: WireRegion


class ColumnRows(Message, frozen=True, tag="columns"):
    """Rows as named columns of plain values, all of one length; times are ISO 8601 text."""

    names: tuple[str, ...]
    values: tuple[list[WireScalar], ...]


class ArrowRows(Message, frozen=True, tag="arrow"):
    """Rows as an Arrow IPC stream without compression or dictionaries; in JSON the bytes are base64 text."""

    stream: bytes


IngestRows: TypeAlias = ColumnRows | ArrowRows


class Ingest(Message, frozen=True, tag="ingest"):
    """Rows for a table, `count` of them, numbered from `first` on; of one stream each message begins where one ended.

    `stream` is the client's number for (`table`, `source`, `timezone`) in this session. Rows are known by source and
    number, so that a client which repeats after a new connection what was not acknowledged repeats nothing. Only sent
    to a node that granted a window (`Welcome.ingest`), and never more than it.
    """

    stream: Count
    table: str
    source: str
    first: Count
    count: Count
    rows: IngestRows
    deletes: bool = False
    timezone: str | None = None


# What a node says.


class IngestWindow(msgspec.Struct, frozen=True, array_like=True):
    """How much a client may have sent and not seen acknowledged: rows, bytes of messages, streams.

    In `bytes` each message counts for `MESSAGE_OVERHEAD` more than it has. `message`: bytes of one at most.
    """

    rows: Count
    bytes: Count
    streams: Count
    message: Count


class Welcome(Message, frozen=True, tag="welcome"):
    """The session is open. `generation` rises with every start of the node; times are microseconds.

    `clock` is that of the `Open` it answers: a late answer to an earlier one is not mistaken for this one's.

    `incarnation` is that of the log the session is served from: with it every position of the session is a place. Of
    what the client holds, states as of positions up to `kept` are part of this log's history; others never were, as
    after a restore from a copy, and the client drops them.

    `ingest`: the window for rows over this connection. None where the node takes none from this client, as every node
    does that does not know the field: REST takes them then, or says why not.
    """

    session: str
    node: str
    generation: Count
    lease: Count
    clock: Count
    version: int = VERSION
    incarnation: Count = 0
    kept: Count = 0
    ingest: IngestWindow | None = None


class Subscribed(Message, frozen=True, tag="subscribed"):
    """The fact that `ref` is query `query` under plan `epoch`; one number has no `columns`, but a bound.

    Of a cache it also says what is pushed (`region`), from which position on, and `was`: a holder of the rows under
    that epoch of the same query keeps those that are pushed still, and the frame fills in what it lacks. Where `was` is
    None all rows come with it.
    """

    ref: Count
    query: Count
    epoch: Count
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]
    within: float
    fidelity: float
    region: WireRegion | None = None
    since: Count | None = None
    was: Count | None = None


class Refused(Message, frozen=True, tag="refused"):
    """The fact that `ref` cannot be had, and why. `host`: it can be had in the lane of this host."""

    ref: Count
    why: str
    host: str | None = None


class Value(Message, frozen=True, tag="value"):
    """The fact that the aggregate stands here; None where it has no value, as the average of no rows."""

    query: Count
    epoch: Count
    value: float | None


class Upsert(Message, frozen=True, tag="upsert"):
    """The fact that this row is in the answer."""

    query: Count
    epoch: Count
    key: WireRow
    row: WireRow


class Delete(Message, frozen=True, tag="delete"):
    """The fact that no row with this key is in the answer."""

    query: Count
    epoch: Count
    key: WireRow


class Snapshot(Message, frozen=True, tag="snapshot"):
    """The fact that these and no others are the rows of the answer.

    `rows` is an encoded list of [key, row] pairs, `digest` the hexadecimal BLAKE2b (16 bytes) of those bytes.
    """

    query: Count
    epoch: Count
    rows: msgspec.Raw
    count: Count
    digest: str


class Suspended(Message, frozen=True, tag="suspended"):
    """The fact that the guarantee of a query does not hold for now."""

    query: Count
    epoch: Count
    why: str


class Resumed(Message, frozen=True, tag="resumed"):
    """The fact that it holds again."""

    query: Count
    epoch: Count


class Channel(Message, frozen=True, tag="channel"):
    """The fact that a channel delivers a query, sent to clients that asked for it.

    What the frame says of the query is its state as of `position`, after the first `sequence` messages of the channel
    `name`, which is joined at `address`.
    """

    query: Count
    epoch: Count
    address: str
    name: str
    sequence: Count
    position: Count


class Reply(Message, frozen=True, tag="reply"):
    """The rows that were asked for under `ref`, right as of the frame that carries them; never sent again by itself.

    `epoch`: rows pushed under that plan of the asker's label are left out; None: these are all rows of the region.
    `shape` is the fingerprint of the columns, their names and types in order (`core.schema.shape`): who knows the table
    by other ones does not read the rows.
    """

    ref: Count
    epoch: Count | None
    rows: msgspec.Raw
    count: Count
    digest: str
    shape: str


class Unanswered(Message, frozen=True, tag="unanswered"):
    """What was asked under `ref` is not answered here, and why; ask in another way."""

    ref: Count
    why: str


Fact: TypeAlias = (
    Subscribed | Refused | Value | Upsert | Delete | Snapshot | Suspended | Resumed | Channel | Reply | Unanswered
)
SharedFact: TypeAlias = Value | Upsert | Delete | Suspended | Resumed
"""A fact that is the same for all subscribers of a query."""


class Frame(Message, frozen=True, tag="frame"):
    """Facts, and as of when all is right with them; without facts it is a heartbeat.

    `doubt`: why the delay behind the log is unknown at the moment; `heard` is then no newer than before. `incarnation`:
    that of the log, where another writer has begun one since the session's `Welcome`; from then on in every frame.
    """

    session: str
    base: Count
    sequence: Count
    as_of: Count
    heard: Count
    facts: tuple[Fact, ...] = ()
    doubt: str | None = None
    incarnation: Count | None = None


class Published(Message, frozen=True, tag="published"):
    """A message of a query's channel: the facts of a step that ends at `position`; without facts it is a heartbeat.

    `sequence` messages with facts were published before it. After it, the answer is right as of `position`.
    """

    query: Count
    epoch: Count
    sequence: Count
    position: Count
    facts: tuple[SharedFact, ...] = ()


class Goodbye(Message, frozen=True, tag="goodbye"):
    """The session is over, and why. `again`: whether it makes sense to come back."""

    why: str
    again: bool = True


class Ingested(Message, frozen=True, tag="ingested"):
    """All rows of the stream with numbers below `next` that came in this session are durable.

    The counts are of the rows since the last such message: taken, refused, known already, and of the refused those
    `outside_window`, of which it is not known whether they were taken before. The numbers of the source are known from
    `known_from` on. `position` is the end of the log then.
    """

    stream: Count
    next: Count
    accepted: Count
    quarantined: Count
    repeats: Count
    position: Count
    outside_window: Count = 0
    known_from: Count = 0


class IngestRefused(Message, frozen=True, tag="ingest refused"):
    """Rows of the stream from number `next` on were not taken, and why; `status` and `code` are those of REST.

    `again`: send them again from there, after a pause; all that was under way behind them was let go. Otherwise the
    stream is over in this session. What came before `next` is acknowledged as ever.
    """

    stream: Count
    next: Count
    status: Count
    code: str
    why: str
    again: bool


FromClient: TypeAlias = Open | Subscribe | Unsubscribe | CatchUp | Ack | Ask | Report | GiveUp | Ingest
FromNode: TypeAlias = Welcome | Frame | Goodbye | Ingested | IngestRefused

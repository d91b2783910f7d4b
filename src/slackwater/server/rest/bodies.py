"""REST bodies: the types of JSON requests and answers; the OpenAPI document is made from them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slackwater.core.schema import LONGEST_NAME, MOST_COLUMNS, Column, TableSchema
from slackwater.core.types import DataType
from slackwater.server.upstreams import PlannedFigures, Upstream
from slackwater.sessions.limits import ServerLimits

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Sql = Annotated[str, Meta(min_length=1, max_length=ServerLimits().statement)]
Whole = Annotated[int, Meta(ge=0)]
TypeName = Literal["BOOLEAN", "BIGINT", "DOUBLE", "TEXT", "TIMESTAMP"]


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An SQL statement."""

    sql: Sql


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A one-shot query. `after`: wait until the node has applied the log up to this position, as a receipt names."""

    sql: Sql
    after: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class ColumnBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a table."""

    name: Name
    type: TypeName
    nullable: bool = True


class TableBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table's definition."""

    name: Name
    columns: Annotated[list[ColumnBody], Meta(min_length=1, max_length=MOST_COLUMNS)]
    key: Annotated[list[Name], Meta(min_length=1, max_length=MOST_COLUMNS)]
    event_time: Name | None = None

    def schema(self) -> TableSchema:
        """The definition; raises `SchemaError` where it cannot be."""
        columns = tuple(Column(one.name, DataType(one.type), one.nullable) for one in self.columns)
        return TableSchema(self.name, columns, tuple(self.key), self.event_time)


class TableAnswer(msgspec.Struct, frozen=True):
    """A table, with how many rows its latest state has."""

    name: str
    columns: list[ColumnBody]
    key: list[str]
    event_time: str | None
    rows: Whole
    subscriptions: Whole


class Tables(msgspec.Struct, frozen=True):
    """All tables, as of a position."""

    tables: list[TableAnswer]
    as_of: Whole


class Upstreams(msgspec.Struct, frozen=True):
    """Where the rows of a node come from, if not from those who send them."""

    upstreams: list[Upstream]


class Changed(msgspec.Struct, frozen=True):
    """A change is durable; `position` is the end of the log after it."""

    position: Whole


class PromisesAnswer(msgspec.Struct, frozen=True):
    """What is promised of the accepted rows: how many are taken once, known by what, and how many at least once.

    `outside_window` counts refused rows, of which it is not known whether they had been taken; the numbers of the
    source are known from `known_from` on.
    """

    by_number: Whole
    by_request: Whole
    by_content: Whole
    at_least_once: Whole
    outside_window: Whole
    known_from: Whole


class ReceiptAnswer(msgspec.Struct, frozen=True):
    """What became of the rows; all of it is durable, and `position` is the end of the log after them.

    `request_repeated`: the request had been taken under its idempotency key, and changed nothing now.
    """

    accepted: Whole
    quarantined: Whole
    repeats: Whole
    position: Whole
    ignored_columns: list[str]
    promised: PromisesAnswer
    request_repeated: bool


class QuarantinedRow(msgspec.Struct, frozen=True):
    """A refused row: what came, why and from where."""

    position: Whole
    row: str
    reason: str
    detail: str
    place: str
    at: str
    source: str
    sequence: int | None


class QuarantineAnswer(msgspec.Struct, frozen=True):
    """Refused rows of a table in positions `start` to `next`; ask again from `next` until it is `end`."""

    rows: list[QuarantinedRow]
    start: Whole
    next: Whole
    end: Whole


class AnswerColumn(msgspec.Struct, frozen=True):
    """A column of an answer, with its Arrow type."""

    name: str
    type: str


class QueryAnswer(msgspec.Struct, frozen=True):
    """The answer to a one-shot query, right as of a position of the log."""

    columns: list[AnswerColumn]
    rows: list[list[Any]]
    as_of: Whole


class Explanation(msgspec.Struct, frozen=True):
    """What a statement means, for people and as a tree."""

    text: str
    tree: dict[str, Any]


class Subscription(msgspec.Struct, frozen=True):
    """A standing query. Counts are measured since this server began."""

    number: Whole
    name: str | None
    owner: str
    sql: str
    epoch: Whole
    position: Whole
    kind: str
    table: str
    within: float | None
    fidelity: float | None
    host: Literal["node", "spark", "network"]
    pulls: Whole | None
    pulls_an_hour: float | None
    predicted_pulls_an_hour: float | None
    delivered: float | None
    notifications: Whole
    subscribers: Whole
    plan: PlannedFigures | None = None
    """Of a query that is planned over aggregators."""


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client of a planned query has seen since it last told: seconds, messages, those for changes of plan."""

    seconds: Annotated[float, Meta(ge=0, le=86_400)]
    uncertain: Annotated[float, Meta(ge=0, le=86_400)]
    messages: Annotated[int, Meta(ge=0, le=10**9)]
    planning: Annotated[int, Meta(ge=0, le=10**9)]


class Taken(msgspec.Struct, frozen=True):
    """It was noted."""

    status: Literal["ok"]


class Subscriptions(msgspec.Struct, frozen=True):
    """Standing queries in order of their numbers; `next` is where the following ones begin, None after the last."""

    subscriptions: list[Subscription]
    next: Whole | None
    as_of: Whole


class JoinMoment(msgspec.Struct, frozen=True):
    """How the joins of one shape lay together at a position of the log."""

    position: Whole
    queries: Whole
    groups: Whole
    hot_groups: Whole
    hot_share: float


class Hotspot(msgspec.Struct, frozen=True):
    """A point that many ranges have in common."""

    point: float
    queries: Whole


class Route(msgspec.Struct, frozen=True):
    """A way to match a row, and the share of the rows that went it."""

    name: str
    share: float


class JoinFamily(msgspec.Struct, frozen=True):
    """Standing joins of one shape: how they lie together now, which ways rows took, and how it was before.

    `history` has the last moments at which it changed, in order.
    """

    kind: Literal["band", "select"]
    left: str
    right: str
    on: list[str]
    ranges: list[str]
    rows_matched: Whole
    now: JoinMoment
    hotspots: list[Hotspot]
    routes: list[Route]
    history: list[JoinMoment]


class JoinFamilies(msgspec.Struct, frozen=True):
    """Standing joins by what they have in common; `total` says how many shapes there are."""

    families: list[JoinFamily]
    total: Whole
    as_of: Whole


class Health(msgspec.Struct, frozen=True):
    """Whether the server is there."""

    status: Literal["ok"]


class Ready(msgspec.Struct, frozen=True):
    """Whether the server can answer, and how far it has come."""

    status: Literal["ready"]
    node: str
    generation: Whole
    position: Whole


class Metrics(msgspec.Struct, frozen=True):
    """Counters since the server began, and rates a second over the last ten seconds."""

    node: str
    generation: Whole
    uptime_seconds: float
    log_start: Whole
    log_end: Whole
    position: Whole
    incarnation: str
    """That of the log, in hexadecimal."""
    log_time: Whole
    """Log time at the position: the latest tick, in microseconds since 1970; 0 before the first."""
    snapshot_position: Whole
    tables: Whole
    subscriptions: Whole
    connections: Whole
    rows_applied: Whole
    rows_a_second: float
    messages_received: Whole
    messages_sent: Whole
    messages_sent_a_second: float
    bytes_sent: Whole
    connections_held_back: Whole
    channel_published: Whole
    channel_members: Whole
    notifications: Whole
    ingest_messages: Whole
    """Messages with rows over live connections."""
    ingest_changes: Whole
    """Changes that they were gathered into."""
    ingest_rows: Whole
    """Rows of those that are durable, quarantined ones and repeats among them."""
    ingest_refusals: Whole
    """Messages that were refused, for a while or for good."""
    ingest_waiting_bytes: Whole
    """Bytes of messages whose rows are not durable yet."""
    log_appends: Whole
    log_changes: Whole
    resident_bytes: Whole
    sockets: Whole
    """TCP connections, live ones among them."""
    sockets_most: Whole
    """As many there may be, as the limits and the descriptors of the process allow."""
    sockets_refused: Whole
    """New connections that found no room."""
    sockets_evicted: Whole
    """Connections that were closed to make room for new ones."""
    sockets_timed_out: Whole
    """Connections that were closed because the peer sent or took nothing for too long."""
    accept_pauses: Whole
    """How often no new connection could be taken for a while."""
    questions_looked_up: Whole
    """One-shot queries answered by key, without a worker."""
    questions_in_process: Whole
    """Those of bounded cost over a small table, answered in the server's process."""
    questions_answered: Whole
    """Those answered by workers."""
    questions_failed: Whole
    """Those that workers refused, or did not end within their limits."""
    questions_cancelled: Whole
    """Those whose clients went before the answer."""
    questions_refused: Whole
    """Those that found too many others waiting."""
    questions_running: Whole
    questions_waiting: Whole
    questions_seconds: float
    """Processor time that workers took for answers."""
    question_workers: Whole
    question_workers_started: Whole
    question_workers_killed: Whole
    """Those that were killed at a limit or found dead."""
    question_shared_bytes: Whole
    """Memory of the tables that the server shares with its workers."""

"""REST of operation: health, readiness, metrics, upstreams."""

from collections import Counter
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.responses import Response

from slackwater.server.connections import ConnectionSlots
from slackwater.server.oneshot.pool import WorkerPool
from slackwater.server.rest.bodies import Health, Metrics, Ready, Upstreams
from slackwater.server.rest.errors import RequestRefused
from slackwater.server.rest.operation import JSON, Call, Parameter, RestOperation, answered, wrong
from slackwater.server.store import Scope
from slackwater.server.upstreams import Offers

_PAGE = 4096
_STATM = Path("/proc/self/statm")


async def health(_: Call) -> Response:
    """Whether the process answers at all."""
    return answered(Health("ok"))


async def ready(call: Call) -> Response:
    """Whether it can do all of its work; if not, the message says why."""
    node = call.node
    why = node.readiness.reason()
    if why is not None:
        raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", why, {"retry-after": "1"})
    return answered(Ready("ready", node.settings.name, node.generation, node.engine.position))


async def metrics(call: Call) -> Response:
    """Positions, rates, sessions, bytes."""
    node = call.node
    engine, sessions = node.engine, node.sessions
    log_start, log_end = await node.log_span()
    return answered(
        Metrics(
            node=node.settings.name,
            generation=node.generation,
            uptime_seconds=round(node.rates.uptime, 3),
            log_start=log_start,
            log_end=log_end,
            position=engine.position,
            incarnation=f"{engine.lineage.current:016x}",
            log_time=engine.host.time,
            snapshot_position=node.snapshot_position,
            tables=len(engine.tables),
            subscriptions=len(engine.registrations),
            connections=len(sessions),
            rows_applied=engine.applied_rows,
            rows_a_second=round(node.rates.rate("rows"), 3),
            messages_received=sessions.messages["received"],
            messages_sent=sessions.messages["sent"],
            messages_sent_a_second=round(node.rates.rate("sent"), 3),
            bytes_sent=sessions.sent_bytes,
            connections_held_back=sessions.held_back,
            channel_published=0 if node.channels is None else node.channels.published,
            channel_members=sum(lane.sessions.channel_members for lane in node.lanes.values()),
            notifications=engine.notifications,
            ingest_messages=node.ingest_totals.messages,
            ingest_changes=node.ingest_totals.changes,
            ingest_rows=node.ingest_totals.rows,
            ingest_refusals=node.ingest_totals.refusals,
            ingest_waiting_bytes=node.ingest_totals.waiting,
            log_appends=node.appends,
            log_changes=node.changes,
            resident_bytes=_resident(),
            **_sockets(call.service.slots),
            questions_in_process=call.service.small_tables.answered,
            **_questions(call.service.pool),
        )
    )


async def upstreams(call: Call) -> Response:
    """What the node's rows come from, and whether it can be relied on."""
    return answered(Upstreams(call.node.upstreams()))


async def offers(call: Call) -> Response:
    """What can be planned over this node."""
    counts = call.text("notifications", "false")
    if counts not in ("true", "false"):
        raise wrong("notifications must be true or false")
    return answered(call.node.offers(counts == "true"))


def _sockets(slots: ConnectionSlots | None) -> dict[str, int]:
    counts = Counter[str]() if slots is None else slots.counts
    return {
        "sockets": 0 if slots is None else len(slots),
        "sockets_most": 0 if slots is None else slots.limits.most,
        "sockets_refused": counts["refused"],
        "sockets_evicted": counts["evicted"],
        "sockets_timed_out": counts["timed out"],
        "accept_pauses": counts["pauses"],
    }


def _questions(pool: WorkerPool) -> dict[str, Any]:
    return {
        "questions_looked_up": pool.counts["looked up"],
        "questions_answered": pool.counts["answered"],
        "questions_failed": pool.counts["failed"],
        "questions_cancelled": pool.counts["cancelled"],
        "questions_refused": pool.counts["refused"],
        "questions_running": pool.running,
        "questions_waiting": pool.waiting,
        "questions_seconds": round(pool.seconds, 3),
        "question_workers": pool.workers,
        "question_workers_started": pool.counts["started"],
        "question_workers_killed": pool.counts["killed"],
        "question_shared_bytes": pool.shared_bytes,
    }


def _resident() -> int:
    return int(_STATM.read_text().split()[1]) * _PAGE if _STATM.exists() else 0


OPERATIONS = (
    RestOperation("GET", "/v1/health", "health", "Whether the process answers.", health, None, {200: {JSON: Health}}),
    RestOperation(
        "GET",
        "/v1/ready",
        "ready",
        "Whether it can do all of its work. If not, 503 with the reason: the writer, the disk, the log.",
        ready,
        None,
        {200: {JSON: Ready}},
    ),
    RestOperation("GET", "/v1/metrics", "metrics", "Counters and rates.", metrics, Scope.READ, {200: {JSON: Metrics}}),
    RestOperation(
        "GET",
        "/v1/upstreams",
        "upstreams",
        "The nodes and sources that an aggregator takes its rows from; none at other nodes.",
        upstreams,
        Scope.READ,
        {200: {JSON: Upstreams}},
    ),
    RestOperation(
        "GET",
        "/v1/offers",
        "offers",
        "The items that an aggregator holds and within what, and how often its queries had something to say.",
        offers,
        Scope.READ,
        {200: {JSON: Offers}},
        parameters=(
            Parameter(
                "notifications", "Say also how often each query had something to say.", {"enum": ["true", "false"]}
            ),
        ),
    ),
)

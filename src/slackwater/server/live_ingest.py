"""Rows over a live connection: I/O around `sessions.ingest_streams`.

Nothing here waits while a message is taken in, so a slow disk holds up neither leases nor answers of the connection;
what may wait is bounded by the window. Messages that were read in one turn of the event loop gather and become one
change for each stream.
"""

import asyncio
import logging
from collections.abc import Callable

from slackwater.core.errors import SlackwaterError, SourceError
from slackwater.dissemination.encoding import MOST_FROM_CLIENT
from slackwater.dissemination.messages import MESSAGE_OVERHEAD, Ingest, Ingested, IngestRefused, IngestWindow
from slackwater.server.access import Caller
from slackwater.server.node import Node
from slackwater.server.rest.errors import status_and_code
from slackwater.server.store import Scope
from slackwater.server.streamed_rows import arrivals
from slackwater.sessions.ingest_streams import IngestStreams, StreamRefusal, Taking
from slackwater.sessions.limits import ServerLimits
from slackwater.sources.times import check_timezone

_INLINE = 128 * 1024
"""Bytes of messages, as the window counts them, that become arrivals at once; more do so on a thread."""
_report = logging.getLogger("slackwater.server")


def window(limits: ServerLimits, who: Caller, node: Node) -> IngestWindow | None:
    """The window of a client; None where it may not send rows, or the node takes none."""
    if not (who.allows(Scope.INGEST) and node.writable):
        return None
    message = min(limits.frame, MOST_FROM_CLIENT, max(limits.ingest_bytes - MESSAGE_OVERHEAD, 0))
    return IngestWindow(limits.ingest_rows, limits.ingest_bytes, limits.ingest_streams, message)


class LiveIngest:
    """The rows of one connection; `send` writes to it."""

    def __init__(
        self,
        node: Node,
        who: Caller,
        granted: IngestWindow | None,
        send: Callable[[Ingested | IngestRefused], None],
    ) -> None:
        self._node = node
        self._who = who
        self._totals = node.ingest_totals
        self._send = send
        self._place = f"live by {who.name}"
        self._state = IngestStreams(granted, self._check, self._has_room)
        self._counted = 0
        self._scheduled = False
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    def received(self, message: Ingest, size: int) -> None:
        """A message of so many bytes came."""
        refusal = self._state.received(message, size)
        self._totals.messages += 1
        self._account()
        if refusal is not None:
            self._refused(refusal)
        elif not self._scheduled:
            # What else was read already is in the same change.
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def close(self) -> None:
        """The connection is gone; what is on its way to the log goes on."""
        self._closed = True
        self._state.close()
        self._account()

    def _begin(self) -> None:
        self._scheduled = False
        for taking in self._state.due():
            task = asyncio.get_running_loop().create_task(self._take(taking))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _take(self, taking: Taking) -> None:
        messages, rows = taking.messages, taking.rows
        table = self._table(messages[0].table) or messages[0].table
        try:
            if taking.size <= _INLINE:
                made = arrivals(messages, table, self._place)
            else:
                made = await asyncio.to_thread(arrivals, messages, table, self._place)
            receipt = await self._node.ingest(made, None, rows)
        except SlackwaterError as error:
            answer: Ingested | IngestRefused = self._state.failed(taking, _refusal(error))
        except Exception:
            _report.exception("rows of a live connection could not be taken")
            answer = self._state.failed(taking, StreamRefusal(500, "internal", "the server failed; see its report"))
        else:
            answer = self._state.durable(taking, receipt)
            self._totals.changes += 1
            self._totals.rows += rows
        self._account()
        if isinstance(answer, IngestRefused):
            self._refused(answer)
        elif not self._closed:
            self._send(answer)
        self._begin()

    def _refused(self, answer: IngestRefused) -> None:
        self._totals.refusals += 1
        if not self._closed:
            self._send(answer)

    def _check(self, message: Ingest) -> StreamRefusal | None:
        """Reason not to begin a stream, if there is one."""
        if not self._who.allows(Scope.INGEST):
            return StreamRefusal(403, "forbidden", f"this needs a token with the scope {Scope.INGEST}")
        table = self._table(message.table)
        if table is None:
            return StreamRefusal(404, "not_found", f"there is no table {message.table[:200]!r}")
        try:
            self._node.engine.check_rows(table)
            if message.timezone is not None:
                check_timezone(message.timezone)
        except SlackwaterError as error:
            return _refusal(error)
        return None

    def _table(self, name: str) -> str | None:
        """The table of this name, in whatever case."""
        tables = self._node.engine.tables
        return name if name in tables else next((one for one in tables if one.lower() == name.lower()), None)

    def _has_room(self, size: int) -> bool:
        return self._totals.waiting + size <= self._node.settings.limits.ingest_waiting

    def _account(self) -> None:
        self._totals.waiting += self._state.bytes - self._counted
        self._counted = self._state.bytes


def _refusal(error: SlackwaterError) -> StreamRefusal:
    if isinstance(error, SourceError):
        return StreamRefusal(400, "bad_request", str(error)[:500])
    status, code = status_and_code(error)
    return StreamRefusal(status, code, str(error)[:500], again=status in (429, 503))

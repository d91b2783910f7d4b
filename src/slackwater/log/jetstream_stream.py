"""JetStream client: blocking calls on one stream; an event loop in a thread does the I/O.

Every call waits while the servers are away, up to `patience` seconds, and asks again what was asked. Asking again is
harmless where something is only read. What is stored says which message must be the last one before it
(`Nats-Expected-Last-Sequence`); so it is stored once or not at all, however often it is sent, and only one message is
on its way at a time. That fence is what keeps a second writer out of the log: the number it expects would be another.
"""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from slackwater.core.backoff import Backoff
from slackwater.core.bus import BusAddress, need_bus
from slackwater.core.errors import LogAway, LogCorrupt, LogError, LogLocked, OutcomeUnknown

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

T = TypeVar("T")
_ANSWER_SECONDS = 5.0
_BACKOFF = Backoff(first=0.05, most=0.5)
"""Short to the end: all that is appended waits for servers that are back."""
_RECONNECT_SECONDS = 0.1
_TOGETHER = 64
"""Messages that are asked for at the same time."""
_WRONG_LAST_SEQUENCE, _NO_MESSAGE, _NO_STREAM, _NAME_IN_USE = 10071, 10037, 10059, 10058
_TRANSIENT_CODES = frozenset({408, 500, 503})


class StreamUnreachable(Exception):
    """The servers cannot be reached, or do not answer in time."""


class AppendUnanswered(LogAway, OutcomeUnknown):
    """An append without an answer: the next one looks first at what was kept of it."""


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of the stream."""

    sequence: int
    subject: str
    payload: bytes


class _Problem(msgspec.Struct):
    code: int
    err_code: int = 0
    description: str = ""


class _Got(msgspec.Struct):
    subject: str
    seq: int
    data: bytes = b""


class _StreamState(msgspec.Struct):
    first_seq: int
    last_seq: int


class _Config(msgspec.Struct):
    subjects: list[str] = []
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    retention: str = "limits"


class _Reply(msgspec.Struct):
    error: _Problem | None = None
    message: _Got | None = None
    state: _StreamState | None = None
    config: _Config | None = None
    seq: int | None = None


class StreamRefused(Exception):
    """The servers refused a request."""

    def __init__(self, problem: _Problem) -> None:
        super().__init__(problem.description)
        self.problem = problem


class Stream:
    """One stream, called from any thread."""

    def __init__(self, address: BusAddress, patience: float) -> None:
        need_bus()
        self.address = address
        self.name = address.name
        self.prefix = f"slackwater.log.{address.name}"
        self.mark_name = f"{address.name}-mark"
        self._mark_subject = f"slackwater.mark.{address.name}"
        self._patience = patience
        self._client: Client | None = None
        self._broken = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slackwater-jetstream", daemon=True)
        self._thread.start()
        try:
            self._wait(self._connect())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the servers, and end the thread."""
        if self._thread.is_alive():
            self._wait(self._leave())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    # For the log.

    @property
    def largest(self) -> int:
        """Bytes of the largest message, its headers left room for."""
        assert self._client is not None
        return self._client.max_payload - 1024

    def exists(self) -> bool:
        """Whether there is such a stream."""
        try:
            self._wait(self._api(f"STREAM.INFO.{self.name}"))
        except StreamRefused as refused:
            if refused.problem.err_code == _NO_STREAM:
                return False
            raise self._error(refused) from None
        return True

    def make(self, replicas: int) -> None:
        """Make the stream; nothing happens where it is there."""
        subjects = [f"{self.prefix}.>"]
        config = {"name": self.name, "subjects": subjects, "discard": "new", "deny_delete": True, "allow_direct": True}
        self._make(config | {"num_replicas": replicas})

    def make_mark(self) -> None:
        """Make the stream of the durable mark; nothing happens where it is there."""
        self._make({"name": self.mark_name, "subjects": [self._mark_subject], "max_msgs": 1, "discard": "old"})

    def _make(self, config: dict[str, Any]) -> None:
        try:
            self._wait(self._api(f"STREAM.CREATE.{config['name']}", config | {"storage": "file"}))
        except StreamRefused as refused:
            if refused.problem.err_code != _NAME_IN_USE:
                raise self._error(refused) from None

    def mark(self, end: int) -> None:
        """Publish the durable mark, without waiting for an acknowledgement."""
        asyncio.run_coroutine_threadsafe(self._mark(end), self._loop)

    async def _mark(self, end: int) -> None:
        assert self._client is not None
        with suppress(Exception):  # a mark that is too low is a mark
            await self._client.publish(self._mark_subject, b"%d" % end)

    def marked(self) -> int:
        """The durable mark: everything before this position was durable."""
        asked = {"last_by_subj": self._mark_subject}
        try:
            got = self._wait(self._api(f"STREAM.MSG.GET.{self.mark_name}", asked)).message
        except StreamRefused as refused:
            if refused.problem.err_code in (_NO_STREAM, _NO_MESSAGE):
                return 0
            raise self._error(refused) from None
        return int(got.data) if got is not None and got.data.isdigit() else 0

    def check(self) -> None:
        """Refuse a stream that is not for a log, or that forgets by itself."""
        config = self._info().config
        assert config is not None
        if config.subjects != [f"{self.prefix}.>"]:
            raise LogError(f"the stream {self.name} at {self.address} belongs to something else: use another name")
        limited = max(config.max_msgs, config.max_bytes, config.max_age, config.max_msgs_per_subject) > 0
        if limited or config.retention != "limits":
            raise LogError(
                f"the stream {self.name} at {self.address} forgets by itself (max_age, max_bytes, max_msgs or its "
                f"retention): take those limits away; how much a log keeps is for drop_before to say"
            )

    def last_sequence(self) -> int:
        """The sequence of the last message ever stored."""
        state = self._info().state
        assert state is not None
        return state.last_seq

    def last(self, subject: str) -> StreamMessage | None:
        """The last message under a subject."""
        return self._get({"last_by_subj": f"{self.prefix}.{subject}"})

    def next(self, sequence: int, subject: str) -> StreamMessage | None:
        """The first message under a subject from a sequence on."""
        return self._get({"seq": max(1, sequence), "next_by_subj": f"{self.prefix}.{subject}"})

    def get(self, first: int, count: int) -> list[StreamMessage]:
        """The messages of so many sequences, those that there are."""
        return self._wait(self._patiently(lambda: self._get_many(range(first, first + count))))

    def store(self, subject: str, payload: bytes, after: int) -> int:
        """Store a message after the one of a sequence; returns its own.

        Raises `LogLocked` if another one stands there, and `OutcomeUnknown` if no server answered in time.
        """
        return self._wait(self._store(f"{self.prefix}.{subject}", payload, after))

    def purge(self, subject: str, *, before: int | None = None, keep: int | None = None) -> None:
        """Forget messages under a subject: those before a sequence, or all but the last so many."""
        asked: dict[str, Any] = {"filter": f"{self.prefix}.{subject}"}
        asked |= {"seq": before} if before is not None else {"keep": keep}
        try:
            self._wait(self._api(f"STREAM.PURGE.{self.name}", asked))
        except StreamRefused as refused:
            raise self._error(refused) from None

    def ask(self, seconds: float) -> str | None:
        """Name of the live writer of this log; None where no process responds."""
        return self._wait(self._ask(seconds))

    def answer(self, who: str) -> None:
        """Respond from now on to requests for the writer of this log."""
        self._wait(self._answer(who))

    # On the event loop.

    async def _connect(self) -> None:
        from nats import errors
        from nats.aio.client import Client

        async def noted(_: Exception) -> None:
            """Ignore: the next request reports it."""

        async def broke() -> None:
            self._broken.set()

        self._client = client = Client()
        try:
            async with asyncio.timeout(self._patience):
                await client.connect(
                    list(self.address.servers),
                    name="slackwater-log",
                    error_cb=noted,
                    disconnected_cb=broke,
                    max_reconnect_attempts=3,
                    reconnect_time_wait=0,
                    connect_timeout=2,
                )
            # Opening gives up soon; an open log waits for its servers for as long as it is open.
            client.options |= {"max_reconnect_attempts": -1, "reconnect_time_wait": _RECONNECT_SECONDS}
        except (errors.Error, OSError, TimeoutError) as error:
            raise LogAway(
                f"the log at {self.address} cannot be opened: no NATS server answers "
                f"({str(error) or type(error).__name__}); check the address, and that the server is running"
            ) from None

    async def _leave(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                await self._client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _request(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> "Msg":
        """One question and its answer; raises `StreamUnreachable` at once when the connection breaks meanwhile."""
        from nats import errors

        client = self._client
        assert client is not None
        if not client.is_connected:
            raise StreamUnreachable("not connected")
        self._broken.clear()
        asking = asyncio.ensure_future(client.request(subject, payload, _ANSWER_SECONDS, headers=headers))
        breaking = asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait({asking, breaking}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise StreamUnreachable("the connection broke")
            return asking.result()
        except (errors.Error, OSError, TimeoutError) as error:
            raise StreamUnreachable(str(error) or type(error).__name__) from None
        finally:
            for task in (asking, breaking):
                task.cancel()
            await asyncio.gather(asking, breaking, return_exceptions=True)

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask until there is an answer."""
        give_up, failures = self._loop.time() + self._patience, 0
        while True:
            try:
                return await work()
            except StreamUnreachable as error:
                if self._loop.time() >= give_up:
                    raise LogAway(
                        f"the log at {self.address} does not answer for {self._patience:g} s ({error}): "
                        f"check the NATS servers, then try again"
                    ) from None
            failures += 1
            await asyncio.sleep(_BACKOFF.delay(failures, random.random))

    async def _api(self, name: str, asked: dict[str, Any] | None = None) -> _Reply:
        return await self._patiently(lambda: self._api_once(name, asked))

    async def _api_once(self, name: str, asked: dict[str, Any] | None = None) -> _Reply:
        answer = await self._request(f"$JS.API.{name}", b"" if asked is None else msgspec.json.encode(asked))
        return _read(answer.data)

    async def _get_many(self, sequences: Sequence[int]) -> list[StreamMessage]:
        found: list[StreamMessage] = []
        for at in range(0, len(sequences), _TOGETHER):
            some = await asyncio.gather(*(self._get_one(one) for one in sequences[at : at + _TOGETHER]))
            found += [one for one in some if one is not None]
        return found

    async def _get_one(self, sequence: int) -> StreamMessage | None:
        assert self._client is not None
        from nats import errors

        asked = b'{"seq":%d}' % sequence
        try:
            answer = await self._client.request(f"$JS.API.DIRECT.GET.{self.name}", asked, _ANSWER_SECONDS)
        except errors.NoRespondersError:
            # A stream that was made without allow_direct; or no server at all, which is then noticed.
            return await self._get_once({"seq": sequence})
        except (errors.Error, OSError, TimeoutError) as error:
            raise StreamUnreachable(str(error) or type(error).__name__) from None
        headers = answer.headers or {}
        if "Nats-Sequence" in headers:
            return StreamMessage(int(headers["Nats-Sequence"]), self._short(headers["Nats-Subject"]), answer.data)
        # Any server that has the stream answers, perhaps one that is behind; the one that leads knows.
        return await self._get_once({"seq": sequence})

    async def _get_once(self, asked: dict[str, Any]) -> StreamMessage | None:
        try:
            got = (await self._api_once(f"STREAM.MSG.GET.{self.name}", asked)).message
        except StreamRefused as refused:
            if refused.problem.err_code == _NO_MESSAGE:
                return None
            raise self._error(refused) from None
        assert got is not None
        return StreamMessage(got.seq, self._short(got.subject), got.data)

    def _short(self, subject: str) -> str:
        return subject.removeprefix(f"{self.prefix}.")

    def _get(self, asked: dict[str, Any]) -> StreamMessage | None:
        return self._wait(self._patiently(lambda: self._get_once(asked)))

    def _info(self) -> _Reply:
        try:
            return self._wait(self._api(f"STREAM.INFO.{self.name}"))
        except StreamRefused as refused:
            raise self._error(refused) from None

    async def _store(self, subject: str, payload: bytes, after: int) -> int:
        give_up, failures = self._loop.time() + self._patience, 0
        sent, why = False, ""
        while True:
            try:
                if sent:
                    # What became of it: it may stand there already.
                    there = await self._get_once({"seq": after + 1})
                    if there is not None and there.payload == payload:
                        return after + 1
                    if there is not None or (await self._last() or 0) > after:
                        raise LogLocked(
                            f"the log at {self.address} was taken over by another writer: nothing of this was kept; "
                            f"close this log"
                        )
                sent = True
                answer = await self._request(subject, payload, {"Nats-Expected-Last-Sequence": str(after)})
                stored = _read(answer.data).seq
                if stored != after + 1:
                    raise LogCorrupt(f"message {after + 1} of the stream {self.name} was stored as {stored}")
                return stored
            except StreamUnreachable as error:
                why = str(error)
            except StreamRefused as refused:
                code = refused.problem.err_code
                if code != _WRONG_LAST_SEQUENCE:
                    raise LogError(f"{self._error(refused)}; nothing of it was kept") from None
                if (last := await self._last()) is not None and last < after:
                    raise LogCorrupt(
                        f"the stream {self.name} at {self.address} ends at message {last}, but {after} had been "
                        f"acknowledged: the servers lost what they had promised; put back a copy"
                    ) from None
            if self._loop.time() >= give_up:
                raise AppendUnanswered(
                    f"the log at {self.address} did not acknowledge for {self._patience:g} s ({why}): "
                    f"it may have been kept; look at the end of the log before appending again"
                )
            failures += 1
            await asyncio.sleep(_BACKOFF.delay(failures, random.random))

    async def _last(self) -> int | None:
        with suppress(StreamUnreachable, StreamRefused):
            state = (await self._api_once(f"STREAM.INFO.{self.name}")).state
            return None if state is None else state.last_seq
        return None

    async def _ask(self, seconds: float) -> str | None:
        from nats import errors

        assert self._client is not None
        try:
            answer = await self._client.request(f"slackwater.writer.{self.name}", b"", seconds)
        except errors.NoRespondersError:
            return None
        except (errors.Error, OSError, TimeoutError):
            return "a writer that does not give its name"
        return answer.data.decode(errors="replace")

    async def _answer(self, who: str) -> None:
        assert self._client is not None

        async def respond(message: "Msg") -> None:
            await message.respond(who.encode())

        await self._client.subscribe(f"slackwater.writer.{self.name}", cb=respond)
        await self._client.flush()

    def _error(self, refused: StreamRefused) -> LogError:
        return LogError(f"the stream {self.name} at {self.address} says: {refused}")


def _read(data: bytes) -> _Reply:
    try:
        reply = msgspec.json.decode(data, type=_Reply)
    except msgspec.MsgspecError as error:
        raise StreamUnreachable(f"an answer that cannot be read: {error}") from None
    if reply.error is not None:
        if reply.error.code in _TRANSIENT_CODES:
            raise StreamUnreachable(reply.error.description)
        raise StreamRefused(reply.error)
    return reply

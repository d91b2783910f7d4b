"""Mutations of ingest streams: planted bugs, each in a few lines, that measure the power of the world's invariants."""

from dataclasses import dataclass

from simulation.ingest_world import IngestSetting
from slackwater.client.ingest.state import IngestState, StreamState
from slackwater.dissemination.messages import Ingest, Ingested, IngestRefused
from slackwater.intake import IntakeReceipt
from slackwater.sessions.ingest_streams import IngestStreams, StreamRefusal, Taking


@dataclass(frozen=True)
class PlantedIngest:
    """A world in which everything is right but one thing."""

    name: str
    client: type[IngestState] = IngestState
    server: type[IngestStreams] = IngestStreams

    @property
    def setting(self) -> IngestSetting:
        return IngestSetting(self.client, self.server)


class AcknowledgesWhatCame(IngestStreams):
    """All that has arrived is acknowledged with a change, not only what is durable with it."""

    def durable(self, taking: Taking, receipt: IntakeReceipt) -> Ingested:
        made = super().durable(taking, receipt)
        expected = self._streams[taking.stream].expected
        return Ingested(made.stream, expected, made.accepted, made.quarantined, made.repeats, made.position)


class TakesWhatIsBehindAFailure(IngestStreams):
    """What arrived behind a change that failed is taken, though the change itself comes again."""

    def failed(self, taking: Taking, refusal: StreamRefusal) -> IngestRefused:
        stream = self._streams[taking.stream]
        waiting = list(stream.waiting)
        refused = super().failed(taking, refusal)
        for message, size in waiting:
            stream.waiting.append((message, size))
            self.rows += message.count
            self.bytes += size
            self._ready[taking.stream] = stream
        return refused


class TakesTwoChangesAtOnce(IngestStreams):
    """A stream has several changes on their way; the later of them may succeed where the earlier failed."""

    def received(self, message: Ingest, size: int) -> IngestRefused | None:
        refused = super().received(message, size)
        stream = self._streams[message.stream]
        if stream.waiting:
            self._ready[message.stream] = stream
        return refused

    def _settle(self, taking: Taking):  # type: ignore[no-untyped-def]
        self._streams[taking.stream].taking = taking
        return super()._settle(taking)


class BelievesWhatWasOnItsWay(IngestStreams):
    """After a failure whatever comes next is expected, also what was sent before the client heard of it."""

    def received(self, message: Ingest, size: int) -> IngestRefused | None:
        stream = self._streams.get(message.stream)
        if stream is not None and stream.rewound:
            stream.expected, stream.rewound = message.first, False
        return super().received(message, size)


class FreesNothing(IngestStreams):
    """What a failed change leaves behind it counts for ever."""

    def _drop_waiting(self, number: int, stream) -> None:  # type: ignore[no-untyped-def]
        rows, size = self.rows, self.bytes
        super()._drop_waiting(number, stream)
        self.rows, self.bytes = rows, size


class ForgetsWhatWasUnderWay(IngestState):
    """After a new connection what was sent over the former one is not sent again."""

    def lost(self) -> None:
        for stream in self.streams.values():
            stream.sent.clear()
        super().lost()


class SendsAgainInAnyOrder(IngestState):
    """After a new connection what is sent again comes behind what waits."""

    def lost(self) -> None:
        for stream in self.streams.values():
            stream.waiting.extend(stream.sent)
            stream.sent.clear()
        super().lost()


class GoesOnFromTheNext(IngestState):
    """What the node could not take is not sent again."""

    def _refused(self, stream: StreamState, message: IngestRefused, now: int) -> None:
        waiting = stream.waiting.copy()
        super()._refused(stream, message, now)
        stream.waiting = waiting


class PausesForEver(IngestState):
    """A stream that pauses does not go on by itself."""

    def _resume(self, now: int) -> None:
        pass


class KnowsNoWindow(IngestState):
    """More is sent than the window allows."""

    def _fits(self, window, stream, batch) -> bool:  # type: ignore[no-untyped-def]
        return True


PLANTED = [
    PlantedIngest(made.__name__, **{"server" if issubclass(made, IngestStreams) else "client": made})  # type: ignore[arg-type]
    for made in (
        AcknowledgesWhatCame,
        TakesWhatIsBehindAFailure,
        TakesTwoChangesAtOnce,
        BelievesWhatWasOnItsWay,
        FreesNothing,
        ForgetsWhatWasUnderWay,
        SendsAgainInAnyOrder,
        GoesOnFromTheNext,
        PausesForEver,
        KnowsNoWindow,
    )
]

"""Mutations of worlds that are restored from copies: planted bugs, each in a few lines."""

from dataclasses import dataclass, replace

from simulation.history_world import HistoryNode, HistorySetting
from simulation.workload import PlainLabEngine
from slackwater.client.live.events import Instruction
from slackwater.client.live.state import ClientState
from slackwater.core.lineage import Lineage, Place
from slackwater.core.types import Position
from slackwater.dissemination.messages import Welcome
from slackwater.sessions.state import ServerState


@dataclass(frozen=True)
class Planted:
    """A world in which everything is right but one thing."""

    name: str
    setting: HistorySetting


class OldIncarnationAccepted(Lineage):
    """What a client holds is taken for part of the history, whatever incarnation it is of."""

    def kept(self, place: Place) -> Position:
        return place.position


class EndNotChecked(Lineage):
    """An incarnation that is listed is taken to go on for ever."""

    def kept(self, place: Place) -> Position:
        return place.position if any(one.number == place.incarnation for one in self.incarnations) else Position(0)


class EverythingKept(ClientState):
    """What the log does not have is held on to."""

    def drop_after(self, position: int, out: list[Instruction]) -> None:
        pass


class GenerationAlone(ClientState):
    """A lower generation is always taken for an old process."""

    highest: dict[str, int]

    def _welcome(self, welcome: Welcome, now: int, out: list[Instruction]) -> None:
        self.highest = getattr(self, "highest", {})
        if welcome.generation < self.highest.get(welcome.node, 0):
            self._lost("an old process answered", out)
            return
        self.highest[welcome.node] = welcome.generation
        super()._welcome(welcome, now, out)


class SnapshotOfAnotherHistory(HistoryNode):
    """A snapshot is used wherever the log reaches as far."""

    def usable(self, place: Place) -> bool:
        return place.position <= self._truth.end


class FollowsOn(HistoryNode):
    """A follower does not look whether the log is the one it was."""

    def went_on(self, lineage: Lineage, end: Position) -> bool:
        return self.engine.position <= end


class SessionsStay(ServerState):
    """Sessions of clients that have seen more than the log has are not ended."""

    def _part(self, now: int) -> None:
        pass


_PLAIN = HistorySetting(engine=PlainLabEngine)

PLANTED = [
    Planted("an old incarnation is accepted", replace(_PLAIN, lineage=OldIncarnationAccepted)),
    Planted("an end is not checked", replace(_PLAIN, lineage=EndNotChecked)),
    Planted("a client keeps what the log does not have", replace(_PLAIN, client=EverythingKept)),
    Planted("a generation alone tells an old process", replace(_PLAIN, client=GenerationAlone, nodes=1)),
    Planted("a snapshot of another history is used", replace(_PLAIN, node=SnapshotOfAnotherHistory)),
    Planted("a follower goes on", replace(_PLAIN, node=FollowsOn)),
    Planted("sessions outlive the incarnation that their clients have seen", replace(_PLAIN, server=SessionsStay)),
]

"""Timing of the session protocol: lease, heartbeat, grace. All times are microseconds."""

from dataclasses import dataclass

from slackwater.core.hosts import HostKind

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The numbers that an operator of a node may choose.

    Between two readings of its clock that a client gets back there pass at most a third of a lease, until its next
    acknowledgement, a heartbeat and the way there and back. The heartbeat must leave room for that way.
    """

    host: HostKind = HostKind.NODE
    """Host of the queries of these sessions."""
    lease: int = 5 * _SECOND
    heartbeat: int = 1_250_000
    silence: int = 15 * _SECOND
    """A connection is closed when its client has not been heard of for this long."""
    grace: int = 60 * _SECOND
    """A query without a name is dropped after this long without subscribers."""
    append_again: int = 5 * _SECOND
    """An append that does not turn up in the log is repeated after this long."""
    retransmit_again: int = 200_000
    """A session that misses frames is answered at most this often."""

    def __post_init__(self) -> None:
        if not 0 < 2 * self.heartbeat <= self.lease:
            raise ValueError(f"a heartbeat ({self.heartbeat}) must come at least twice a lease ({self.lease})")
        if self.silence < self.lease:
            raise ValueError(f"silence ({self.silence}) must not be shorter than a lease ({self.lease})")

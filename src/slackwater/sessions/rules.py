"""What a serving node allows, and how long it waits. All times are microseconds."""

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
    """Who keeps the queries of these sessions."""
    lease: int = 5 * _SECOND
    heartbeat: int = 1_250_000
    silence: int = 15 * _SECOND
    """A connection is closed when its client has not been heard of for this long."""
    grace: int = 60 * _SECOND
    """A query without a name is dropped when nobody has subscribed to it for this long."""
    append_again: int = 5 * _SECOND
    """What was to be appended to the log and has not turned up there is appended again after this long."""
    retransmit_again: int = 200_000
    """A session that misses frames is answered at most this often."""
    most_sessions: int = 10_000
    most_subscriptions: int = 10_000
    """Of one principal, over all its sessions."""
    most_registrations: int = 200_000
    """Of one principal, with or without anybody who listens."""
    most_bytes: int = 48 * 2**20
    """Of the rows of all selections of a session, as they are first sent; and of what one frame carries of rows."""
    most_statement: int = 65_536
    """Bytes of a statement."""
    most_held: int = 10_000
    """Facts held for one session; more than that is dropped and the whole state is sent instead."""
    most_rows: int = 1_000_000
    """Rows of the answer of one selection."""
    most_answered: int = 100_000
    """Rows of the answer to one question."""
    most_answered_bytes: int = 48 * 2**20
    """Bytes of it."""
    most_at_once: int = 2
    """Questions of one session that are answered before others have their turn."""
    most_questions: int = 66
    """Questions of one session that wait, these included; what is more is asked again by whoever wants it."""
    most_recent: int = 10_000
    """Keys of a selection whose last change is remembered, so that who comes back needs no snapshot."""

    def __post_init__(self) -> None:
        if not 0 < 2 * self.heartbeat <= self.lease:
            raise ValueError(f"a heartbeat ({self.heartbeat}) must come at least twice a lease ({self.lease})")
        if self.silence < self.lease:
            raise ValueError(f"silence ({self.silence}) must not be shorter than a lease ({self.lease})")

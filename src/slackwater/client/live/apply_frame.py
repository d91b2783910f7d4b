"""Frame application: a frame of notifications applied to the replicas of a client.

Everything that can be wrong with a frame is found before anything is changed. Facts about a query under another plan
than the one a subscription is known to be under are passed over: plans are never mixed.
"""

from collections.abc import Iterator
from typing import Protocol

from slackwater.client.live.events import Described, Instruction, SubscriptionEnded
from slackwater.client.live.memberships import Memberships
from slackwater.client.live.replica import Held
from slackwater.dissemination.encoding import Encoding, decode_rows
from slackwater.dissemination.messages import (
    Channel,
    Delete,
    Fact,
    Frame,
    Refused,
    Reply,
    Resumed,
    Snapshot,
    Subscribed,
    Suspended,
    Unanswered,
    Upsert,
    Value,
    WireRow,
)


class Holder(Protocol):
    """The part of a client's state that a frame can change."""

    encoding: Encoding
    held: dict[int, Held]
    by_query: dict[int, set[int]]
    unanswered: dict[int, int]
    dropping: dict[int, int]
    touched: set[int]
    as_of: int | None
    until: int
    channels: Memberships

    def drop(self, ref: int, now: int, out: list[Instruction]) -> None:
        """Tell the node that a subscription is not wanted."""
        ...


def apply(holder: Holder, frame: Frame, now: int, out: list[Instruction]) -> None:
    """Apply the facts of a frame, and return the changes; a `ProtocolError` leaves everything as it was."""
    snapshots = {
        place: decode_rows(fact.rows, fact.digest, holder.encoding)
        for place, fact in enumerate(frame.facts)
        if isinstance(fact, Snapshot)
    }
    suspended = {fact.query: fact.why for fact in frame.facts if isinstance(fact, Suspended)}
    places = {fact.query: fact for fact in frame.facts if isinstance(fact, Channel)}
    whole = {fact.query for fact in frame.facts if isinstance(fact, Value | Snapshot)} | suspended.keys()
    taken: dict[int, bool] = {}
    touched: dict[int, Held] = {}
    for place, fact in enumerate(frame.facts):
        match fact:
            case Subscribed():
                _subscribed(holder, fact, suspended.get(fact.query), places.get(fact.query), taken, now, out)
            case Refused():
                _refused(holder, fact, out)
            case Reply() | Unanswered():
                pass  # replies to questions: see `client.cache.state`
            case _:
                for held in _meant(holder, fact):
                    if not _takes(held, places.get(fact.query), taken, fact.query in whole):
                        continue
                    touched[held.ref] = held
                    if not isinstance(fact, Channel):
                        _change(holder, held, fact, snapshots.get(place), out)
    for ref in sorted(touched):
        held = touched[ref]
        if held.member is not None:
            holder.channels.settle(held, holder)
        as_of = held.as_of if held.member is not None else frame.as_of
        changed = held.changed(as_of) if held.follows and as_of is not None else None
        if changed is not None:
            out.append(changed)
        if held.member is not None:
            holder.channels.apply(held, held.member.replay(), holder, out)
    holder.touched.update(touched)


def _takes(held: Held, place: Channel | None, taken: dict[int, bool], whole: bool) -> bool:
    """Whether what a frame says of a subscription is newer than what its channel has brought.

    Changes since a position that another reference of the query held, not being `whole`, are for that reference.
    """
    if held.member is None or place is None:
        return True
    if held.ref not in taken:
        taken[held.ref] = whole and held.member.take(place)
    return taken[held.ref]


def _meant(holder: Holder, fact: Value | Upsert | Delete | Snapshot | Suspended | Resumed | Channel) -> Iterator[Held]:
    """The subscriptions that a fact is about."""
    for ref in holder.by_query.get(fact.query, ()):
        held = holder.held[ref]
        if held.under(fact.epoch):
            yield held


def _change(
    holder: Holder, held: Held, fact: Fact, rows: list[tuple[WireRow, WireRow]] | None, out: list[Instruction]
) -> None:
    match fact:
        case Suspended():
            held.freeze(holder.as_of, holder.until)
            held.suspended = fact.why
        case Resumed() if held.promised is not None:
            _describe(held, held.promised, out)
        case Resumed():
            held.resume()
        case Value() if held.follows and held.rows is None:
            held.apply_value(fact)
        case Upsert() | Delete() if held.follows and held.rows is not None:
            held.apply_row(fact)
        case Snapshot() if held.follows and held.rows is not None and rows is not None:
            held.apply_all(rows)
        case _:
            pass


def _subscribed(
    holder: Holder,
    fact: Subscribed,
    suspended: str | None,
    place: Channel | None,
    taken: dict[int, bool],
    now: int,
    out: list[Instruction],
) -> None:
    held = holder.held.get(fact.ref)
    if held is None:
        # What is not wanted any more can be asked for by a message that was late.
        holder.drop(fact.ref, now, out)
        return
    holder.unanswered.pop(fact.ref, None)
    holder.touched.add(fact.ref)
    _unlist(holder, held)
    holder.by_query.setdefault(fact.query, set()).add(fact.ref)
    held.listed = fact.query
    if place is None:
        holder.channels.dismiss(held, out)
    else:
        held.freeze(holder.as_of, holder.until)
        holder.channels.admit(held, place, now, out)
        if not _takes(held, place, taken, whole=True):
            return
    if suspended is None:
        _describe(held, fact, out)
        return
    # It was granted and suspended since: of what was granted nothing has been shown.
    held.freeze(holder.as_of, holder.until)
    held.suspended, held.promised = suspended, fact


def _describe(held: Held, fact: Subscribed, out: list[Instruction]) -> None:
    shared = held.member is not None
    if held.describe(fact) or held.reported_shared is not shared:
        held.reported_shared = shared
        out.append(
            Described(fact.ref, fact.columns, fact.types, fact.key, fact.within, fact.fidelity, fact.epoch, shared)
        )


def _unlist(holder: Holder, held: Held) -> None:
    if held.listed is not None:
        holder.by_query.get(held.listed, set()).discard(held.ref)
        held.listed = None


def _refused(holder: Holder, fact: Refused, out: list[Instruction]) -> None:
    holder.dropping.pop(fact.ref, None)
    held = holder.held.get(fact.ref)
    if held is None or held.ended is not None:
        return
    held.freeze(holder.as_of, holder.until)
    held.ended = fact.why
    holder.channels.dismiss(held, out)
    holder.unanswered.pop(fact.ref, None)
    holder.touched.add(fact.ref)
    _unlist(holder, held)
    out.append(SubscriptionEnded(fact.ref, fact.why, fact.host))

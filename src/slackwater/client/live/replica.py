"""Replica of one subscription: value or rows, position, and the delta of each frame."""

from collections.abc import Iterable

from slackwater.client.live.events import AnswerChanged, Shown
from slackwater.dissemination.delivery.member import ChannelMember
from slackwater.dissemination.messages import UNICAST, Delete, Subscribed, Upsert, Value, WireRow

_NOTHING = object()


class Held:
    """Replica of a subscription.

    While it is `live`, the session keeps it right: its position and lease are those of the session. Otherwise `as_of`
    and `until` say as of when it was right last, and until when that could be relied on. The `member` of a channel,
    where a channel delivers it, moves them on.
    """

    def __init__(self, ref: int, sql: str) -> None:
        self.ref = ref
        self.sql = sql
        self.delivery = UNICAST
        """How its facts are asked for."""
        self.member: ChannelMember | None = None
        """Its place in the channel that delivers it; None where the session does."""
        self.query: int | None = None
        self.epoch: int | None = None
        self.description: Subscribed | None = None
        self.value: float | None = None
        self.rows: dict[WireRow, WireRow] | None = None
        self.live = False
        self.as_of: int | None = None
        self.until = 0
        self.suspended: str | None = None
        self.promised: Subscribed | None = None
        """The description granted while it was suspended: nothing of it is shown before it is resumed."""
        self.listed: int | None = None
        """The query under which the session lists it."""
        self.ended: str | None = None
        self.reported_certain = False
        self.reported_shared = False
        self._value_before: object = _NOTHING
        self._rows_before: dict[WireRow, WireRow | None] = {}
        self._first = False

    def describe(self, fact: Subscribed) -> bool:
        """Switch to this query under this plan; return whether that is new."""
        news = (self.query, self.epoch) != (fact.query, fact.epoch)
        if news:
            self._first = self.description is None or bool(self.description.columns) != bool(fact.columns)
            if self._first:
                self.value, self.rows = None, {} if fact.columns else None
            self.query, self.epoch, self.description = fact.query, fact.epoch, fact
        self.live = self.member is None
        self.suspended, self.promised = None, None
        return news

    @property
    def follows(self) -> bool:
        """Whether facts about it are applied."""
        return self.live or (self.member is not None and self.suspended is None)

    def deliver(self, member: ChannelMember | None) -> None:
        """It is kept right by a member of a channel from now on, or by the session once it is described."""
        self.member = member
        self.live = False

    def resume(self) -> None:
        """The guarantee holds again."""
        self.live, self.suspended = self.member is None, None

    def under(self, epoch: int) -> bool:
        """Whether it is under this plan."""
        return (self.epoch if self.promised is None else self.promised.epoch) == epoch

    def freeze(self, as_of: int | None, until: int) -> None:
        """The session keeps it right no longer: it stays as it was at this position."""
        if self.live:
            self.live = False
            if as_of is not None:
                self.as_of, self.until = as_of, until

    def lose(self, as_of: int | None, until: int) -> None:
        """End the session, and drop its announcements."""
        self.freeze(as_of, until)
        self.promised = self.listed = self.member = None

    def drop(self) -> None:
        """Begin anew: what is held is of another history. It stays only to find out what the next answer changes."""
        self.live, self.as_of, self.until = False, None, 0
        self.query = self.epoch = self.suspended = None

    def apply_value(self, fact: Value) -> None:
        """The aggregate stands here."""
        if self._value_before is _NOTHING:
            self._value_before = self.value
        self.value = fact.value

    def apply_row(self, fact: Upsert | Delete) -> None:
        """A row is in the answer, or is not."""
        assert self.rows is not None
        self._rows_before.setdefault(fact.key, self.rows.get(fact.key))
        if isinstance(fact, Upsert):
            self.rows[fact.key] = fact.row
        else:
            self.rows.pop(fact.key, None)

    def apply_all(self, rows: Iterable[tuple[WireRow, WireRow]]) -> None:
        """These are the rows, and there are no others."""
        before, self.rows = self.rows or {}, dict(rows)
        for key in before.keys() | self.rows.keys():
            self._rows_before.setdefault(key, before.get(key))

    def changed(self, as_of: int) -> AnswerChanged | None:
        """Changes by the facts applied since the last call, if any."""
        first, self._first = self._first, False
        if self.rows is None:
            before, self._value_before = self._value_before, _NOTHING
            changed = before is not _NOTHING and before != self.value
            return AnswerChanged(self.ref, as_of, self.value) if changed or first else None
        touched, self._rows_before = self._rows_before, {}
        upserts: dict[WireRow, WireRow] = {}
        deletes: list[WireRow] = []
        for key, former in touched.items():
            row = self.rows.get(key)
            if row is None:
                if former is not None:
                    deletes.append(key)
            elif row != former:
                upserts[key] = row
        if not (upserts or deletes or first):
            return None
        return AnswerChanged(self.ref, as_of, None, upserts, tuple(deletes))

    def shown(self, as_of: int | None, certain: bool, why: str, incarnation: int) -> Shown:
        """The state for the program."""
        described = self.description
        if described is None or as_of is None:
            return Shown(None, None, 0.0, 1.0, None, False, why, self.query, self.epoch, incarnation=incarnation)
        bound, fidelity = described.within, described.fidelity
        return Shown(
            self.value, self.rows, bound, fidelity, as_of, certain, why, self.query, self.epoch, incarnation=incarnation
        )

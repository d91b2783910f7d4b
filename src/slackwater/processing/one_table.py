"""One-table adapter: a `TableOperator` as an operator over the changes of several tables."""

from collections.abc import Mapping, Sequence

from slackwater.core.query import StandingQuery
from slackwater.core.types import Instant, Position
from slackwater.processing.base import Answer, Changes, Latest, Notifications, Operator, TableOperator
from slackwater.processing.concatenate import merged


class OneTable(Operator):
    """Adapts a `TableOperator`."""

    def __init__(self, inner: TableOperator) -> None:
        self.inner = inner
        self.name, self.version = inner.name, inner.version
        self.rebuilt_from, self.partitioning = inner.rebuilt_from, inner.partitioning

    def accepts(self, query: StandingQuery) -> bool:
        """Whether the operator accepts a query."""
        return self.inner.accepts(query)

    def register(self, number: int, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> Answer:
        """Keep a query on its table."""
        return self.inner.register(number, query, tables[query.table], position)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        self.inner.unregister(number, position)

    def apply(self, changes: Sequence[Changes], tables: Mapping[str, Latest], position: Position) -> Notifications:
        """Table by table."""
        if len(changes) == 1:
            only = changes[0]
            return self.inner.apply(only, tables[only.table], position) if len(only) else Notifications(position)
        return merged([self.inner.apply(one, tables[one.table], position) for one in changes if len(one)], position)

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass."""
        return self.inner.advance(time, position)

    def answer(self, number: int, query: StandingQuery, tables: Mapping[str, Latest]) -> Answer:
        """Everything published of a query so far."""
        return self.inner.answer(number, tables[query.table])

    def foresee(self, query: StandingQuery, tables: Mapping[str, Latest]) -> None:
        """Give its keys the slots that the inner operator gives them."""
        self.inner.foresee(query, tables[query.table])

    def weight(self, number: int, query: StandingQuery) -> int:
        """The operator's."""
        return self.inner.weight(number, query)

    def snapshot(self) -> bytes:
        """The operator's."""
        return self.inner.snapshot()

    def restore(self, state: bytes) -> None:
        """Restore the state from a snapshot."""
        self.inner.restore(state)

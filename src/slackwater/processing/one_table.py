"""An operator on one table, as a host sees operators: each table's changes are handed to it by themselves."""

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
        """What the operator accepts."""
        return self.inner.accepts(query)

    def register(self, number: int, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> Answer:
        """Keep a query on its table."""
        return self.inner.register(number, query, tables[query.table], position)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        self.inner.unregister(number, position)

    def apply(self, changes: Sequence[Changes], tables: Mapping[str, Latest], position: Position) -> Notifications:
        """Table by table."""
        said = [self.inner.apply(one, tables[one.table], position) for one in changes if len(one)]
        return said[0] if len(said) == 1 else merged(said, position)

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass."""
        return self.inner.advance(time, position)

    def answer(self, number: int, query: StandingQuery, tables: Mapping[str, Latest]) -> Answer:
        """What has been said of a query."""
        return self.inner.answer(number, tables[query.table])

    def foresee(self, query: StandingQuery, tables: Mapping[str, Latest]) -> None:
        """Give its keys the slots that whoever keeps it gives them."""
        self.inner.foresee(query, tables[query.table])

    def weight(self, number: int, query: StandingQuery) -> int:
        """The operator's."""
        return self.inner.weight(number, query)

    def snapshot(self) -> bytes:
        """The operator's."""
        return self.inner.snapshot()

    def restore(self, state: bytes) -> None:
        """Become what the snapshot was taken of."""
        self.inner.restore(state)

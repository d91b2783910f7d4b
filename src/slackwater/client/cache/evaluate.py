"""Local query evaluation over cached rows: Arrow kernels for simple queries, the evaluator for the rest.

Answers have the columns and types that a server gives them. A sum or mean of DOUBLE may differ in the last digits, as
it may between two servers that hold the rows in another order; everything else is the same.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.client.answers import Answer
from slackwater.client.columns import Columns
from slackwater.core.query import AggregateFunction
from slackwater.evaluator import Evaluator, plain_rows
from slackwater.sql.required_rows import Needed


@dataclass(frozen=True, slots=True)
class HomeLimits:
    """Resource limits of a query at home; they protect only the program itself."""

    query_seconds: float = 30.0
    query_memory: int = 1 << 30
    query_rows: int = 10_000_000
    query_bytes: int = 1 << 30


_EVALUATOR = Evaluator(HomeLimits())


def evaluated(asked: Needed, tables: dict[str, pa.Table]) -> pa.Table:
    """Answer a query over these rows, which are all that it needs."""
    selection, number = asked.query.selection, asked.aggregate
    if selection is not None:
        return tables[selection.table].select(list(selection.columns))
    if number is not None and number.weights is None and number.scale == 1.0:
        rows = tables[number.table]
        column = None if number.column is None else rows.column(number.column)
        return pa.table({asked.shown: _aggregated(number.function, column, rows.num_rows)})
    batches = {
        name: next(iter(table.combine_chunks().to_batches()), pa.RecordBatch.from_pylist([], table.schema))
        for name, table in tables.items()
    }
    return _EVALUATOR.run(_EVALUATOR.statement(asked.query), batches)


@dataclass(frozen=True, slots=True)
class Found:
    """A result without its position: it serves as an answer for as long as it is right."""

    columns: Columns
    rows: list[list[Any]]

    @classmethod
    def of(cls, found: pa.Table) -> "Found":
        """The rows of a table."""
        return cls(
            Columns(tuple(found.schema.names), tuple(str(kind) for kind in found.schema.types)), plain_rows(found)
        )

    def answer(self, as_of: int) -> Answer:
        """An answer as a program is given it, its rows its own."""
        return Answer(self.columns, self.columns.records(self.rows), as_of)


def _aggregated(function: AggregateFunction, column: pa.ChunkedArray | None, rows: int) -> pa.Array:
    match function:
        case AggregateFunction.COUNT:
            return pa.array([rows if column is None else len(column) - column.null_count], pa.int64())
        case AggregateFunction.SUM if column is not None and pa.types.is_integer(column.type):
            # In whole numbers of any size, as the evaluator has it.
            found = [cell for cell in column.to_pylist() if cell is not None]
            return pa.array([sum(found) if found else None], pa.decimal128(38, 0))
        case AggregateFunction.SUM:
            return pa.array([pc.sum(column).as_py()], pa.float64())
        case AggregateFunction.AVG:
            return pa.array([pc.mean(column).as_py()], pa.float64())
        case AggregateFunction.MIN | AggregateFunction.MAX:
            assert column is not None
            least_and_most = pc.min_max(column)
            return pa.array([least_and_most[function.value.lower()].as_py()], column.type)

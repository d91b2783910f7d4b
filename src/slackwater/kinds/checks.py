"""Type check of a region against the schema of its table; several kinds share it."""

from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Categories, Interval, Missing
from slackwater.core.region import Region, Side
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Scalar


def check_region(region: Region, table: TableSchema) -> None:
    """Refuse a region that names columns which its table does not have, or compares what cannot be compared."""
    for box in region:
        for side in box.sides:
            check_side(side, table)


def check_side(side: Side, table: TableSchema) -> None:
    """The same for one side of a box."""
    kind = table.column(side.column).type
    match side.extent:
        case Interval(low, high):
            constants: list[Scalar] = [end for end in (low, high) if end is not None]
            if kind is DataType.BOOLEAN and constants:
                raise AlgebraError(f"column {side.column} is BOOLEAN and has no order: use categories")
        case Categories(values):
            constants = list(values)
        case Missing():
            constants = []
    for constant in constants:
        if _sort(kind) != _sort_of(constant):
            raise AlgebraError(f"column {side.column} is {kind.value} and cannot be compared with {constant!r}")


def _sort(kind: DataType) -> str:
    return {DataType.TEXT: "text", DataType.BOOLEAN: "boolean"}.get(kind, "number")


def _sort_of(constant: object) -> str:
    if isinstance(constant, bool):
        return "boolean"
    if isinstance(constant, str):
        return "text"
    return "number" if isinstance(constant, int | float) else "unknown"

"""Static region index: built once, probed many times.

Mathematics
    The constants c₁ < … < c_K of a column in all boxes cut its values into 2K + 1 classes that no box separates:
    below c₁, c₁ itself, between c₁ and c₂, and so on. A value's *code* is the number of its class (even: between
    constants, odd: a constant), null has the code 2K + 1. In codes every side of every type is a range or a set of
    small integers, open or closed, text or number: the loops of `kernels.stabbing` see nothing else.

    A box is filed under the side that covers the smallest share of its column's codes. The constants stand where
    queries look, so that is a fair guess at the share of rows that get past it.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.core.extent import Categories, Interval, Missing
from slackwater.core.region import Box, Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Scalar
from slackwater.kernels import stabbing
from slackwater.processing.base import Flags, Integers
from slackwater.processing.columns import Cells
from slackwater.processing.regions.sheet import Sheet
from slackwater.processing.regions.typed_extents import fitted


class Coding:
    """The classes of one column."""

    def __init__(self, kind: DataType, constants: set[Scalar]) -> None:
        self._kind = kind
        ordered = sorted(constants)  # of one type, as the check of queries sees to
        self.null = 2 * len(ordered) + 1
        self._place = {constant: place for place, constant in enumerate(ordered)}
        if kind is DataType.TEXT:
            self._constants: Cells = np.empty(len(ordered), object)
            self._constants[:] = ordered
        else:
            self._constants = np.array(ordered, np.float64 if kind is DataType.DOUBLE else np.int64)

    def code(self, constant: Scalar) -> int:
        """The class of a constant."""
        return 2 * self._place[constant] + 1

    def codes(self, values: Cells, valid: Flags) -> Integers:
        """The classes of values."""
        if self._kind is DataType.TEXT:
            values = np.where(valid, values, "")
        elif self._kind is DataType.BOOLEAN:
            values = values.astype(np.int64)
        count = len(self._constants)
        if not count:
            return np.where(valid, 0, self.null)
        places = np.searchsorted(self._constants, values)
        exact = self._constants[np.minimum(places, count - 1)] == values
        codes: Integers = np.where(valid, 2 * places + (exact & (places < count)), self.null)
        return codes

    def range(self, interval: Interval) -> tuple[int, int]:
        """The codes from which and to which an interval reaches."""
        low = 0 if interval.low is None else self.code(interval.low) + interval.low_open
        high = self.null - 1 if interval.high is None else self.code(interval.high) - interval.high_open
        return low, high


class RegionPart:
    """The regions of some queries, each known by its place."""

    def __init__(self, regions: Sequence[tuple[int, Region]], table: TableSchema) -> None:
        self.regions = dict(regions)
        self.dead = 0
        boxes: list[tuple[int, Box]] = []
        for place, region in regions:
            boxes += [(place, box) for box in (_fitted_box(box, table) for box in region) if box is not None]
        self._places = np.array([place for place, _ in boxes], np.int64)
        self._alive = np.ones(len(boxes), np.bool_)
        self._boxes_of: dict[int, list[int]] = {}
        for number, (place, _) in enumerate(boxes):
            self._boxes_of.setdefault(place, []).append(number)
        self._code(boxes, table)
        self._file(boxes)
        self._room = 1024

    def forget(self, place: int) -> None:
        """Leave a query out of all answers."""
        self._alive[self._boxes_of.get(place, [])] = False
        del self.regions[place]
        self.dead += 1

    def match(self, sheet: Sheet) -> tuple[Integers, Integers]:
        """The pairs of row and place of which the row lies in the query's region."""
        if not len(self._places) or not sheet.present.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        codes = [coding.codes(*sheet.cells(column)) for column, coding in self._codings.items()]
        flat = np.concatenate(codes) if codes else np.zeros(0, np.int64)
        while True:
            rows, boxes = np.empty(self._room, np.int64), np.empty(self._room, np.int64)
            count = stabbing.stab(
                flat,
                self._nulls,
                sheet.present,
                self._bases,
                self._sizes,
                self._starts,
                self._entries,
                self._everywhere,
                self._alive,
                self._side_starts,
                self._side_columns,
                self._side_kinds,
                self._side_lows,
                self._side_highs,
                self._members,
                rows,
                boxes,
            )
            if count <= self._room:
                return rows[:count], self._places[boxes[:count]]
            self._room = 2 * count

    def _code(self, boxes: Sequence[tuple[int, Box]], table: TableSchema) -> None:
        """Find the classes of every column, and write the sides of every box in codes."""
        constants: dict[str, set[Scalar]] = {}
        for _, box in boxes:
            for side in box.sides:
                found = constants.setdefault(side.column, set())
                if isinstance(side.extent, Interval):
                    found.update(end for end in (side.extent.low, side.extent.high) if end is not None)
                elif isinstance(side.extent, Categories):
                    found.update(side.extent.values)
        self._codings = {name: Coding(table.column(name).type, constants[name]) for name in sorted(constants)}
        numbers = {name: number for number, name in enumerate(self._codings)}
        self._nulls = np.array([coding.null for coding in self._codings.values()], np.int64)
        sides: list[tuple[int, int, int, int]] = []
        starts = [0]
        members: list[int] = []
        for _, box in boxes:
            for side in box.sides:
                coding = self._codings[side.column]
                match side.extent:
                    case Interval():
                        kind, (low, high) = stabbing.RANGE, coding.range(side.extent)
                    case Missing():
                        kind, low, high = stabbing.RANGE, coding.null, coding.null
                    case Categories(values, complement):
                        kind = stabbing.ALL_BUT if complement else stabbing.SET
                        low = len(members)
                        members += sorted(coding.code(value) for value in values)
                        high = len(members)
                sides.append((numbers[side.column], kind, low, high))
            starts.append(len(sides))
        table_of_sides = np.array(sides, np.int64).reshape(-1, 4)
        self._side_columns, self._side_kinds, self._side_lows, self._side_highs = (
            np.ascontiguousarray(table_of_sides[:, k]) for k in range(4)
        )
        self._side_starts = np.array(starts, np.int64)
        self._members = np.array(members, np.int64)

    def _file(self, boxes: Sequence[tuple[int, Box]]) -> None:
        """File every box under its narrowest side."""
        widths = np.where(
            self._side_kinds == stabbing.RANGE,
            self._side_highs - self._side_lows + 1,
            self._side_highs - self._side_lows,
        )
        last = self._nulls[self._side_columns]
        shares = np.where(self._side_kinds == stabbing.ALL_BUT, last - widths, widths) / (last + 1)
        filed: list[tuple[int, int, int, int]] = []
        everywhere = []
        for box in range(len(boxes)):
            first, end = int(self._side_starts[box]), int(self._side_starts[box + 1])
            if first == end:
                everywhere.append(box)
                continue
            side = first + int(np.argmin(shares[first:end])) if end > first + 1 else first
            column, low, high = (int(one[side]) for one in (self._side_columns, self._side_lows, self._side_highs))
            if self._side_kinds[side] == stabbing.RANGE:
                filed.append((column, low, high, box))
            elif self._side_kinds[side] == stabbing.SET:
                filed += [(column, code, code, box) for code in self._members[low:high].tolist()]
            else:
                filed.append((column, 0, int(self._nulls[column]) - 1, box))
        self._everywhere = np.array(everywhere, np.int64)
        # A tree of size M has the nodes 1 to 2M − 1.
        self._sizes = np.array([1 << int(null).bit_length() for null in self._nulls], np.int64)
        self._bases = np.concatenate([np.zeros(1, np.int64), np.cumsum(2 * self._sizes)])
        table_of_filed = np.array(filed, np.int64).reshape(-1, 4)
        columns, lows, highs, numbers = (np.ascontiguousarray(table_of_filed[:, k]) for k in range(4))
        counts = stabbing.count_nodes(self._bases, self._sizes, columns, lows, highs)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._entries = np.zeros(int(self._starts[-1]), np.int64)
        stabbing.file_boxes(self._bases, self._sizes, columns, lows, highs, numbers, self._starts.copy(), self._entries)


def _fitted_box(box: Box, table: TableSchema) -> Box | None:
    sides = []
    for side in box.sides:
        extent = fitted(side.extent, table.column(side.column).type)
        if extent is None:
            return None
        sides.append(type(side)(side.column, extent))
    return Box(tuple(sides))


def inside(region: Region, table: TableSchema, rows: pa.RecordBatch) -> Flags:
    """Which of these rows lie in a region."""
    flags = np.zeros(rows.num_rows, np.bool_)
    if region.boxes and not any(box.sides for box in region):
        flags[:] = True
    elif region.boxes:
        found, _ = RegionPart([(0, region)], table).match(Sheet(rows, np.ones(rows.num_rows, np.bool_)))
        flags[found] = True
    return flags

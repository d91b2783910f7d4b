"""Join rows: the join value, the range attributes and the null check of each row."""

from itertools import islice

import numpy as np

from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType
from slackwater.processing.base import Flags, Floats
from slackwater.processing.columns import Cells
from slackwater.processing.joined.hash_split import scattered, seed_of
from slackwater.processing.joined.lower import FamilyShape
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.regions import Sheet


class KeyNumbers:
    """Values of the compared columns as doubles, equal where the values are.

    Doubles are themselves, and so are the numbers of a band. Other values are numbered as they are met: a text has no
    number, and not every BIGINT is a double.
    """

    def __init__(self, *, numbered: bool) -> None:
        self._numbers: dict[object, float] | None = {} if numbered else None
        self._places = np.zeros(0)

    @classmethod
    def of(cls, shape: FamilyShape, left: TableSchema, right: TableSchema) -> "KeyNumbers":
        """For the joins of a family."""
        kinds = {left.column(shape.left_column).type, right.column(shape.right_column).type}
        return cls(numbered=not shape.band and kinds != {DataType.DOUBLE})

    def __len__(self) -> int:
        """How many values have been met."""
        return 0 if self._numbers is None else len(self._numbers)

    def forget(self) -> None:
        """Have met none: numbers that were given are void."""
        if self._numbers is not None:
            self._numbers.clear()
            self._places = np.zeros(0)

    def __call__(self, values: Cells, valid: Flags) -> Floats:
        """The numbers of these values; anything where there is none."""
        numbers = self._numbers
        if numbers is None:
            # There is one zero only.
            return np.asarray(values, np.float64) + 0.0
        made = np.zeros(len(values))
        made[valid] = [numbers.setdefault(value, float(len(numbers))) for value in values[valid].tolist()]
        return made

    def places(self, numbers: Floats) -> Floats:
        """Where keys lie between 0 and 1, scattered evenly: of a value the same in every process."""
        if self._numbers is None:
            return scattered(numbers.view(np.uint64))
        new = len(self._numbers) - len(self._places)
        if new:
            latest = [seed_of(value) for value in islice(reversed(self._numbers), new)]
            self._places = np.concatenate((self._places, scattered(np.array(latest[::-1], np.uint64))))
        return self._places[numbers.astype(np.int64)]


def partners(shape: FamilyShape, side: JoinSide, sheet: Sheet, keys: KeyNumbers) -> tuple[Floats, Floats, Flags]:
    """Join values of rows, their attributes, and the rows that can be partners at all."""
    values, valid = sheet.cells(shape.column(side))
    there: Flags = sheet.present & valid
    names = shape.attributes(side)
    attributes = np.zeros((len(sheet), len(names)))
    for at, name in enumerate(names):
        cells, valid = sheet.cells(name)
        there = there & valid
        attributes[:, at] = cells
    return keys(values, there), attributes, there

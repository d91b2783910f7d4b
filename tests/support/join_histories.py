"""Join histories: those of `histories`, with mostly joins of the two tables, either way round."""

from slackwater.core import EVERYTHING, Box, Interval, Join, Region, Side, StandingQuery
from tests.support.histories import History

NUMBERS = {"quotes": "price", "rooms": "celsius"}
WHOLE = {"quotes": "lot", "rooms": "floor"}
SHOWN = {
    "quotes": ("quotes.symbol", "quotes.price", "quotes.lot"),
    "rooms": ("rooms.door", "rooms.celsius", "rooms.at"),
}


class JoinHistory(History):
    """Band joins and select-joins, with ranges on either side or none."""

    def _query(self, table: str | None = None) -> StandingQuery:
        if len(self.tables) < 2 or self.random.random() < 0.2:
            return super()._query(table)
        left = table or self.random.choice(sorted(self.tables))
        right = "rooms" if left == "quotes" else "quotes"
        names = [*SHOWN[left], *SHOWN[right]]
        columns = tuple(self.random.sample(names, self.random.randint(1, len(names))))
        regions = (self._range(left), self._range(right))
        if self.random.random() < 0.5:
            low = self.random.uniform(-20, 20)
            band = Interval(low, low + self.random.uniform(0, 15), self.random.random() < 0.3)
            return Join(left, right, NUMBERS[left], NUMBERS[right], columns, band, *regions)
        return Join(left, right, WHOLE[left], WHOLE[right], columns, None, *regions)

    def _range(self, table: str) -> Region:
        if self.random.random() < 0.5:
            return EVERYTHING
        low = self.random.uniform(-10, 60)
        return Region((Box.of(Side(NUMBERS[table], Interval(low, low + self.random.uniform(1, 60)))),))

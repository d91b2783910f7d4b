"""Demo verification: portfolios over made-up prices, and each client's shown values against the truth.

The sender of the rows knows the truth at every position of the log. So each value that a client shows can be
compared with the truth at its own `as_of`, not at the moment it happens to be looked at. A value that is ahead of what
the sender has noted waits until the note is there.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.cli.demo_rivals import Rivals, WeightedSum

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Portfolio:
    """So many shares of each symbol; its worth is to be known within a bound."""

    symbols: tuple[str, ...]
    shares: tuple[float, ...]
    within: float

    @property
    def sql(self) -> str:
        """The standing query."""
        held = ", ".join(f"('{symbol}', {shares:g})" for symbol, shares in zip(self.symbols, self.shares, strict=True))
        return (
            f"SUBSCRIBE SELECT SUM(w * price) FROM quotes JOIN (VALUES {held}) AS p(symbol, w) USING (symbol) "
            f"WITHIN {self.within:g}"
        )


def portfolios(prices: dict[str, float], count: int, width: int, share: float, seed: int) -> list[Portfolio]:
    """Portfolios of `width` symbols each; the bound is this share of what they are worth at first."""
    random = np.random.default_rng(seed)
    symbols = sorted(prices)
    made = []
    for _ in range(count):
        chosen = sorted(random.choice(len(symbols), min(width, len(symbols)), replace=False).tolist())
        shares = random.integers(1, 50, len(chosen)).astype(float).tolist()
        worth = sum(prices[symbols[place]] * held for place, held in zip(chosen, shares, strict=True))
        within = float(f"{worth * share:.3g}")
        made.append(Portfolio(tuple(symbols[place] for place in chosen), tuple(shares), within))
    return made


@dataclass(slots=True)
class ClientView:
    """The values shown to one client."""

    looks: int = 0
    certain: int = 0
    worst: float = 0.0
    """The largest error ÷ bound of a certain value."""
    value: float | None = None
    truth: float | None = None


class Audience:
    """The truth by position, the values shown to clients, and the messages of rivals."""

    def __init__(self, portfolios: Sequence[Portfolio], prices: dict[str, float], position: int) -> None:
        self._symbols = {symbol: place for place, symbol in enumerate(sorted(prices))}
        self._prices: Floats = np.array([prices[symbol] for symbol in sorted(prices)])
        self._weights: Floats = np.zeros((len(portfolios), len(prices)))
        for row, portfolio in enumerate(portfolios):
            for symbol, shares in zip(portfolio.symbols, portfolio.shares, strict=True):
                self._weights[row, self._symbols[symbol]] = shares
        self._within = [portfolio.within for portfolio in portfolios]
        self._positions = [position]
        self._truths = [self._weights @ self._prices]
        self._waiting: list[tuple[int, int, float]] = []
        """Looks whose truth is not known yet: client, position, value."""
        self.seen = [ClientView() for _ in portfolios]
        self.rivals = Rivals(
            [
                WeightedSum(tuple(self._symbols[one] for one in held.symbols), held.shares, held.within)
                for held in portfolios
            ],
            self._prices,
        )

    def sent(self, prices: dict[str, float], position: int) -> None:
        """These prices hold from this position on."""
        places = np.array([self._symbols[symbol] for symbol in prices], np.int64)
        values = np.array(list(prices.values()))
        moved = self._prices[places] != values
        self.rivals.see(places[moved], values[moved])
        self._prices[places] = values
        self._positions.append(position)
        self._truths.append(self._weights @ self._prices)

    def shown(self, client: int, value: float | None, as_of: int | None, *, certain: bool) -> None:
        """A client looks at its value."""
        seen = self.seen[client]
        seen.looks += 1
        seen.certain += certain
        seen.value = value
        if certain and value is not None and as_of is not None:
            self._waiting.append((client, as_of, value))

    def judge(self) -> None:
        """Compare the shown values with the truth, as far as that is known."""
        upto = self._positions[-1]
        later = [look for look in self._waiting if look[1] > upto]
        for client, as_of, value in self._waiting:
            if as_of <= upto:
                place = max(bisect_right(self._positions, as_of) - 1, 0)
                truth = float(self._truths[place][client])
                seen = self.seen[client]
                seen.truth = truth
                seen.worst = max(seen.worst, abs(value - truth) / self._within[client])
        self._waiting = later

    @property
    def worst(self) -> float:
        """The largest error ÷ bound of a value shown as certain."""
        return max((seen.worst for seen in self.seen), default=0.0)

"""Lagrange multipliers: the price of a violated tick for each query, adjusted until its fidelity is met.

Pulls cost something and ticks of violation cost λ; a scheduler that minimises the sum delivers some fidelity, and the
higher λ the higher the fidelity. So the desired fidelity is met by finding λ. That is better than a limit on the risk
of each tick: in a wild hour, in which keeping the bound is dear, more of what 1 − f allows is spent, and pulls are
saved that buy little.

    log λ_q = base + common + own_q

*base* is a first guess, *own* a running sum of (chance of violation − allowed), the classical ascent on a multiplier.
A tick is judged only when all items have been pulled again, a minute too late for a storm; so what is expected of the
ticks not judged yet counts too, where it is worse than what is allowed: trouble is believed at once, calm when it
was seen.
*common* moves all together and fast, by the logarithm of (recent violations / those that may still be spent so that
the sum comes out right over the next `HORIZON` ticks), twice as fast upwards as downwards: a bound that was broken is
worse than a pull too many.
"""

import math
from dataclasses import dataclass, field

from slackwater.planning.pulling.model_constants import (
    EASE,
    FADING,
    FALLING_TIME,
    FIRST_PRICE,
    HIGHEST_COMMON,
    HORIZON,
    LARGEST_ERROR,
    LOWEST_COMMON,
    OWN_REACH,
    OWN_STEP,
    RECENT,
    RISING_TIME,
    SETTLING,
)


@dataclass(slots=True)
class Account:
    """Fidelity account of one query: ticks kept, ticks judged and the balance that sets its price."""

    fidelity: float
    kept: float = 0.0
    judged: float = 0.0
    lost: float = 0.0
    counted: float = 0.0
    debt: float = 0.0
    expected: float = 0.0
    """Σ (chance − allowed) of the ticks that cannot be judged yet, as they were seen when they passed."""
    own: float = 0.0
    soon: list[float] = field(default_factory=list)
    """The chances of these ticks, in a ring."""

    @property
    def allowed(self) -> float:
        """The share of ticks that may be outside."""
        return 1.0 - self.fidelity

    def begin(self, size: int) -> None:
        """Make the ring."""
        self.soon = [self.allowed] * size

    def raised(self, by: float) -> None:
        """Begin as if so much had been owed that the price is e^by times the usual one."""
        self.debt, self.own = by / OWN_STEP, by

    def foresee(self, tick: int, chance: float) -> None:
        """Record the violation chance of a tick that has passed."""
        slot = tick % len(self.soon)
        self.expected += chance - self.soon[slot]
        self.soon[slot] = chance

    def forget(self, tick: int) -> None:
        """Drop a tick that is judged, or never can be."""
        self.foresee(tick, self.allowed)


class Prices:
    """The prices of all queries."""

    def __init__(self, fixed: float | None = None) -> None:
        self.fixed = fixed
        self.common, self.recent, self.settled = 0.0, 1.0, 0

    def judge(self, tick: int, now: int, chances: list[tuple[Account, float]]) -> None:
        """Take the chances that queries were outside at a tick that is past; `now` has just begun."""
        ratio, wanted, judged = 0.0, 0.0, 0
        for account, chance in chances:
            account.kept += 1.0 - chance
            account.judged += 1.0
            if tick < SETTLING:
                continue
            allowed = account.allowed
            account.lost = account.lost * FADING + chance
            account.counted = account.counted * FADING + 1.0
            wish = (allowed * (account.counted + HORIZON) - account.lost) / HORIZON / allowed
            ratio += max(account.soon[(now - 1) % len(account.soon)], chance) / allowed
            wanted += min(max(wish, 0.0), 2.0)
            account.debt += chance - allowed
            account.forget(tick)
            owed = account.debt + max(account.expected, 0.0)
            account.own = min(max(OWN_STEP * owed, -OWN_REACH), OWN_REACH)
            judged += 1
        if judged:
            self.settled += 1
            self.recent += (ratio / judged - self.recent) / min(float(self.settled), RECENT)
            error = math.log((self.recent + EASE) / (wanted / judged + EASE))
            error = min(max(error, -LARGEST_ERROR), LARGEST_ERROR)
            self.common += error / (RISING_TIME if error > 0.0 else FALLING_TIME)
            self.common = min(max(self.common, LOWEST_COMMON), HIGHEST_COMMON)

    def price(self, account: Account, cost: float, share: float) -> float:
        """λ of a query, with the mean cost of a pull and the mean number of queries that hold an item."""
        if self.fixed is not None:
            return self.fixed
        base = math.log(FIRST_PRICE * cost / account.allowed / share)
        return math.exp(base + self.common + account.own)

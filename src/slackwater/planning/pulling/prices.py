"""What a tick outside its bound may cost a query: the price by which fidelity is kept.

Pulls cost something and ticks of violation cost λ; a scheduler that minimises the sum delivers some fidelity, and the
higher λ the higher the fidelity. So the desired fidelity is met by finding λ. That is better than a limit on the risk
of each tick: in a wild hour, in which keeping the bound is dear, more of what 1 − f allows is spent, and pulls are
saved that buy little.

    log λ_q = base + common + own_q

*base* is a first guess, *own* a running sum of (chance of violation − allowed), the classical ascent on a multiplier;
*common* moves all together and fast, by the logarithm of (recent violations / those that may still be spent so that
the sum comes out right over the next `HORIZON` ticks), twice as fast upwards as downwards: a bound that was broken is
worse than a pull too many.
"""

import math
from dataclasses import dataclass

from slackwater.kernels.pull_uncertainty import (
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
    """What one query was delivered, as far as can be told."""

    fidelity: float
    kept: float = 0.0
    judged: float = 0.0
    lost: float = 0.0
    counted: float = 0.0
    own: float = 0.0

    @property
    def allowed(self) -> float:
        """The share of ticks that may be outside."""
        return 1.0 - self.fidelity


class Prices:
    """The prices of all queries."""

    def __init__(self, fixed: float | None = None) -> None:
        self.fixed = fixed
        self.common, self.recent, self.settled = 0.0, 1.0, 0

    def judge(self, tick: int, chances: list[tuple[Account, float]]) -> None:
        """Take the chances that queries were outside at a tick that is past."""
        ratio, wanted, told = 0.0, 0.0, 0
        for account, chance in chances:
            account.kept += 1.0 - chance
            account.judged += 1.0
            if tick < SETTLING:
                continue
            allowed = account.allowed
            account.lost = account.lost * FADING + chance
            account.counted = account.counted * FADING + 1.0
            wish = (allowed * (account.counted + HORIZON) - account.lost) / HORIZON / allowed
            ratio += chance / allowed
            wanted += min(max(wish, 0.0), 2.0)
            account.own = min(max(account.own + OWN_STEP * (chance - allowed), -OWN_REACH), OWN_REACH)
            told += 1
        if told:
            self.settled += 1
            self.recent += (ratio / told - self.recent) / min(float(self.settled), RECENT)
            error = math.log((self.recent + EASE) / (wanted / told + EASE))
            error = min(max(error, -LARGEST_ERROR), LARGEST_ERROR)
            self.common += error / (RISING_TIME if error > 0.0 else FALLING_TIME)
            self.common = min(max(self.common, LOWEST_COMMON), HIGHEST_COMMON)

    def price(self, account: Account, cost: float, share: float) -> float:
        """λ of a query, with the mean cost of a pull and the mean number of queries that hold an item."""
        if self.fixed is not None:
            return self.fixed
        base = math.log(FIRST_PRICE * cost / account.allowed / share)
        return math.exp(base + self.common + account.own)

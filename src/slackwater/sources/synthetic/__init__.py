"""Synthetic data generators with known properties; a new generator is one new file and one line here."""

from slackwater.core.errors import SourceError
from slackwater.sources.synthetic.ar1 import AutoRegression
from slackwater.sources.synthetic.base import Generator
from slackwater.sources.synthetic.market import Market
from slackwater.sources.synthetic.poisson_rows import PoissonRows
from slackwater.sources.synthetic.random_walk import RandomWalk
from slackwater.sources.synthetic.stationary import Stationary
from slackwater.sources.synthetic.trend import LinearTrend, Noise

GENERATORS: dict[str, type[Generator]] = {
    generator.NAME: generator
    for generator in (Market, RandomWalk, AutoRegression, LinearTrend, Stationary, PoissonRows)
}


def generator(name: str) -> type[Generator]:
    """Look up a generator by its name.

    >>> generator("ar1").__name__
    'AutoRegression'
    """
    try:
        return GENERATORS[name]
    except KeyError:
        raise SourceError(f"there is no generator {name!r}; there are {', '.join(sorted(GENERATORS))}") from None


__all__ = [
    "GENERATORS",
    "AutoRegression",
    "Generator",
    "LinearTrend",
    "Market",
    "Noise",
    "PoissonRows",
    "RandomWalk",
    "Stationary",
    "generator",
]

"""Sources of updates: files and their replay, HTTP polling, generators. See `base` for the contract."""

from slackwater.core.backoff import Backoff
from slackwater.sources.base import Source
from slackwater.sources.bodies import BodyFormat
from slackwater.sources.file_format import Format
from slackwater.sources.files import FileSource
from slackwater.sources.http import HttpPoller
from slackwater.sources.inference import AUTO, infer
from slackwater.sources.poll_schedule import (
    Failed,
    Fetched,
    NotModified,
    PollOptions,
    PollOutcome,
    Suspended,
    TokenBucket,
)
from slackwater.sources.read_options import Reading, read_as
from slackwater.sources.replay import FULL_SPEED, Pace, Replay
from slackwater.sources.shape import Shape
from slackwater.sources.synthetic import (
    GENERATORS,
    AutoRegression,
    Generator,
    LinearTrend,
    Market,
    Noise,
    PoissonRows,
    RandomWalk,
    Stationary,
    generator,
)

__all__ = [
    "AUTO",
    "FULL_SPEED",
    "GENERATORS",
    "AutoRegression",
    "Backoff",
    "BodyFormat",
    "Failed",
    "Fetched",
    "FileSource",
    "Format",
    "Generator",
    "HttpPoller",
    "LinearTrend",
    "Market",
    "Noise",
    "NotModified",
    "Pace",
    "PoissonRows",
    "PollOptions",
    "PollOutcome",
    "RandomWalk",
    "Reading",
    "Replay",
    "Shape",
    "Source",
    "Stationary",
    "Suspended",
    "TokenBucket",
    "generator",
    "infer",
    "read_as",
]

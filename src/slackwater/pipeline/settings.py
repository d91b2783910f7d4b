"""Spark settings: every one that is not Spark's own default, with the reason beside it.

The micro-batch settings were found by measuring: together they bring an empty micro-batch on one machine from
about 130 ms to below 60. What only makes sense on one machine is in `LOCAL`, the rest in `EVERYWHERE`.
"""

from dataclasses import dataclass
from pathlib import Path

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_LOGGING = (Path(__file__).parent / "log4j2.properties").as_uri()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting and why it is set."""

    name: str
    value: str
    why: str


EVERYWHERE: tuple[Setting, ...] = (
    Setting("spark.ui.enabled", "false", "a web server on every machine that runs a test; progress is reported by us"),
    Setting("spark.ui.showConsoleProgress", "false", "Spark's own bar writes over ours"),
    Setting("spark.sql.session.timeZone", "UTC", "instants are UTC everywhere; the machine's zone must not matter"),
    Setting(
        "spark.sql.streaming.checkpoint.fileChecksum.enabled",
        "false",
        "doubles the small files of every micro-batch; positions are checked by the manifest",
    ),
    Setting(
        "spark.sql.streaming.pollingDelay",
        "5ms",
        "how long an idle stream waits before it looks again: half of the default, and half of what it adds to a "
        "batch; 0 would keep a core busy for nothing",
    ),
    Setting(
        "spark.sql.adaptive.enabled",
        "false",
        "plans each stage anew from what the one before produced; our stages have known sizes, so it only costs time",
    ),
    Setting(
        "spark.sql.execution.arrow.pyspark.fallback.enabled",
        "false",
        "where Arrow cannot be used we want to hear of it, not to move rows one by one",
    ),
    Setting(
        "spark.python.worker.reuse",
        "true",
        "a worker keeps the log open and compiled loops warm; importing them anew would take a second",
    ),
    Setting(
        "spark.sql.streaming.minBatchesToRetain",
        "10",
        "the manifest says what counts; Spark's own memory of old batches is not needed to go back",
    ),
    Setting("spark.driver.memory", "1g", "only file names and counts reach the driver, whatever the data's size"),
)

LOCAL: tuple[Setting, ...] = (
    Setting("spark.driver.host", "127.0.0.1", "nothing leaves the machine; names may not resolve on a fresh one"),
    Setting("spark.driver.bindAddress", "127.0.0.1", "nor does anything listen to the outside"),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        "the default starts chmod and readlink as processes, about 35 ms twice a batch",
    ),
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "Spark and its Python workers are on one machine: saves over 40 ms a task against TCP",
    ),
    Setting(
        "spark.driver.extraJavaOptions",
        f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss8m -Dlog4j2.configurationFile={_LOGGING}",
        "starts and warms up sooner; without the larger stack, stopping a stream sometimes overflows it; and nothing "
        "is printed at every start",
    ),
    Setting(
        "spark.python.daemon.module",
        "slackwater.pipeline.daemon",
        "Spark's own prints a traceback for every Python worker that waits when a session stops",
    ),
)

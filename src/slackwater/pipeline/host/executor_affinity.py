"""Executor affinity: tasks that prefer the executor with their live state.

Spark has this for its own caches: a partition may say at which executor it would rather be computed, and waits a moment
for it. Python's interface leaves it out, so the partitions are made in Java.
"""

import re
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark import RDD, SparkContext
from pyspark.serializers import CPickleSerializer

from slackwater.pipeline.host.shards import ShardReport, ShardTask


def placed(context: SparkContext, values: Sequence[int], executors: Sequence[str | None]) -> "RDD[int]":
    """One partition for each value; each would rather be computed at its executor, if it has one."""
    java = context._jvm
    assert java is not None
    serializer: Any = CPickleSerializer()
    elements = java.java.util.ArrayList()
    for value, executor in zip(values, executors, strict=True):
        places = java.java.util.ArrayList()
        if executor is not None:
            # The host in the name only matters where the executor is not known any more.
            places.add(f"executor_localhost_{executor}")
        elements.add(java.scala.Tuple2(bytearray(serializer.dumps(value)), _sequence(java, places)))
    rdd = context._jsc.sc().makeRDD(_sequence(java, elements), _bytes_tag(java))
    return RDD(rdd.toJavaRDD(), context, serializer)


def executor_ids(context: SparkContext) -> list[str]:
    """The executors there are now; none where the driver does the work itself."""
    found = context._jsc.sc().getExecutorIds()
    return sorted(found.apply(nth) for nth in range(found.size()))


def wait_for_executors(context: SparkContext, master: str, seconds: float = 60.0) -> None:
    """Return when as many executors are there as were asked for, or when that takes too long."""
    local = re.fullmatch(r"local-cluster\[(\d+),.*\]", master)
    wanted = int(local[1]) if local else int(context.getConf().get("spark.executor.instances", "0") or 0)
    give_up = time.monotonic() + seconds
    while len(executor_ids(context)) < wanted and time.monotonic() < give_up:
        time.sleep(0.05)


class OnExecutors:
    """Runs each shard in a task of its own, at the executor that had it the last time."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._places: dict[int, str] = {}

    @property
    def width(self) -> int:
        """One shard for each executor."""
        return max(1, len(executor_ids(self._context)))

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        """Run one job."""
        reports = placed(self._context, shards, self._executors(shards)).mapPartitions(task).collect()
        return [msgspec.msgpack.decode(one, type=ShardReport) for one in reports]

    def _executors(self, shards: list[int]) -> list[str | None]:
        """Where each shard is; one whose executor is gone gets the one with the fewest."""
        there = executor_ids(self._context)
        if not there:
            return [None] * len(shards)
        self._places = {shard: at for shard, at in self._places.items() if at in there and shard in shards}
        for shard in shards:
            if shard not in self._places:
                taken = list(self._places.values())
                self._places[shard] = min(there, key=lambda one: (taken.count(one), one))
        return [self._places[shard] for shard in shards]


def _sequence(java: Any, elements: Any) -> Any:
    return java.scala.jdk.javaapi.CollectionConverters.asScala(elements).toSeq()


def _bytes_tag(java: Any) -> Any:
    module = getattr(getattr(java, "scala.reflect.ClassTag$"), "MODULE$")
    return module.apply(java.java.lang.Class.forName("[B"))

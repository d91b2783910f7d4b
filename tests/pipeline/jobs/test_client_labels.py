"""Labels made on Spark are, client by client, the library's; a plan is published once, whole and in order."""

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from slackwater.core import Operation, TableSchema
from slackwater.core.errors import StoreError
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.labels import Labels
from slackwater.core.lineage import Place
from slackwater.core.region import Box, Region, Side
from slackwater.core.types import Position, Row
from slackwater.core.update import Update
from slackwater.hosting import published_labels
from slackwater.hosting.published_labels import LabelsFolder, PublishedPlan, read_all, read_client, read_plan
from slackwater.planning.push_pull.cost_models import Linear, LinearCost, Messages, Pricing
from slackwater.planning.push_pull.encoding import Asked, Changed, Stored, encode
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.label_many import Activity, Demand, label_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.pipeline.conftest import World

COLUMNS = ("celsius", "floor", "door", "open")
PRICINGS: Mapping[str, Pricing] = {"M1": Messages(), "M3": Linear(LinearCost(3.0, 0.5), LinearCost(2.0, 0.25))}
Question = tuple[str, str, Region, float, int]


def fold(updates: list[Update], table: TableSchema, columns: tuple[str, ...]) -> tuple[list[Changed], list[Stored]]:
    """What an update changes, as plainly as it can be said."""
    ranks: dict[Row, tuple[object, ...]] = {}
    rows: dict[Row, Row] = {}
    changed = []

    def place(row: Row) -> dict[str, bool | int | float | str | None]:
        return {column: row[table.index(column)] for column in columns}

    for update in updates:
        key = table.key_of(update.row)
        if key in ranks and tuple(update.rank) <= ranks[key]:
            continue
        ranks[key] = tuple(update.rank)
        was = rows.pop(key, None)
        if update.operation is Operation.UPSERT:
            rows[key] = update.row
            if was != update.row:
                changed.append(Changed(place(update.row), None if was is None else place(was)))
        elif was is not None:
            changed.append(Changed(place(was)))
    return changed, [Stored(place(row)) for row in rows.values()]


def draw_extent(random: Random, column: str) -> Extent:
    chosen: frozenset[bool | int | float | str]
    if column in ("door", "open"):
        chosen = frozenset(random.choices([True, False] if column == "open" else ["a", "ä", "z/", "?"], k=2))
        options: list[Extent] = [Categories(chosen), Categories(chosen, complement=True), Missing()]
        return random.choice(options)
    low = random.randint(-2, 2) if column == "floor" else round(random.uniform(-50, 40), 1)
    high = low + (random.randint(0, 2) if column == "floor" else 10)
    bounded: list[Extent] = [Interval(low, high), Interval(low, high + 1, low_open=True, high_open=True)]
    return random.choice([*bounded, Interval(low, None), Interval(None, high, high_open=True), Interval(low, low)])


def questions(seed: int, clients: int) -> list[Question]:
    """Clients that ask by one attribute, by two, by categories, and by a mixture; some of two tables."""
    random = Random(seed)
    answer = []
    for client in range(clients):
        columns = [("celsius",), ("celsius", "floor"), ("door", "open"), ("celsius", "door")][client % 4]
        for _ in range(random.randint(1, 12)):
            asked = random.sample(columns, random.randint(1, len(columns)))
            region = Region((Box.of(*(Side(column, draw_extent(random, column)) for column in asked)),))
            answer.append((f"client-{client}", "rooms / 1", region, 1.0, random.randint(1, 4)))
        if client % 5 == 0:
            region = Region((Box.of(Side("price", draw_extent(random, "celsius"))),))
            answer.append((f"client-{client}", "quotes", region, 1.0, 9))
    return answer


def frame(spark: "SparkSession", asked: list[Question], partitions: int) -> "DataFrame":
    from slackwater.pipeline.jobs.client_labels import ASKED, region_text
    from slackwater.pipeline.tables.frames import spark_schema

    rows = [(client, table, region_text(region), price, times) for client, table, region, price, times in asked]
    return spark.createDataFrame(rows, spark_schema(ASKED)).repartition(partitions)


def expected(
    world: "World", asked: list[Question], updates: Mapping[str, list[Update]], pricing: Pricing, limits: dict[str, int]
) -> dict[tuple[str, str], tuple[tuple[str, ...], Region]]:
    """The labels of every client, made here one after the other, and each checked against the plain encoding."""
    planned = {"quotes": (world.quotes, ("price",)), "rooms / 1": (world.rooms, COLUMNS)}
    happened = {name: fold(updates[name], table, columns) for name, (table, columns) in planned.items()}
    activities = {name: Activity.of(planned[name][1], *events, pricing) for name, events in happened.items()}
    answer = {}
    for client, table in {(client, table) for client, table, *_ in asked}:
        own = [Asked(region, price, times) for c, t, region, price, times in asked if (c, t) == (client, table)]
        activity = activities[table]
        demands = [Demand(activity.footprint(one.region), one.price, one.times) for one in own]
        limit = limits.get(client) if table == "rooms / 1" else None
        plan = label_client(activity, demands, limit)
        changed, stored = happened[table]
        if limit is None:
            least = exact(encode(planned[table][1], own, changed, pricing, stored).workload).cost
            assert plan.cost == pytest.approx(least)
        else:
            assert sum(plan.pushed.contains(held.place.get) for held in stored) <= limit
        answer[client, table] = plan.attributes, plan.pushed
    return answer


@dataclass(frozen=True)
class KeptRows:
    """A folder of latest and history, and the updates that made it."""

    folder: Path
    updates: Mapping[str, list[Update]]


@pytest.fixture(scope="module")
def kept(spark: "SparkSession", world: "World", tmp_path_factory: pytest.TempPathFactory) -> KeptRows:
    from slackwater.pipeline.tables.stream import run_pipeline

    folder = tmp_path_factory.mktemp("labels")
    history = world.history(3, batches=14, rows=60)
    log = history.write(folder / "log")
    with run_pipeline(log, folder / "kept", spark, available_now=True) as pipeline:
        pipeline.wait()
    return KeptRows(folder / "kept", {table.name: history.updates(table) for table in (world.quotes, world.rooms)})


def labelled(folder: Path, plan: PublishedPlan) -> dict[tuple[str, str], tuple[tuple[str, ...], Region]]:
    found = list(read_all(folder, plan))
    assert {(one.epoch, one.position) for one in found} == {(plan.epoch, plan.position)}
    assert len({(one.client, one.table) for one in found}) == len(found) == plan.clients
    return {(one.client, one.table): (one.attributes, one.pushed) for one in found}


def content(folder: Path, plan: PublishedPlan) -> list[bytes]:
    return [path.read_bytes() for path in sorted((folder / "labels" / f"{plan.epoch:020d}").iterdir())]


@pytest.mark.parametrize("model", PRICINGS)
def test_labels_on_spark_are_those_of_the_library_client_by_client(
    spark: "SparkSession", world: "World", kept: KeptRows, tmp_path: Path, model: str
) -> None:
    from slackwater.pipeline.jobs.client_labels import LIMITS, label_clients
    from slackwater.pipeline.jobs.table_activity import TablePlan
    from slackwater.pipeline.tables.frames import spark_schema

    asked, pricing = questions(1, clients=20), PRICINGS[model]
    limits = {f"client-{client}": client % 7 for client in range(0, 20, 3)}
    rooms = spark.createDataFrame([(c, "rooms / 1", rows) for c, rows in limits.items()], spark_schema(LIMITS))
    tables = {"quotes": TablePlan(("price",), pricing), "rooms / 1": TablePlan(COLUMNS, pricing)}
    plan = label_clients(spark, kept.folder, tmp_path / "plans", frame(spark, asked, 3), tables, rooms, buckets=5)
    found = labelled(tmp_path / "plans", plan)
    assert found == expected(world, asked, kept.updates, pricing, limits)
    assert any(not region.empty for _, region in found.values())
    assert plan.size == sum(map(len, content(tmp_path / "plans", plan)))
    mine = read_client(tmp_path / "plans", plan, "client-5")
    assert [one.table for one in mine] == ["quotes", "rooms / 1"]

    # Counts from caches beside the log of queries, in other pieces, dealt out otherwise: the same bytes.
    pieces = [(*one[:4], 1) for one in asked for _ in range(one[4])]
    Random(2).shuffle(pieces)
    half = len(pieces) // 2
    both = frame(spark, pieces[:half], 2).unionByName(frame(spark, pieces[half:], 4))
    again = label_clients(spark, kept.folder, tmp_path / "again", both, tables, rooms, buckets=5)
    assert again == plan
    assert content(tmp_path / "again", again) == content(tmp_path / "plans", plan)


def test_events_before_the_window_do_not_count(spark: "SparkSession", kept: KeptRows) -> None:
    from slackwater.pipeline.jobs.table_activity import TablePlan, table_activity
    from slackwater.pipeline.tables.snapshot import snapshot

    now = snapshot(kept.folder)
    everything = table_activity(spark, now, "quotes", TablePlan(("price",), Messages()))
    late = table_activity(spark, now, "quotes", TablePlan(("price",), Messages(), since=now.position // 2))
    none = table_activity(spark, now, "quotes", TablePlan(("price",), Messages(), since=now.position))
    counts = [one.push.sum() + one.moves.costs.sum() for one in (everything, late, none)]
    assert counts[0] > counts[1] > counts[2] == 0
    assert everything.rows.sum() == late.rows.sum() == none.rows.sum() > 0


def test_who_dies_before_publishing_is_followed_by_the_same_plan(
    spark: "SparkSession", kept: KeptRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.pipeline.jobs.client_labels import label_clients
    from slackwater.pipeline.jobs.table_activity import TablePlan

    asked, out = frame(spark, questions(2, clients=12), 2), tmp_path / "plans"
    tables = {"quotes": TablePlan(("price",), Messages()), "rooms / 1": TablePlan(COLUMNS, Messages())}
    reference = label_clients(spark, kept.folder, tmp_path / "reference", asked, tables, buckets=4)

    def dies(self: LabelsFolder, plan: PublishedPlan) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(LabelsFolder, "publish", dies)
        with pytest.raises(MemoryError):
            label_clients(spark, kept.folder, out, asked, tables, buckets=4)
    assert read_plan(out) is None
    [some, *_] = sorted((out / "labels" / f"{1:020d}").iterdir())
    some.write_bytes(b"half a li")
    (some.parent / ".00001.labels.77").write_bytes(b"a draft")
    plan = label_clients(spark, kept.folder, out, asked, tables, buckets=4)
    assert plan == reference
    assert content(out, plan) == content(tmp_path / "reference", reference)
    stamp = some.stat().st_mtime_ns
    assert label_clients(spark, kept.folder, out, asked, tables, buckets=4) == plan
    assert some.stat().st_mtime_ns == stamp, "what is published is not made again"


def test_a_table_that_is_not_planned_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.pipeline.jobs.client_labels import write_labels

    asked = frame(spark, [("c", "cars", Region((Box(),)), 1.0, 1)], 1)
    with pytest.raises(Exception, match="'cars', which is not planned; these are: quotes"):
        write_labels(
            spark, tmp_path, 1, Position(1), asked, {"quotes": Activity.of(("price",), [], [], Messages())}, buckets=1
        )


def published(writer: LabelsFolder, position: int, lines: list[str], incarnation: int = 7) -> PublishedPlan:
    begun = writer.begin(Place(incarnation, Position(position)))
    assert isinstance(begun, published_labels.Begun)
    files = (published_labels.write_bucket(writer.folder, begun.epoch, 0, lines),)
    plan = PublishedPlan(begun.epoch, position, 1, files, incarnation=incarnation)
    writer.publish(plan)
    return plan


def test_epochs_and_positions_never_go_back(tmp_path: Path) -> None:
    line = published_labels_line("c")
    with LabelsFolder(tmp_path) as writer:
        first = published(writer, 10, [line])
        assert writer.begin(Place(7, Position(10))) == first
        with pytest.raises(StoreError, match="would go back"):
            writer.begin(Place(7, Position(9)))
        with pytest.raises(StoreError, match="has epoch 2"):
            writer.publish(PublishedPlan(5, 20, 1, ()))
        with pytest.raises(StoreError, match="after 10"):
            writer.publish(PublishedPlan(2, 10, 1, (), incarnation=7))
        with pytest.raises(StoreError, match="planned into by another"):
            LabelsFolder(tmp_path)
    for position in (20, 30, 40):
        with LabelsFolder(tmp_path) as writer:
            plan = published(writer, position, [line])
    assert plan.epoch == 4
    assert published_labels.published_epochs(tmp_path) == [3, 4]
    assert read_plan(tmp_path) == plan
    assert read_plan(tmp_path, 2) is None
    assert len(list((tmp_path / "labels").iterdir())) == 2


def test_at_the_same_position_of_another_history_there_is_another_plan(tmp_path: Path) -> None:
    with LabelsFolder(tmp_path) as writer:
        published(writer, 30, [published_labels_line("c")])
        restored = published(writer, 30, [published_labels_line("d")], incarnation=8)
        assert restored.epoch == 2
        assert published(writer, 20, [published_labels_line("d")], incarnation=9).epoch == 3


def test_a_bucket_that_was_tampered_with_or_never_written_is_refused(tmp_path: Path) -> None:
    with LabelsFolder(tmp_path) as writer:
        plan = published(writer, 10, [published_labels_line("c")])
        missing = PublishedPlan(2, 20, 1, (published_labels.LabelsFile(0, 1, 1, ""),))
        with pytest.raises(StoreError, match="never written"):
            writer.publish(missing)
    [path] = (tmp_path / "labels" / f"{1:020d}").iterdir()
    path.write_bytes(path.read_bytes().replace(b'"c"', b'"d"'))
    with pytest.raises(StoreError, match="not what was published"):
        list(read_all(tmp_path, plan))


def published_labels_line(client: str) -> str:
    from slackwater.core.labels import labels_line

    return labels_line(Labels(client, "t", 1, Position(10), ("a",), Region(())))


DRIVER = """
import sys
from pathlib import Path
from slackwater.core.extent import Interval
from slackwater.core.region import Box, Region, Side
from slackwater.pipeline.jobs.client_labels import ASKED, label_clients, region_text
from slackwater.pipeline.tables.frames import spark_schema
from slackwater.pipeline.session import build_session
from slackwater.pipeline.jobs.table_activity import TablePlan
from slackwater.planning.push_pull.cost_models import Messages

kept, out, master = sys.argv[1:]
session = build_session(master)
rows = [
    (f"c{k}", "quotes", region_text(Region((Box.of(Side("price", Interval(q, q + 5 + k % 9))),))), 1.0, 1 + k % 3)
    for k in range(600) for q in range(-50, 50, 2)
]
print("begins", flush=True)
plan = label_clients(session, kept, out, session.createDataFrame(rows, spark_schema(ASKED)),
                     {"quotes": TablePlan(("price",), Messages())}, buckets=24)
print("done", plan.epoch, plan.position, flush=True)
session.stop()
"""


@pytest.mark.slow
def test_a_killed_driver_and_its_successor_publish_what_an_undisturbed_one_does(kept: KeptRows, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)

    said = tmp_path / "said"

    def start(out: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(script), str(kept.folder), str(out), "local[2]"]
        with said.open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output)

    def finish(out: Path) -> PublishedPlan:
        assert start(out).wait(120) == 0, said.read_text()
        plan = read_plan(out)
        assert plan is not None
        return plan

    reference = finish(tmp_path / "reference")
    out = tmp_path / "plans"
    for wanted in (0, 3, 12):
        process = start(out)
        deadline = time.monotonic() + 120
        while len(list(out.glob("labels/*/*.labels"))) < wanted or not (out / "begun").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert read_plan(out) is None
    plan = finish(out)
    assert plan == reference
    assert content(out, plan) == content(tmp_path / "reference", reference)

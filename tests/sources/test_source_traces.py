"""The real traces beside the checkout: each is read to the last cell."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.core import DataType
from slackwater.sources import FileSource, Shape, infer

FOLDER = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of traces is not beside the checkout"),
]

CASES: list[tuple[str, dict[str, Any], Shape]] = [
    ("aarhus_traffic_speed_120sensors.parquet", {"timezone": "Europe/Copenhagen"}, Shape.WIDE),
    ("analyst_ratings_events.parquet", {"key": ("symbol", "firm"), "timezone": "UTC"}, Shape.LONG),
    ("beijing_air_12stations_hourly.parquet", {"timezone": "Asia/Shanghai"}, Shape.LONG),
    ("melbourne_daily_max_temp.csv", {"timezone": "Australia/Melbourne"}, Shape.WIDE),
    ("melbourne_daily_min_temp.csv", {"timezone": "Australia/Melbourne"}, Shape.WIDE),
    ("sdss_dr14_objects_10k.parquet", {"key": ("plate", "fiberid", "mjd")}, Shape.LONG),
    ("skyserver_ra_queries.parquet", {}, Shape.LONG),
    ("sp500_fundamentals_history.parquet", {}, Shape.LONG),
    ("stocks_1min_close_98sym.parquet", {}, Shape.WIDE),
    ("stocks_1sec_4sym_5days_2013.parquet", {"timezone": "America/New_York"}, Shape.WIDE),
    ("uci_online_retail_events.parquet", {"key": ("invoice", "stock_code"), "timezone": "Europe/London"}, Shape.LONG),
    ("ulb_library_motes_19nodes_1min.parquet", {"key": ("node",), "timezone": "Europe/Brussels"}, Shape.LONG),
    ("us_car_listings_2018_2019.parquet", {"timezone": "America/Chicago"}, Shape.LONG),
]


def cells(path: Path, shape: Shape) -> int:
    if path.suffix == ".csv":
        return sum(1 for line in path.read_text().splitlines()[1:] if line)
    table = pq.read_table(path)
    if shape is Shape.LONG:
        return int(table.num_rows)
    return sum(len(column) - column.null_count for column in table.drop_columns("ts").columns)


@pytest.mark.parametrize(("name", "options", "shape"), CASES, ids=[name for name, _, _ in CASES])
def test_every_update_arrives_once(name: str, options: dict[str, Any], shape: Shape) -> None:
    reading = infer(FOLDER / name, **options)
    assert reading.shape is shape
    assert not reading.lacks_timezone
    expected = cells(FOLDER / name, shape)
    count, latest = 0, -1
    for arrival in FileSource(reading).arrivals():
        sequence = arrival.batch.column("$seq").to_numpy()
        assert sequence[0] > latest
        assert np.all(np.diff(sequence) > 0)
        latest = int(sequence[-1])
        count += arrival.batch.num_rows
        assert not arrival.refused
        for column in reading.schema.columns:
            assert column.name in arrival.batch.schema.names
    assert count == expected


def test_the_times_of_the_sky_survey_are_numbers() -> None:
    reading = infer(FOLDER / "sdss_dr14_objects_10k.parquet", key=("plate", "fiberid", "mjd"))
    assert reading.time is None
    assert reading.schema.column("mjd").type is DataType.BIGINT


def test_a_trace_that_no_case_names_is_read_by_inference_alone() -> None:
    named = {name for name, _, _ in CASES}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in (".csv", ".parquet") and path.name not in named:
            assert infer(path).schema.columns, path.name


def test_a_wide_cell_is_the_cell_of_the_table() -> None:
    path = FOLDER / "stocks_1min_close_98sym.parquet"
    table = pq.read_table(path)
    arrival = next(FileSource(infer(path)).arrivals())
    row = arrival.batch.slice(57, 1).to_pylist()[0]
    names = [name for name in table.column_names if name != "ts"]
    number, column = divmod(row["$seq"], len(names))
    assert row["item"] == names[column]
    assert pa.scalar(row["value"], pa.float32()) == table.column(row["item"])[number - 1]
    assert row["ts"] == table.column("ts")[number - 1].as_py()

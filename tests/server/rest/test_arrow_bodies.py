"""Arrow streams from strangers: plain columns, or a sentence; never much out of little."""

import io
import random
from contextlib import suppress

import pyarrow as pa
import pytest

from slackwater.core.errors import SourceError
from slackwater.server.rest.arrow_bodies import read_batches

PLAIN = pa.RecordBatch.from_pydict(
    {
        "k": pa.array(["a", None, "c"]),
        "n": pa.array([1, 2, 3], pa.int32()),
        "at": pa.array([1, 2, 3], pa.timestamp("ms")),
    }
)


def stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    return sink.getvalue()


def test_plain_columns_come_through() -> None:
    assert read_batches(stream(PLAIN), 6) == [PLAIN, PLAIN]
    with pytest.raises(SourceError, match="5 rows"):
        read_batches(stream(PLAIN), 5)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_ones_are_refused_before_they_are_unpacked(compression: str) -> None:
    bomb = pa.RecordBatch.from_pydict({"k": ["x" * 1000] * 1000})
    with pytest.raises(SourceError, match="compress"):
        read_batches(stream(bomb, compression), 10_000)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array(["a", "b"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["x"])),
    ],
)
def test_columns_that_can_grow_are_refused(column: pa.Array) -> None:
    with pytest.raises(SourceError, match="not taken"):
        read_batches(stream(pa.RecordBatch.from_arrays([column], names=["k"])), 100)


def test_damaged_streams_give_a_sentence_or_rows() -> None:
    whole = stream(PLAIN)
    rng = random.Random(7)
    for _ in range(500):
        damaged = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with suppress(SourceError):  # anything else is a defect
            read_batches(bytes(damaged), 100)

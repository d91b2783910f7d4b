"""Row batches: rows cut into requests of bounded size, as JSON lines or as Arrow streams."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from slackwater.client.ingest.row_forms import RowsLike, arrow_stream, pieces
from slackwater.dissemination.messages import ColumnRows

MOST_ROWS: Final = 10_000
MOST_BYTES: Final = 8 << 20
"""Of one request; half of what a server takes, and little enough to repeat."""
MOST_ARROW_ROWS: Final = 50_000
"""Of one request as Arrow; half of what a server takes."""
_encoder = msgspec.json.Encoder()


def batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[bytes, int]]:
    """Rows as bodies of requests, each with how many rows it has.

    >>> [(body, count) for body, count in batches([{"symbol": "A", "price": 1.5}])]
    [(b'{"symbol":"A","price":1.5}\\n', 1)]
    """
    body, count = bytearray(), 0
    for row in rows:
        line = _line(row)
        if count == MOST_ROWS or (count and len(body) + len(line) > MOST_BYTES):
            yield bytes(body), count
            body, count = bytearray(), 0
        body += line
        body += b"\n"
        count += 1
    if count:
        yield bytes(body), count


def arrow_batches(rows: RowsLike) -> Iterator[tuple[bytes, int, bool]]:
    """Arrow tables and data frames as bodies of requests, with how many rows each has, and whether it is Arrow."""
    for piece in pieces(rows):
        if isinstance(piece, ColumnRows):
            # A data frame, and no pyarrow to write it with.
            for body, count in batches(
                dict(zip(piece.names, row, strict=True)) for row in zip(*piece.values, strict=True)
            ):
                yield body, count, False
            continue
        fit = int(0.9 * MOST_BYTES * piece.num_rows / max(piece.nbytes, 1))
        step = max(1, min(MOST_ARROW_ROWS, fit))
        for begin in range(0, piece.num_rows, step):
            part = piece.slice(begin, step)
            yield arrow_stream([part]), part.num_rows, True


def _line(row: Mapping[str, Any]) -> bytes:
    for name, cell in row.items():
        # JSON has no word for them, and a null would mean something else.
        if isinstance(cell, float) and cell - cell != 0:
            raise ValueError(
                f"{cell} in column {name} is not a number that can be sent: leave the row out, or write None"
            )
    try:
        return _encoder.encode(row)
    except TypeError as error:
        raise ValueError(
            f"a row cannot be sent: {error}; write its values as bool, int, float, str or datetime"
        ) from None

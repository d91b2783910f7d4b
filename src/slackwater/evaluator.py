"""One-shot SQL evaluator of servers and clients' caches: DuckDB over Arrow columns, in a sandbox.

A query arrives as the statement that our own SQL room has bound and written, never as the text of a stranger. The
database is opened once, because that costs more than most queries: no files, no network, no extensions, settings
locked, one thread. Each query runs on a cursor of its own. Tables are registered on the cursor, where no other query
sees them, and nothing but one SELECT is run, so that no query leaves anything behind. Each may use so much memory, so
much time, so many rows.
"""

import atexit
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from sqlglot import exp

from slackwater.core.errors import NotSupported, SlackwaterError, SqlError
from slackwater.core.query import OneShot
from slackwater.sql import parse

_GROWING = (
    *(exp.Repeat, exp.Pad, exp.GenerateSeries, exp.Space, exp.Explode, exp.Unnest, exp.Lateral),
    *(exp.Format, exp.Replace, exp.RegexpReplace, exp.Translate, exp.GroupConcat, exp.Overlay),
)
"""Functions that amplify their input: DuckDB counts neither the text nor the rows that such a function makes before it
has made them."""
_CHUNK = 8_192


class TooLarge(SlackwaterError):
    """An answer, or what it takes to find it, is over a limit."""


class TooSlow(SlackwaterError):
    """A query ran out of time."""


def too_slow(seconds: float) -> TooSlow:
    """The error of a query that ran out of time."""
    return TooSlow(f"the query took longer than {seconds:g} seconds; ask for less")


def too_much_memory(most: int) -> TooLarge:
    """The error of a query that ran out of memory."""
    return TooLarge(f"the query needs more than {most // 1024**2} MiB of memory; ask for less")


class EvaluationLimits(Protocol):
    """How much one query may use: seconds, and bytes of memory; rows and bytes of its answer."""

    @property
    def query_seconds(self) -> float:
        """Until it has to be done."""
        ...

    @property
    def query_memory(self) -> int:
        """What it may take to find the answer."""
        ...

    @property
    def query_rows(self) -> int:
        """Rows of the answer."""
        ...

    @property
    def query_bytes(self) -> int:
        """Bytes of the answer."""
        ...


class Readable(Protocol):
    """Arrow columns in memory: a batch or a table, or whatever else gives its rows as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows."""
        ...


@dataclass(frozen=True, slots=True)
class Masked:
    """The rows of a table for which a Boolean column is true; the statement sees the other columns."""

    rows: Readable
    columns: tuple[str, ...]
    mask: str


class Evaluator:
    """Answers one-shot queries; any number of threads may use it, and share its memory."""

    def __init__(self, limits: EvaluationLimits) -> None:
        self.limits = limits
        self._guard = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._watchdog = _Watchdog()

    def statement(self, query: OneShot) -> str:
        """The query in DuckDB's words; what cannot be allowed is refused."""
        tree = parse(query.text).tree
        for node in tree.walk():
            if isinstance(node, _GROWING):
                raise NotSupported(f"{node.key.upper()} is not possible in a query to a server; compute it at home")
            if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
                raise NotSupported(f"there is no function {node.name}")
        return tree.sql(dialect="duckdb")

    def run(self, statement: str, tables: Mapping[str, "Readable | Masked"]) -> pa.Table:
        """Evaluate a statement over these tables and nothing else."""
        database, cursor = self._cursor()
        try:
            for number, (name, rows) in enumerate(tables.items()):
                _show(cursor, name, rows, number)
            return self._limited(cursor, statement)
        except duckdb.OutOfMemoryException:
            self._drop(database)
            raise too_much_memory(self.limits.query_memory) from None
        except (duckdb.FatalException, duckdb.InternalException) as error:
            # After such an error the database takes no more queries.
            self._drop(database)
            raise SqlError(f"the query cannot be evaluated: {_first_sentence(error)}") from None
        finally:
            cursor.close()

    def interrupt(self) -> None:
        """Stop the queries that run, as soon as the database looks."""
        self._watchdog.interrupt()

    def _cursor(self) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]:
        with self._guard:
            if self._database is None:
                self._database = _locked_database(self.limits.query_memory)
            return self._database, self._database.cursor()

    def _drop(self, database: duckdb.DuckDBPyConnection) -> None:
        """Have the next query open a database anew; this one goes with the last query that uses it."""
        with self._guard:
            if self._database is database:
                self._database = None

    def _limited(self, cursor: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
        deadline = time.monotonic() + self.limits.query_seconds
        self._watchdog.watch(cursor, deadline)
        try:
            return self._fetch(cursor, statement, deadline)
        except duckdb.InterruptException:
            raise too_slow(self.limits.query_seconds) from None
        except (duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException):
            raise
        except duckdb.Error as error:
            if time.monotonic() >= deadline:
                raise too_slow(self.limits.query_seconds) from None
            raise SqlError(f"the query cannot be evaluated: {_first_sentence(error)}") from None
        except pa.ArrowException as error:
            raise SqlError(f"the answer cannot be put into columns: {_first_sentence(error)}") from None
        finally:
            self._watchdog.leave(cursor)

    def _fetch(self, cursor: duckdb.DuckDBPyConnection, statement: str, deadline: float) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        statements = cursor.extract_statements(statement)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise SqlError("the query cannot be evaluated: it is not one SELECT")
        with cursor.sql(statements[0]).to_arrow_reader(_CHUNK) as reader:
            for batch in reader:
                rows += batch.num_rows
                size += batch.nbytes
                _check_size(rows, size, self.limits)
                if time.monotonic() > deadline:
                    raise too_slow(self.limits.query_seconds)
                batches.append(batch)
            return pa.Table.from_batches(batches, schema=reader.schema)


class _Watchdog:
    """Interrupts queries at their deadlines.

    All queries have the same time, so one that begins never ends before those that run. The thread sleeps until the
    earliest deadline and is not woken for a query: a timer for each would cost more than most queries.
    """

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self._deadlines: dict[duckdb.DuckDBPyConnection, float] = {}
        self._thread: threading.Thread | None = None
        self._over = False

    def watch(self, cursor: duckdb.DuckDBPyConnection, deadline: float) -> None:
        """A query begins."""
        with self._guard:
            self._deadlines[cursor] = deadline
            if self._thread is None and not self._over:
                self._thread = threading.Thread(target=self._run, name="slackwater-watchdog", daemon=True)
                self._thread.start()
                # The interpreter must not find it asleep when it takes its modules apart.
                atexit.register(self._end)

    def leave(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """A query ended; from now on it is not interrupted."""
        with self._guard:
            self._deadlines.pop(cursor, None)

    def interrupt(self) -> None:
        """Interrupt all queries."""
        with self._guard:
            for cursor in self._deadlines:
                cursor.interrupt()

    def _run(self) -> None:
        """Until there is no query when it looks."""
        with self._guard:
            while self._deadlines and not self._over:
                now = time.monotonic()
                for cursor in [one for one, deadline in self._deadlines.items() if deadline <= now]:
                    del self._deadlines[cursor]
                    cursor.interrupt()
                self._guard.wait(min(self._deadlines.values(), default=now) - now)
            self._thread = None
            atexit.unregister(self._end)

    def _end(self) -> None:
        with self._guard:
            self._over, thread = True, self._thread
            self._guard.notify_all()
        if thread is not None:
            thread.join()


def _locked_database(memory: int) -> duckdb.DuckDBPyConnection:
    """A database that reaches nothing outside itself, and whose settings no statement changes."""
    database = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "memory_limit": f"{memory // 1024}KiB",
            "temp_directory": "",
            "threads": 1,
        },
    )
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    database.execute("SET lock_configuration = true")
    return database


def check_size(found: pa.Table, limits: EvaluationLimits) -> None:
    """Refuse an answer that is over a limit."""
    _check_size(found.num_rows, found.nbytes, limits)


def _check_size(rows: int, size: int, limits: EvaluationLimits) -> None:
    if rows > limits.query_rows:
        raise TooLarge(f"the answer has more than {limits.query_rows:,} rows; write LIMIT, or ask less")
    if size > limits.query_bytes:
        raise TooLarge(f"the answer has more than {limits.query_bytes:,} bytes; ask for less")


def _show(cursor: duckdb.DuckDBPyConnection, name: str, rows: Readable | Masked, number: int) -> None:
    """Give a cursor, and no other, a table by this name."""
    if not isinstance(rows, Masked):
        cursor.register(name, pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)
        return
    # No table of ours has a name that begins so.
    every = f"$every {number}"
    cursor.register(every, rows.rows)
    columns = ", ".join(map(_quoted, rows.columns))
    cursor.execute(
        f"CREATE TEMP VIEW {_quoted(name)} AS SELECT {columns} FROM {_quoted(every)} WHERE {_quoted(rows.mask)}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_sentence(error: Exception) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text[:300]


def plain_rows(found: pa.Table) -> list[list[Any]]:
    """The rows of an answer as JSON has them."""
    try:
        cells = [_plain_cells(column) for column in found.columns]
    except (OverflowError, ValueError) as error:
        raise SqlError(f"the answer has a date or time that JSON cannot show ({error}); cast it to TEXT") from None
    return [list(row) for row in zip(*cells, strict=True)]


def _plain_cells(column: pa.ChunkedArray) -> list[Any]:
    cells: list[Any] = column.to_pylist()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return cells
    if pa.types.is_floating(kind):
        return [cell if cell is None or cell - cell == 0 else None for cell in cells]
    return [_plain(cell) for cell in cells]


def _plain(cell: Any) -> Any:
    """A cell as JSON has it: times as ISO 8601, decimals without a fraction as whole numbers."""
    match cell:
        case None | bool() | int() | str():
            return cell
        case float():
            return cell if cell - cell == 0 else None
        case Decimal():
            return int(cell) if cell == cell.to_integral_value() else float(cell)
        case datetime() | date() | time_of_day():
            return cell.isoformat()
        case timedelta():
            return cell.total_seconds()
        case list():
            return [_plain(one) for one in cell]
        case dict():
            return {str(name): _plain(one) for name, one in cell.items()}
        case bytes():
            return cell.hex()
        case _:
            return str(cell)

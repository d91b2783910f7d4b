"""Durable server store beside the log: tokens, the generation, and a view of the registrations.

One SQLite file in WAL mode, so that `slackwater token` can be used while the server runs, and a killed process
leaves it whole. A token is shown once, when it is made; kept are a salt and the hash of its secret part. The secret
has 256 random bits, so one round of hashing is enough: there is nothing to guess.

The registrations stand in the log; here is a copy of those in force, with the position up to which it is true, for
tools that need not read the log.

On a full disk SQLite cannot open a file that is in WAL mode, even to read it. Then the store is a copy in memory,
which refuses changes, until `refresh` finds room for the file: what was revoked stays revoked, and reads go on.
"""

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from slackwater.core.errors import StoreError
from slackwater.core.hosts import HostKind
from slackwater.core.region import Region
from slackwater.core.region_codec import plain_region, region_of
from slackwater.core.rights import EVERY_ROW, Grant, Rights
from slackwater.core.types import Instant, Position
from slackwater.hosting.step import Registration

STORE_FILE = "server.sqlite"
LONGEST_TOKEN_NAME = 128
_PREFIX = "sw"
_FORMAT = 3
_BUSY_MILLISECONDS = 5_000

_FULL = frozenset(
    {"SQLITE_FULL", "SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_TRUNCATE"}
)

_TABLES = """
CREATE TABLE IF NOT EXISTS token (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, scopes TEXT NOT NULL, salt BLOB NOT NULL, hash BLOB NOT NULL,
    created INTEGER NOT NULL, revoked INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS registration (
    number INTEGER PRIMARY KEY, owner TEXT NOT NULL, name TEXT, text TEXT NOT NULL, position INTEGER NOT NULL,
    epoch INTEGER NOT NULL, host TEXT NOT NULL, rights TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE TABLE IF NOT EXISTS row_right (
    principal TEXT NOT NULL, table_name TEXT NOT NULL, region TEXT NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (principal, table_name)
) STRICT;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
"""


_Row: TypeAlias = tuple[int, str, str | None, str, int, int, str, str]


class Scope(StrEnum):
    """What a token allows."""

    READ = "read"
    """See tables, ask, subscribe."""
    INGEST = "ingest"
    """Send rows."""
    ADMIN = "admin"
    """Make and drop tables, drop anybody's subscription; includes the other two."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: everything but its secret."""

    id: str
    name: str
    scopes: frozenset[Scope]
    created: Instant
    revoked: Instant | None = None

    def allows(self, scope: Scope) -> bool:
        """Whether it is good for this."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class StoreFull(StoreError):
    """No space for a change of the store: nothing of it was kept."""


class Store:
    """The file; one connection, for one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_only = False
        """True while this is a copy in memory, because the disk is full."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._open()
            except (sqlite3.Error, StoreError) as error:
                if not _is_full(error) or not path.exists():
                    raise
                self._database = _copy_in_memory(path)
                self.read_only = True
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"the store at {path} cannot be opened: {error}") from error

    def _open(self) -> None:
        self._database = _connected(self.path)
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            # What was committed survives a power cut: a revoked token must not come back.
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_TABLES)
            self._check_format()
        except BaseException:
            self._database.close()
            raise

    def refresh(self) -> bool:
        """Go back from the copy in memory to the file if there is room; returns whether the file is in use."""
        if self.read_only:
            copy = self._database
            try:
                self._open()
            except (sqlite3.Error, StoreError):
                self._database = copy
                return False
            copy.close()
            self.read_only = False
        return True

    def _check_format(self) -> None:
        if self._fact("format") == _FORMAT:
            return
        # In one transaction: another process may open the file at this moment, and this one may be killed.
        with self._writing():
            found = self._fact("format")
            if found is not None and not 1 <= found <= _FORMAT:
                raise StoreError(f"the store at {self.path} has format {found}, this version reads {_FORMAT}")
            if found == 1:
                # Before there were several hosts.
                self._database.execute("ALTER TABLE registration ADD COLUMN host TEXT NOT NULL DEFAULT 'node'")
            if found in (1, 2):
                self._database.execute("ALTER TABLE registration ADD COLUMN rights TEXT NOT NULL DEFAULT '[]'")
            self._database.execute("INSERT OR REPLACE INTO fact VALUES ('format', ?)", (_FORMAT,))

    # ---- rights

    def grant(self, principal: str, table: str, region: Region, position: int) -> None:
        """Let a principal see these rows of a table alone, from this position of the log on."""
        plain = msgspec.json.encode(plain_region(region)).decode()
        with self._writing():
            self._database.execute(
                "INSERT OR REPLACE INTO row_right VALUES (?, ?, ?, ?)", (principal, table.lower(), plain, position)
            )

    def rights(self) -> Rights:
        """The rights of all principals."""
        grants: dict[str, Grant] = {}
        changed: dict[str, int] = {}
        for principal, table, plain, position in self._rows("SELECT * FROM row_right ORDER BY principal, table_name"):
            region = region_of(msgspec.json.decode(plain))
            grants[principal] = grants.get(principal, EVERY_ROW).granting(table, region)
            changed[principal] = max(changed.get(principal, -1), position)
        return Rights(grants, changed)

    # ---- tokens

    def create_token(self, name: str, scopes: Iterable[Scope], now: Instant) -> tuple[Token, str]:
        """Make a token; the text beside it is shown to its owner and never again."""
        if not 1 <= len(name) <= LONGEST_TOKEN_NAME or not name.isprintable():
            raise StoreError(f"a token's name has 1 to {LONGEST_TOKEN_NAME} printable characters, not {len(name)}")
        if any(token.name == name and token.revoked is None for token in self.tokens()):
            raise StoreError(f"there is a token called {name!r} already; revoke it first, or choose another name")
        token = Token(secrets.token_hex(6), name, frozenset(scopes), now)
        if not token.scopes:
            raise StoreError(f"a token needs a scope: {', '.join(Scope)}")
        secret, salt = secrets.token_urlsafe(32), secrets.token_bytes(16)
        with self._writing():
            self._database.execute(
                "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, NULL)",
                (token.id, name, " ".join(sorted(token.scopes)), salt, _hash(secret, salt), now),
            )
        return token, f"{_PREFIX}_{token.id}_{secret}"

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, the revoked ones too, oldest first."""
        rows = self._rows("SELECT id, name, scopes, created, revoked FROM token ORDER BY created, id")
        return tuple(_token(row) for row in rows)

    def any_token(self) -> bool:
        """True if a token was ever made: then every access needs one, even when all of them are revoked."""
        return bool(self._rows("SELECT 1 FROM token LIMIT 1"))

    def check_token(self, text: str) -> Token | None:
        """The token that this text is, if it is one and not revoked."""
        prefix, _, rest = text.partition("_")
        id_, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret or not text.isascii():
            return None
        rows = self._rows("SELECT id, name, scopes, created, revoked, salt, hash FROM token WHERE id = ?", (id_,))
        if not rows or not hmac.compare_digest(_hash(secret, rows[0][5]), rows[0][6]):
            return None
        token = _token(rows[0][:5])
        return token if token.revoked is None else None

    def in_force(self, token_id: str) -> bool:
        """Whether a token that was good is good still."""
        return bool(self._rows("SELECT 1 FROM token WHERE id = ? AND revoked IS NULL", (token_id,)))

    def revoke_token(self, id_or_name: str, now: Instant) -> Token:
        """Make a token useless from now on."""
        matching = [token for token in self.tokens() if id_or_name in (token.id, token.name) and token.revoked is None]
        if not matching:
            raise StoreError(f"there is no token {id_or_name!r} that is not revoked already")
        with self._writing():
            self._database.execute("UPDATE token SET revoked = ? WHERE id = ?", (now, matching[0].id))
        return matching[0]

    # ---- generation

    @property
    def generation(self) -> int:
        """The latest generation."""
        return self._fact("generation") or 0

    def next_generation(self, at_least: int = 0) -> int:
        """Begin a new generation: higher than all before, and durable before it is used."""
        with self._writing():
            generation = max(self.generation, at_least) + 1
            self._database.execute("INSERT OR REPLACE INTO fact VALUES ('generation', ?)", (generation,))
        return generation

    # ---- registrations

    def keep_registrations(self, registrations: Iterable[Registration], position: Position) -> None:
        """Replace the view by the registrations in force as of a position."""
        wanted = {one.number: _row(one) for one in registrations}
        with self._writing():
            present = {row[0]: row for row in self._rows("SELECT * FROM registration")}
            self._database.executemany(
                "DELETE FROM registration WHERE number = ?", [(number,) for number in present.keys() - wanted.keys()]
            )
            self._insert((row for number, row in wanted.items() if present.get(number) != row), position)

    def change_registrations(self, changed: Iterable[Registration], gone: Iterable[int], position: Position) -> None:
        """Bring the view from where it was to a later position."""
        with self._writing():
            self._database.executemany("DELETE FROM registration WHERE number = ?", [(number,) for number in gone])
            self._insert(map(_row, changed), position)

    def registrations(self) -> tuple[tuple[Registration, ...], Position]:
        """The registrations in force, and as of which position."""
        return self._registrations(), Position(self._fact("registrations") or 0)

    def _insert(self, rows: Iterable[_Row], position: Position) -> None:
        self._database.executemany("INSERT OR REPLACE INTO registration VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._database.execute("INSERT OR REPLACE INTO fact VALUES ('registrations', ?)", (position,))

    def _registrations(self) -> tuple[Registration, ...]:
        rows = self._rows("SELECT * FROM registration ORDER BY number")
        return tuple(
            Registration(
                number, owner, name, text, position, epoch, HostKind(host), Grant.read(msgspec.json.decode(rights))
            )
            for number, owner, name, text, position, epoch, host, rights in rows
        )

    # ---- the file

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fact(self, name: str) -> int | None:
        rows = self._rows("SELECT value FROM fact WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        try:
            with closing(self._database.execute(sql, values)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the store at {self.path} cannot be read: {error}") from error

    def _writing(self) -> "_Transaction":
        if self.read_only:
            raise StoreFull(f"the store at {self.path} cannot be written: the disk is full; free some space")
        return _Transaction(self._database, self.path)


def _row(one: Registration) -> _Row:
    """A registration as a row of its table."""
    rights = msgspec.json.encode(one.rights.plain()).decode() if one.rights.regions else "[]"
    return one.number, one.owner, one.name, one.text, one.position, one.epoch, one.host.value, rights


class _Transaction:
    """Everything inside it, or nothing; takes the right to write at its beginning, so it never has to give up."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database = database
        self._path = path

    def __enter__(self) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._database.execute("COMMIT" if error is None else "ROLLBACK")
        except sqlite3.Error as failed:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise self._failure(failed) from failed
        if isinstance(error, sqlite3.Error):
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        kind = StoreFull if _is_full(error) else StoreError
        return kind(f"the store at {self._path} cannot be written: {error}")


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MILLISECONDS / 1000)


def _copy_in_memory(path: Path) -> sqlite3.Connection:
    """All that is in the file and in its journal. With an exclusive lock SQLite needs no shared memory and no room."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with closing(_connected(path)) as file:
        file.execute("PRAGMA locking_mode = EXCLUSIVE")
        file.backup(copy)
    return copy


def _is_full(error: Exception) -> bool:
    """True where SQLite found no room: for the file, its journal, or the shared memory beside it."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    return getattr(cause, "sqlite_errorname", None) in _FULL


def _token(row: tuple[Any, ...]) -> Token:
    id_, name, scopes, created, revoked = row
    return Token(id_, name, frozenset(Scope(scope) for scope in scopes.split()), created, revoked)


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.blake2b(secret.encode("utf-8", "replace"), salt=salt, digest_size=32).digest()

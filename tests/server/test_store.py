"""Tokens, generation and the view of registrations survive, and no secret is kept."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slackwater.core.errors import StoreError
from slackwater.core.types import Instant, Position
from slackwater.hosting.step import Registration
from slackwater.server.store import Scope, Store

NOW = Instant(1_700_000_000_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.sqlite"


def test_a_token_is_known_by_its_text_alone(path: Path) -> None:
    with Store(path) as store:
        assert not store.any_token()
        token, text = store.create_token("ann", [Scope.READ], NOW)
        assert store.check_token(text) == token
        assert store.any_token()
        for wrong in (
            "",
            "sw",
            text[:-1],
            text + "x",
            text.upper(),
            f"sw_{token.id}_",
            "sw__",
            "x" * 100_000,
            "sw_\ud800_a",
        ):
            assert store.check_token(wrong) is None
    with Store(path) as again:
        assert again.check_token(text) == token


def test_no_part_of_the_secret_is_in_the_file(path: Path) -> None:
    with Store(path) as store:
        _, text = store.create_token("ann", [Scope.READ], NOW)
    secret = text.split("_", 2)[2].encode()
    for file in path.parent.iterdir():
        content = file.read_bytes()
        assert secret not in content
        assert secret[:12] not in content


def test_scopes(path: Path) -> None:
    with Store(path) as store:
        reader, _ = store.create_token("reader", [Scope.READ], NOW)
        admin, _ = store.create_token("admin", [Scope.ADMIN], NOW)
        assert [reader.allows(scope) for scope in Scope] == [True, False, False]
        assert all(admin.allows(scope) for scope in Scope)
        with pytest.raises(StoreError, match="needs a scope"):
            store.create_token("nobody", [], NOW)


def test_revoking_while_another_process_has_the_file_open(path: Path) -> None:
    with Store(path) as server, Store(path) as command:
        token, text = command.create_token("ann", [Scope.READ], NOW)
        assert server.check_token(text) is not None
        with pytest.raises(StoreError, match="already"):
            server.create_token("ann", [Scope.READ], NOW)
        command.revoke_token("ann", NOW)
        assert server.check_token(text) is None
        assert not server.in_force(token.id)
        # Nobody is let in without a token again because all of them are revoked.
        assert server.any_token()
        with pytest.raises(StoreError, match="no token"):
            command.revoke_token("ann", NOW)


def test_generations_rise_over_restarts_and_above_what_is_known_from_elsewhere(path: Path) -> None:
    seen = []
    for known in (0, 0, 41, 0):
        with Store(path) as store:
            seen.append(store.next_generation(known))
    assert seen == [1, 2, 42, 43]


def test_registrations_are_replaced_as_a_whole(path: Path) -> None:
    first = Registration(3, "ann", "tech", "SUBSCRIBE …", Position(3))
    second = Registration(9, "bob", None, "SUBSCRIBE …", Position(9), 2)
    with Store(path) as store:
        store.keep_registrations([first, second], Position(10))
        assert store.registrations() == ((first, second), 10)
        store.keep_registrations([second], Position(12))
        assert store.registrations() == ((second,), 12)
        store.change_registrations([first], [9], Position(13))
        assert store.registrations() == ((first,), 13)


def test_a_failed_change_changes_nothing(path: Path) -> None:
    one = Registration(3, "ann", "tech", "text", Position(3))
    with Store(path) as store:
        store.keep_registrations([one], Position(4))
        broken = Registration(5, "ann", "x", None, Position(5))  # type: ignore[arg-type]
        with pytest.raises(StoreError):
            store.change_registrations([broken], [3], Position(6))
        assert store.registrations() == ((one,), 4)


def test_a_file_of_another_format_is_refused(path: Path) -> None:
    with Store(path):
        pass
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE fact SET value = 99 WHERE name = 'format'")
        database.commit()
    with pytest.raises(StoreError, match="format 99"):
        Store(path)
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(path)


FORMER = """
CREATE TABLE registration (
    number INTEGER PRIMARY KEY, owner TEXT NOT NULL, name TEXT, text TEXT NOT NULL, position INTEGER NOT NULL,
    epoch INTEGER NOT NULL, host TEXT NOT NULL
) STRICT;
CREATE TABLE fact (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO registration VALUES (3, 'ann', 'tech', 'text', 3, 0, 'node');
INSERT INTO fact VALUES ('format', 2);
"""


def test_two_processes_may_open_a_file_of_the_former_format_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(FORMER)
    others: list[Store] = []
    fact = Store._fact

    def and_another_opens(self: Store, name: str) -> int | None:
        found = fact(self, name)
        if not others:
            others.append(self)
            with Store(path):
                pass
        return found

    monkeypatch.setattr(Store, "_fact", and_another_opens)
    with Store(path) as store:
        assert [one.name for one in store.registrations()[0]] == ["tech"]

"""Errors in a settings file name the line."""

from pathlib import Path

import msgspec
import pytest

from slackwater.core.errors import SlackwaterError
from slackwater.core.settings import read_settings


class Feed(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    every: float = 1.0


class Server(msgspec.Struct, forbid_unknown_fields=True):
    port: int = 0
    feeds: list[Feed] = []


class File(msgspec.Struct, forbid_unknown_fields=True):
    server: Server = msgspec.field(default_factory=Server)
    followers: dict[str, Server] = {}


GOOD = """# a file
[server]
port = 1
[[server.feeds]]
name = "a"
text = 0
[[server.feeds]]
name = "b"  # the second
every = 2
[followers.near]
port = 2
[followers."far away"]
port = 3
"""


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (3, 'port = "1"'),
        (3, "ports = 1"),
        (5, "name = 5"),
        (8, "name = 5"),
        (9, "evry = 2"),
        (9, "every = [\n2]"),
        (10, "[follower.near]"),
    ],
)
def test_a_mistake_is_found_in_its_line(tmp_path: Path, line: int, written: str) -> None:
    lines = GOOD.replace("text = 0", "").splitlines()
    lines[line - 1] = written
    path = tmp_path / "a.toml"
    path.write_text("\n".join(lines))
    file = read_settings(path, "write one")
    with pytest.raises(SlackwaterError, match=f"a.toml is no file: line {line}: "):
        file.check(file.content, File, " is no file")


def test_where_the_line_is_not_sure_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[followers.near]\nport = 'a'\n[followers.far]\nport = 2\n")
    file = read_settings(path, "write one")
    with pytest.raises(SlackwaterError, match=r"a.toml is no file: Expected `int`"):
        file.check(file.content, File, " is no file")


def test_a_file_that_is_missing_or_is_not_toml(tmp_path: Path) -> None:
    with pytest.raises(SlackwaterError, match=r"cannot be read .*; write one"):
        read_settings(tmp_path / "none.toml", "write one")
    path = tmp_path / "a.toml"
    path.write_text("[a]\nb = = 2\n")
    with pytest.raises(SlackwaterError, match=r"is not TOML: .*line 2"):
        read_settings(path, "write one")

"""A file is replaced as a whole or not at all, whatever the disk refuses."""

import os
from pathlib import Path
from typing import Any

import pytest

from slackwater.core import disk
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import StoreError


@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_a_refusing_disk_leaves_the_old_content_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "state"
    replace_file(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(disk, step, refuse)
        with pytest.raises(StoreError, match="state cannot be written"):
            replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_content_is_durable_before_it_has_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, steps = tmp_path / "state", list[str]()

    def note(name: str) -> None:
        done = getattr(disk, name)

        def noted(*arguments: Any) -> None:
            steps.append(f"{name} {os.fstat(arguments[0]).st_size}" if name == "sync" else name)
            done(*arguments)

        monkeypatch.setattr(disk, name, noted)

    for name in ("sync", "rename", "sync_folder"):
        note(name)
    replace_file(path, b"12345")
    assert steps == ["sync 5", "rename", "sync_folder"]

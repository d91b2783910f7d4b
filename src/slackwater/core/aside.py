"""Putting aside: parts of a folder moved into its subfolder `aside`, durably and as one.

State that was made from another history of a log must not be mixed with new state, and may be all that is left of that
history. So it is moved, not deleted; what was put aside before makes room. A process that dies in between leaves a
mark, and `finish_aside` completes the move.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from slackwater.core import disk
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import StoreError

ASIDE = "aside"
_MARK = "aside.begun"


def put_aside(folder: Path, names: Iterable[str]) -> Path:
    """Move these files and folders, as far as they are there; returns where they are now."""
    try:
        if not (folder / _MARK).exists():
            if (folder / ASIDE).exists():
                shutil.rmtree(folder / ASIDE)
            replace_file(folder / _MARK, b"")
        finish_aside(folder, names)
    except OSError as error:
        raise StoreError(f"{folder} cannot be put aside: {error}; free its disk, and begin again") from error
    return folder / ASIDE


def finish_aside(folder: Path, names: Iterable[str]) -> None:
    """Complete a move that was begun; without one do nothing."""
    if not (folder / _MARK).exists():
        return
    aside = folder / ASIDE
    aside.mkdir(exist_ok=True)
    for name in names:
        old, new = folder / name, aside / name
        if not old.exists():
            continue
        if new.exists():
            # It was moved before the process died; since then nothing that counts was written.
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        else:
            old.rename(new)
    disk.sync_folder(aside)
    disk.sync_folder(folder)
    (folder / _MARK).unlink()
    disk.sync_folder(folder)

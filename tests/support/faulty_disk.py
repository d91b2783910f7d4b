"""`slackwater …` on a disk that fails on demand: `python faulty_disk.py COMMAND …`, and the server process of it.

The file named by the variable FAULTS says what fails: the function of `core.disk`, the error number, and `once` or
`always`. Only segments of a log are concerned.
"""

import os
from collections.abc import Callable
from pathlib import Path

from tests.support.server_process import ServerProcess

_FAULTS = "SLACKWATER_TEST_FAULTS"


class FaultyServer(ServerProcess):
    """A server whose disk fails on demand."""

    program = (str(Path(__file__)),)

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, *arguments)
        self._faults = folder.with_name(folder.name + ".faults")
        repository = str(Path(__file__).parents[2])
        path = os.pathsep.join([repository, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {_FAULTS: str(self._faults), "PYTHONPATH": path}

    def fail(self, function: str, error: int, *, always: bool = False) -> None:
        """Let a function of `core.disk` fail from now on, or the next time."""
        draft = self._faults.with_suffix(".draft")
        draft.write_text(f"{function} {error} {'always' if always else 'once'}")
        draft.rename(self._faults)

    def mend(self) -> None:
        """Let it work again."""
        self._faults.unlink(missing_ok=True)


def _inject(faults: Path) -> None:
    from slackwater.core import disk

    def failing(name: str, plain: Callable[..., None]) -> Callable[..., None]:
        def call(descriptor: int, *rest: object) -> None:
            concerned = faults.exists() and Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".segment"
            if concerned:
                function, error, how = faults.read_text().split()
                if function == name:
                    if how == "once":
                        faults.unlink()
                    raise OSError(int(error), "injected")
            plain(descriptor, *rest)

        return call

    for name in ("write", "sync", "truncate"):
        setattr(disk, name, failing(name, getattr(disk, name)))


if __name__ == "__main__":
    _inject(Path(os.environ[_FAULTS]))
    from slackwater.cli import main

    main()

"""Endpoint file: the address of a listening node, in its folder; local processes discover each other by it."""

from pathlib import Path

import msgspec

STATE_FILE = "server.json"


class Listening(msgspec.Struct, frozen=True):
    """Where a server listens; written into its folder once it does."""

    host: str
    port: int
    pid: int
    node: str
    generation: int

    @property
    def url(self) -> str:
        """The address for programs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def read_state(folder: Path) -> Listening | None:
    """Read the endpoint of a folder's server; None where there is none."""
    try:
        return msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=Listening)
    except (OSError, msgspec.MsgspecError):
        return None

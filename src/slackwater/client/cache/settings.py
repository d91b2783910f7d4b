"""Cache settings of a client, given when it connects."""

import re
import secrets
from dataclasses import dataclass, field

_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Cache:
    """How a client keeps its cache.

    `rows`: room for so many of each table. `name`: under which the server knows its labels; a program that is started
    again under the same name finds them as they were. Without one it gets a name of its own.
    """

    rows: int = 100_000
    name: str = field(default_factory=lambda: f"client-{secrets.token_hex(6)}")

    def __post_init__(self) -> None:
        if not 1 <= self.rows < 10**12:
            raise ValueError(f"a cache has room for at least one row, not {self.rows}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"the name of a cache has 1 to 64 letters, digits, '_', '.' or '-', not {self.name!r}")

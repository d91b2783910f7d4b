"""Standing queries over fast-changing data, each within the error its user allows, with the fewest messages."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.client import connect, connect_sync

__version__ = "0.1.0"

__all__ = ["__version__", "connect", "connect_sync"]


def __getattr__(name: str) -> object:
    # Importing the package stays cheap: what the client needs is imported by whoever connects.
    if name in ("connect", "connect_sync"):
        import slackwater.client

        return getattr(slackwater.client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

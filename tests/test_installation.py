"""What is installed by default stays small, and what is pinned names no place it came from."""

import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("numba", "numpy", "pyarrow", "pyspark", "pandas", "httpx", "msgspec", "duckdb")


@pytest.mark.parametrize("modules", ["slackwater", "slackwater.core", "slackwater.sql", "slackwater.cli"])
def test_the_base_install_imports_nothing_heavy(modules: str) -> None:
    code = f"import sys, {modules}; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_base_install_requires_little() -> None:
    required = importlib.metadata.requires("slackwater") or []
    base = {re.split(r"[\s<>=!~;\[]", line)[0] for line in required if "extra ==" not in line}
    assert base == {"httpx", "msgspec", "rich", "sqlglot", "typer", "websockets"}


def test_the_extras_are_those_promised() -> None:
    extras = importlib.metadata.metadata("slackwater").get_all("Provides-Extra")
    assert {*(extras or [])} == {"node", "spark", "nats", "cache"}


def test_pins_are_exact_and_name_no_address() -> None:
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert len(pinned) > 20
    for line in pinned:
        assert re.fullmatch(r"[a-z0-9.\-]+(\[[a-z,]+\])?==[^\s@]+( ; .*)?", line), line
    assert "://" not in "\n".join(lines)


def test_make_help_lists_the_targets() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "test-all", "check", "bench", "docs"):
        assert re.search(rf"make {target} +\S", done.stdout), target


def test_ci_runs_the_readmes_test_command() -> None:
    assert "exec make test" in (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_the_wheel_has_the_package_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "slackwater/cli/__init__.py" in names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"slackwater"}


def test_the_package_imports_nothing_that_the_wheel_lacks() -> None:
    outside = re.compile(r"^\s*(?:from|import) (simulation|experiments|benchmarks|tests)\b", re.MULTILINE)
    sources = (ROOT / "src").rglob("*.py")
    assert [str(path) for path in sources if outside.search(path.read_text(encoding="utf-8"))] == []

"""Files, folders, modules and names that the pages mention exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "slackwater"
PAGES = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
DATA_FILES = {"part.py", "pyspark/daemon.py"}
"""Files of other projects, by the path that a page gives them."""
NATS_SUBJECT = re.compile(r"slackwater\.(dial|channel|writer)\.[A-Z]+")

CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.py")
FOLDER = re.compile(r"[\w.-]+(/[\w.-]+)*/")
MODULE = re.compile(r"slackwater(\.\w+)+|python -m ((?:slackwater|experiments|benchmarks|simulation)[\w.]*)( \w+)?")
DEFINED = re.compile(r"`(\w+(?:\.\w+)*)` in `([\w./-]+\.py)`")


@cache
def files() -> tuple[str, ...]:
    """All Python files of the project, by their path from the root."""
    rooms = ("src", "simulation", "experiments", "tests", "benchmarks", "tools")
    return tuple(str(path.relative_to(ROOT)) for room in rooms for path in (ROOT / room).rglob("*.py"))


def matching_files(name: str) -> list[str]:
    """The files that a path means: from the root, or the end of one outside the benchmarks."""
    return [
        path for path in files() if path == name or (path.endswith("/" + name) and not path.startswith("benchmarks"))
    ]


def names_in(path: Path) -> set[str]:
    """Top-level names of a module, and `Class.member`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        for name in defined_by(node):
            found.add(name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for member in node.body for name in defined_by(member)}
    return found


def defined_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name


def module_exists(dotted: str) -> bool:
    """Whether a dotted name is a module or a package, or a name that one of them has."""
    top, *rest = dotted.split(".")
    base = PACKAGE if top == "slackwater" else ROOT / top
    for index, part in enumerate(rest):
        if (base / part).is_dir():
            base = base / part
        elif (base / f"{part}.py").is_file():
            return not rest[index + 1 :] or ".".join(rest[index + 1 :]) in names_in(base / f"{part}.py")
        else:
            init = base / "__init__.py"
            return index + 1 == len(rest) and init.is_file() and re.search(rf"\b{part}\b", init.read_text()) is not None
    return base.is_dir()


def folder_exists(name: str) -> bool:
    return (ROOT / name).is_dir() or (PACKAGE / name).is_dir()


def wrong_references(page: Path) -> list[str]:
    text = page.read_text()
    wrong = []
    for code in CODE.findall(text):
        if FILE.fullmatch(code) and code not in DATA_FILES and not matching_files(code):
            wrong.append(code)
        in_package = "/" in code.rstrip("/") and (PACKAGE / code.split("/")[0]).is_dir()
        if FOLDER.fullmatch(code) and (page.name == "ARCHITECTURE.md" or in_package) and not folder_exists(code):
            wrong.append(code)
        module = MODULE.fullmatch(code)
        if module and not NATS_SUBJECT.match(code) and code != "slackwater.json" and code != "slackwater.toml":
            named = module[2] or code
            if module[3] and named == "benchmarks":
                named += "." + module[3].strip()
            if not module_exists(named):
                wrong.append(code)
    for name, path in DEFINED.findall(text):
        found = matching_files(path)
        if not any(name in names_in(ROOT / one) for one in found):
            wrong.append(f"{name} in {path}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page: Path) -> None:
    assert not wrong_references(page)


def test_files_that_docstrings_mention_exist() -> None:
    mention = re.compile(r"\b(?:tests|docs|benchmarks|experiments|simulation|tools)/[\w/-]+\.(?:py|md|json)")
    missing = [
        f"{path}: {name}" for path in files() if "/tests/" not in f"/{path}"
        for name in mention.findall((ROOT / path).read_text()) if not (ROOT / name).exists()
    ]  # fmt: skip
    assert not missing


def test_modules_that_docstrings_mention_exist() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    missing = [
        f"{path}: {name}"
        for path in files()
        if path.startswith(("src", "simulation", "experiments"))
        for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", (ROOT / path).read_text())
        if name.split(".")[0] in rooms and not FILE.fullmatch(name) and not module_exists(f"slackwater.{name}")
    ]
    assert not missing


@pytest.mark.parametrize(
    "line",
    ["`sessions/said.py`", "`slackwater.lab.plans`", "`Host.joins` in `processing/host.py`", "`server/network/`"],
)
def test_what_does_not_exist_is_found(tmp_path: Path, line: str) -> None:
    page = tmp_path / "ARCHITECTURE.md"
    page.write_text(f"One line: {line}.\n")
    assert wrong_references(page)

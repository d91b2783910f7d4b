"""Lint of the package's structure: seams, dead modules, names; `python tools/check_house.py [ROOT]`.

Part of `make check`. What a linter of single files cannot see, over `src/slackwater`:

kinds       no `isinstance` on a kind of query, or on its values, outside `kinds/` and the operators in `processing/`;
            no `cache_text`
lanes       no test of `.spark` or `.network` against None in `server/`: the node loops over lists
imports     every module is reached from the command line, the package itself, a documented example or the laboratory
            (`simulation`, `experiments`, `benchmarks`), is a published rival, or stands in `TWINS`
classes     one class, one name, but for `PAIRS`
modules     no module is named by a participle, but for `TERMS` of the field and the pairs of adjective and noun
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "slackwater"
LABORATORY = ("simulation", "experiments", "benchmarks")
ROOTS = (PACKAGE, f"{PACKAGE}.__main__", f"{PACKAGE}.cli")

PAIRS = {
    "Answer": "of a one-shot query to a client, of a standing query from an operator: both are public",
    "Catalog": "what a statement may name, and the tables of a log: both are public",
    "Changed": "the answer of REST after a change, and a change in the documented workload of labels",
    "CreateSource": "the syntax node and the statement it binds to",
    "Explanation": "the body that a server sends and the one that a client reads",
    "Problem": "of a request, as in RFC 9457, and the problem that a planner solves: both are public",
    "Refused": "the message, and the exception that the client's library makes of it",
    "Seen": "the report of a client over REST, and what admission has taken in: both are public",
    "Subscribe": "the syntax node, the statement it binds to and the message that carries it",
    "Subscription": "the body of REST and the handle of the client's library: both are public",
    "Suspended": "the message, and the documented outcome of a poll",
}
"""Names that two classes may share, and why."""

TWINS = {
    f"{PACKAGE}.dissemination.transports.memory": "the transport without a network: the plain twin of the others",
    f"{PACKAGE}.dissemination.transports.memory_channels": "channels without a network: the plain twin of the others",
}
"""Modules that only tests import, and why they stay."""

TERMS = {
    "bounded",
    "encoding",
    "feed",
    "hosting",
    "joined",
    "loadings",
    "matching",
    "merging",
    "most_saved",
    "pending",
    "planned",
    "planning",
    "processing",
    "published",
    "pulling",
    "sampling",
    "settings",
    "stabbing",
    "waterfilling",
}
"""Terms of the field, and rooms of the house, that look like participles. `most_saved` is a published heuristic."""

PARTICIPLES = {
    "begun",
    "cut_out",
    "foreseen",
    "found",
    "given",
    "gone",
    "heard",
    "held",
    "kept",
    "known",
    "learnt",
    "left",
    "lost",
    "made",
    "meant",
    "said",
    "seen",
    "sent",
    "shown",
    "spoken",
    "taken",
    "thought",
    "told",
    "understood",
    "written",
}
"""Participles without the ending; those in -ed and -ing are found by it."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One violation, where it stands and what to do."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the repository, parsed."""

    name: str
    path: str
    tree: ast.Module

    @property
    def rooms(self) -> tuple[str, ...]:
        """The folders it stands in, below the package."""
        return tuple(self.name.split(".")[1:])


@dataclass(frozen=True, slots=True)
class House:
    """The package's modules, those of the laboratory, and the text of the documented examples."""

    package: dict[str, Module]
    laboratory: dict[str, Module]
    pages: str


def read_house(root: Path) -> House:
    """Parse what is below a root."""
    laboratory: dict[str, Module] = {}
    for folder in LABORATORY:
        laboratory |= _modules(root, root / folder)
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.exists())
    return House(_modules(root, root / "src" / PACKAGE), laboratory, text)


def _modules(root: Path, folder: Path) -> dict[str, Module]:
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[name] = Module(name, str(path.relative_to(root)), tree)
    return found


def check_kinds(house: House) -> Iterator[Fault]:
    """Tests on the class of a query or of its kind, where the kind itself has to be asked."""
    kinds = kind_classes(house)
    for module in house.package.values():
        for node in ast.walk(module.tree):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
            if name == "cache_text":
                yield Fault(module.path, _line(node), "cache_text: a client's cache is a kind; ask `kind_of(query)`")
            if module.rooms[:1] in (("kinds",), ("processing",)):
                continue
            for tested in set(_tested_classes(node)) & kinds:
                text = f"tests for the kind {tested}: give QueryKind a method or property and ask `kind_of(query)`"
                yield Fault(module.path, _line(node), text)


def kind_classes(house: House) -> set[str]:
    """The kinds of queries and the classes of their values, by name."""
    classes = {"QueryKind", "TableKind"}
    for module in house.package.values():
        if module.rooms[:1] == ("kinds",):
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef) and {"QueryKind", "TableKind"} & set(_names(*node.bases)):
                    values = [
                        one.value
                        for one in node.body
                        if isinstance(one, ast.Assign) and "value" in set(_names(*one.targets))
                    ]
                    classes |= {node.name, *_names(*values)}
    return classes


def _tested_classes(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        yield from _names(*node.args[1:])
    elif isinstance(node, ast.Compare) and any(isinstance(one, ast.Is | ast.IsNot | ast.Eq) for one in node.ops):
        if isinstance(node.left, ast.Call) and set(_names(node.left.func)) == {"type"}:
            yield from _names(*node.comparators)
    elif isinstance(node, ast.MatchClass):
        yield from _names(node.cls)


def _names(*nodes: ast.AST) -> Iterator[str]:
    """The names in expressions, of attributes the last part."""
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr


def check_lanes(house: House) -> Iterator[Fault]:
    """Questions of the server whether it has Spark or a network."""
    for module in house.package.values():
        for node in ast.walk(module.tree) if module.rooms[:1] == ("server",) else ():
            if isinstance(node, ast.Compare) and any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
                sides = (node.left, *node.comparators)
                against_none = any(isinstance(one, ast.Constant) and one.value is None for one in sides)
                for side in sides if against_none else ():
                    if isinstance(side, ast.Attribute) and side.attr in ("spark", "network"):
                        yield Fault(module.path, node.lineno, f".{side.attr} against None: make it an entry of a list")


def check_imports(house: House) -> Iterator[Fault]:
    """Modules that nothing needs."""
    known = house.package | house.laboratory
    rivals = (name for name, module in house.package.items() if "published" in module.rooms)
    pages = set(re.findall(rf"(?:from|import) ({PACKAGE}[\w.]*)", house.pages))
    for room, names in re.findall(rf"from ({PACKAGE}[\w.]*) import ([\w, ]+)", house.pages):
        pages |= {f"{room}.{name.strip()}" for name in names.split(",")}
    waiting = [name for name in (*ROOTS, *house.laboratory, *rivals, *pages, *TWINS) if name in known]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += _with_packages({name, *_imported(known[name])}) & set(known)
    for name in sorted(set(house.package) - reached):
        yield Fault(known[name].path, 1, f"nothing imports {name}: delete it, or name it in TWINS with the reason")


def _imported(module: Module) -> set[str]:
    """Names that a module imports; one in a string is an import too, for worker processes are started so."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def _with_packages(names: set[str]) -> set[str]:
    """Importing a module runs the packages it stands in."""
    paths = [name.split(".") for name in names]
    return {".".join(path[:end]) for path in paths for end in range(1, len(path) + 1)}


def check_classes(house: House) -> Iterator[Fault]:
    """Classes that share a name."""
    places: dict[str, list[tuple[Module, int]]] = {}
    for module in house.package.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append((module, node.lineno))
    for name, found in places.items():
        if len(found) > 1 and name not in PAIRS:
            for module, line in found:
                others = ", ".join(other.path for other, _ in found if other is not module)
                yield Fault(module.path, line, f"class {name} also stands in {others}: rename one")
        elif len(found) == 1 and name in PAIRS:
            yield Fault(found[0][0].path, found[0][1], f"class {name} is alone by now: take it out of PAIRS")


def check_modules(house: House) -> Iterator[Fault]:
    """Modules that are named by a participle; in a pair of adjective and noun the last word counts."""
    for module in house.package.values():
        name = module.name.rpartition(".")[2]
        last = name.rpartition("_")[2]
        if {name, last} & TERMS:
            continue
        if last in PARTICIPLES or re.search(r"\w(ed|ings?)$", last):
            yield Fault(module.path, 1, f"{name} is a participle: name the module by a noun of the field")


CHECKS: tuple[Callable[[House], Iterable[Fault]], ...] = (
    check_kinds,
    check_lanes,
    check_imports,
    check_classes,
    check_modules,
)


def faults(root: Path) -> list[Fault]:
    """All violations below a root, in order."""
    house = read_house(root)
    return sorted({fault for check in CHECKS for fault in check(house)})


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0) or getattr(getattr(node, "cls", None), "lineno", 0)


def main(arguments: list[str]) -> int:
    """Report, and say by the exit code whether there was anything."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = faults(root)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

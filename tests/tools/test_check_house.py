"""The lint of the house: sound on this repository, and every fault that is planted in a small one is reported."""

from pathlib import Path

import pytest

from tools.check_house import faults, main

ROOT = Path(__file__).resolve().parents[2]

SOUND = {
    "__init__.py": "",
    "__main__.py": "import slackwater.cli",
    "cli/__init__.py": "import slackwater.kinds.registry, slackwater.server.node, slackwater.processing.host",
    "kinds/__init__.py": "",
    "kinds/base.py": "class QueryKind: ...",
    "kinds/registry.py": (
        "from slackwater.kinds.base import QueryKind\n"
        "class Median: ...\n"
        "class MedianKind(QueryKind):\n    value = Median\n    def has(self, query): return isinstance(query, Median)\n"
    ),
    "processing/__init__.py": "",
    "processing/host.py": "def accepts(query): return isinstance(query, Median)",
    "server/__init__.py": "",
    "server/node.py": "class Node: ...\ndef start(node): return node.log is None and node.engine.spark is node.other",
}
"""A package with nothing wrong in it."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in SOUND.items():
        write(tmp_path, name, text)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / "src" / "slackwater" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def report(root: Path) -> list[str]:
    return [str(fault) for fault in faults(root)]


def test_this_repository_is_sound() -> None:
    assert faults(ROOT) == []


def test_a_small_package_is_sound(root: Path) -> None:
    assert report(root) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("server/node.py", "def f(q): return isinstance(q, Median)", "server/node.py:1: tests for the kind Median"),
        ("server/node.py", "\nisinstance(q(1), int | kinds.MedianKind)", "server/node.py:2: tests for the kind Median"),
        ("server/node.py", "issubclass(q, (int, QueryKind))", "tests for the kind QueryKind"),
        ("server/node.py", "type(q) is not Median", "tests for the kind Median"),
        ("server/node.py", "match q:\n    case Median(): pass", "tests for the kind Median"),
        ("server/node.py", "def cache_text(q): ...", "cache_text"),
        ("kinds/registry.py", "from x import cache_text", "cache_text"),
        ("server/node.py", "def f(self): return self.spark is not None", "server/node.py:1: .spark against None"),
        ("server/node.py", "x = node.settings.network is None", ".network against None"),
        ("server/dead.py", "", "server/dead.py:1: nothing imports slackwater.server.dead"),
        ("server/dead.py", "import slackwater.server.dead", "nothing imports slackwater.server.dead"),
        ("server/node.py", "class QueryKind: ...", "class QueryKind also stands in src/slackwater/kinds/base.py"),
        ("kinds/waiting.py", "", "waiting is a participle"),
        ("kinds/row_pulled.py", "", "row_pulled is a participle"),
        ("kinds/said.py", "", "said is a participle"),
        ("kinds/lowering/__init__.py", "", "lowering is a participle"),
    ],
)
def test_a_planted_fault_is_reported(root: Path, name: str, text: str, fault: str) -> None:
    write(root, name, text)
    assert any(fault in line for line in report(root)), report(root)
    assert main([str(root)]) == 1


def test_a_name_of_the_allow_list_that_is_alone_by_now_is_reported(root: Path) -> None:
    write(root, "server/node.py", "class Subscribe: ...")
    assert [fault.text for fault in faults(root)] == ["class Subscribe is alone by now: take it out of PAIRS"]


@pytest.mark.parametrize(
    "importer",
    [
        "src/slackwater/server/node.py",
        "simulation/world.py",
        "experiments/joins/workloads.py",
        "benchmarks/rows.py",
        "docs/server.md",
    ],
)
@pytest.mark.parametrize("text", ["from slackwater.server import worker", "import slackwater.server.worker as w"])
def test_what_the_product_the_laboratory_or_a_page_imports_is_alive(root: Path, importer: str, text: str) -> None:
    write(root, "server/worker.py", "")
    (root / importer).parent.mkdir(parents=True, exist_ok=True)
    (root / importer).write_text(text, encoding="utf-8")
    assert report(root) == []


def test_a_worker_that_is_started_by_its_name_is_alive_and_what_only_tests_import_is_not(root: Path) -> None:
    write(root, "server/worker.py", "")
    (root / "tests").mkdir()
    (root / "tests" / "test_worker.py").write_text("import slackwater.server.worker", encoding="utf-8")
    assert len(report(root)) == 1
    write(root, "server/node.py", 'command = ["-m", "slackwater.server.worker"]')
    assert report(root) == []


def test_published_rivals_and_terms_of_the_field_stay(root: Path) -> None:
    write(root, "planning/published/__init__.py", "")
    write(root, "planning/published/stabbing.py", "")
    write(root, "planning/published/inherited_error.py", "")
    write(root, "planning/__init__.py", "")
    assert report(root) == []

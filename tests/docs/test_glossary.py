"""The glossary: its terms are used, its places exist, and no synonym of a term is."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "slackwater"
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page != GLOSSARY]


@dataclass(frozen=True)
class Term:
    name: str
    meaning: str
    place: str
    banned: tuple[str, ...]
    banned_in_code: tuple[str, ...]


def terms(text: str) -> list[Term]:
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] == "term" or set(cells[0]) == {"-"}:
            continue
        name, meaning, place, words = cells
        plain: list[str] = []
        code: list[str] = []
        for word in words.split(", ") if words != "–" else ():
            (code if word.startswith("`") else plain).append(word.strip("`"))
        found.append(Term(name, meaning, place.strip("`"), tuple(plain), tuple(code)))
    return found


TERMS = terms(GLOSSARY.read_text())


def words_of(name: str) -> str:
    """A name in lower-case words: `PublicationWriter` and `publication_writer` are the same."""
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)).lower()


def names(path: Path, text: str) -> Iterator[str]:
    """The module, its public classes and its public functions."""
    yield path.stem
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name


def holds(words: str, synonym: str) -> bool:
    return f" {words_of(synonym)} " in f" {words} "


def banned_names(path: Path, text: str) -> list[str]:
    """Names of a module that are, or contain, a synonym."""
    synonyms = {word for term in TERMS for word in (*term.banned, *term.banned_in_code)}
    return [f"{path}: {name}" for name in names(path, text) for word in synonyms if holds(words_of(name), word)]


def banned_words(text: str) -> list[str]:
    """Synonyms on a page, as whole words."""
    synonyms = [word for term in TERMS for word in term.banned]
    return [word for word in synonyms if re.search(rf"\b{re.escape(word)}s?\b", text, re.IGNORECASE)]


def test_each_term_is_defined_once_in_one_sentence() -> None:
    assert len(TERMS) >= 45
    assert len({term.name for term in TERMS}) == len(TERMS)
    for term in TERMS:
        assert term.meaning.endswith("."), term.name
        assert ". " not in term.meaning, term.name
        assert not {term.name} & {*term.banned, *term.banned_in_code}, term.name


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_a_term_is_used_and_its_place_exists(term: Term) -> None:
    assert (SOURCE / term.place).exists()
    pages = "\n".join(page.read_text() for page in PAGES)
    everything = pages + "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    pattern = r"[\s_-]".join(map(re.escape, term.name.split()))
    assert re.search(rf"(?<![a-z]){pattern}", everything, re.IGNORECASE)


def test_no_name_of_the_source_is_a_synonym() -> None:
    found = [one for path in sorted(SOURCE.rglob("*.py")) for one in banned_names(path, path.read_text())]
    assert not found, "docs/glossary.md has another word for it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_uses_a_synonym(page: Path) -> None:
    assert not banned_words(page.read_text()), "docs/glossary.md has another word for it"


def test_synonyms_are_found() -> None:
    assert banned_names(Path("said_writer.py"), "class DuplicateRow:\n    def duplicate(self): ...\n") == [
        "said_writer.py: said_writer",
        "said_writer.py: DuplicateRow",
        "said_writer.py: duplicate",
    ]
    assert banned_words("A Tolerance for each item; dead letters.") == ["dead letter", "tolerance"]

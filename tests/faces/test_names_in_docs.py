"""Names of the library in the pages' blocks of Python exist; test_prose.py has those in text."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^ *```(?:python|\{code-cell\}.*)\n((?:.*\n)*?)^ *```$", re.M)


def blocks(text: str) -> Iterator[ast.Module]:
    """The code of a page, block by block; what is no Python is passed over."""
    for block in BLOCK.findall(text):
        lines = [line for line in block.splitlines() if not line.startswith((":", "%", "!"))]
        try:
            yield ast.parse("\n".join(lines))
        except SyntaxError:
            continue


def imported(tree: ast.Module) -> Iterator[str]:
    """The names that a block imports from the library, with their modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jaxelim":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "jaxelim")


def attributes(tree: ast.Module) -> Iterator[str]:
    """Dotted names that begin with `je`."""
    for node in ast.walk(tree):
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        if names and isinstance(node, ast.Name) and node.id == "je":
            yield ".".join(["je", *names])


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of a module or a class.

    What an object of the library has is not looked at.
    """
    place: Any = importlib.import_module("jaxelim")
    for part in name.split(".")[1:]:
        if not isinstance(place, ModuleType | type):
            return True
        path = f"{place.__name__}.{part}"
        if isinstance(place, ModuleType) and not hasattr(place, part):
            try:
                importlib.import_module(path)
            except ModuleNotFoundError:
                return False
        elif not hasattr(place, part):
            return part in getattr(place, "__dataclass_fields__", {})
        place = getattr(place, part)
    return True


PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_exist(page):
    text = page.read_text()
    names: set[str] = set()
    for tree in blocks(text):
        names |= {*imported(tree), *attributes(tree)}
    missing = sorted(name for name in names if not exists(name))
    assert not missing


def test_a_name_that_is_missing_is_seen():
    text = "```python\nfrom jaxelim.families.divergences import poison\nje.Lingape()\n```\n"
    (tree,) = blocks(text)
    names = [*imported(tree), *attributes(tree)]
    assert names == ["jaxelim.families.divergences.poison", "je.Lingape"]
    assert not any(map(exists, names))
    assert exists("je.testing.check_family") and exists("jaxelim.families.divergences.poisson")

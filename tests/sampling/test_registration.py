"""A rule of the library is one file and one line."""

import ast
from pathlib import Path

import pytest

import jaxelim as je
from jaxelim import catalogue

ROOT = Path(je.__file__).parent
CODE = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def lines_that_name(name: str) -> list[tuple[str, int]]:
    """Files and lines whose code, docstrings apart, has this identifier."""
    found = set()
    for path, tree in CODE.items():
        for node in ast.walk(tree):
            names = {getattr(node, field, None) for field in ("id", "attr", "name", "asname")}
            if name in names:
                found.add((str(path.relative_to(ROOT)), node.lineno))
    return sorted(found)


@pytest.mark.parametrize("name", catalogue.rules())
def test_one_file_and_one_line(name):
    kind = catalogue.rules()[name]
    own = "sampling/" + kind.__module__.rpartition(".")[2] + ".py"
    elsewhere = [line for line in lines_that_name(kind.__name__) if line[0] != own]
    elsewhere = [line for line in elsewhere if not line[0].startswith("testing/")]  # runs Uniform
    assert [file for file, _ in elsewhere] == ["sampling/__init__.py"]
    assert getattr(je, kind.__name__) is kind and kind.__name__ in je.__all__


def test_modules_of_rules_are_no_part_of_the_face():
    assert not {"fws", "lucb", "parts"} & set(vars(je))
    assert len(catalogue.rules()) >= 14

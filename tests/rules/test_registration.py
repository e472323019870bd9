"""A rule of the library is one file and one line."""

import ast
import collections
import functools
from pathlib import Path

import pytest

import jaxelim as je
from jaxelim import catalogue

ROOT = Path(je.__file__).parent


@functools.cache
def places() -> dict[str, set[tuple[str, int]]]:
    """Files and lines whose code, docstrings apart, has an identifier, by identifier."""
    found = collections.defaultdict(set)
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for field in ("id", "attr", "name", "asname"):
                name = getattr(node, field, None)
                if isinstance(name, str):
                    found[name].add((str(path.relative_to(ROOT)), node.lineno))
    return found


@pytest.mark.parametrize("name", catalogue.rules())
def test_one_file_and_one_line(name):
    kind = catalogue.rules()[name]
    own = "rules/" + kind.__module__.rpartition(".")[2] + ".py"
    elsewhere = [line for line in sorted(places()[kind.__name__]) if line[0] != own]
    elsewhere = [line for line in elsewhere if not line[0].startswith("testing/")]  # run Uniform
    assert [file for file, _ in elsewhere if file != "__init__.py"] == ["rules/__init__.py"]
    assert getattr(je, kind.__name__) is kind and kind.__name__ in je.__all__


def test_modules_of_rules_are_no_part_of_the_face():
    assert not {"fws", "lucb", "parts"} & set(dir(je))

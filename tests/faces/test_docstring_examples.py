"""Examples in docstrings give what they show."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import jaxelim as je
from tests.calls import NAMES

ROOT = Path(je.__file__).parents[1]
FILES = sorted(
    str(file.relative_to(ROOT))
    for file in (ROOT / "jaxelim").rglob("*.py")
    if re.search(r">>> .*(?<!# doctest: \+SKIP)$", file.read_text(), re.M)
)


@pytest.mark.parametrize("file", FILES)
def test_examples(file):
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    found = doctest.testmod(module, extraglobs=NAMES, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted and not found.failed

"""What the engine and the simulation know of families and rules: nothing by name."""

import ast
from pathlib import Path

import pytest

import jaxelim as je
from jaxelim import catalogue, families

ROOT = Path(je.__file__).parent
FILES = [*sorted((ROOT / "engine").glob("*.py")), *sorted((ROOT / "simulation").glob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_family_and_no_rule_is_named(path):
    kinds = {*families.NAMES.values(), *catalogue.rules().values(), je.families.OneParameter}
    names = {kind.__name__ for kind in kinds}
    tree = ast.parse(path.read_text())
    used = {getattr(node, key, None) for node in ast.walk(tree) for key in ("id", "attr", "name")}
    assert not used & names

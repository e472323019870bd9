"""Layers: a module imports from its own folder and from lower layers only."""

import ast
import functools
import graphlib
from pathlib import Path

import jaxelim
from jaxelim import catalogue, families

ROOT = Path(jaxelim.__file__).parent
LAYERS = (
    ("matrices", "lanes", "errors", "checks", "files", "progress", "scope", "cache",
     "tables", "text", "numerics", "mixtures"),
    ("contracts",),
    ("evidence", "returned", "thresholds"),
    ("stopping", "families", "problems", "saddle"),
    ("instances", "engine"),
    ("bounds", "store", "parallel"),
    ("rules", "simulation"),
    ("catalogue", "figures"),
    ("live", "studies"),
    ("testing", "cli", "__init__"),
    ("__main__",),
)  # fmt: skip
FOUNDATIONS = set(LAYERS[0])
"""Modules of the root that may import one another, like those of one folder."""
MOST_ASKED = 6
"""Tests of a kind of family or evidence, outside the folders that define them."""


def name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def folder(module: str) -> str:
    """The folder of a module, or its name if it is in the root."""
    return module.partition(".")[0]


def layer(module: str) -> int:
    found = [n for n, folders in enumerate(LAYERS) if folder(module) in folders]
    assert len(found) == 1, f"{module}: give its folder a layer in LAYERS"
    return found[0]


def imports(path: Path) -> set[str]:
    """The modules of jaxelim that a file imports at run time, named below it."""
    found, tree = set(), ast.parse(path.read_text())
    for guard in ast.walk(tree):
        if isinstance(guard, ast.If) and ast.unparse(guard.test) == "TYPE_CHECKING":
            guard.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jaxelim":
            for alias in node.names:
                inside = ROOT.joinpath(*str(node.module).split(".")[1:], alias.name)
                whole = inside.with_suffix(".py").exists() or inside.is_dir()
                found.add(f"{node.module}.{alias.name}" if whole else str(node.module))
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name.split(".")[0] == "jaxelim"}
    return {one.removeprefix("jaxelim").removeprefix(".") for one in found} - {""}


@functools.cache
def modules() -> dict[str, set[str]]:
    return {name(path): imports(path) for path in sorted(ROOT.rglob("*.py"))}


def test_imports_point_downwards():
    wrong = []
    for module, others in modules().items():
        for other in others:
            same = folder(other) == folder(module) or {folder(other), folder(module)} <= FOUNDATIONS
            if not same and layer(other) >= layer(module):
                wrong.append(f"{module} imports {other}")
    assert not wrong and sum(map(len, modules().values())) > 100


def test_no_import_cycle():
    """The sorter raises an error that names a cycle."""
    assert len([*graphlib.TopologicalSorter(modules()).static_order()]) > 60


def named(root: ast.AST) -> set[str]:
    """The last names in an expression: "Gaussian" of `families.Gaussian | None`."""
    parts = [one.attr for one in ast.walk(root) if isinstance(one, ast.Attribute)]
    return {*parts, *(one.id for one in ast.walk(root) if isinstance(one, ast.Name))}


def kinds() -> set[str]:
    """The names of all classes of families/ and evidence/."""
    paths = [path for room in ("families", "evidence") for path in (ROOT / room).rglob("*.py")]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    found = {one.name for one in nodes if isinstance(one, ast.ClassDef)}
    assert {"Gaussian", "LinearEvidence", "OneParameter"} <= found
    return found


def test_few_ask_for_a_kind_of_family_or_evidence():
    """Others ask the contract: what a family `has`, and what evidence says of itself."""
    known, asked = kinds(), []
    for path in sorted(ROOT.rglob("*.py")):
        if folder(name(path)) in ("families", "evidence"):
            continue
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.Call) and named(one.func) == {"isinstance"}:
                found = named(one.args[1]) & known
                asked += [f"{name(path)}:{one.lineno}: {kind}" for kind in sorted(found)]
    assert len(asked) <= MOST_ASKED, "\n".join(asked)


def test_the_engine_and_the_simulation_name_no_family_and_no_rule():
    known = {*families.NAMES.values(), *catalogue.rules().values(), families.OneParameter}
    names = {kind.__name__ for kind in known}
    files = [path for room in ("engine", "simulation") for path in (ROOT / room).glob("*.py")]
    for path in files:
        tree = ast.parse(path.read_text())
        used = {getattr(one, key, None) for one in ast.walk(tree) for key in ("id", "attr", "name")}
        assert not used & names, path
    assert len(files) > 12

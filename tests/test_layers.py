"""Rooms stand on floors: a module imports only from floors below its own, so a rule can be read without the engine."""

import ast
from pathlib import Path

import jaxelim

ROOT = Path(jaxelim.__file__).parent
FLOORS = (
    ("cache", "errors", "lanes", "progress", "families", "complexity.information"),
    ("checks", "memory", "scope", "design", "games", "learners", "tracking", "complexity.newton", "store.files"),
    ("kept",),
    ("base", "instance", "complexity.solver", "figures.style"),
    ("elimination", "thresholds", "rule_contract", "families.gaussian", "instances.*", "store.settings", "complexity.pieces",
     "complexity.derivatives", "problems.best_arm", "problems.thresholding", "problems.half_spaces"),
    ("instances", "problems.top_m", "complexity.optimum", "store.block"),
    ("problems", "indices", "allocation", "complexity.region", "complexity.autodiff", "complexity.design", "store.held"),
    ("complexity.bounds", "store.folder"),
    ("complexity.regret", "store.merging"),
    ("complexity", "store"),
    ("sampling.*", "result", "step", "job"),
    ("sampling", "engine", "figures.given"),
    ("drive", "figures.*"),
    ("simulate", "figures"),
    ("catalogue", "testing"),
    ("cli",),
)  # fmt: skip


def floor(module: str) -> int:
    """The floor of a module, named below jaxelim."""
    known = module if module in sum(FLOORS, ()) else module.rpartition(".")[0] + ".*"
    found = [n for n, names in enumerate(FLOORS) if known in names]
    assert len(found) == 1, f"{module} has no floor of its own: give it one in FLOORS"
    return found[0]


def imports(path: Path) -> set[str]:
    """What a file imports of jaxelim, named below it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "jaxelim":
            for alias in node.names:
                inside = ROOT.joinpath(*node.module.split(".")[1:], alias.name)
                whole = inside.with_suffix(".py").exists() or inside.is_dir()
                found.add(f"{node.module}.{alias.name}" if whole else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "jaxelim"}
    return {name.removeprefix("jaxelim").removeprefix(".") for name in found}


def test_nothing_imports_from_its_own_floor_or_above():
    seen, wrong = 0, []
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        if not module:  # the public face itself
            continue
        for other in imports(path) - {""}:
            seen += 1
            if floor(other) >= floor(module):
                wrong.append(f"{module} imports {other}")
    assert not wrong and seen > 100

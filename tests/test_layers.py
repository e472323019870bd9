"""Rooms stand on floors: a module imports only from floors below its own, so a rule can be read without the engine."""

import ast
from pathlib import Path

import jaxelim

ROOT = Path(jaxelim.__file__).parent
FLOORS = (
    ("cache", "errors", "lanes", "progress", "families.noise", "complexity.information"),
    ("checks", "memory", "report", "scope", "design", "games", "learners", "tracking",
     "complexity.newton", "store.files"),
    ("kept", "shapes", "thresholds", "traits", "complexity.solver", "figures.style"),
    ("views", "complexity.derivatives"),
    ("contracts",),
    ("elimination", "rule_contract", "engine.state", "families.arm_evidence",
     "families.linear_evidence", "problems.best_arm", "problems.half_spaces",
     "problems.thresholding", "problems.top_m"),
    ("engine.step", "families.gaussian", "families.one_parameter", "indices", "problems",
     "problems.lanewise"),
    ("engine.loop", "families.bernoulli"),
    ("engine", "families"),
    ("instance",),
    ("allocation", "complexity.pieces", "family_checks", "instances.*", "job", "store.settings"),
    ("complexity.optimum", "drive", "instances", "store.block"),
    ("complexity.region", "complexity.autodiff", "complexity.design", "store.held"),
    ("complexity.bounds", "store.folder"),
    ("complexity.regret", "store.merging"),
    ("complexity", "store"),
    ("sampling.*", "result"),
    ("sampling", "simulate", "figures.given"),
    ("catalogue", "testing", "figures.*"),
    ("figures",),
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
    found, tree = set(), ast.parse(path.read_text())
    guards = [one for one in ast.walk(tree) if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"]
    for_types = {node for guard in guards for node in ast.walk(guard)}
    for node in ast.walk(tree):
        if node in for_types:  # not imported when it runs
            continue
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

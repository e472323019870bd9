"""Names of rules, problems, stopping rules and thresholds, for the command line and for tables; read off the code."""

import re
from collections.abc import Iterable
from typing import Any

from jaxelim import elimination, problems, sampling, thresholds
from jaxelim.base import SamplingRule
from jaxelim.errors import UnknownNameError
from jaxelim.instance import Instance

_SPELLINGS = {
    "LinGapE": "lingape",
    "LinGame": "lingame",
    "UGapE": "ugape",
    "LinGIFA": "lingifa",
    "LazyTaS": "lazy-tas",
    "TrackAndStop": "tas",
    "OptimisticTaS": "optimistic-tas",
    "XYAdaptive": "xy-adaptive",
}
"""Names that the field spells otherwise than their classes split into words."""
ALIASES = {"k-learner": "lingame", "mislid": "lingame", "m-lingape": "lingape"}
"""The paper's names of a rule in unstructured problems and in top-m identification."""


def spelled(name: str) -> str:
    """The command-line name of a class: LinGapE -> lingape, BestArm -> best-arm."""
    if name in _SPELLINGS:
        return _SPELLINGS[name]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def rules() -> dict[str, type[SamplingRule]]:
    """Command-line name -> sampling rule."""
    return {spelled(name): getattr(sampling, name) for name in sampling.__all__}


def find_rule(name: str) -> type[SamplingRule]:
    """The rule of a name or of one of the paper's names for it."""
    known = rules()
    return known[_known("rule", ALIASES.get(name, name), [*known, *ALIASES])]


def stopping_rules() -> dict[str, Any]:
    """Command-line name -> stopping rule."""
    kinds = (elimination.LLR, elimination.SelectiveElimination, elimination.FullElimination, elimination.Native)
    return {kind.name: kind for kind in kinds}


def find_threshold(name: str, instance: Instance, ridge: float | None) -> Any:
    """The threshold of a name; "linear" has d, L and S from the instance, and ridge 1 if None."""
    known = {
        "heuristic": thresholds.Heuristic,
        "gk16": thresholds.GK16,
        "log-log": thresholds.LogLogThreshold,
        "linear": lambda: thresholds.LinearThreshold.of(instance, 1.0 if ridge is None else ridge),
    }
    return known[_known("threshold", name, known)]()


def find_problem(name: str, m: int | None, level: float) -> Any:
    """The problem of a name."""
    known = {
        "best-arm": problems.BestArm,
        "top-m": lambda: problems.TopM(1 if m is None else m),
        "thresholding": lambda: problems.Thresholding(level),
    }
    return known[_known("problem", name, known)]()


def _known(argument: str, name: str, known: Iterable[str]) -> str:
    known = list(known)
    if name not in known:
        raise UnknownNameError(argument, name, known)
    return name


def find(argument: str, name: str, known: dict[str, Any]) -> Any:
    """known[name], or an error that names the nearest."""
    return known[_known(argument, name, known)]


def rule_rows() -> list[dict[str, str]]:
    """The table of rules, from the capability tags."""
    mark = lambda yes: "x" if yes else ""  # noqa: E731
    rows = []
    for name, rule in sorted(rules().items()):
        aliases = sorted(alias for alias, target in ALIASES.items() if target == name)
        structures = "both" if len(rule.structures) == 2 else rule.structures[0]
        rows.append(
            {
                "rule": rule.__name__,
                "name": ", ".join([name, *aliases]),
                "structure": structures,
                "best arm": mark("best-arm" in rule.problems),
                "top m": mark("top-m" in rule.problems),
                "signs": mark("thresholding" in rule.problems),
                "own problem": mark("half-spaces" in rule.problems),
                "elimination at stopping": mark("selective" in rule.stopping),
                "at sampling": mark(rule.elimination),
                "native stop": mark("native" in rule.stopping),
                "source": rule.source,
            }
        )
    return rows


def markdown(rows: list[dict[str, str]]) -> str:
    """Rows of equal keys as a Markdown table."""
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(row[k]) for k in head) + " |" for row in rows])

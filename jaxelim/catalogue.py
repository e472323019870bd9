"""Names of rules, problems, stopping rules and thresholds, for the command line and tables."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxelim import checks, families, instances, problems, stopping, thresholds
from jaxelim import rules as sampling
from jaxelim.contracts import Family, SamplingRule, Source
from jaxelim.errors import ArgumentError, unknown_name
from jaxelim.instances.arms import Arms


def spelled(name: str) -> str:
    """The command-line name of a class: BestArm -> best-arm."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def name_of(rule: type[SamplingRule]) -> str:
    """The command-line name of a rule."""
    return rule.traits.name or spelled(rule.__name__)


def rules() -> dict[str, type[SamplingRule]]:
    """Sampling rules by command-line name."""
    found = [one for one in vars(sampling).values() if isinstance(one, type)]
    return {name_of(one): one for one in found if issubclass(one, SamplingRule)}


def presets() -> dict[str, Callable[..., SamplingRule]]:
    """Functions that return a rule set as in a paper, by command-line name."""
    return {
        name.lower(): one
        for name, one in vars(sampling).items()
        if inspect.isfunction(one) and one.__module__.startswith(sampling.__name__)
    }


def find_rule(name: str) -> type[SamplingRule]:
    """The rule of a command-line name, or of another paper's name for it.

    Raises:
        ArgumentError: no rule has this name.
    """
    known, others = rules(), sampling.OTHER_NAMES
    name = others.get(name, name)
    return known[_known("rule", name, [*known, *others, *presets()])]


def rule_with(name: str, settings: Iterable[str] | Mapping[str, Any]) -> SamplingRule:
    """The rule or preset of a name with its settings.

    Settings are NAME=VALUE, values in JSON or plain words, or a mapping of both.

    Raises:
        ArgumentError: no rule, or no setting of the rule, has this name.
        ArgumentError: a setting without "=", given twice, or with a value that the
            rule refuses.
    """
    known, given = presets(), _values(settings)
    if name not in known:
        return families.made(find_rule(name), given)
    for setting in given:
        _known("setting", setting, inspect.signature(known[name]).parameters)
    return known[name](**given)


def find_family(name: str, settings: Iterable[str]) -> Family:
    """The reward family of a name with its settings NAME=VALUE, values in JSON or plain words.

    The first settings may follow the name, as the ends in "bounded:0,5".

    Raises:
        ArgumentError: as `rule_with`.
    """
    return families.named(name, _values(settings))


def find_source(name: str, settings: Iterable[str]) -> Source:
    """The source of rewards of a name with its settings, as `find_family`."""
    return families.named(name, _values(settings), "source")


def _values(settings: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Settings NAME=VALUE as a dictionary."""
    if isinstance(settings, Mapping):
        return dict(settings)
    given: dict[str, Any] = {}
    for one in settings:
        key, equals, text = one.partition("=")
        if not equals:
            raise ArgumentError("setting", one, "NAME=VALUE")
        if key in given:
            raise ArgumentError("setting", one, f"each setting once: {key} was given before")
        given[key] = checks.written(text)
    return given


def stopping_rules() -> dict[str, Any]:
    """Stopping rules by command-line name."""
    kinds = (stopping.LLR, stopping.SelectiveElimination, stopping.FullElimination, stopping.Native)
    return {kind.name: kind for kind in kinds}


def find_stopping(name: str) -> Any:
    """The stopping rule of a name.

    Raises:
        ArgumentError: no stopping rule has this name.
    """
    return find("stopping", name, stopping_rules())()


def find_elimination(name: str) -> Any:
    """The elimination at sampling of a name; None for "none".

    Raises:
        ArgumentError: no elimination has this name.
    """
    known = {name: kind for name, kind in stopping_rules().items() if kind.eliminates}
    return find("elimination", name, {"none": lambda: None, **known})()


THRESHOLDS = {
    "heuristic": ("log((1 + t)/delta)", "-"),
    "gk16": ("log((1 + log t)/delta)", "-"),
    "mixture": (
        "log(P/delta) for log e_p, the evidence of a mixture",
        "all families but Logistic, every rule, ridge 0; LLR, selective, full",
    ),
    "kaufmann-koolen": (
        "s (T(x) + 3 log(1 + log(t/s))), Gaussian s (C_G(x) + 2 log(4 + log(t/s))); "
        "x = log(P/delta)/s",
        "one-parameter families, every rule, ridge 0; LLR, selective, full",
    ),
}
"""Thresholds by command-line name: the formula, and what it is proven for."""


def find_threshold(name: str, instance: Arms, problem: Any) -> Any:
    """The threshold of a name; "kaufmann-koolen" is that of the instance and the problem.

    Raises:
        ArgumentError: no threshold has this name.
        UnsupportedError: the threshold is not defined for these rewards, or for this
            problem.
    """
    known = {
        "heuristic": thresholds.Heuristic,
        "gk16": thresholds.GK16,
        "mixture": thresholds.Mixture,
        "kaufmann-koolen": lambda: thresholds.KaufmannKoolen.of(instance, problem),
    }
    return known[_known("threshold", name, known)]()


_SETTINGS = {
    "m": ("top-m",), "level": ("thresholding", "best-or-none"), "epsilon": ("best-arm",),
}  # fmt: skip
"""The settings of problems, and the names of the problems that have them."""


def find_problem(
    name: str,
    m: int | None,
    level: float | None = None,
    epsilon: float = 0.0,
    items: Any = None,
) -> Any:
    """The problem of a name, with those of the settings that it has.

    `m` is for top-m, `level` for thresholding and best-or-none, `epsilon` for best-arm,
    `items` for best-item. Without a level it is 0.

    Raises:
        ArgumentError: no problem has this name.
        ArgumentError: a setting that the problem refuses, or that is of other problems;
            best-item without items.
    """
    given = {"m": m, "level": level, "epsilon": epsilon or None}
    level = 0.0 if level is None else level
    known = {
        "best-arm": lambda: problems.BestArm(epsilon=epsilon),
        "best-or-none": lambda: problems.BestArm(reference=level),
        "best-item": lambda: problems.BestArm(items=items),
        "top-m": lambda: problems.TopM(1 if m is None else m),
        "thresholding": lambda: problems.Thresholding(level),
    }
    for setting, value in given.items():
        if value is not None and name in known and name not in _SETTINGS[setting]:
            allowed = f"nothing for {name}: it is of {', '.join(_SETTINGS[setting])}"
            raise ArgumentError(setting, value, allowed)
    if name == "best-item" and items is None:
        raise ArgumentError("problem", name, "best-item with the items of a file: --features FILE")
    return known[_known("problem", name, known)]()


def problem_on(
    instance: Any,
    name: str,
    m: int | None = None,
    level: float | None = None,
    epsilon: float = 0.0,
) -> Any:
    """The problem of a name on an instance: the items of its file, and its usual m.

    Args:
        instance: a shipped instance's name or a file's path; what else has neither.
        name, m, level, epsilon: as of `find_problem`.

    Raises:
        ArgumentError: m is missing and the instance has no usual one.
        ArgumentError: as `find_problem` and `load_items`.
    """
    if m is None and name == "top-m":
        m = instances.describe(instance).m if instance in instances.names() else None
        if m is None:
            allowed = "an integer from 1 to K - 1: this instance has no usual one"
            raise ArgumentError("m", None, allowed)
    items = instances.load_items(instance) if name == "best-item" else None
    return find_problem(name, m, level, epsilon, items)


def _known(argument: str, name: str, known: Iterable[str]) -> str:
    known = list(known)
    if name not in known:
        raise unknown_name(argument, name, known)
    return name


def find(argument: str, name: str, known: dict[str, Any]) -> Any:
    """known[name].

    Raises:
        ArgumentError: there is no such name; the message gives the nearest.
    """
    return known[_known(argument, name, known)]


def rule_rows() -> list[dict[str, str]]:
    """The table of rules, from their traits."""
    mark = lambda yes: "x" if yes else ""  # noqa: E731
    rows = []
    for name, rule in sorted(rules().items()):
        traits = rule.traits
        named = sorted(key for key, one in presets().items() if one.__module__ == rule.__module__)
        others = sorted(other for other, one in sampling.OTHER_NAMES.items() if one == name)
        structures = "both" if len(traits.structures) == 2 else traits.structures[0]
        rows.append(
            {
                "rule": rule.__name__,
                "name": ", ".join([name, *others, *named]),
                "structure": structures,
                "best arm": mark(traits.defined_for("best-arm")),
                "epsilon": mark(traits.slack and traits.defined_for("best-arm")),
                "reference": mark(traits.defined_for("best-or-none")),
                "costs": mark(traits.costs),
                "items": mark(traits.defined_for("best-item")),
                "top m": mark(traits.defined_for("top-m")),
                "signs": mark(traits.defined_for("thresholding")),
                "own problem": mark(traits.problems is None),
                "elimination at stopping": mark("selective" in traits.stopping),
                "at sampling": mark(traits.elimination),
                "native stop": mark("native" in traits.stopping),
                "rewards": ", ".join(traits.families or ["any"]),
                "source": traits.source,
            }
        )
    return rows


def threshold_rows() -> list[dict[str, str]]:
    """The table of thresholds."""
    return [
        {"name": name, "beta(t, delta)": formula, "proven for": proven}
        for name, (formula, proven) in THRESHOLDS.items()
    ]


def markdown(rows: list[dict[str, str]]) -> str:
    """Format rows with equal keys as a Markdown table."""
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(row[k]) for k in head) + " |" for row in rows])

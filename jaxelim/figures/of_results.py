"""All figures that some results allow."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.bounds import Complexity, complexity, practical_time, sample_bound
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.figures.active import active_arms_figure
from jaxelim.figures.allocations import pulls_figure
from jaxelim.figures.comparisons import comparison_figure
from jaxelim.figures.deltas import common_question, common_threshold
from jaxelim.figures.studies import study_figure
from jaxelim.figures.times import ratio_figure, survival_figure, tau_figure
from jaxelim.simulation.results.comparison import compare
from jaxelim.simulation.results.result import Result

Results = Mapping[str, Result]


def every_figure(
    results: Results, names: Sequence[str] = (), *, log: bool = False
) -> tuple[dict[str, Figure], dict[str, str]]:
    """Draw every figure that the results allow.

    Of several deltas and stopping rules, figures of one take the first.

    Args:
        results: by name.
        names: of the figures to draw: "tau", "survival", "delta", "ratio", "active",
            "pulls", "comparison"; none for all.
        log: whether the axes of samples of "delta" and "active" are logarithmic. Those of
            "tau" and "survival" always are.

    Returns:
        The figures by name; and for each other name why there is no such figure.

    Raises:
        ArgumentError: a name is none of these.
    """
    wanted = [checks.choice("figure", name, _DRAWN) for name in names] or list(_DRAWN)
    drawn, missing = {}, {}
    for name in wanted:
        try:
            own = {"log": log} if name in ("delta", "active") else {}
            drawn[name] = _DRAWN[name](results, **own)
        except ArgumentError as error:
            missing[name] = f"it needs {error.allowed}" + (f" ({error.note})" if error.note else "")
        except JaxelimError as error:
            missing[name] = str(error)
    return drawn, missing


def _solved(results: Results, samples: bool = False) -> Complexity:
    """The lower bound of the instance and the problem of all results; in samples, or as asked.

    Raises:
        ArgumentError: they are not the same, or a file does not hold them.
    """
    asked = common_question(list(results.values()))
    if asked is None or asked[0].batched:
        raise ArgumentError("results", dict(results), "results of one instance and problem")
    instance, problem = asked
    return complexity(instance.without_costs() if samples else instance, problem)


def _tau(results: Results) -> Figure:
    deltas = {float(result.deltas[0]) for result in results.values()}
    try:
        solved = _solved(results, samples=True)
    except JaxelimError:
        return tau_figure(results)
    if len(deltas) > 1:
        return tau_figure(results)
    delta = deltas.pop()
    lower = float(sample_bound(delta, solved))
    practical = practical_time(delta, solved, common_threshold(list(results.values())))
    return tau_figure(results, lower if lower > 0 else None, practical)


def _delta(results: Results, *, log: bool) -> Figure:
    several = {name: result for name, result in results.items() if result.deltas.size > 1}
    if not several:
        raise ArgumentError("results", dict(results), "a result of two or more deltas")
    return study_figure({"": several}, log=log)


def _pulls(results: Results) -> Figure:
    return pulls_figure(results, _solved(results).pulls)


_DRAWN: dict[str, Callable[..., Figure]] = {
    "tau": _tau,
    "survival": survival_figure,
    "delta": _delta,
    "ratio": ratio_figure,
    "active": active_arms_figure,
    "pulls": _pulls,
    "comparison": lambda results: comparison_figure(compare(results)),
}
"""The figures of results, by name."""

"""Summaries of results; and comparisons: which rule stops sooner, by how much, and errs less."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxelim import checks
from jaxelim.contracts import looks
from jaxelim.contracts.proofs import UNKNOWN_VARIANCE
from jaxelim.errors import ArgumentError, abbreviate
from jaxelim.simulation.results import confidence
from jaxelim.thresholds import Mixture

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result
    from jaxelim.tables import Table


_SURE = ": an answer is wrong with probability at most delta."
BIASED = "the mean of the others is biased low"  # where some runs were truncated


def rows_of(result: "Result", priced: bool = False) -> list[dict[str, Any]]:
    """The numbers of each instance, stopping rule and delta; costs are NaN if others have them."""
    costs, rows = result.costs, []
    if costs is None and priced:
        costs = np.full(result.samples.shape, np.nan)
    for at in np.ndindex(result.samples.shape[:-1]):
        stopped = result.stopped[at]
        tau = result.samples[at][stopped].astype(float)
        n = tau.size
        sd = float(tau.std(ddof=1)) if n > 1 else np.nan
        rows.append({
            **({"instance": at[0]} if result.batched else {}),
            "stopping": result.stopping[at[-2]].name,
            "delta": float(result.deltas[at[-1]]),
            "runs": stopped.size,
            "cut off": stopped.size - n,
            "mean tau": _mean(tau),
            "sd": sd,
            "s.e.": sd / n**0.5 if n > 1 else np.nan,
            "errors": float((stopped & ~result.correct[at]).mean()),
            "tests/sample": _mean(result.tests_stopping[at][stopped] / tau),
            **({} if costs is None else {"mean cost": _mean(costs[at][stopped])}),
        })  # fmt: skip
    return rows


def _mean(x: np.ndarray) -> float:
    return float(x.mean()) if x.size else np.nan


def cut_off(result: "Result") -> tuple[int, int]:
    """How many runs were cut off for some stopping rule or delta, and the number of runs."""
    of_run = result.truncated.any((-3, -2))
    return int(of_run.sum()), of_run.size


def notes_of(result: "Result") -> list[str]:
    """What the rows share, and their guarantee, in words."""
    notes: list[str] = []
    cut, runs = cut_off(result)
    if cut:
        source = "noise" if result.instance.source is None else "rewards"
        ends = f"at {result.experiment.max_samples} samples or at the end of their {source}"
        biased = "" if result.truncated.all() else f", and {BIASED}"
        several = np.prod(result.truncated.shape[-3:-1]) > 1
        where = " for some stopping rule or delta" if several else ""
        notes += [f"{cut} of {runs} runs were cut off{where} {ends}: they are in no mean{biased}."]
    if result.experiment.waits:
        batch, delay = result.experiment.batch, result.experiment.delay
        notes.append(f"Rewards entered in batches of {batch}, after delays of {delay} samples. tau "
                     "counts pulls whose rewards were pending at the end.")  # fmt: skip
    notes.append(sentence(result.threshold, result.proven, result.instance))
    if isinstance(result.threshold, Mixture):
        notes.append(f"It looked {looks.WORDS}.")
    eliminates = result.elimination is not None or any(x.eliminates for x in result.stopping)
    if eliminates and result.proven is not True:
        notes.append("Elimination never tests a refuted piece again, so without proof it may err "
                     "more often than LLR stopping.")  # fmt: skip
    drawn, seconds = result.timings["samples_drawn"], result.timings["seconds"]
    return [
        *notes,
        f"{drawn} samples in {seconds:.2f} s, {1e6 * seconds / drawn:.3f} us per sample, "
        f"after {result.timings['compile_seconds']:.1f} s of compiling.",
    ]


class Words(NamedTuple):
    """What is compared, in words."""

    tau: str
    number: str
    less: str
    more: str


OF = {
    "samples": Words("tau", "number of samples", "sooner", "later"),
    "costs": Words("cost", "cost", "cheaper", "dearer"),
}
"""The words of a comparison by samples and by costs."""


def compare(
    results: "Mapping[str, Result] | Sequence[Result]",
    *more: Any,
    baseline: str | None = None,
    level: float = 0.95,
    by: str = "samples",
) -> "Table":
    """Compare stopping times and errors of results, two by two or with one of them.

    Runs are paired where both results have the same seed, run indices and instance: they
    have the same noise. Differences of means have Student's interval (pairs) or Welch's,
    ratios Fieller's, error rates Clopper and Pearson's. The sign test counts pairs; the
    test of error rates is McNemar's exact test (pairs) or Fisher's. Holm's p-values of the
    means are corrected for the number of rows; intervals and other tests are not.

    Where a run of either result was truncated, means are restricted: of min(tau, L), L the least
    number of samples of a truncated run of both. Errors are of all runs; a truncated run is none.

    Args:
        results: two or more, by name, or in a sequence; then their rules are the names.
        baseline: the name of the result that all others are compared with; None: all pairs.
        level: of the intervals, in (0, 1).
        by: "samples", or "costs": then tau, its means and L are in the units of the costs
            of the arms, which both instances must have.

    Returns:
        A pandas data frame with a title and notes, and a row for each pair of results compared,
        instance, stopping rule that both have (or their only ones) and delta that both have.
        Its columns are

        - `first`, `second`, `instance`, `problem` (of a batch or a study), `stopping`, `delta`,
          `by`; `paired`: whether runs are paired; `runs_..`: their numbers, with `first` or
          `second`; `cut_..`: truncated runs; `restricted`: L, NaN where no run was truncated;
        - `mean_..`: mean tau, or of min(tau, L); `difference`, `ratio`: of the means, first less
          second and first over second, each with the ends `.._low` and `.._high`;
        - `mean_p`: the p-value of equal means, of the test that the interval of the
          difference inverts; `holm_p`: with Holm's (1979) correction for all rows; `verdict`:
          "sooner" or "later", "cheaper" or "dearer", of the first, where it is at most 1 - level;
        - `median_..`: of tau, inf where half of the runs were truncated;
        - `sooner`, `later`: pairs in which the first has the smaller, and the larger tau, or
          min(tau, L); `sign_p`: the p-value of their equality. NaN without pairs;
        - `errors_..`: shares of all runs that stopped on a wrong answer, with `.._low` and
          `.._high`; `errors_p`: the p-value of their equality.

    Raises:
        ArgumentError: fewer than two results, none of the baseline's name, results without a
            common stopping rule or delta, batches of different sizes, or by="costs" for arms
            without costs.

    Example:
        >>> both = {"LinGapE": one, "LUCB": other}  # doctest: +SKIP
        >>> print(compare(both))  # doctest: +SKIP
    """
    if more:
        allowed = "all results in one list, compare([a, b, c]), or by name in one mapping"
        raise ArgumentError("results", more[0], allowed)
    return compared([({}, results)], baseline, level, by)


def compared(
    groups: Sequence[tuple[dict[str, str], Any]], baseline: str | None, level: float, by: str
) -> "Table":
    """The comparison of groups: pairs of what names one, keys of its rows, and its results."""
    from jaxelim.tables import Table  # pandas is slow to import

    checks.choice("by", by, OF)
    level = checks.real("level", level, low=0, high=1, open=True)
    rows, notes, everyone = [], [], {}
    for where, results in groups:
        named = _named(results)
        everyone |= {(name, id(result)): (name, result) for name, result in named.items()}
        if by == "costs" and any(result.costs is None for result in named.values()):
            raise ArgumentError("by", by, '"samples" for results of arms without costs')
        pairs: Any = combinations(named, 2)
        if baseline is not None:
            checks.choice("baseline", baseline, named)
            pairs = [(name, baseline) for name in named if name != baseline]
        for first, second in pairs:
            a, b = named[first], named[second]
            if reasons := _apart(a, b):
                notes.append(f"{first} and {second} are not paired: {', '.join(reasons)}.")
            head = {"first": first, "second": second, **where}
            rows += [{**head, **row} for row in _rows(a, b, not reasons, level, by)]
    if not rows:
        raise ArgumentError("results", groups, "two or more Results")
    for row, p in zip(rows, confidence.holm([row["mean_p"] for row in rows]), strict=True):
        less = OF[by].less if row["ratio"] < 1 else OF[by].more
        told = "-" if math.isnan(p) else less if p <= 1 - level else "not told apart"
        row |= {"holm_p": p, "verdict": told, "by": by}
    names = list(dict.fromkeys(name for name, _ in everyone.values()))
    words = ("; " if any("," in name for name in names) else ", ").join(names)
    words = words if len(words) <= 80 else f"{names[0]} and {len(names) - 1} others"
    title = f"{words}: {100 * level:g}% intervals" + ", by cost" * (by == "costs")
    shown, shared = _verdicts(rows, by)
    if any(not math.isnan(row["restricted"]) for row in rows):
        notes.append(f"Means are restricted where runs were cut off: of min({OF[by].tau}, L).")
    notes += [
        f"p: equal means. Holm p: corrected for the {len(rows)} rows; the verdict is "
        f"at {1 - level:.3g}.",
        "The data frame has more columns: differences, medians, errors, other tests.",
    ]
    notes = [*shared, *dict.fromkeys(notes), *of_several(everyone.values())]
    return Table(rows, title, notes, shown)


def _verdicts(rows: Sequence[Mapping[str, Any]], by: str) -> tuple[list[dict], list[str]]:
    """A line for each row; and a note on what all rows share, which has no column."""
    from jaxelim.tables import shown

    names, lines = ("first", "second", "instance", "problem", "stopping"), []
    for row in rows:
        ratio, low, high = (shown(row[f"ratio{end}"], 3) for end in ("", "_low", "_high"))
        lines.append({
            **{name: str(row[name]) for name in names if name in row},
            "delta": shown(row["delta"]), "ratio": f"{ratio} [{low}, {high}]",
            "p": shown(row["mean_p"], 2), "Holm p": shown(row["holm_p"], 2),
            "verdict": row["verdict"],
        })  # fmt: skip
    words = {"second": f"ratio: mean {OF[by].number} over that of {{}}", "problem": "{}",
             "stopping": "{}", "delta": "delta {}"}  # fmt: skip
    shared = []
    for name, text in words.items():
        values = {line.get(name) for line in lines}
        if len(values) == 1:
            shared += [text.format(value) for value in values if value is not None]
            for line in lines:
                line.pop(name, None)
    return lines, ["; ".join(shared) + "."] if shared else []


def _named(results: Any) -> "dict[str, Result]":
    """Results by name; in a sequence their rules name them."""
    named = results
    if isinstance(results, Sequence):
        names = [repr(getattr(result, "rule", result)) for result in results]
        named = dict(zip(numbered(names), results, strict=True))
    several = isinstance(named, Mapping)
    wrong = [x for x in named.values() if not hasattr(x, "experiment")] if several else []
    if wrong or not several or len(named) < 2:
        allowed = "two or more Results, in a mapping from names or in a sequence"
        raise ArgumentError("results", wrong[0] if wrong else results, allowed)
    return {str(name): result for name, result in named.items()}


def numbered(names: Sequence[str]) -> list[str]:
    """Names, with their places where several are equal."""
    return [f"{n} ({i})" if names.count(n) > 1 else n for i, n in enumerate(names)]


def _apart(a: "Result", b: "Result") -> list[str]:
    """Why runs of two results are not paired, in words; nothing where they are."""
    seeds = a.experiment.seed, b.experiment.seed
    noise = [result.origin.get("noise_sha256") for result in (a, b)]
    why = {
        f"their seeds are {seeds[0]} and {seeds[1]}": seeds[0] != seeds[1],
        "their run indices differ": not np.array_equal(np.sort(a.runs), np.sort(b.runs)),
        "their instances differ": a.instance != b.instance,
        "they have other noise": noise[0] != noise[1],
    }
    return [words for words, differ in why.items() if differ]


def _rows(
    a: "Result", b: "Result", paired: bool, level: float, by: str
) -> Iterator[dict[str, Any]]:
    """The rows of two results; pairs of runs have equal indices."""
    sizes = [result.samples.shape[0] if result.batched else None for result in (a, b)]
    if sizes[0] != sizes[1]:
        note = f"of {' and '.join(str(size or 'no') for size in sizes)} instances in a batch"
        raise ArgumentError("results", [a, b], "results of equally many instances", note)
    mine, theirs = ([rule.name for rule in result.stopping] for result in (a, b))
    names = [f"{mine[0]} / {theirs[0]}"]
    if mine == theirs or len(mine) + len(theirs) > 2:
        names = _common(a, b, "stopping rule, or with one each", mine, theirs)
        a, b = a.select(names), b.select(names)
    deltas = _common(a, b, "delta", a.deltas.tolist(), b.deltas.tolist())
    both = [[getattr(result.select(delta=deltas), name)[..., np.argsort(result.runs)]
             for name in (by, "stopped", "correct")] for result in (a, b)]  # fmt: skip
    for at in np.ndindex(both[0][0].shape[:-1]):
        where = {"instance": at[0]} if a.batched else {}
        where |= {"stopping": names[at[-2]], "delta": deltas[at[-1]], "paired": paired}
        first, second = ([x[at] for x in one] for one in both)
        yield where | _row(first, second, paired, level)


def _common(a: "Result", b: "Result", allowed: str, mine: list, theirs: list) -> list:
    """What is in both lists, in the order of the first."""
    both = [x for x in mine if x in theirs]
    if not both:
        note = f"theirs are {' and '.join(', '.join(map(str, x)) for x in (mine, theirs))}"
        raise ArgumentError("results", [a, b], f"results with a common {allowed}", note)
    return both


def _row(first: list, second: list, paired: bool, level: float) -> dict[str, Any]:
    """The numbers of one row, from samples, stopped and correct [run] of both."""
    both = first, second
    cut = [samples[~stopped] for samples, stopped, _ in both]
    at = min((float(x.min()) for x in cut if x.size), default=math.nan)
    tau = [np.where(stopped, samples, math.inf) for samples, stopped, _ in both]
    kept = [x if math.isnan(at) else np.minimum(x, at) for x in tau]
    wrong = [stopped & ~correct for _, stopped, correct in both]
    row: dict[str, Any] = {"restricted": at}
    for n, name in enumerate(("first", "second")):
        row |= {f"runs_{name}": tau[n].size, f"cut_{name}": cut[n].size,
                f"mean_{name}": float(kept[n].mean()),
                f"median_{name}": float(np.median(tau[n]))}  # fmt: skip
        errors = confidence.rate(int(wrong[n].sum()), wrong[n].size, level)
        row |= _spread(f"errors_{name}", errors)
    difference, row["mean_p"] = confidence.difference(kept[0], kept[1], paired, level)
    row |= _spread("difference", difference)
    row |= _spread("ratio", confidence.ratio(kept[0], kept[1], paired, level))
    row |= dict.fromkeys(("sooner", "later", "sign_p"), math.nan)
    if paired:
        row["sooner"], row["later"] = (int((x < y).sum()) for x, y in (kept, kept[::-1]))
        row["sign_p"] = confidence.sign_test(row["sooner"], row["later"])
    return row | {"errors_p": confidence.rates_test(wrong[0], wrong[1], paired)}


def _spread(name: str, x: confidence.Estimated) -> dict[str, float]:
    return {name: x.value, f"{name}_low": x.low, f"{name}_high": x.high}


def sentence(threshold: Any, reason: bool | str, instance: Any) -> str:
    """The threshold and its guarantee for the rewards of an instance, for a summary."""
    if reason is True:
        return f"Threshold {threshold}, proven if {law(instance)}{_SURE}"
    return f"Threshold {threshold}, without proof: {reason}."


def law(instance: Any) -> str:
    """What a proof takes for granted of rewards, in words."""
    family, source = instance.family, instance.source
    permuted = getattr(source, "order", "") == "permuted"
    if family.items is not None:
        words = "come in one random order for all arms" if permuted else "are independent draws"
        return f"items {words}, with scores of {abbreviate(family)}"
    if permuted:
        return "the rewards of each arm come in a random order, each once"
    unknown = family.stated_law() == UNKNOWN_VARIANCE
    words = "Gaussian, of any variance" if unknown else f"of {abbreviate(family)}"
    return f"rewards are independent and {words}"


def of_several(results: Iterable[tuple[str, Any]]) -> list[str]:
    """The guarantees of results by name; without names where all have the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, result in results:
        words = f"Without proof: the threshold {result.threshold}", f", as {result.proven}."
        if result.proven is True:
            words = f"Proven if {law(result.instance)}", _SURE
        found.setdefault(words, []).append(repr(name))
    return [
        (f" of {', '.join(dict.fromkeys(names))}" if len(found) > 1 else "").join(words)
        for words, names in found.items()
    ]

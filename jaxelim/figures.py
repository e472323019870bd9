"""Figures of results: pure functions of arrays or `Result`s that return a matplotlib Figure and draw on no display.

Wherever a run's stopping time is wanted, NaN stands for a run that was cut off: it is in no mean, and counted aloud.
Colours are told apart by colour-blind readers, dashes and markers in grey prints. `save` writes PNG and PDF.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from jaxelim import checks
from jaxelim.complexity import Complexity, ExtraArm, Search
from jaxelim.errors import ArgumentError
from jaxelim.instance import Instance
from jaxelim.result import Result

STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1))),
    ("#56B4E9", (0, (3, 1, 1, 1))),
)
"""Colours that colour-blind readers tell apart (Okabe & Ito), each with a dash pattern of its own for grey prints."""

MARKERS = "osD^vP"
_GREY = "0.35"

Curves = Mapping[Any, Result | tuple[Any, Any]]
"""Active arms over time by name: a `Result`, or times [points] in samples and counts [points, run]."""
Times = Mapping[str, Any]
"""Stopping times by name: a `Result` (its first stopping rule and delta), or samples [run] with NaN for runs cut off."""


def save(figure: Figure, path: Any, dpi: int = 150, endings: Sequence[str] = ("png", "pdf")) -> tuple[Path, ...]:
    """Write `path` with the endings .png and .pdf, each under a temporary name first.

    Args:
        figure: what to write.
        path: where; an ending .png or .pdf is replaced. The same figure gives the same bytes.
        dpi: dots per inch of the PNG.
        endings: "png", "pdf" or both.

    Returns:
        The paths written, one for each ending.

    Raises:
        ArgumentError: the folder does not exist.
    """
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".png", ".pdf") else path
    if not stem.parent.is_dir():
        raise ArgumentError("path", str(path), "a file in a folder that exists")
    written = []
    # No date and no version, so that equal figures are equal files.
    empty = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}
    # Type 42 keeps the text of a PDF text.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        for ending in endings:
            metadata = empty[checks.choice("endings", ending, tuple(empty))]
            target = stem.with_name(f"{stem.name}.{ending}")
            part = target.with_name(target.name + ".part")
            figure.savefig(part, format=ending, dpi=dpi, metadata=metadata)
            os.replace(part, target)
            written.append(target)
    return tuple(written)


def active_counts(elimination_times: Any, samples: Any, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """How many arms are active in each run over time, from what a store keeps.

    Args:
        elimination_times: [run, K], when each arm was dropped, 0 for never.
        samples: [run], stopping times; runs with NaN are left out. Later than its stop, a run counts what it had left.
        points: how many times, evenly spaced from 0 to the longest run's end.

    Returns:
        times [points] in samples and counts [points, run].
    """
    dropped = checks.real_array("elimination_times", elimination_times, ndim=2)
    tau = _stopping_times("samples", samples)
    points = checks.integer("points", points, low=2)
    if tau.shape != dropped.shape[:1]:
        raise ArgumentError("samples", tau.shape, f"one stopping time for each of the {len(dropped)} runs")
    stopped = np.isfinite(tau)
    if not stopped.any():
        raise ArgumentError("samples", samples, "at least one run that stopped")
    dropped = dropped[stopped]
    times = np.linspace(0, tau[stopped].max(), points)
    fallen = np.sort(np.where(dropped == 0, np.inf, dropped), 1)
    left = np.stack([dropped.shape[1] - np.searchsorted(row, times, side="right") for row in fallen], 1)
    return times, left


def active_arms(result: Result, stopping: int = 0, delta: int = 0, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """How many arms are active in each run over time: times [points] and counts [points, run].

    Runs that have stopped are counted at what was left when they did. Truncated runs are left out.

    Args:
        result: of one instance, best arm or signs, with an elimination among its stopping rules.
        stopping: place of that elimination among them.
        delta: place of the delta.
        points: how many times, evenly spaced from 0 to the longest run's end.
    """
    if result.elimination_times is None or not result.stopping[stopping].eliminates or result.instance.batched:
        raise ArgumentError("result", result, "a result of one instance, observed by an elimination that records arms")
    dropped = result.elimination_times[stopping, delta]
    if not result.stopped[stopping, delta].any() or dropped.ndim != 2:
        raise ArgumentError("result", result, "at least one run that stopped, and elimination times per arm")
    return active_counts(dropped, _of_result(result, stopping, delta), points)


def active_arms_figure(curves: Curves, band: float = 0.8) -> Figure:
    """Active arms against time, one curve per rule: the mean over runs and the band of the central `band` of them.

    (Paper, Figure 1, left.)

    Args:
        curves: by rule, a `Result` with an elimination among its stopping rules (the first is drawn), or a pair of
            times [points] in samples and counts [points, run], as `active_counts` makes them.
        band: share of the runs inside the band, in (0, 1).
    """
    return _active_figure({name: (curve, *style) for (name, curve), style in _styled("curves", curves)}, band)


def full_selective_figure(curves: Curves, band: float = 0.5) -> Figure:
    """Selective against full elimination, at stopping and at stopping and sampling both, for one sampling rule.

    (Paper, Figure 1, middle.) The colour tells the elimination, the dash the place.

    Args:
        curves: by (elimination, place), elimination "selective" or "full", place "stopping" or "both": a `Result`, or
            times [points] in samples and counts [points, run]. Any of the four may be missing.
        band: share of the runs inside the band, in (0, 1).
    """
    colours, dashes = {"selective": STYLES[0][0], "full": STYLES[1][0]}, {"stopping": "-", "both": (0, (5, 2))}
    words = {"stopping": "at stopping", "both": "at stopping and sampling"}
    drawn = {}
    for (key, curve), _ in _styled("curves", curves):
        if not (isinstance(key, tuple) and len(key) == 2 and key[0] in colours and key[1] in dashes):
            allowed = "keys (elimination, place): 'selective' or 'full', 'stopping' or 'both'"
            raise ArgumentError("curves", key, allowed)
        drawn[f"{key[0]}, {words[key[1]]}"] = (curve, colours[key[0]], dashes[key[1]])
    return _active_figure(drawn, band)


def ratio_figure(deltas: Any, ratios: Mapping[str, Any], error: str = "se") -> Figure:
    """Mean ratio of the stopping times of LLR and elimination, on the same runs, against log(1/delta).

    (Paper, Figure 1, right; its caption says standard deviations, its program drew standard errors.)

    Args:
        deltas: [D] error probabilities.
        ratios: by rule, tau_LLR/tau_elimination [D, run], NaN where a run was cut off.
        error: what the bars are: "se", the standard error of the mean, or "sd", the standard deviation over runs.
    """
    deltas = checks.deltas(deltas)
    error = checks.choice("error", error, ("se", "sd"))
    x = np.log(1 / deltas)
    order = np.argsort(x)
    figure, axes = _one()
    count = max(len(ratios), 1)
    spread = 0.006 * (x.max() - x.min())  # side by side, lest bars hide each other
    for place, ((name, given), (colour, dash)) in enumerate(_styled("ratios", ratios)):
        ratio = _numbers("ratios", given, (deltas.size, None))
        kept = np.isfinite(ratio)
        n = kept.sum(1)
        if (n == 0).any():
            raise ArgumentError("ratios", given, "at least one finite ratio for every delta", f"rule {name!r}")
        mean = np.nanmean(ratio, 1)
        sd = np.sqrt(np.nansum((ratio - mean[:, None]) ** 2, 1) / np.maximum(n - 1, 1))
        bar = sd / np.sqrt(n) if error == "se" else sd
        shift = spread * (place - (count - 1) / 2)
        axes.errorbar(
            (x + shift)[order], mean[order], bar[order], color=colour, linestyle=dash, linewidth=1.6, capsize=2.5,
            marker=MARKERS[place % len(MARKERS)], markersize=4.5, label=name + _left_out(ratio),
        )  # fmt: skip
    axes.axhline(1, color=_GREY, linewidth=0.8)
    axes.set_xlabel("log(1/delta), natural logarithm")
    axes.set_ylabel(f"tau_LLR / tau_elimination (mean ± {'standard error' if error == 'se' else 'sd over runs'})")
    return _finished(figure)


def tau_figure(samples: Times, lower: float | None = None, practical: float | None = None, bins: int = 40) -> Figure:
    """Distributions of the stopping time, a histogram per rule in a row of its own, with the bounds drawn in.

    Args:
        samples: by rule, a `Result` of one instance or stopping times [run], NaN for runs cut off.
        lower: the lower bound on the mean, log(1/(2.4 delta))/H* (`sample_bound`), in samples.
        practical: the practical bound, the first t >= T* beta(t, delta) (`practical_time`), in samples.
        bins: bars of the histograms, equal in the logarithm and common to all rules.
    """
    drawn = [(name, _tau(name, given), style) for (name, given), style in _styled("samples", samples)]
    bins = checks.integer("bins", bins, low=2)
    marks = [("lower bound log(1/(2.4 delta)) T*", lower, "--"), ("practical bound T* beta", practical, ":")]
    marks = [(word, checks.real("bound", value, low=0, open=True), dash) for word, value, dash in marks if value is not None]
    everything = np.concatenate([tau[np.isfinite(tau)] for _, tau, _ in drawn])
    low = min([everything.min(), *(value for _, value, _ in marks)])
    high = max([everything.max(), *(value for _, value, _ in marks)])
    edges = np.geomspace(low / 1.05, high * 1.05, bins + 1)
    figure, axes = _one(height=1.4 + 0.75 * len(drawn))
    for row, (_, tau, (colour, _)) in enumerate(reversed(drawn)):
        tau = tau[np.isfinite(tau)]
        heights = np.histogram(tau, edges)[0]
        tops = row + 0.85 * heights / heights.max()
        axes.stairs(tops, edges, baseline=row, color=colour, fill=True, alpha=0.35)
        axes.stairs(tops, edges, baseline=row, color=colour, linewidth=1.2)
        axes.plot(tau.mean(), row, marker="D", color=colour, markeredgecolor="black", markersize=6, linestyle="none",
                  clip_on=False, zorder=4, label="mean" if row == 0 else None)  # fmt: skip
    for word, value, dash in marks:
        axes.axvline(value, color="black", linestyle=dash, linewidth=1.4, label=f"{word} = {value:,.0f}")
    axes.set_xscale("log")
    axes.set_yticks(np.arange(len(drawn)), [name + _left_out(tau) for name, tau, _ in reversed(drawn)])
    axes.set_ylim(-0.12, len(drawn))
    axes.set_xlabel("tau (samples)")
    axes.set_ylabel("runs, by rule (heights to scale within a row)")
    figure = _finished(figure)
    axes.grid(False, axis="y")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=8)  # clear of the rows
    return figure


def survival_figure(samples: Times, lower: float | None = None) -> Figure:
    """The share of runs that are still going after t samples; runs that were cut off never stop.

    Args:
        samples: by rule, a `Result` of one instance or stopping times [run], NaN for runs cut off.
        lower: a bound to mark, in samples.
    """
    figure, axes = _one()
    drawn = [(name, _tau(name, given), style) for (name, given), style in _styled("samples", samples)]
    start = 0.8 * min(np.nanmin(tau) for _, tau, _ in drawn)
    if lower is not None:
        lower = checks.real("lower", lower, low=0, open=True)
        start = min(start, 0.8 * lower)
    for name, tau, (colour, dash) in drawn:
        stopped = np.sort(tau[np.isfinite(tau)])
        going = 1 - np.arange(1, stopped.size + 1) / tau.size
        axes.step(np.append(start, stopped), np.append(1, going), where="post", color=colour, linestyle=dash,
                  linewidth=1.8, label=name + _left_out(tau))  # fmt: skip
    if lower is not None:
        axes.axvline(lower, color=_GREY, linestyle="--", linewidth=1, label=f"lower bound on the mean = {lower:,.0f}")
    axes.set_xscale("log")
    axes.set_xlabel("t (samples)")
    axes.set_ylabel("share of runs with tau > t")
    axes.set_xlim(left=start)
    axes.set_ylim(0, 1.02)
    return _finished(figure)


def pulls_figure(pulls: Mapping[str, Any], allocation: Any, most: int = 15, band: float = 0.8) -> Figure:
    """Each rule's shares of the pulls at its stop beside w*, for the arms of largest weight; the others are summed up.

    Args:
        pulls: by rule, a `Result` of one instance (its first stopping rule and delta), or pulls at the stop [run, K].
        allocation: [K] w*, on the simplex.
        most: how many arms to show.
        band: share of the runs inside the bars, in (0, 1).
    """
    allocation = checks.real_array("allocation", allocation, ndim=1)
    most = checks.integer("most", most, low=1)
    band = checks.real("band", band, low=0, high=1, open=True)
    shares = {}
    for (name, given), style in _styled("pulls", pulls):
        if isinstance(given, Result):
            _tau(name, given)  # refuses batches and results without a run that stopped
            given = given.pulls[0, 0][given.stopped[0, 0]]
        counts = checks.real_array("pulls", given, shape=(None, allocation.size))
        if len(counts) == 0 or (counts < 0).any() or (counts.sum(1) == 0).any():
            raise ArgumentError("pulls", given, "at least one run, with non-negative numbers of pulls and at least one each")
        shares[name] = counts / counts.sum(1, keepdims=True), style
    weight = np.max([allocation, *(share.mean(0) for share, _ in shares.values())], axis=0)
    chosen = np.argsort(-weight, kind="stable")[:most]
    shown = chosen[np.argsort(-allocation[chosen], kind="stable")]
    rest = allocation.size - shown.size

    def columns(share: np.ndarray) -> np.ndarray:
        kept = share[..., shown]
        return np.concatenate([kept, 1 - kept.sum(-1, keepdims=True)], -1) if rest else kept

    figure, axes = _one(width=9)
    x = np.arange(shown.size + (rest > 0))
    axes.bar(x, columns(allocation), width=0.85, color="0.85", edgecolor="0.55", label="w*")
    for place, (name, (share, (colour, _))) in enumerate(shares.items()):
        share = columns(share)
        mean = share.mean(0)
        low, high = np.quantile(share, [(1 - band) / 2, (1 + band) / 2], axis=0)
        shift = 0.7 * ((place + 0.5) / len(shares) - 0.5)
        axes.errorbar(
            x + shift, mean, [np.maximum(mean - low, 0), np.maximum(high - mean, 0)], color=colour, linestyle="none",
            marker=MARKERS[place % len(MARKERS)], markersize=4.5, capsize=2, linewidth=1.1, label=name,
        )  # fmt: skip
    axes.set_xticks(x, [str(k) for k in shown] + ([f"other {rest}"] if rest else []))
    axes.set_xlabel("arm, by falling w*")
    axes.set_ylabel(f"share of the pulls (mean, central {100 * band:.0f}% of runs)")
    axes.set_ylim(bottom=0)
    return _finished(figure)


def information_regret_figure(regrets: Mapping[str, Any], value: float | None = None) -> Figure:
    """R(t) = t H* - min_p H_p(N_t) over time, and the largest so far, which is what the bounds take for R.

    On logarithmic axes: where R is 0 or below, nothing is drawn.

    Args:
        regrets: by rule or run, an `InformationRegret`, or a pair of times [n] in samples and regrets [n] or [run, n]; of
            many runs the mean is drawn, with the band of the central 80%, and the largest over all of them.
        value: H*, to draw t H*: the regret of a run that has gathered nothing.
    """
    figure, axes = _one()
    first, last, floor = np.inf, 1.0, np.inf
    for (name, given), (colour, dash) in _styled("regrets", regrets):
        pair = (given.times, given.regret) if hasattr(given, "regret") else given
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise ArgumentError("regrets", given, "an InformationRegret, or a pair of times [n] and regrets [n] or [run, n]")
        times = checks.real_array("times", pair[0], ndim=1)
        regret = np.atleast_2d(checks.real_array("regrets", pair[1], ndim=(1, 2)))
        if times.size == 0 or regret.shape[1] != times.size or len(regret) == 0 or (times <= 0).any():
            raise ArgumentError("regrets", given, f"[n] or [run, n] regrets at the n = {times.size} times, all above 0")
        largest = np.maximum.accumulate(np.maximum(regret.max(0), 0))
        if len(regret) > 1:
            low, high = np.maximum(np.quantile(regret, [0.1, 0.9], axis=0), 1e-300)
            axes.fill_between(times, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(times, regret.mean(0), color=colour, linestyle=dash, linewidth=1.7, label=name)
        axes.step(times, largest, where="pre", color=colour, linewidth=0.9, label=f"_{name}: largest so far")
        floor = min([floor, *largest[largest > 0][:1]])
        first, last = min(first, times.min()), max(last, times.max())
    axes.set_xscale("log")
    axes.set_yscale("log", nonpositive="mask")
    top = axes.get_ylim()[1]
    axes.plot([], [], color=_GREY, linewidth=0.9, label="thin: largest so far")
    if value is not None:
        value = checks.real("value", value, low=0, open=True)
        t = np.geomspace(first, last, 200)
        axes.plot(t, t * value, color=_GREY, linestyle=(0, (1, 2)), linewidth=1.2, label="t H*: nothing gathered")
    if np.isfinite(floor):
        axes.set_ylim(floor / 3, top)  # below lie zeros but for rounding
    axes.set_xlabel("t (samples)")
    axes.set_ylabel("information regret R(t) (nats)")
    figure = _finished(figure)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)  # clear of the curves
    return figure


@dataclass(frozen=True, eq=False)
class Panel:
    """What one panel of `scaling_figure` shows, on two logarithmic axes.

    Args:
        title: above the panel.
        xlabel: with its unit.
        ylabel: with its unit.
        x: [n], above 0.
        measured: by name, means [n], or a pair of means [n] and standard errors [n]; NaN where there is none.
        references: by name, values [n] that the measured ones are held against: bounds and laws.
    """

    title: str
    xlabel: str
    ylabel: str
    x: Any
    measured: Mapping[str, Any]
    references: Mapping[str, Any] = field(default_factory=dict)


def scaling_figure(panels: Sequence[Panel], columns: int = 3) -> Figure:
    """Measured quantities against a parameter on logarithmic axes, beside bounds and laws, one panel each.

    Args:
        panels: at least one.
        columns: panels in a row.
    """
    columns = checks.integer("columns", columns, low=1)
    if not panels:
        raise ArgumentError("panels", panels, "at least one panel")
    across = min(columns, len(panels))
    rows = -(-len(panels) // across)
    figure = Figure(figsize=(4.6 * across, 4.4 * rows), layout="constrained")
    for axes, panel in zip(figure.subplots(rows, across, squeeze=False).flat, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    x = checks.real_array("x", panel.x, ndim=1)
    if x.size == 0 or (x <= 0).any():
        raise ArgumentError("x", panel.x, "numbers above 0")
    for place, ((name, given), (colour, dash)) in enumerate(_styled("measured", panel.measured)):
        mean, bar = given if isinstance(given, tuple) else (given, None)
        mean = _numbers("measured", mean, (x.size,))
        bar = None if bar is None else _numbers("measured", bar, (x.size,))
        axes.errorbar(x, mean, bar, color=colour, linestyle=dash, linewidth=1.5, capsize=2.5, markersize=5,
                      marker=MARKERS[place % len(MARKERS)], label=name)  # fmt: skip
    for place, (name, given) in enumerate(panel.references.items()):
        dash = (":", "--", "-.", (0, (1, 3)))[place % 4]
        values = _numbers("references", given, (x.size,))
        axes.plot(x, values, color=_GREY, linestyle=dash, linewidth=1.3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(x, [f"{value:.3g}" for value in x])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.grid(alpha=0.25, linewidth=0.5)
    # below, as there may be curves anywhere inside
    axes.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)


def allocation_figure(found: Complexity, name: str) -> Figure:
    """w* by arm, and H_p at w* by piece, both sorted: the pieces on the line H* are the ones that decide."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    order = np.argsort(-found.allocation, kind="stable")[:20]
    left.bar(np.arange(order.size), found.allocation[order], color=STYLES[0][0])
    left.set_xticks(np.arange(order.size), [str(k) for k in order], fontsize=7)
    rest = found.allocation.size - order.size
    others = f" ({rest} more share {1 - found.allocation[order].sum():.1%})" if rest else ""
    left.set_xlabel("arm, by falling weight" + others)
    left.set_ylabel("w*, share of the pulls")
    information = np.sort(found.information[np.isfinite(found.information)])
    right.semilogy(np.arange(information.size), information, ".", color=STYLES[1][0], label="H_p at w*")
    right.axhline(float(found.value), color="0.3", linewidth=1, linestyle="--", label=f"H* = {float(found.value):.4g}")
    right.set_xlabel("piece, by rising information")
    right.set_ylabel("H_p (per sample)")
    right.legend(frameon=False)
    figure.suptitle(f"optimal allocation on {name}, duality gap {float(found.gap):.0e}", fontsize=10)
    return figure


def design_figure(instance: Instance, hard: Search, extra: ExtraArm) -> Figure:
    """T* along the searches for the hardest theta and the best extra arm, and in two dimensions where they ended.

    Args:
        instance: the instance they started from.
        hard: of `hardest_instance`.
        extra: of `best_extra_arm`.
    """
    plane = instance.d == 2
    figure = Figure(figsize=(9 if plane else 5, 3.8), layout="constrained")
    left, *right = figure.subplots(1, 2 if plane else 1, squeeze=False)[0]
    for (name, times), (colour, dash) in zip(
        (("hardest theta in the ball", hard.times), ("best extra arm", extra.times)), STYLES, strict=False
    ):
        left.plot(times, color=colour, linestyle=dash, linewidth=1.8, label=name)
    left.axhline(hard.before, color=_GREY, linewidth=1, linestyle=":", label=f"as given, T* = {hard.before:.4g}")
    left.set_yscale("log")
    left.set_xlabel("gradient step")
    left.set_ylabel("T* (samples)")
    for axes in right:
        for k, arm in enumerate(instance.arms):
            axes.plot([0, arm[0]], [0, arm[1]], color="0.6", linewidth=1.5, label="arms" if k == 0 else None)
        axes.plot([0, extra.features[0]], [0, extra.features[1]], color=STYLES[1][0], linestyle="--", linewidth=2,
                  label="best extra arm")  # fmt: skip
        axes.plot(*instance.theta, "o", color="black", linestyle="none", label="theta")
        axes.plot(*hard.instance.theta, "D", color=STYLES[0][0], linestyle="none", label="hardest theta")
        axes.set_aspect("equal", "datalim")
        axes.set_xlabel("first coordinate")
        axes.set_ylabel("second coordinate")
    for axes in (left, *right):
        axes.grid(alpha=0.25, linewidth=0.5)
        axes.legend(frameon=False, fontsize=8)
    return figure


def _one(width: float = 7, height: float = 4.2) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _finished(figure: Figure) -> Figure:
    """The common dress: a light grid and a legend without a frame."""
    axes = figure.axes[0]
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False)
    return figure


def _styled(name: str, given: Any) -> Iterator[tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """(key, value) of a mapping with a colour and a dash each."""
    if not isinstance(given, Mapping) or not given:
        raise ArgumentError(name, given, "a mapping from names to what is drawn, with at least one entry")
    return zip(given.items(), STYLES * len(given), strict=False)


def _active_figure(drawn: Mapping[str, tuple[Any, Any, Any]], band: float) -> Figure:
    """Curves of active arms by label: (curve, colour, dash). The axis of time ends where 98% of every rule's runs are through,
    lest the longest run of one squeeze all the others; the curves go on."""
    band = checks.real("band", band, low=0, high=1, open=True)
    figure, axes = _one()
    end = 0.0
    for name, (curve, colour, dash) in drawn.items():
        if isinstance(curve, Result):
            places = [s for s, rule in enumerate(curve.stopping) if rule.eliminates]
            curve = active_arms(curve, places[0] if places else 0)
        if not isinstance(curve, Sequence) or len(curve) != 2:
            raise ArgumentError("curves", curve, "a Result, or a pair of times [points] and counts [points, run]")
        times = checks.real_array("times", curve[0], ndim=1)
        left = checks.real_array("counts", curve[1], shape=(times.size, None))
        if left.size == 0:
            raise ArgumentError("counts", curve[1], "at least one time and one run")
        low, high = np.quantile(left, [(1 - band) / 2, (1 + band) / 2], axis=1)
        axes.fill_between(times / 1000, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(times / 1000, left.mean(1), color=colour, linestyle=dash, linewidth=1.8, label=name)
        through = (left == left[-1]).mean(1) >= 0.98
        end = max(end, times[np.argmax(through)])
    axes.set_xlabel("samples (thousands)")
    axes.set_ylabel(f"active arms (mean, central {100 * band:.0f}% of runs)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 1.05 * end / 1000 if end > 0 else None)
    return _finished(figure)


def _of_result(result: Result, stopping: int = 0, delta: int = 0) -> np.ndarray:
    return np.where(result.stopped[stopping, delta], result.samples[stopping, delta], np.nan)


def _tau(name: str, given: Any) -> np.ndarray:
    """Stopping times [run] of one entry, NaN for runs cut off, at least one of them finite."""
    if isinstance(given, Result):
        if given.instance.batched:
            raise ArgumentError("samples", given, "a result of one instance, or an array [run]", f"rule {name!r}")
        given = _of_result(given)
    tau = _stopping_times("samples", given)
    if not np.isfinite(tau).any():
        raise ArgumentError("samples", given, "at least one run that stopped", f"rule {name!r}")
    return tau


def _stopping_times(name: str, given: Any) -> np.ndarray:
    tau = _numbers(name, given, (None,))
    if (tau <= 0).any():
        raise ArgumentError(name, given, "stopping times above 0, NaN for runs that were cut off")
    return tau


def _numbers(name: str, given: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Real numbers of that shape as float64; NaN, unlike infinity, may stand among them."""
    array = checks.real_array(name, given, shape=shape, finite=False)
    if np.isinf(array).any():
        raise ArgumentError(name, given, "finite numbers, or NaN where there is none")
    return array


def _left_out(array: np.ndarray) -> str:
    """How many runs are missing, in words for a label."""
    missing = int(np.isnan(array).any(tuple(range(array.ndim - 1))).sum())
    return f" ({missing} cut off)" if missing else ""


__all__ = [
    "MARKERS",
    "STYLES",
    "Panel",
    "active_arms",
    "active_arms_figure",
    "active_counts",
    "allocation_figure",
    "design_figure",
    "full_selective_figure",
    "information_regret_figure",
    "pulls_figure",
    "ratio_figure",
    "save",
    "scaling_figure",
    "survival_figure",
    "tau_figure",
]

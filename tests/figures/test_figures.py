"""Figures: drawn values, labels with units, files, refusals."""

import dataclasses
import errno
import functools
import os
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import jaxelim as je
from experiments import figure1, two_dimensional
from jaxelim import cli, figures
from jaxelim.bounds import Complexity
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.errors import ArgumentError
from jaxelim.figures.style import STYLES, style_of
from tests.simulation.comparison_cases import INSTANCE, made

RNG = np.random.default_rng(3)
EASY = je.Instance(np.eye(4), [1.0, 0.2, 0.0, -0.5])
BOTH = je.LLR(), je.SelectiveElimination()
TAU = {"LinGapE": made(RNG.lognormal(7, 0.3, 60)),
       "Oracle": made(np.append(RNG.lognormal(6.5, 0.2, 58), [9e4, 9e4]), cap=8e4)}  # fmt: skip
DELTAS = 10.0 ** -np.arange(1, 6)


def watched(scale, cut=0):
    """A result of both stopping rules; so many runs of the third delta are cut off."""
    plain = RNG.lognormal(7, 0.3, (5, 40))
    samples = np.stack([plain * (1 + scale * RNG.random((5, 40))), plain])
    stopped = np.ones(samples.shape, bool)
    stopped[0, 2, :cut] = False
    return made(samples, stopped=stopped)


RATIOS = {"LinGapE": watched(1.0), "FWS": watched(0.5)}
_PULLS = RNG.multinomial(1000, [0.4, 0.3, 0.2, 0.1], (1, 1, 30))
PULLS = {"LinGapE": made(np.full(30, 1000), instance=EASY, pulls=_PULLS)}


def dropping(pace, runs=12):
    """A result whose 20 arms fall out one by one, but the last."""
    times = np.sort(RNG.integers(1, 1000 // pace, (1, 1, runs, 20)))
    times[..., -1] = 0
    return made(times.max(-1)[0, 0] + 5, elimination_times=times, instance=EASY20,
                stopping=je.SelectiveElimination())  # fmt: skip


EASY20 = je.Instance.unstructured(np.linspace(1, 0, 20))
ACTIVE = {"LinGapE": dropping(2), "LinGame": dropping(1)}
FOUR = {
    (kind, place): dropping(1 + i)
    for i, kind in enumerate(("selective", "full"))
    for place in ("stopping", "both")
}
PANEL = two_dimensional.Panel(
    "tau", "eps", "samples", DELTAS,
    {"full": (1 / DELTAS, 0.1 / DELTAS), "selective": (3 / DELTAS, 0.1 / DELTAS)},
    {"1/eps": 1 / DELTAS},
)  # fmt: skip
FOUND = Complexity(
    value=np.float64(0.1), allocation=np.append(np.arange(30, 0, -1), 0) / 465,
    mixture=np.full(4, 0.25), gap=np.float64(1e-9), converged=np.bool_(True),
    information=np.array([0.1, 0.1, 0.3, 0.2, np.inf]), pieces=HalfSpaces(*np.zeros((3, 1, 5))),
)  # fmt: skip
FIGURES = {
    "active": lambda: figures.active_arms_figure(ACTIVE),
    "middle": lambda: figure1.full_selective_figure(FOUR),
    "ratio": lambda: figures.ratio_figure(RATIOS),
    "ratio-sd": lambda: figures.ratio_figure(RATIOS, error="sd"),
    "tau": lambda: figures.tau_figure(TAU),
    "survival": lambda: figures.survival_figure(TAU),
    "pulls": lambda: figures.pulls_figure(PULLS, most=2),
    "scaling": lambda: two_dimensional.scaling_figure([PANEL] * 4),
    "allocation": lambda: figures.allocation_figure(FOUND, "here"),
}


@functools.cache
def made_figure(name):
    return FIGURES[name]()


UNITS = re.compile(r"samples?\b|share of|active arms|^runs, by rule|natural logarithm"
                   r"|tau_LLR / tau")  # fmt: skip
BARE = ("arm, by falling weight", "arm, by falling w*", "eps", "piece, by rising information")
"""Labels of axes without a unit."""


def test_curves_differ_without_colour():
    for name in ("active", "middle", "survival"):
        drawn = [str(line._dash_pattern) for line in made_figure(name).axes[0].lines
                 if not line.get_label().startswith("_")]  # fmt: skip
        assert len(drawn) >= 2 and len(set(drawn)) == len(drawn), (name, drawn)
    assert len({str(dash) for _, dash in STYLES}) == len(STYLES)
    assert len({str(style_of(place)) for place in range(36)}) == 36


def test_a_figure_is_written_atomically(tmp_path, monkeypatch):
    """A full disk raises StoreError; older files stay, and no new file is left."""
    figures.save(made_figure("survival"), tmp_path / "x")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"x.png", "x.pdf"}
    write, room = os.write, iter([4096, 4096])

    def full(handle, contents):
        size = next(room, 0)
        if not size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, contents[:size])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(je.errors.StoreError, match="the disk is full"):
        figures.save(made_figure("tau"), tmp_path / "x")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", FIGURES)
def test_axes_have_units_and_no_label_is_cut_off(name):
    """Samples, shares or a ratio; counts name what they count. No page is empty.

    IPython shows what `_repr_png_` returns.
    """
    figure = made_figure(name)
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
    for axes in figure.axes:
        for label in (axes.get_xlabel(), axes.get_ylabel()):
            assert label and (UNITS.search(label) or label.startswith(BARE)), label
        assert len(axes.lines) + len(axes.patches) + len(axes.collections) >= 2
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    legends += figure.legends
    assert legends and all(legend.get_texts() for legend in legends)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # warnings, such as labels that do not fit, are errors here
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    ink = (pixels.min(-1) < 200).mean()
    assert 0.005 < ink < 0.6
    assert any((np.abs(pixels.astype(int) - colour).sum(-1) < 12).any()
               for colour in ([0, 114, 178], [213, 94, 0]))  # fmt: skip
    page = figure.bbox  # labels lie inside
    for axes in figure.axes:
        legend = [axes.get_legend()] if axes.get_legend() is not None else []
        for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *legend):
            box = text.get_window_extent(canvas.get_renderer())
            if box.width == 0:  # no text
                continue
            assert box.x0 >= page.x0 and box.y0 >= page.y0, text
            assert box.x1 <= page.x1 and box.y1 <= page.y1, text


@pytest.mark.parametrize("rules", [1, 2])
def test_a_figure_of_few_rules_has_room_for_its_labels(rules):
    figure = figures.tau_figure(dict(list(TAU.items())[:rules]))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    box = axes.yaxis.label.get_window_extent(canvas.get_renderer())
    assert axes.bbox.y0 - 1 <= box.y0 and box.y1 <= axes.bbox.y1 + 1


def lines(figure, label):
    (line,) = [one for one in figure.axes[0].lines if one.get_label().startswith(label)]
    return line


def test_active_arms_are_counted_per_run():
    dropped = np.array([[10, 0, 30], [0, 20, 20], [5, 5, 5]])
    result = made([30, 20, 40], cap=40, elimination_times=dropped[None, None],
                  instance=je.Instance.unstructured([1.0, 0.5, 0.0]),
                  stopping=je.SelectiveElimination())  # fmt: skip
    times, left = figures.active_arms(result, points=31)
    np.testing.assert_array_equal(times, np.arange(31))
    assert left.shape == (31, 2)  # the run that was cut off is excluded
    np.testing.assert_array_equal(left[[0, 9, 10, 29, 30], 0], [3, 3, 2, 2, 1])
    np.testing.assert_array_equal(left[[19, 20, 30], 1], [3, 1, 1])
    times, left = figures.active_arms(result)
    figure = figures.active_arms_figure({"x": result})
    np.testing.assert_allclose(lines(figure, "x").get_ydata(), left.mean(1))
    np.testing.assert_allclose(lines(figure, "x").get_xdata(), times / 1000)
    (axes,) = figures.active_arms_figure(result, log=True).axes
    assert axes.get_xscale() == "log" and 0 < axes.get_xlim()[0] < 0.001


@functools.cache
def simulated(cap=10**6):
    """Six runs of uniform sampling, observed by two stopping rules at two deltas."""
    return je.simulate(EASY, je.BestArm(), je.Uniform(), stopping=BOTH, delta=[0.1, 0.05], runs=6,
                       max_samples=cap)  # fmt: skip


def test_a_result_and_a_part_of_it():
    """One result needs no name; `select` gives other stopping rules and deltas."""
    result = simulated()
    part = result.select("selective", 0.05)
    assert part.samples.shape == (1, 1, 6) and part.stopping == (je.SelectiveElimination(),)
    np.testing.assert_array_equal(part.elimination_times, result.elimination_times[1:, 1:])
    np.testing.assert_array_equal(result.select(["selective", "llr"]).pulls, result.pulls[::-1])
    for name, given in (("stopping", ("full",)), ("delta", (None, 0.2))):
        with pytest.raises(ArgumentError, match=name):
            result.select(*given)
    line = lines(figures.survival_figure(part), "Uniform")
    np.testing.assert_array_equal(line.get_xdata()[1:], np.sort(result.samples[1, 1]))
    shares = figures.pulls_figure({"x": part}, most=4).axes[0]
    marks = [one for one in shares.lines if one.get_marker() == "o"][0].get_ydata()
    optimal = np.argsort(-je.complexity(EASY, je.BestArm()).pulls, kind="stable")
    share = (result.pulls[1, 1] / result.samples[1, 1][:, None]).mean(0)
    np.testing.assert_allclose(marks, share[optimal])
    with pytest.raises(ArgumentError, match="eliminat"):
        figures.active_arms_figure(result.select("llr"))


def test_bounds_of_results():
    """T* is that of the results' instance and problem, beta their threshold."""
    result = simulated()
    solved = je.complexity(EASY, je.BestArm())
    gk16 = dataclasses.replace(result, experiment=result.experiment.replace(threshold=je.GK16()))
    practical = lines(figures.study_figure({"x": gk16}), "practical")
    assert practical.get_ydata()[-1] == je.bounds.practical_time(0.05, solved, je.GK16())


def test_legends_count_runs_that_were_cut_off():
    result = simulated(140).select("selective", 0.1)
    cut = int(result.truncated.sum())
    assert 0 < cut < 6
    for figure in (figures.active_arms_figure(result), figures.pulls_figure(result)):
        texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert f"Uniform ({cut} cut off)" in texts


def test_bars_of_the_ratio_are_errors_of_the_mean_or_deviations():
    result, found = watched(0.5, cut=4), {}
    llr, selective = np.where(result.stopped, result.samples, np.nan)
    for error in ("se", "sd"):
        axes = figures.ratio_figure({"FWS": result}, error=error).axes[0]
        (bars,) = axes.containers
        np.testing.assert_allclose(bars.lines[0].get_xdata(), np.log(1 / DELTAS))
        np.testing.assert_allclose(bars.lines[0].get_ydata(), np.nanmean(llr / selective, 1))
        found[error] = [np.ptp(segment[:, 1]) / 2 for segment in bars.lines[2][0].get_segments()]
        assert "4 cut off" in axes.get_legend().get_texts()[-1].get_text()
        assert "biased where some were cut off" in axes.get_legend().get_title().get_text()
    whole = figures.ratio_figure({"FWS": RATIOS["FWS"]}).axes[0].get_legend()
    assert whole.get_title().get_text() == ""
    np.testing.assert_allclose(found["sd"], np.nanstd(llr / selective, 1, ddof=1))
    np.testing.assert_allclose(np.divide(found["sd"], found["se"]), np.sqrt([40, 40, 36, 40, 40]))


def test_bounds_are_drawn_and_means_exclude_runs_cut_off():
    axes = made_figure("tau").axes[0]
    verticals = [one.get_xdata()[0] for one in axes.lines if one.get_linestyle() in ("--", ":")]
    solved = je.complexity(INSTANCE, je.BestArm())
    assert verticals == [je.bounds.sample_bound(0.1, solved), je.bounds.practical_time(0.1, solved)]
    means = sorted(one.get_xdata()[0] for one in axes.lines if one.get_marker() == "D")
    np.testing.assert_allclose(means, sorted(one.samples[one.stopped].mean()
                                             for one in TAU.values()))  # fmt: skip
    assert "Oracle (2 cut off)" in [text.get_text() for text in axes.get_yticklabels()]
    told = [text.get_text() for text in made_figure("tau").legends[0].get_texts()]
    assert "mean of those that stopped (biased low)" in told
    whole = figures.tau_figure(TAU["LinGapE"], bounds=False).legends[0].get_texts()
    assert [text.get_text() for text in whole] == ["mean"]


def test_runs_cut_off_stay_in_the_survival_curve():
    line, one = lines(made_figure("survival"), "Oracle"), TAU["Oracle"]
    assert line.get_ydata()[0] == 1 and line.get_ydata()[-1] == pytest.approx(2 / 60)
    for t, share in line.get_xydata():
        assert share == pytest.approx((~one.stopped | (one.samples > t)).mean())
    assert lines(made_figure("survival"), "LinGapE").get_ydata()[-1] == 0


def test_shares_of_pulls_and_the_rest():
    axes = made_figure("pulls").axes[0]
    weights = je.complexity(EASY, je.BestArm()).pulls
    heights = [bar.get_height() for bar in axes.containers[0]]
    mean = PULLS["LinGapE"].pulls[0, 0].mean(0) / 1000
    shown = [int(text.get_text()) for text in axes.get_xticklabels()[:-1]]
    assert set(shown) == set(np.argsort(-np.maximum(weights, mean), kind="stable")[:2])
    np.testing.assert_allclose(heights, [*weights[shown], 1 - weights[shown].sum()], atol=1e-12)
    marks = [one for one in axes.lines if one.get_marker() == "o"][0].get_ydata()
    np.testing.assert_allclose(marks, [*mean[shown], 1 - mean[shown].sum()], atol=1e-12)
    assert axes.get_xticklabels()[-1].get_text() == "other 2"


def test_panels_hold_measured_values_and_references():
    figure = made_figure("scaling")
    assert len(figure.axes) == 4
    axes = figure.axes[3]
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_title() == "tau"
    np.testing.assert_allclose(axes.containers[0].lines[0].get_ydata(), 1 / DELTAS)
    np.testing.assert_allclose(lines(figure, "1/eps").get_ydata(), 1 / DELTAS)


def test_weights_and_information():
    left, right = made_figure("allocation").axes
    np.testing.assert_allclose(
        [bar.get_height() for bar in left.patches], np.arange(30, 10, -1) / 465
    )
    assert "11 more share 11.8%" in left.get_xlabel()
    title = figures.allocation_figure(FOUND).get_suptitle()
    assert title == "optimal allocation, duality gap 1e-09"
    points = [line for line in right.lines if line.get_marker() == "."][0]
    np.testing.assert_allclose(points.get_ydata(), [0.1, 0.1, 0.2, 0.3])  # sorted, no padding


def test_saving(tmp_path):
    first = figures.save(FIGURES["ratio"](), tmp_path / "a.v2.png", endings=("png", "pdf"))
    assert [path.name for path in first] == ["a.v2.png", "a.v2.pdf"]
    (only,) = figures.save(FIGURES["ratio"](), tmp_path / "c.pdf")
    only.unlink()
    second = figures.save(FIGURES["ratio"](), tmp_path / "b")
    assert first[0].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert first[1].read_bytes()[:5] == b"%PDF-"
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert set(tmp_path.iterdir()) == {*first, *second}
    with pytest.raises(ArgumentError, match="folder"):
        figures.save(made_figure("ratio"), tmp_path / "missing" / "a.png")


@pytest.mark.parametrize("call, word", [
    (lambda: figures.active_arms_figure({}), "at least one"),
    (lambda: figures.active_arms_figure({"x": 3}), "results"),
    (lambda: figures.active_arms_figure(np.ones(4)), "results"),
    (lambda: figures.active_arms_figure(ACTIVE, band=1.0), "band"),
    (lambda: figures.active_arms(made([3.0, 4.0])), "eliminat"),
    (lambda: figures.active_arms(dataclasses.replace(
        ACTIVE["LinGame"], stopped=np.zeros((1, 1, 12), bool))), "stopped"),
    (lambda: figures.ratio_figure(TAU), "an elimination"),
    (lambda: figures.ratio_figure(RATIOS, error="iqr"), "error"),
    (lambda: figures.ratio_figure({"x": dataclasses.replace(
        RATIOS["FWS"], stopped=np.zeros((2, 5, 40), bool))}), "finite ratio"),
    (lambda: figures.tau_figure(made([[5.0]] * 2, cap=4)), "stopped"),
    (lambda: figures.tau_figure(TAU, bins=1), "bins"),
    (lambda: figures.study_figure(made([5.0], cap=4)), "stopped"),
    (lambda: figures.pulls_figure({"a": made([3.0]), **PULLS}), "one instance and problem"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(call, word):
    with pytest.raises(ArgumentError, match=word):
        call()


@pytest.mark.slow
def test_files_draw_what_they_allow(tmp_path, capsys):
    """Two rules, the first observed by LLR and by elimination; the second has one delta."""
    common = dict(instance=EASY, problem=je.BestArm(), rule=je.Uniform(), runs=8)
    both = je.LLR(), je.SelectiveElimination()
    je.simulate(**common, delta=[0.2, 0.05], stopping=both).save(tmp_path / "a.nc")
    je.simulate(**common, delta=[0.2], seed=1).save(tmp_path / "b.nc")
    paths = [str(tmp_path / "a.nc"), str(tmp_path / "b.nc")]
    for words, message in (
        (["--figure", "taus"], "nearest: 'tau'"),
        (["--figure", "ratio"], "observed by LLR() and by an elimination"),
        (["--format", "bmp"], "format"),
        (["-o", str(tmp_path / "tau.png")], "a folder"),
        ([paths[1]], "different rules or names"),
    ):
        assert cli.main(["plot", paths[1], *words]) == 2
        said = capsys.readouterr()
        assert message in said.err + said.out, words
    assert cli.main(["plot", str(tmp_path / "none.nc")]) == 2
    assert not list(tmp_path.glob("*.png"))

    assert cli.main(["plot", paths[0], "-o", str(tmp_path), "--format", "png", "pdf"]) == 0
    assert "no figure comparison: it needs" in capsys.readouterr().out
    names = {"tau", "survival", "delta", "ratio", "active", "pulls"}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    assert {path.stem for path in tmp_path.glob("*.pdf")} == names
    new = tmp_path / "new" / "figures"
    assert cli.main(["plot", *paths, "-o", str(new), "--log", "--figure", "comparison"]) == 0
    assert [path.name for path in new.iterdir()] == ["comparison.png"]

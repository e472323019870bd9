"""Figures: drawn values, labels with units and room, names in any script, files, refusals."""

import dataclasses
import errno
import functools
import itertools
import os
import re
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import jaxelim as je
from experiments import figure1, two_dimensional
from jaxelim import cli, figures
from jaxelim.bounds import Complexity
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.errors import ArgumentError
from jaxelim.figures import arms, style
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
FOUR = {(kind, place): dropping(1 + (kind == "full"))
        for kind in ("selective", "full") for place in ("stopping", "both")}  # fmt: skip
PANEL = two_dimensional.Panel(
    "tau", "eps", "samples", DELTAS, {"full": (1 / DELTAS, 0.1 / DELTAS)}, {"1/eps": 1 / DELTAS}
)
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
    "tau-one": lambda: figures.tau_figure(TAU["LinGapE"]),
    "survival": lambda: figures.survival_figure(TAU),
    "pulls": lambda: figures.pulls_figure(PULLS, most=2),
    "scaling": lambda: two_dimensional.scaling_figure([PANEL] * 4),
    "allocation": lambda: figures.allocation_figure(FOUND, "here"),
}


@functools.cache
def made_figure(name):
    return FIGURES[name]()


def words(figure):
    """The texts of all legends of a figure, with their titles."""
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()] + figure.legends
    return [text.get_text() for one in legends for text in (*one.get_texts(), one.get_title())]


def rendered(figure):
    """The renderer that has drawn a figure; warnings, as of labels without room, are errors."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


UNITS = re.compile(r"samples?\b|share of|active arms|^runs, by rule|natural logarithm|tau_LLR / tau"
                   "|^arm, by falling w|^eps|^piece, by rising information")  # fmt: skip
"""Labels of axes with a unit, or of what has none."""


def test_curves_differ_without_colour():
    for name in ("active", "middle", "survival"):
        drawn = [str(line._dash_pattern) for line in made_figure(name).axes[0].lines
                 if not line.get_label().startswith("_")]  # fmt: skip
        assert len(drawn) >= 2 and len(set(drawn)) == len(drawn), (name, drawn)
    assert len({str(dash) for _, dash in style.STYLES}) == len(style.STYLES)
    assert len({str(style.style_of(place)) for place in range(36)}) == 36


def test_a_figure_is_written_atomically(tmp_path, monkeypatch):
    """A full disk raises StoreError; older files stay, and no new file is left."""
    figures.save(made_figure("survival"), tmp_path / "x")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"x.png", "x.pdf"}
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "write", mock.Mock(side_effect=[4096, full]))
    with pytest.raises(je.errors.StoreError, match="the disk is full"):
        figures.save(made_figure("tau"), tmp_path / "x")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", FIGURES)
def test_axes_have_units_and_no_label_is_cut_off(name):
    """Samples, shares or a ratio; counts name what they count. No page is empty."""
    figure = made_figure(name)
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"  # which IPython shows
    for axes in figure.axes:
        for label in (axes.get_xlabel(), axes.get_ylabel()):
            assert UNITS.search(label), label
        assert len(axes.lines) + len(axes.patches) + len(axes.collections) >= 2
    assert words(figure)[0]
    renderer = rendered(figure)
    pixels = np.asarray(renderer.buffer_rgba())[..., :3]
    assert 0.005 < (pixels.min(-1) < 200).mean() < 0.6
    assert any((np.abs(pixels.astype(int) - colour).sum(-1) < 12).any()
               for colour in ([0, 114, 178], [213, 94, 0]))  # fmt: skip
    whole = figure.get_tightbbox(renderer)  # in inches: texts, marks and legends lie on the page
    assert whole.min.min() >= 0 and (whole.max <= figure.get_size_inches()).all()
    for axes in figure.axes:
        box = axes.yaxis.label.get_window_extent(renderer)
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
        assert f"Uniform ({cut} cut off)" in words(figure)


def test_bars_of_the_ratio_are_errors_of_the_mean_or_deviations():
    result, found = watched(0.5, cut=4), {}
    llr, selective = np.where(result.stopped, result.samples, np.nan)
    for error in ("se", "sd"):
        figure = figures.ratio_figure({"FWS": result}, error=error)
        (bars,) = figure.axes[0].containers
        np.testing.assert_allclose(bars.lines[0].get_xdata(), np.log(1 / DELTAS))
        np.testing.assert_allclose(bars.lines[0].get_ydata(), np.nanmean(llr / selective, 1))
        found[error] = [np.ptp(segment[:, 1]) / 2 for segment in bars.lines[2][0].get_segments()]
        label, title = words(figure)
        assert "4 cut off" in label and "biased where some were cut off" in title
    assert words(figures.ratio_figure({"FWS": RATIOS["FWS"]})) == ["FWS", ""]
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
    assert "mean of those that stopped (biased low)" in words(made_figure("tau"))
    assert words(figures.tau_figure(TAU["LinGapE"], bounds=False)) == ["mean", ""]


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
    heights = [bar.get_height() for bar in left.patches]
    np.testing.assert_allclose(heights, np.arange(30, 10, -1) / 465)
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


def endless(result):
    """The result, but no run stopped."""
    return dataclasses.replace(result, stopped=np.zeros_like(result.stopped))


@pytest.mark.parametrize("call, word", [
    (lambda: figures.active_arms_figure({}), "at least one"),
    (lambda: figures.active_arms_figure({"x": 3}), "results"),
    (lambda: figures.active_arms_figure(np.ones(4)), "results"),
    (lambda: figures.active_arms_figure(ACTIVE, band=1.0), "band"),
    (lambda: figures.active_arms(made([3.0, 4.0])), "eliminat"),
    (lambda: figures.active_arms(endless(ACTIVE["LinGame"])), "stopped"),
    (lambda: figures.ratio_figure(TAU), "an elimination"),
    (lambda: figures.ratio_figure(RATIOS, error="iqr"), "error"),
    (lambda: figures.ratio_figure({"x": endless(RATIOS["FWS"])}), "finite ratio"),
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


def live(names, counts=5000):
    """The figure of a live run with these arms; the first leads."""
    k = len(names)
    means = np.linspace(0.9, 0.1, k)
    evidence = pd.DataFrame({"piece": [f"{names[0]} > {name}" for name in names[1:]],
                             "log_e": np.linspace(1, 6, k - 1), "llr": 0.0, "needed": 4.1,
                             "active": True})  # fmt: skip
    ends = je.live.Intervals(means, means - 0.1, means + 0.1, 0.95)
    return arms.live_figure(SimpleNamespace(
        names=names, evidence=evidence, known_intervals=ends, means=means, ended_by_hand=False,
        counts=np.full(k, counts), answer_arms=names[:1], stopped=False,
    ))  # fmt: skip


def boxes(figure, texts):
    """The places of texts that are not empty."""
    renderer = rendered(figure)
    return [text.get_window_extent(renderer) for text in texts() if text.get_text()]


def apart(places):
    """Whether no two places overlap."""
    return not any(a.overlaps(b) for a, b in itertools.combinations(places, 2))


@pytest.mark.parametrize("arms", [2, 4, 20, 60])
def test_the_counts_of_a_live_run_are_on_the_page(arms):
    """Beside each arm; none is cut off, and none is on another."""
    figure = live([f"arm {k}" for k in range(arms)], 123456)
    right = figure.axes[1]
    places = boxes(figure, lambda: right.texts)
    assert len(places) == arms and (arms > 40 or apart(places))
    for place in places:
        assert place.x0 >= right.bbox.x1 and place.x1 <= figure.bbox.x1
        assert place.y0 >= 0 and place.y1 <= figure.bbox.y1


def test_a_comparison_of_many_rows_has_room_for_rare_errors():
    """A delta far above all rates is a mark at the edge; each other is a line."""
    rng = np.random.default_rng(1)
    wrong = rng.random((1, 3, 1000)) > 0.001
    named = {f"rule {k}": made(rng.lognormal(5, 0.5, (1, 3, 1000)), wrong) for k in range(11)}
    found = je.compare(named, baseline="rule 0")
    figure = figures.comparison_figure(found)
    right = figure.axes[1]
    high = found["errors_first_high"].max()
    assert len(found) == 30 and right.get_xlim()[1] == pytest.approx(1.05 * high)
    at_edge, *_ = [line for line in right.lines if line.get_label() == "larger delta"]
    inside, *_ = [one for one in right.collections if one.get_label() == "delta"]
    assert len(at_edge.get_xdata()) == 20 and len(inside.get_segments()) == 10
    assert apart(boxes(figure, lambda: figure.axes[0].get_yticklabels()))


@pytest.fixture
def only(monkeypatch):
    """Make matplotlib know some fonts alone, by the begin of their names."""

    def known(*names):
        fonts = [x for x in font_manager.fontManager.ttflist if x.name.startswith(names)]
        monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
        style._fonts.cache_clear()

    yield known
    style._fonts.cache_clear()


def drawn(figure):
    """All texts of a figure after it was drawn."""
    rendered(figure)
    return [text.get_text() for text in figure.findobj(Text)]


def test_names_without_a_font_are_numbered(only):
    """The same number wherever a name is, and a legend that Python reads back."""
    only("DejaVu", "Last")
    found = drawn(live(["红色", "緑いろ", "파랑 b", "video"]))
    for text in ("#1 > #2", "#1 > #3 b", "#1 > video", "#1", "#2", "#3 b"):
        assert text in found
    assert r"#1 = '\u7ea2\u8272', #2 = '\u7dd1\u3044\u308d', #3 = '\ud30c\ub791'" in found


def test_names_take_a_font_that_has_their_letters(only):
    """Of letters that the STIX font of matplotlib has, and DejaVu has not."""
    only("DejaVu Sans", "STIXGeneral", "Last")
    figure = live(["ᶁᶄ", "plain", "éclair"])
    found = drawn(figure)
    assert "ᶁᶄ > plain" in found and not any(text.startswith("#") for text in found)
    named = [text for text in figure.findobj(Text) if "ᶁ" in text.get_text()]
    assert len(named) >= 3
    assert all("STIXGeneral" in text.get_fontfamily() for text in named)

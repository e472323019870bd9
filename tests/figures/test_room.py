"""Figures that are full: labels do not overlap, and names in any script are drawn."""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import jaxelim as je
from jaxelim import figures
from jaxelim.figures import letters
from jaxelim.figures.arms import live_figure
from tests.simulation.comparison_cases import made

DELTAS = 10.0 ** -np.arange(1, 7)


def live(names, counts=5000):
    """The figure of a live run with these arms; the first leads."""
    k = len(names)
    means = np.linspace(0.9, 0.1, k)
    evidence = pd.DataFrame({"piece": [f"{names[0]} > {name}" for name in names[1:]],
                             "log_e": np.linspace(1, 6, k - 1), "llr": 0.0, "needed": 4.1,
                             "active": True})  # fmt: skip
    ends = je.live.Intervals(means, means - 0.1, means + 0.1, 0.95)
    return live_figure(SimpleNamespace(
        names=names, evidence=evidence, known_intervals=ends, means=means, ended_by_hand=False,
        counts=np.full(k, counts), answer_arms=names[:1], stopped=False,
    ))  # fmt: skip


def boxes(figure, texts):
    """The places of texts that are not empty."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    return [text.get_window_extent(renderer) for text in texts() if text.get_text()]


def ticks(figure):
    """The tick labels below all panels."""
    found = []
    for axes in figure.axes:
        low, high = axes.get_xlim()
        pairs = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        found += [text for at, text in pairs if low <= at <= high]
    return found


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
        letters._fonts.cache_clear()

    yield known
    letters._fonts.cache_clear()


def drawn(figure):
    """All texts of a figure after it was drawn; a letter without a font is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FigureCanvasAgg(figure).draw()
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

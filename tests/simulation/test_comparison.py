"""Comparisons: SciPy on the same arrays, coverage, pairing, restricted means, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import figures
from jaxelim.simulation.results import confidence
from tests.simulation.comparison_cases import INSTANCE, made

BATCH = je.Instance.unstructured([[1.0, 0.0]])


def arrays(n=40, m=40, seed=1):
    rng = np.random.default_rng(seed)
    return np.ceil(rng.lognormal(6, 0.6, n)), np.ceil(rng.lognormal(6.3, 0.6, m))


def row_of(a, b, **settings):
    (row,) = je.compare({"a": a, "b": b}, **settings).to_dict("records")
    return row


def assert_mean_test(row, test, level):
    """The p-value is that of the test that the interval inverts."""
    ends = test.confidence_interval(level)
    found = [row["difference_low"], row["difference_high"]]
    np.testing.assert_allclose(found, [ends.low, ends.high], rtol=1e-12)
    assert row["mean_p"] == row["holm_p"] == pytest.approx(test.pvalue, rel=1e-9)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_pairs_agree_with_scipy(level):
    a, b = arrays()
    rng = np.random.default_rng(2)
    right = rng.random((2, 40)) < 0.8
    row = row_of(made(a, right[0]), made(b, right[1]), level=level)
    assert_mean_test(row, stats.ttest_rel(a, b), level)
    assert row["paired"] and row["difference"] == pytest.approx(a.mean() - b.mean())
    assert row["ratio"] == pytest.approx(a.mean() / b.mean())
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    for end in (row["ratio_low"], row["ratio_high"]):  # where the t-test's p-value is 1 - level
        assert stats.ttest_rel(a, end * b).pvalue == pytest.approx(1 - level, rel=1e-9)
    assert (row["sooner"], row["later"]) == ((a < b).sum(), (a > b).sum())
    assert row["sign_p"] == pytest.approx(stats.binomtest((a < b).sum(), (a != b).sum()).pvalue)
    for name, one in zip(("first", "second"), ~right, strict=True):
        exact = stats.binomtest(one.sum(), 40).proportion_ci(level)
        found = [row[f"errors_{name}_low"], row[f"errors_{name}_high"]]
        np.testing.assert_allclose(found, [exact.low, exact.high], rtol=1e-9)
        assert row[f"errors_{name}"] == one.mean()
    differ = [(right[0] & ~right[1]).sum(), (right[1] & ~right[0]).sum()]
    assert row["errors_p"] == pytest.approx(stats.binomtest(differ[0], sum(differ)).pvalue)
    assert (row["median_first"], row["median_second"]) == (np.median(a), np.median(b))


def test_two_samples_agree_with_scipy():
    a, b = arrays(40, 25)
    right = np.arange(40) >= 7, np.arange(25) >= 1
    row = row_of(made(a, right[0]), made(b, right[1], seed=1))
    assert_mean_test(row, stats.ttest_ind(a, b, equal_var=False), 0.95)
    for end in (row["ratio_low"], row["ratio_high"]):
        p = stats.ttest_ind(a, end * b, equal_var=False).pvalue
        assert p == pytest.approx(0.05, rel=1e-9)
    assert not row["paired"] and np.isnan(row["sign_p"])
    assert row["errors_p"] == pytest.approx(stats.fisher_exact([[7, 33], [1, 24]]).pvalue)


def test_ends_of_ratios_and_samples_without_spread():
    one = np.array([1.0, 1000.0])  # no test at this level tells its mean from 0
    assert confidence.ratio(one[::-1] * 2, one, True)[1:] == (0.0, np.inf)
    same = np.full(5, 7.0)
    assert confidence.ratio(same, 2 * same, False) == (0.5, 0.5, 0.5)
    assert confidence.difference(same, 2 * same, True)[0] == (-7.0, -7.0, -7.0)
    assert np.isnan(confidence.ratio(same[:1], same, False)[1:]).all()
    assert confidence.sign_test(0, 0) == 1.0
    given = [0.01, 0.04, np.nan, 0.03, 0.005]  # Holm's, as R's p.adjust gives them
    np.testing.assert_allclose(confidence.holm(given), [0.03, 0.06, np.nan, 0.06, 0.02])
    assert confidence.holm([0.6, 0.7]) == [1.0, 1.0]
    tests = [confidence.difference(same, n * same, n == 1)[1] for n in (1, 2)]
    assert tests == [1, 0] and np.isnan(confidence.difference(same[:1], same, False)[1])


def _gamma(rng):
    """Pairs of mean 200 and 300, with a common part."""
    common, one, other = (rng.gamma(shape, 100, 50) for shape in (1.0, 1.0, 2.0))
    return common + one, common + other


def _lognormal(rng):
    z, other = 0.8 * rng.standard_normal((2, 50))
    return 300 * np.exp(z), 400 * np.exp(other)


@pytest.mark.slow
def test_intervals_cover_in_a_thousand_comparisons():
    """Skewed stopping times of 50 runs.

    Each interval covers from 900 to 992 of n = 1000 times. For coverages from 0.945 to
    0.965, which 10,000 comparisons gave, that fails by luck with probability at most
    1e-6, all four taken together. A coverage of 0.875 is seen with probability 0.99.
    """
    low, high, half = 900, 992, np.exp(0.32)
    luck = stats.binom.cdf(low - 1, 1000, 0.945) + stats.binom.sf(high, 1000, 0.965)
    assert 4 * luck < 1e-6 and stats.binom.cdf(low - 1, 1000, 0.875) > 0.99
    for draw, mean, other in ((_gamma, 200, 300), (_lognormal, 300 * half, 400 * half)):
        rng, paired = np.random.default_rng(7), draw is _gamma
        held = np.zeros(2, int)
        for _ in range(1000):
            a, b = draw(rng)
            off, _ = confidence.difference(a, b, paired)
            over = confidence.ratio(a, b, paired)
            held += [off.low <= mean - other <= off.high, over.low <= mean / other <= over.high]
            assert (off.low > 0) == (over.low > 1) and (off.high < 0) == (over.high < 1)
        assert (held >= low).all() and (held <= high).all(), (draw, held)


def test_means_are_restricted_where_runs_were_cut():
    """min(tau, L) is known for every run; L is the least number of samples of a cut run."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(10, 100, (2, 30))
    row = row_of(made(a, cap=80), made(b, cap=60))
    assert (row["restricted"], row["cut_first"], row["cut_second"]) == (
        60, (a >= 80).sum(), (b >= 60).sum(),
    )  # fmt: skip
    short = np.minimum(a, 60.0), np.minimum(b, 60.0)
    assert row["mean_first"] == pytest.approx(short[0].mean())
    assert row["mean_second"] == pytest.approx(short[1].mean())
    test = stats.ttest_rel(*short).confidence_interval()
    assert row["difference_low"] == pytest.approx(test.low)
    assert row["sooner"] == (short[0] < short[1]).sum()
    assert row["median_first"] == np.median(np.where(a < 80, a, np.inf))
    half = row_of(made([5.0, 5, 90, 90, 90], cap=80), made(np.arange(1, 6)))
    assert half["median_first"] == np.inf
    found = je.compare({"a": made(a, cap=80), "b": made(b, cap=60)})
    assert "Means are restricted where runs were cut off" in str(found)
    assert "restricted" not in str(je.compare({"a": made(a), "b": made(b)}))
    wrong = row_of(made(a, False, cap=80), made(b, cap=60))
    assert wrong["errors_first"] == pytest.approx((a < 80).mean())  # a cut run is no error


def test_runs_are_paired_by_their_indices():
    a, b = arrays(20, 20)
    noisy = {"origin": {"noise_sha256": "ab", "proven": "of no engine"}}
    order = np.random.default_rng(4).permutation(20)
    same = [je.compare([made(a), one]) for one in (made(b), made(b[order], runs=order))]
    assert same[0].equals(same[1])
    cases = {
        "their seeds are 0 and 5": made(b, seed=5),
        "their run indices differ": made(b, runs=np.arange(1, 21)),
        "their instances differ": made(b, instance=je.Instance.unstructured([2.0, 0.0])),
        "they have other noise": made(b, **noisy),
    }
    assert row_of(made(a, **noisy), made(b, **noisy))["paired"]
    for words, other in cases.items():
        found = je.compare([made(a), other])
        assert not found["paired"][0] and any(words in note for note in found.notes), words


def test_rows_are_of_pairs_stopping_rules_and_deltas():
    rng = np.random.default_rng(5)
    tau = rng.integers(10, 100, (3, 2, 2, 8))
    a, b = made(tau[0]), made(tau[1])
    c = made(tau[2, :1, ::-1], deltas=np.array([0.01, 0.1]), stopping=(je.SelectiveElimination(),))
    found = je.compare({"a": a, "b": b, "c": c})
    keys = [(*row,) for row in found[["first", "second", "stopping", "delta"]].to_numpy()]
    names = ("llr", "selective")
    assert keys == [
        *[("a", "b", name, delta) for name in names for delta in (0.1, 0.01)],
        *[(one, "c", "selective", delta) for one in "ab" for delta in (0.1, 0.01)],
    ]
    assert found["mean_first"][5] == tau[0, 1, 1].mean()
    assert found["mean_second"][5] == tau[2, 0, 1].mean()
    assert list(je.compare([made(tau[0, :1]), c])["stopping"]) == ["llr / selective"] * 2
    batch = je.Instance.unstructured([[1.0, 0.0], [2.0, 0.0]])
    several = [made(x, instance=batch) for x in (tau[:2], tau[1:])]
    found = je.compare(several)
    assert list(found["instance"]) == [0] * 4 + [1] * 4
    assert found["mean_second"][6] == tau[2, 1, 0].mean()


def test_tables():
    """A comparison is a data frame of all numbers, which prints its verdict."""
    a, b = arrays(20, 20)
    assert made(a).compare(made(b), level=0.9).equals(je.compare([made(a), made(b)], level=0.9))
    found = je.compare({"a<b": made(a), "b": made(b)})
    assert str(found).splitlines()[0] == found.title == "a<b, b: 95% intervals"
    assert "a&lt;b" in found._repr_html_() and "<table" in found._repr_html_()
    assert isinstance(found, pd.DataFrame) and found.shape[0] == 1
    assert found["ratio"][0] == pytest.approx(a.mean() / b.mean())
    assert type(found[["ratio"]]) is type(found.copy()) is pd.DataFrame


def test_costs_are_called_costs():
    """1.2 times the samples at 0.8 of the cost: the verdict, the table and the figure say so."""
    a, b = arrays(40, 40)

    def priced(tau, cost, **more):
        pulls = np.stack([np.array(cost, ndmin=3), np.zeros((1, 1, 40))], -1)
        return made(tau, pulls=pulls, instance=INSTANCE.replace(costs=[1, 1]), **more)

    given = {"a": priced(1.2 * b + a % 7, 0.8 * b + a % 7), "b": priced(b, b)}
    by_samples, by_costs = (je.compare(given, by=by) for by in ("samples", "costs"))
    assert [found["verdict"][0] for found in (by_samples, by_costs)] == ["later", "cheaper"]
    assert list(je.compare(given, baseline="a", by="costs")["verdict"]) == ["dearer"]
    assert "ratio: mean number of samples over that of b" in str(by_samples)
    cut = {"a": priced(a, a, cap=300), "b": priced(b, b)}
    text = "".join(
        [str(by_costs), str(je.compare(cut, by="costs")),
         *(axes.get_xlabel() for axes in figures.comparison_figure(by_costs).axes),
         *(text.get_text() for text in figures.comparison_figure(by_costs).legends[0].texts)]
    )  # fmt: skip
    for word in ("samples", "tau", "sooner", "later"):
        assert word not in text, word
    assert "mean cost over that of b" in text and "of min(cost, L)" in text
    assert "(ratio of costs)" in text and list(by_costs["by"]) == ["costs"]


def test_a_baseline_and_its_verdict():
    """One row for each other result; a table of many has Holm's correction, and fits a page."""
    rng = np.random.default_rng(8)
    tau = rng.integers(50, 150, (20, 30))
    named = {f"a rule of a rather long name, {n}": made(tau[n] / (1 + n)) for n in range(3)}
    first, *others = named
    found = je.compare(named, baseline=first)
    assert list(found["first"]) == others and set(found["second"]) == {first}
    assert list(found["verdict"]) == ["sooner", "sooner"]
    assert found["ratio"][0] == pytest.approx((tau[1] / 2).mean() / tau[0].mean())
    backwards = je.compare(dict(reversed(named.items())), baseline=others[1])
    assert set(backwards["verdict"]) == {"later"}
    many = je.compare({f"a rule of a rather long name, {n}": made(tau[n]) for n in range(20)})
    p = many["mean_p"].to_numpy()
    assert (p < 0.05).any() and many["holm_p"][p.argmin()] == min(p.min() * 190, 1)
    assert set(many["verdict"]) == {"not told apart"}
    with pytest.raises(je.errors.ArgumentError, match="baseline"):
        je.compare(named, baseline="b")


def test_the_figure_of_a_comparison():
    a, b = arrays(20, 20)
    wrong = np.arange(20) > 2
    found = je.compare({"a": made([a, a], wrong), "b": made([b, b])})
    left, right = figures.comparison_figure(found).axes
    for axes, name, shift in ((left, "ratio", 0), (right, "errors_first", 0.15)):
        y = np.arange(len(found))[::-1] + shift
        np.testing.assert_array_equal(axes.lines[0].get_xydata(), np.stack([found[name], y], 1))
        ends = np.stack([found[f"{name}_low"], found[f"{name}_high"]], 1)
        bars = np.array(axes.collections[0].get_segments())
        np.testing.assert_allclose(bars, np.stack([ends, np.stack([y, y], 1)], -1))
    assert list(found["errors_first"]) == [3 / 20] * 2
    dotted = [one[0, 0] for one in right.collections[-1].get_segments()]
    assert dotted == [0.1, 0.01]
    labels = [text.get_text() for text in left.get_yticklabels()]
    assert labels == ["a / b\nllr, delta 0.1", "a / b\nllr, delta 0.01"]


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda a: je.compare([a]), "two or more"),
        (lambda a: je.compare({"a": a, "b": 3}), "two or more"),
        (lambda a: je.compare(a), "two or more"),
        (lambda a: je.compare(a, a, a), "all results in one list"),
        (lambda a: je.compare([a, a], level=1.0), "level"),
        (lambda a: je.compare([a, made(np.ones(5), deltas=np.array([0.3]))]), "common delta"),
        (lambda a: je.compare([made(np.ones((2, 1, 5))),
                               made(np.ones(5), stopping=je.FullElimination())]),
         "common stopping rule"),
        (lambda a: je.compare([a, made(np.ones((1, 1, 1, 5)), instance=BATCH)]),
         "equally many instances"),
        (lambda a: figures.comparison_figure(3), "je.compare"),
        (lambda a: figures.comparison_figure(je.compare([made([3.0])] * 2)), "two or more runs"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(call, word):
    with pytest.raises(je.errors.ArgumentError, match=word):
        call(made(np.arange(1.0, 6)))

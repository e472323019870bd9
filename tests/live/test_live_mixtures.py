"""Live runs with the default threshold: evidence, p-values, intervals, forecasts, their end.

The fast tests share one compiled program, that of `MADE`.
"""

import html
import io
import math
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families import draws as noise
from jaxelim.live import forecast, report
from jaxelim.live.forecast import LiveForecast
from tests.live.live_cases import NAMES, Case, coins, fed, log_one, log_pair, same_run, traces

pytestmark = pytest.mark.xdist_group("live")
MEANS = np.array([1.2, 0.4, 0.0])
MADE = dict(delta=0.1, stopping=je.SelectiveElimination(), seed=3, run=5)


def made(problem=je.BestArm(), **changes) -> je.LiveRun:  # noqa: B008 (frozen)
    """A live run of three arms with unit variance, and the default threshold."""
    return je.LiveRun(NAMES, problem, **{"rule": je.LUCB(), **MADE, **changes})


def told(run: je.LiveRun, rounds: int, means=MEANS, seed: int = 0) -> np.ndarray:
    """Tell a run so many rewards of each arm, in rounds; returns them, [rounds, K]."""
    rewards = np.random.default_rng(seed).standard_normal((rounds, len(means))) + means
    run.tell(list(run.names) * rounds, rewards.ravel())
    return rewards


def test_the_default_repeats_a_simulated_run_with_its_p_values(tmp_path):
    """Every pull, and the end; saved and loaded on the way, with the p-values."""
    case = Case(je.Instance.unstructured(MEANS), je.BestArm(), je.LUCB(), threshold=je.Mixture())
    traced, live = case.traced(), case.live()
    assert traced.stopped and 12 < traced.samples < 4000
    live.save(tmp_path / "mine.live")
    fed(live, traced, traced.samples // 2)
    compiled = traces(live)
    live.save()
    live.close()
    again = je.LiveRun.load(tmp_path / "mine.live")
    assert again._fold.call.threshold == je.Mixture(pieces=2)
    again.ask()
    assert again._fold.programs is live._fold.programs and traces(live) == compiled
    np.testing.assert_array_equal(again.p_values.pairs, live.p_values.pairs)
    assert again.p_values.pairs.min() < 1
    fed(again, traced)
    same_run(again, traced)
    assert again.p_values.answer <= case.delta and again.proven is True


def test_evidence_and_p_values():
    """log e by its definition; p-values are the least so far, for a pair, an answer, all pairs."""
    run = made(delta=1e-9)
    rewards, least, before = told(run, 1), np.ones((3, 3)), np.ones(3)
    rng = np.random.default_rng(1)
    for n in range(2, 20):
        new = rng.standard_normal(3) + 2 * MEANS
        rewards = np.vstack([rewards, new])
        run.tell(NAMES, new)
        means = rewards.mean(0)
        found = run.evidence
        log_e = np.array([[log_pair(n, n, a - b) if a > b else 0 for b in means] for a in means])
        i = int(np.argmax(means))
        others = [k for k in range(3) if k != i]
        assert list(found.piece) == [f"{NAMES[i]} > {NAMES[k]}" for k in others]
        np.testing.assert_allclose(found.log_e, np.maximum(log_e[i, others], 0), rtol=1e-9)
        assert found.needed[0] == pytest.approx(math.log(2 / 1e-9))
        least = np.minimum(least, np.exp(-np.maximum(log_e, 0)))
        # It also looks between the rounds, so the p-values may be below those of whole rounds.
        assert (run.p_values.pairs <= least + 1e-12).all()
        now = run.p_values.pairs
        assert (now <= before if n > 2 else now <= 1).all()
        before = now
        np.testing.assert_array_equal(found.p, now[i, others])
        np.testing.assert_allclose(found.p_together, np.minimum(1, 3 * now[i, others]))
        # An answer is wrong only if another arm is the best: then both pieces of that are true.
        assert run.p_values.answer == pytest.approx(min(1, 2 * now.min(0)[others].max()))
        assert run.p_values.arms.max() == run.p_values.answer
    assert before.min() < 0.05


def test_intervals_and_differences_are_where_the_mixture_meets_its_level():
    run = made(delta=0.1)
    means, n = told(run, 9).mean(0), 9
    for level in (None, 0.99):
        found = run.intervals(level)
        share = 0.9 if level is None else level
        assert found.level == share
        off = found.high - means
        np.testing.assert_allclose(means - found.low, off, rtol=1e-9)
        np.testing.assert_allclose(found.values, means)
        reach = [log_one(n, width) for width in off]
        np.testing.assert_allclose(reach, math.log(3 / (1 - share)), rtol=1e-9)
        for together, pairs in ((False, 1), (True, 3)):
            pair = run.difference("red", "blue", level, together)
            assert pair.value == pytest.approx(means[0] - means[2])
            assert pair.value - pair.low == pytest.approx(pair.high - pair.value)
            reach = log_pair(n, n, pair.high - pair.value)
            assert reach == pytest.approx(math.log(pairs / (1 - share)))
    narrow, wide = run.difference("red", "blue"), run.difference("red", "blue", together=True)
    assert narrow.high - narrow.low < wide.high - wide.low
    back = run.difference("blue", "red")
    np.testing.assert_allclose([-back.value, -back.high, -back.low], narrow)
    for given in (dict(level=1.0), dict(level=0.0), dict(level=True)):
        with pytest.raises(je.errors.ArgumentError, match="level: got"):
            run.intervals(**given)
    with pytest.raises(je.errors.ArgumentError, match=r"b: got 'red'.*another arm"):
        run.difference("red", "red")
    with pytest.raises(je.errors.UnsupportedError, match="first rewards of every arm; still"):
        made().intervals()


def test_the_end_by_hand(tmp_path):
    """It is in the file; ask is refused; what is valid stays; later rewards are recorded."""
    path = tmp_path / "mine.live"
    run = made(delta=1e-9)
    run.save(path)
    with pytest.raises(je.errors.UnsupportedError, match="stop: got.*still to come: red, gr"):
        run.stop()
    told(run, 5)
    run.ask()
    before = run.p_values
    text = str(run.stop())
    assert "ended by hand after 15 rewards. There is no answer" in text and "proven" not in text
    assert run.ended_by_hand and not run.stopped and run.answer is None and run.samples == 15
    assert run.answer_arms == () and run.waiting == ()
    run.tell(list(NAMES) * 20, [9.0, 0.0, 0.0] * 20)
    assert run.told == 75 and run.samples == 15 and not run.stopped
    run.close()
    by_events = je.LiveRun.load(path, attach=False)
    with je.LiveRun.load(path) as other:
        other.save()
    by_state = je.LiveRun.load(path, attach=False)
    for one in (run, by_events, by_state):
        np.testing.assert_array_equal(one.p_values.pairs, before.pairs)
        assert one.ended_by_hand and one.samples == 15 and (one.counts == 25).all()
        assert one.summary().equals(run.summary())
        for again in (one.ask, one.stop, one.forecast):
            with pytest.raises(je.errors.OverError, match="after 15 rewards, by hand, for good"):
                again()


@pytest.mark.slow
def test_a_forecast_is_the_run_simulated_on():
    """Its rewards, told to copies of the run one by one, end them at the same time."""
    run, seed = made(), 11
    rewards = told(run, 4)
    found = run.forecast(runs=3, most=600, seed=seed)
    assert found.stopped.all() and found.more.shape == (3,) and (found.more > 0).all()
    with scope.engine():
        each = jnp.arange(3, dtype=jnp.int32)
        drawn = noise.seeded("normal", noise.key(seed), each, 0 * each, 700, jnp.float64)
        z = np.asarray(drawn)
    means = rewards.mean(0)
    for r in range(3):
        copy = made()
        copy.tell(list(NAMES) * 4, rewards.ravel())
        while not copy.stopped:
            arm = copy.ask()
            copy.tell(arm, means[NAMES.index(arm)] + z[copy.told, r])
        assert copy.samples - 12 == found.more[r]
        np.testing.assert_array_equal(copy.answer, found.answers[r])
    assert found.range == (0, math.inf)  # three runs are too few for one
    assert f"{found.median:,.0f} more rewards" in str(found)
    cut = run.forecast(runs=3, most=1, seed=seed)
    assert not cut.stopped.any() and cut.median == math.inf and "over 1 more" in str(cut)
    assert (cut.more == math.inf).all()
    *others, last = run.summary(forecast=True).notes
    for words in ("estimates as the truth", "with probability 80%, by 32 runs", report.PAGE):
        assert words in last
    assert run.summary().notes == [*others, report.FORECAST]
    assert report.FORECAST in html.unescape(run._repr_html_())
    assert not any("Forecast" in note or note == report.FORECAST for note in copy.summary().notes)
    with pytest.raises(je.errors.ArgumentError, match="runs: got 0"):
        run.forecast(runs=0)


@pytest.mark.parametrize("runs, share", [(4, 0.8), (32, 27 / 33)])
def test_the_range_of_a_forecast_covers_a_new_run(runs, share):
    """40,000 samples of so many runs and one more: six standard errors, 2e-9 of luck."""
    draws = np.random.default_rng(0).exponential(1000, (40_000, runs + 1))
    covered = 0
    for *more, new in draws:
        low, high = LiveForecast(
            np.array(more), np.ones((runs, 1), bool), np.ones(1, bool), 10**6
        ).range
        covered += low <= new <= high
    assert share >= 0.8 and abs(covered / len(draws) - share) <= 0.012


def test_an_estimated_variance_is_above_0():
    """Of equal rewards it is that of the other arms; where all are equal it is some number."""
    counts, family = np.array([2, 2, 2]), je.GaussianUnknownVariance()
    for variances, expected in (([0.0, 4.0, 0.0], (2, 2, 2)), ([0.0, 4.0, 16.0], (10**0.5, 2, 4)),
                                ([0.0] * 3, (0.005,) * 3)):  # fmt: skip
        squares = np.array(variances)[:, None] * 2
        found = family.estimated(counts, np.array([5.0, 1.0, 0.0]), squares)
        np.testing.assert_allclose(found.std, expected)
    assert family.estimated(counts, np.zeros(3), np.zeros((3, 1))).std == (1, 1, 1)


def test_a_forecast_takes_estimates_inside_the_range():
    """Of n rewards of 1, (n + 1/2)/(n + 1); of none at an end, their mean."""
    run = coins()
    run.tell(list(NAMES) * 4, [1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
    truth = forecast._estimated(run._fold, run._state)
    np.testing.assert_allclose(truth.means, [4.5 / 5, 0.5, 0.5 / 5])


def test_the_summary_says_who_wins_how_sure_and_what_helps():
    """The table, the state, and the epsilon from which on a run with these rewards ends."""
    run = made(delta=0.05)
    rewards = np.random.default_rng(0).standard_normal((21, 3)) + [0.5, 0.49, -0.5]
    rewards[:, 1] += rewards[:, 0].mean() - rewards[:, 1].mean() - 0.02
    run.tell(list(NAMES) * 21, rewards.ravel())
    found, ends = run.summary(), run.intervals()
    rows, text = found.to_dict("records"), str(found)
    shown = [(row["arm"], row["low"], row["high"]) for row in rows]
    assert shown == list(zip(NAMES, ends.low.tolist(), ends.high.tolist(), strict=True))
    for name, other in (("green", rows[1]), ("blue", rows[2])):
        pair = run.difference(name, "red", together=True)
        assert (other["difference"], other["diff low"], other["diff high"]) == pytest.approx(pair)
    assert rows[0]["difference"] == rows[0]["diff high"] == 0
    p = np.minimum(1, 2 * run.p_values.pairs.min(0))
    assert [row["p"] for row in rows[1:]] == p[1:].tolist() and rows[0]["p"] == p[1:].max() == 1
    assert [row["state"] for row in rows[:2]] == ["leads", ""]
    assert (rows[2]["p"] <= 0.05) == rows[2]["state"].startswith("eliminated at ")
    assert found.notes[0] == (
        "The run is open after 63 rewards. In the lead: red (p = 1); "
        "an answer needs a p of at most 0.05."
    )
    assert "Threshold Mixture(pieces=2), proven if rewards are independent and of Gauss" in text
    assert "where a test with one look has 0.05 it may be 1: see docs/explanation/seq" in text
    for word in ("look equal", "answer yet", "log e", "piece ", "level", "out at", "WARNING"):
        assert word not in text.replace("Mixture(pieces=2)", ""), word
    epsilon = float(text.split("BestArm(epsilon=")[1].split(")")[0])
    assert f"No arm is better than red by {epsilon:g}, with the same probability." in text
    for share, stops in ((1.0, True), (0.96, False)):
        slack = made(je.BestArm(epsilon=share * epsilon), delta=0.05, stopping=je.LLR())
        slack.tell(list(NAMES) * 21, rewards.ravel())
        assert slack.stopped == stops


def test_p_and_the_state_of_an_arm_agree():
    """At every look: an arm is eliminated if and only if its p is at most delta.

    It was not so with p of all pairs, here from 0.05 to 0.075; nor with p of the present
    leader's pieces alone, where another arm led when an arm was eliminated.
    """
    run, rng, seen, changed = made(delta=0.05), np.random.default_rng(11), 0, 0
    run.tell(NAMES, rng.standard_normal(3))
    first = None
    for _ in range(30):
        run.tell(NAMES, rng.standard_normal(3) + [1.2, 1.2, 0.0])
        rows = run.summary().to_dict("records")
        for k, row in enumerate(rows):
            out = row["state"].startswith("eliminated")
            assert out == (run.elimination_times[k] > 0) and (not out or row["p"] <= 0.05)
        if rows[2]["state"]:
            first = run.answer_arms if first is None else first
            changed += run.answer_arms != first
            seen += run.p_values.together[int(np.argmax(run.answer)), 2] > 0.05
    assert seen and changed


def test_a_run_with_costs_says_what_was_spent():
    run = made(costs=[1.0, 2.0, 5.0], delta=1e-9, rule=je.Uniform())
    run.tell(list(NAMES) * 4, np.tile([3.0, 2.0, 1.0], 4))
    found = run.summary()
    assert list(found["cost"]) == [4.0, 8.0, 20.0]
    assert found.notes[0].startswith(
        "The run is open after 12 rewards at a cost of 32. In the lead: red"
    )
    run.tell(list(NAMES) * 8, np.tile([30.0, -20.0], 12))
    assert found.notes[2].startswith("low, high") and run.summary().notes[2].startswith("WARNING")


def test_the_figure_shows_intervals_and_log_e():
    run = made(delta=0.05)
    told(run, 21, np.array([0.5, 0.2, 0.0]))
    now, ends = run.evidence, run.intervals()
    figure = run.figure()
    left, right = figure.axes
    assert [one.get_width() for one in left.patches] == pytest.approx(list(now.log_e))
    assert left.get_xlabel().startswith("evidence (log e)")
    assert left.lines[0].get_xdata()[0] == now.needed[0]
    assert figure.get_suptitle().startswith("open: ")
    drawn = np.array([one[:, 0] for one in right.collections[0].get_segments()])
    np.testing.assert_allclose(drawn, np.stack([ends.low, ends.high], 1))


class _Own(je.Bernoulli):
    """A family without a mixture."""

    def has(self, method):
        return method not in ("log_e", "log_mixture") and super().has(method)


REFUSED = {
    "no mixture": dict(family=_Own()),
    "a ridge": dict(ridge=1.0),
    "a native test": dict(stopping=je.Native(), rule=je.Racing(), family=je.Bernoulli()),
    "resets": dict(elimination=je.Resets(je.FullElimination(), alpha=je.Heuristic(), t0=3.0)),
}


def test_where_the_default_is_refused_another_is_named():
    for given in REFUSED.values():
        given = {"rule": je.TTUCB(), **given}
        with pytest.raises(je.errors.ArgumentError, match=r"Heuristic\(\)"):
            je.LiveRun(3, je.BestArm(), given.pop("rule"), **given)
    # Intervals need a mixture, and no ridge; the summary then goes without.
    run = made(ridge=1.0, threshold=je.Heuristic(), stopping=je.LLR())
    assert "ridge" in run._no_intervals
    own = made(family=_Own(), threshold=je.Heuristic())
    assert "defines no log_mixture" in own._no_intervals


@pytest.mark.slow
def test_from_the_shell_with_tables_of_rewards(shell, tmp_path, monkeypatch):
    """tell --csv from a file and standard input, show --forecast, stop."""
    path, table = tmp_path / "mine.live", tmp_path / "rewards.csv"
    shell("new", "--arms", *NAMES, "--rule", "lucb", "--delta", "1e-9")
    table.write_text("variant,reward\n" + "red,1.5\ngreen,0.5\nblue,-0.5\n" * 20)
    shell("tell", "--csv", str(table))
    others = "id,won,variant\n1,,red\n" + "2,1,red\n3,0,green\n4,0,blue\n" * 20
    tell = ["--csv", "-", "--arm", "variant", "--reward", "won"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(others))
    assert "no reward in 1 of 61 rows, first in row 2" in shell("tell", *tell, code=2)
    monkeypatch.setattr(sys, "stdin", io.StringIO(others))
    said = shell("tell", *tell, "--missing", "skip")
    assert said.startswith("Rows left out for an empty cell: 1.\nThe run is open after 120 rewards")
    shown = shell("show", "--forecast")
    for words in ("In the lead: red (p = ", "Forecast, by sim", "proven", "the rule of this run",
                  "Evidence (log e, where 1/e is a p-value)", "red > green  "):  # fmt: skip
        assert words in shown
    before = path.read_bytes()
    shell("tell", "red", "1", "--csv", str(table), code=2)
    assert path.read_bytes() == before
    assert "The run was ended by hand after 120 rewards" in shell("stop")

"""Asking and telling, in any order; the end; bad input changes nothing.

That a live run is the simulated one: `test_live_files.test_states_of_rules_are_saved_and_loaded`.
The fast tests share one compiled program, that of `PAIRS`.
"""

import math
import threading

import numpy as np
import pytest

import jaxelim as je
from tests.live.live_cases import CASES, NAMES, fed, traces

pytestmark = pytest.mark.xdist_group("live")
PAIRS = CASES["lucb-pairs"]


def named(**changes) -> je.LiveRun:
    """A live run of `PAIRS` whose arms have names."""
    return PAIRS.live(NAMES, **changes)


def test_live_runs_of_one_shape_share_a_program():
    """Another seed, delta and run, and names in place of numbers: nothing is traced again."""
    run, others = named(), (PAIRS.live(), named(seed=9, delta=0.02, run=1))
    fed_by_rng(run, 8)
    compiled = traces(run)
    for other in others:
        fed_by_rng(other, 8)
        assert other._fold.programs is run._fold.programs and traces(run) == compiled


def fed_by_rng(run: je.LiveRun, count: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        arm = run.ask()
        run.tell(arm, float(rng.random() < 0.5))


def test_the_first_rewards_enter_together():
    """In any order, some twice, before any check; then as the engine starts."""
    run = named()
    assert run.ask() == "red" and run.ask(3) == list(NAMES) and run.answer is None
    assert run.ask(4) == list(NAMES)  # no more until every arm has its first rewards
    run.tell("blue", 0)
    assert run.ask(2) == ["red", "green"]
    run.tell(["blue", "red"], [1, 1])
    assert run.ask() == "green" and run.told == 3 and not run.stopped
    np.testing.assert_array_equal(run.counts, [1, 0, 2])
    np.testing.assert_array_equal(run.means, [1.0, math.nan, 0.5])
    with pytest.raises(je.errors.UnsupportedError, match="evidence.*still to come: green"):
        _ = run.evidence
    assert "3 rewards; a check needs the first of green." in str(run.summary())
    run.tell("green", 1)
    np.testing.assert_array_equal(run.counts, [1, 1, 2])
    np.testing.assert_array_equal(run.means, [1.0, 1.0, 0.5])
    assert run.answer_arms == ("red",) and run.told == run.samples == 4


def test_rewards_that_nobody_asked_for(tmp_path):
    """They enter statistics and t; arms that wait stay, in their order; the file replays it."""
    run = named()
    run.save(tmp_path / "mine.live")
    run.tell(NAMES, [1, 0, 1])
    asked = run.ask(3)  # LUCB(pulls=2) pulls b, then c, whatever is told between
    left = [asked[0], asked[2]]
    run.tell(asked[1], 1)
    assert run.waiting == tuple(left) and run.ask(4)[:2] == left and run.told == 4
    other = next(name for name in NAMES if name not in run.waiting)
    counts = dict(zip(NAMES, run.counts, strict=True))
    run.tell([other, left[0], other], [0, 1, 0])
    assert run.waiting[0] == left[1] and run.told == 7
    counts[other], counts[left[0]] = counts[other] + 2, counts[left[0]] + 1
    assert dict(zip(NAMES, run.counts, strict=True)) == counts
    run.close()
    again = je.LiveRun.load(tmp_path / "mine.live", attach=False)
    assert again.waiting == run.waiting and again.ask(5) == run.ask(5)
    np.testing.assert_array_equal(again.means, run.means)
    assert again.evidence.llr.tolist() == run.evidence.llr.tolist()


def test_after_the_end_rewards_are_recorded_and_the_answer_stays():
    traced, run = PAIRS.traced(), PAIRS.live()
    fed(run, traced)
    answer, samples, counts = run.answer.copy(), run.samples, run.counts
    times = run.elimination_times
    loser = int(np.argmin(answer))
    run.tell([loser] * 80, [1] * 80)  # more than the usual places for rewards
    assert run.stopped and run.samples == samples and run.told == samples + 80
    np.testing.assert_array_equal(run.answer, answer)
    np.testing.assert_array_equal(run.elimination_times, times)
    assert run.counts[loser] == counts[loser] + 80
    with pytest.raises(je.errors.OverError, match=rf"ended after {samples} rewards, with the ans"):
        run.ask()
    assert "80 rewards came after that" in str(run.summary())


BAD = {
    ("purple", 1): "arm: got 'purple'.*red",
    (3, 1): "arm: got 3; allowed: an integer from 0",
    ("red", 0.5): "rewards: got .*0.5 is not.*0 or 1",
    ("red", math.nan): "reward: got nan",
    ("red", 1e101): "of at most 1e.100 units",
    (("red", "blue"), (1,)): "reward",
    (("red", "blue"), (1, 2)): "2 is not",
    ((), ()): "arms and their rewards, at least one",
}


def test_bad_input_changes_nothing():
    run = named()
    run.tell(NAMES, [1, 0, 1])
    asked = run.ask()
    counts, events = run.counts, list(run._events)
    for given, message in BAD.items():
        with pytest.raises(je.errors.ArgumentError, match=message):
            run.tell(*given)
        assert run.ask() == asked and run._events == events and run.told == 3
        np.testing.assert_array_equal(run.counts, counts)
    for n in (0, -1, 1.0, True):
        with pytest.raises(je.errors.ArgumentError, match="n: got"):
            run.ask(n)


def test_bad_arguments_are_refused_before_anything_compiles():
    made, best, rule = je.LiveRun, je.BestArm(), je.LUCB()
    for arms in (1, "red", ["red"], ["red", "red"], ["red", 2], [], None, True, [[1.0]], {"a": []}):
        with pytest.raises(je.errors.ArgumentError, match="arms: got"):
            made(arms, best, rule)
    with pytest.raises(je.errors.ArgumentError, match="rule: got Oracle.*nobody knows theta"):
        made(3, best, je.Oracle())
    with pytest.raises(je.errors.UnsupportedError, match="linear|unstructured"):
        made([[1.0, 0.0], [0.6, 0.8]], best, rule)
    with pytest.raises(je.errors.ArgumentError, match="stopping: got .*one stopping rule"):
        made(3, best, rule, stopping=(je.LLR(), je.SelectiveElimination()))
    with pytest.raises(je.errors.ArgumentError, match="m: got 3"):
        made(3, je.TopM(3), rule)
    for name, value in (("delta", 1.0), ("seed", -1), ("run", -1), ("initial_pulls", 0)):
        with pytest.raises(je.errors.ArgumentError, match=f"{name}: got"):
            made(3, best, rule, **{name: value})
    with pytest.raises(je.errors.ArgumentError, match="family: got 3"):
        made(3, best, rule, family=3)


def test_threads_may_share_a_run():
    """Rewards of four threads are all entered."""
    run = named()
    run.tell(NAMES, [1, 1, 1])

    def work():
        for _ in range(20):
            run.tell("red", 1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    np.testing.assert_array_equal(run.counts, [81, 1, 1])
    assert run.told == 83


def test_evidence_summary_and_figure():
    """LLRs as the reference computes them, and the drawn elements of the figure."""
    run = named(delta=0.01)
    run.tell(list(NAMES) * 4, [1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1])
    found = run.evidence
    assert list(found.piece) == ["red > green", "red > blue"] and found.active.all()

    def kl(x, y):
        return sum(a * math.log(a / b) for a, b in ((x, y), (1 - x, 1 - y)) if a)

    middle = (4 * 1.0 + 4 * 0.25) / 8
    expected = 4 * kl(1.0, middle) + 4 * kl(0.25, middle)
    np.testing.assert_allclose(found.llr, [expected, expected], rtol=1e-9)
    assert found.needed[0] == pytest.approx(math.log(13 / 0.01), rel=1e-12)
    rows = run.summary().to_dict("records")
    assert [row["arm"] for row in rows] == list(NAMES) and rows[0]["state"] == "leads"
    words = "In the lead: red; an answer needs a log-likelihood ratio above 7"
    assert run.summary().notes[0].startswith(f"The run is open after 12 rewards. {words}")
    left, right = run.figure().axes
    assert [one.get_width() for one in left.patches] == pytest.approx(list(found.llr))
    assert left.lines[0].get_xdata()[0] == pytest.approx(found.needed[0])
    assert [one.get_text() for one in left.get_yticklabels()] == ["red > green", "red > blue"]
    np.testing.assert_allclose(right.lines[0].get_xdata(), run.means)
    assert [one.get_text() for one in right.texts] == ["4", "4", "4"]  # pulls


def test_a_run_says_what_it_is():
    one = named()
    assert repr(one) == "<LiveRun of LUCB, 3 arms, 0 rewards, open>"
    one.tell(NAMES, [1, 0, 0])
    assert "<table" in one._repr_html_() and "green" in one._repr_html_()
    one.stop()
    assert repr(one) == "<LiveRun of LUCB, 3 arms, 3 rewards, ended by hand>"


@pytest.mark.slow
def test_a_rule_that_chooses_no_arm():
    """The reward before its choice is kept; each further ask says what is wrong."""

    class Beyond(je.contracts.SamplingRule):
        """A rule that leaves the arms after ten samples."""

        traits = je.contracts.Traits(families=None, reads=("rewards", "pieces"))

        def choose(self, view, state):
            return view.t // 10 * 3, state

    given = dict(family=je.Bernoulli(), delta=1e-3, threshold=je.Heuristic())
    run = je.LiveRun(3, je.BestArm(), Beyond(), **given)
    run.tell([0, 1, 2], [1, 0, 1])
    for _ in range(6):
        run.tell(run.ask(), 1)
    with pytest.raises(je.errors.RuleError, match="it chose arm 3 after 9 rewards"):
        run.ask()
    assert run.told == 9 and not run.stopped

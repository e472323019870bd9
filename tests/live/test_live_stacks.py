"""Live runs of stacks that end: the simulated run, its batches, files and refusals."""

import numpy as np
import pytest

import jaxelim as je
from tests.live.live_cases import fed, same_run
from tests.twin import paired

N, NAMES = 24, ("a", "b", "c")
RNG = np.random.default_rng(4)
COINS = [RNG.permutation((np.arange(n) < round(n * p)) + 0.0)
         for n, p in ((24, 0.7), (15, 0.6), (20, 0.5))]  # fmt: skip
DRAWN = dict(family=je.Bernoulli(), threshold=je.Heuristic())
COMMON = (RNG.permutation(N) / N < [[0.75], [0.7], [0.5]]) + 0.0


def pair(family, delta=1e-9, **settings):
    """A simulated run without replacement, and the live run of the same arguments."""
    rule = je.EBTCI("ids")
    common = family.items is not None
    past = je.Recorded(COMMON if common else COINS, common=common)
    instance = je.Instance.unstructured(source=past, family=family)
    one = je.trace(instance, je.BestArm(), rule, delta=delta, threshold=je.Mixture(), run=2,
                   **settings)  # fmt: skip
    stack = N if common else [len(x) for x in COINS]
    own = dict(family=family, delta=delta, run=2, stack=stack)
    return one, je.LiveRun(3, je.BestArm(), rule, **own)


@pytest.mark.parametrize("delta", [1e-9, 0.4])
def test_a_live_run_is_the_simulated_one(delta, tmp_path):
    """At delta = 1e-9 until known means decide; from a file on; and it is proven."""
    one, run = pair(je.Paired(items=N), delta)
    run.save(tmp_path / "mine.live")
    fed(run, one, 20)
    run.save()
    run.close()
    run = je.LiveRun.load(tmp_path / "mine.live")
    fed(run, one)
    same_run(run, one)
    assert run.proven is True
    assert delta > 0.1 or (run.counts == run._fold.arms.source.sizes).sum() >= 2
    with pytest.raises(je.errors.OverError):
        run.ask()
    run.close()


@pytest.mark.slow
def test_the_last_batch_is_what_is_left():
    """`ask(n)` is `batch=n`; the last list is shorter, and the first has the initial pulls.

    Bounded rewards, which have no common items.
    """
    one, run = pair(je.Bounded(), batch=7)
    rewards, t = list(one.rewards), 0
    while not run.stopped:
        arms = run.ask(7)
        assert arms == one.arms[t : t + len(arms)].tolist()
        run.tell(arms, rewards[t : t + len(arms)])
        assert len(arms) == (3 if t == 0 else min(7, sum(map(len, COINS)) - t))
        t += len(arms)
    assert t == one.samples
    np.testing.assert_array_equal(run.answer, one.answer)


def test_evidence_is_that_of_draws_without_replacement():
    """Of pairs, by the twin, with items in another order for each arm."""
    _, run = pair(je.Paired(items=N))
    items = RNG.permutation(N)[:15]
    for k, order in ((0, items), (1, items[::-1]), (2, items[::-1])):
        for item in order.tolist():
            run.tell(k, COMMON[k, item], item=item)
    at = items[::-1]
    known = [paired.log_e(COMMON[0, at], COMMON[k, at], 1.0, size=N) for k in (1, 2)]
    np.testing.assert_allclose(run.evidence["log_e"], np.maximum(known, 0), atol=1e-12)


def test_what_has_no_end_here_is_refused():
    """More rewards than a stack has, arms that join, features, wrong sizes, a forecast."""
    run = je.LiveRun(NAMES, je.BestArm(), je.Uniform(), stack=4, **DRAWN)
    run.tell(NAMES, [1, 0, 1])
    before = run.told
    for told in (["a"] * 4, ["b", "a", "a", "a", "a"]):
        with pytest.raises(je.errors.ArgumentError, match="arm: got 'a'.*its stack has 4"):
            run.tell(told, [1] * len(told))
    assert run.told == before
    with pytest.raises(je.errors.UnsupportedError, match="forecast: got Stack"):
        run.forecast()
    for given, words in (
        (dict(stack=1, **DRAWN), "stack: got 1"),
        (dict(stack=[3, 4], **DRAWN), "stack: got .3, 4.*or 3 of them"),
        (dict(stack=5, initial_pulls=6, **DRAWN), "initial_pulls: got 6"),
        (dict(stack=9, family=je.Paired(items=8)), "stack: got 9.*at most 8, the items"),
        (dict(stack=[8, 7, 8], family=je.Paired(items=8)), "stack: got"),
        (dict(stack=5, most_arms=4, family=je.Bounded()), "stack: got Stack"),
    ):
        with pytest.raises(je.errors.ArgumentError, match=words):
            je.LiveRun(NAMES, je.BestArm(), je.LUCB(), **given)
    with pytest.raises(je.errors.UnsupportedError, match="stack: got 5.*with features"):
        je.LiveRun([[1.0, 0.0], [0.6, 0.8]], je.BestArm(), je.LinGapE(), stack=5)


def test_paired_items_that_are_used_up_are_asked_for_no_more():
    given = dict(family=je.Paired(items=3), threshold=je.Heuristic())
    run = je.LiveRun(NAMES, je.BestArm(), je.Uniform(), **given)
    for item in "xyz":
        run.tell(NAMES, [1, 0, 1], item=[item] * 3)
    with pytest.raises(je.errors.UnsupportedError, match="more items than 3, which the arm has"):
        run.ask()
    run = je.LiveRun(NAMES, je.BestArm(), je.Uniform(), **given)
    run.tell(NAMES * 2, [1, 0, 1] * 2, item=["x"] * 3 + ["y"] * 3)
    assert run.ask(9) == list(NAMES)  # as many as there are items for


def test_rows_that_nobody_asked_for_enter_in_a_random_order():
    """A table may be sorted by reward; bets on its rows in that order would be no proof."""
    scores = np.sort(np.arange(60) % 2)[::-1].astype(float)
    run = je.LiveRun(NAMES, je.BestArm(), je.Uniform(), stack=60, delta=0.05, **DRAWN)
    run.tell(["a"] * 40, scores[:40])
    event = run._events[0]
    assert sorted(event["rewards"]) == sorted(scores[:40])
    assert not (np.diff(event["rewards"]) <= 0).all()
    run.tell(["b", "c"], [1, 0])
    asked = run.ask(4)
    run.tell(asked, [1, 1, 0, 0])
    assert run._events[-1]["rewards"] == [1, 1, 0, 0]


def test_from_the_shell(shell):
    shell("new", "--arms", *NAMES, "--family", "bernoulli", "--rule", "uniform",
          "--threshold", "heuristic", "--stack", "2", "3", "2")  # fmt: skip
    shell("tell", "a", "1", "b", "0", "a", "0", "c", "0", "c", "0")
    assert shell("ask", "--n", "9") == "b\nb\n"
    assert "The run stopped after 7 rewards" in shell("tell", "b", "0", "b", "0")

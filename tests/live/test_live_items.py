"""Live runs of paired items: scores by item, in any order, from tables and files."""

import itertools

import numpy as np
import pytest

import jaxelim as je
from tests.live.live_cases import fed, same_run
from tests.twin import paired

N, DELTA = 40, 0.1
NAMES = ["a", "b", "c"]
RULE = je.EBTC("ids", "tracking")


def scores(seed=0):
    rng = np.random.default_rng(seed)
    return 0.4 * rng.uniform(size=N) + 0.2 * rng.uniform(size=(3, N)) + [[0.4], [0.2], [0.0]]


def live(arms=NAMES, **settings):
    given = dict(family=je.Paired(items=N), delta=DELTA) | settings
    return je.LiveRun(arms, je.BestArm(), RULE, **given)


def told(run):
    """The score of each (arm, item) that a run was told."""
    names = [name for event in run._events for name in event.get("named", ())]
    return {(NAMES[k], names[j]): x for event in run._events if "tell" in event
            for k, x, j in zip(event["tell"], event["rewards"], event["items"], strict=True)}


def known(run):
    """log e of all ordered pairs, by the twin: [K, K]."""
    have, found = told(run), np.zeros((3, 3))
    for i, k in itertools.permutations(range(3), 2):
        own, other = ({item for arm, item in have if arm == NAMES[j]} for j in (i, k))
        common = sorted(own & other)
        a, b = ([have[NAMES[j], item] for item in common] for j in (i, k))
        found[i, k] = paired.log_e(a, b, 1.0)
    return found


def log_e(run):
    """log e of the answer's pieces, 0 where it is below 0, by the run: [K - 1]."""
    return run.evidence["log_e"].to_numpy()


def check_evidence(run):
    best = int(np.flatnonzero(run.answer)[0])
    np.testing.assert_allclose(log_e(run), np.maximum(np.delete(known(run)[best], best), 0),
                               atol=1e-12)  # fmt: skip


def test_a_live_run_is_the_simulated_one():
    """Without items an arm's next score is of its next item."""
    source = je.Recorded(scores(), "bootstrap", True)
    instance = je.Instance.unstructured(source=source, family=je.Paired(items=N))
    one = je.trace(instance, je.BestArm(), RULE, delta=DELTA, threshold=je.Mixture(), run=3)
    run = live(arms=3, run=3)
    fed(run, one)
    same_run(run, one)


def test_scores_may_come_in_any_order_and_from_tables(tmp_path):
    matrix, rng = scores(), np.random.default_rng(1)
    rows = [(k, j) for k in range(3) for j in range(12)]
    rows = [rows[n] for n in rng.permutation(len(rows))]
    one, table = live(delta=1e-9), live(delta=1e-9)
    for k, j in rows:
        one.tell(NAMES[k], matrix[k, j], item=f"q{j}")
    frame = {"model": [NAMES[k] for k, _ in rows], "score": [matrix[row] for row in rows],
             "question": [f"q{j}" for _, j in rows]}  # fmt: skip
    table.tell(frame, arm="model", reward="score", item="question")
    check_evidence(one)
    np.testing.assert_allclose(log_e(table), log_e(one), atol=1e-12)
    assert told(one) == told(table) and one.told == 36
    # Scores of items that one arm lacks count for nothing yet.
    before = log_e(one)
    one.tell(["a"] * 3, matrix[0, 12:15], item=["q12", "q13", "q14"])
    np.testing.assert_array_equal(log_e(one), before)
    one.tell(["b", "c"], matrix[1:, 13], item=["q13", "q13"])
    check_evidence(one)
    assert (log_e(one) != before).all()


def test_a_file_holds_the_items(tmp_path):
    matrix, path = scores(), tmp_path / "run.db"
    run = live(delta=1e-9)
    run.save(path)
    for j, k in itertools.product(range(6), range(3)):
        run.tell(NAMES[k], matrix[k, 5 - j if k else j], item=5 - j if k else j)
        if j == 3 and k == 1:
            run.save()  # so that loading begins with a state, and replays the rest
    shown, have = log_e(run), told(run)
    run.close()
    with je.LiveRun.load(path) as again:
        assert told(again) == have
        np.testing.assert_array_equal(log_e(again), shown)
        check_evidence(again)
        with pytest.raises(je.errors.ArgumentError, match="a has no score of yet"):
            again.tell("a", 0.5, item=3)


def test_refusals():
    """Nothing changes."""
    run = live(delta=1e-9)
    for half in (range(20), range(20, N)):
        run.tell(NAMES * 20, [0.5, 0.4, 0.3] * 20, item=[f"q{j}" for j in half for _ in NAMES])
    for given, words in (
        (dict(item="q0"), "allowed: one that a has no score of yet"),
        (dict(item=0.5), "the name or the number of an item"),
        (dict(item=True), "the name or the number of an item"),
        (dict(item="more"), "one of the 40 items that Paired"),
        (dict(reward=1.5), "rewards from 0 to 1"),
        (dict(), "the item of each reward"),
        (dict(arm=["a", "b"], reward=[0.5, 0.4]), "the item of each reward"),
        (dict(arm=["a", "b"], reward=[0.5, 0.4], item=["q2", ""]), "no item in 1 of 2 rows"),
    ):
        with pytest.raises(je.errors.ArgumentError, match=words):
            run.tell(**{"arm": "a", "reward": 0.5, **given})
        assert run.told == 3 * N
    with pytest.raises(je.errors.ArgumentError, match="has no common items"):
        live(family=je.Bounded()).tell("a", 0.5, item="q0")
    with pytest.raises(je.errors.UnsupportedError, match="their sums say too little"):
        run.tell(counts={"a": (1, 2)})
    for name in ("intervals", "forecast"):
        with pytest.raises(je.errors.UnsupportedError, match=name):
            getattr(run, name)()


@pytest.mark.slow
def test_from_the_shell(shell, tmp_path):
    """Scores as words, and from a file with a column of items."""
    table = tmp_path / "scores.csv"
    table.write_text("model,question,score\na,q2,0.5\nb,q2,0\nc,q2,0.25\n")
    shell("new", "--arms", *NAMES, "--family", "Paired(items=9)", "--rule", "uniform",
          "--threshold", "heuristic")  # fmt: skip
    words = "a", "1", "b", "0", "c", "0"
    assert "the item of each reward" in shell("tell", *words, code=2)
    shell("tell", *words, "--item", "q1", "q1", "q1")
    columns = "--arm", "model", "--reward", "score", "--item", "question"
    shell("tell", "--csv", str(table), *columns)
    with je.LiveRun.load(tmp_path / "mine.live") as run:
        assert told(run) == {("a", "q1"): 1, ("b", "q1"): 0, ("c", "q1"): 0,
                             ("a", "q2"): 0.5, ("b", "q2"): 0, ("c", "q2"): 0.25}  # fmt: skip

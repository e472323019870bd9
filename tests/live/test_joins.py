"""Arms that join and leave: by definition a new run of those that are in, told their rewards.

The fast tests share the programs of three and of four arms: `made` has their arguments.
"""

import contextlib
import json
import math
import sqlite3
import threading

import numpy as np
import pytest

import jaxelim as je
from jaxelim.contracts.proofs import wrong_answers
from jaxelim.live import given
from jaxelim.simulation.refusals import proven
from tests.calls import rows
from tests.live.live_cases import log_one, log_pair
from tests.live.test_live_files import equal

pytestmark = pytest.mark.xdist_group("live")
SELECTIVE = je.SelectiveElimination()
MEANS = dict(old=0.2, plain=0.0, bold=0.6, new=2.0, late=-0.5)


def made(
    arms=("old", "plain", "bold"), rule=je.Uniform(), most_arms=5, **changes  # noqa: B008
) -> je.LiveRun:  # fmt: skip
    """A live run of unit variance whose proof covers five arms."""
    given = dict(delta=0.1, stopping=SELECTIVE, most_arms=most_arms, **changes)
    return je.LiveRun(list(arms), je.BestArm(), rule, **given)


def steps(run: je.LiveRun, count: int, rng: np.random.Generator) -> list[tuple[str, float]]:
    """Ask and tell so often, at most until the stop: the rewards."""
    rows = []
    for _ in range(count):
        if run.stopped:
            break
        arm = run.ask()
        rows.append((arm, MEANS[arm] + rng.standard_normal()))
        run.tell(*rows[-1])
    return rows


def fresh(run: je.LiveRun, rows: list[tuple[str, float]], **changes) -> je.LiveRun:
    """A run of fixed arms, those that are in, that is told all of their rewards at once."""
    rule, threshold = run._fold.call.rule, je.Mixture(pieces=10)
    other = made(run.names, rule, most_arms=None, threshold=threshold, **changes)
    kept = [row for row in rows if row[0] in run.names]
    other.tell(*zip(*kept, strict=True))
    return other


def same(run: je.LiveRun, other: je.LiveRun) -> None:
    assert run.names == other.names and run.stopped == other.stopped
    for name in ("counts", "means", "answer", "elimination_times"):
        np.testing.assert_array_equal(getattr(run, name), getattr(other, name), err_msg=name)
    for name in ("llr", "log_e", "needed"):
        assert run.evidence[name].tolist() == other.evidence[name].tolist(), name
    np.testing.assert_array_equal(run.p_values.pairs, other.p_values.pairs)


@pytest.mark.parametrize("rule", rows([je.Uniform(), je.TTTS()], [je.Uniform()], repr))
def test_a_run_goes_on_as_one_on_the_arms_that_are_in(rule):
    """After each change, after rewards that follow it, and at the stop."""
    run, rng = made(rule=rule), np.random.default_rng(4)
    rows = steps(run, 30, rng)
    run.add("new")
    assert run.ask() == "new" and run.names == ("old", "plain", "bold", "new")
    assert run.answer is None and "a check needs the first of new." in str(run.summary())
    with pytest.raises(je.errors.UnsupportedError, match="of every arm; still to come"):
        _ = run.evidence
    rows += steps(run, 1, rng)
    other = fresh(run, rows)
    same(run, other)
    for _ in range(5):
        assert run.ask() == other.ask()
        rows += steps(run, 1, rng)
        other.tell(*rows[-1])
        same(run, other)
    told = run.told
    run.remove("old")
    assert run.names == ("plain", "bold", "new") and run.told == told == len(rows)
    other = fresh(run, rows)
    while not run.stopped:
        if run.told < told + 5:
            same(run, other)
        assert run.ask() == other.ask()
        rows += steps(run, 1, rng)
        other.tell(*rows[-1])
    same(run, other)
    assert run.samples == len(rows) < 2000 and "new" in run.answer_arms


def test_without_changes_it_is_a_run_with_a_larger_union():
    """Every pull and the end; p-values and intervals are those of all pairs of five arms."""
    run, plain = made(), made(most_arms=None, threshold=je.Mixture(pieces=10))
    rng = np.random.default_rng(0)
    for _ in range(40):
        arm = run.ask()
        assert arm == plain.ask()
        reward = 3 * MEANS[arm] + rng.standard_normal()
        run.tell(arm, reward)
        plain.tell(arm, reward)
    same(run, plain)
    assert run.proven is True and run.evidence.needed[0] == pytest.approx(math.log(10 / 0.1))
    pairs, found = run.p_values.pairs, run.p_values
    np.testing.assert_allclose(found.together, np.minimum(1, 10 * pairs))
    i = int(np.argmax(run.means))
    others = [k for k in range(3) if k != i]
    np.testing.assert_allclose(found.arms[others], np.minimum(1, 10 * pairs.min(0)[others]))
    assert found.arms[others].min() < 1
    ends, n = run.intervals(0.9), run.counts
    reach = [log_one(count, off) for count, off in zip(n, ends.high - run.means, strict=True)]
    np.testing.assert_allclose(reach, math.log(5 / 0.1), rtol=1e-8)
    two = run.difference("bold", "old", 0.9, together=True)
    value = log_pair(n[2], n[0], two.high - two.value)
    assert value == pytest.approx(math.log(10 / 0.1), rel=1e-8)


def test_files_know_who_joined_and_left(tmp_path):
    """By the events and by the state, after each of many steps; and the run goes on."""
    path, rng = tmp_path / "mine.live", np.random.default_rng(1)
    run = made()
    run.save(path)
    for n in range(24):
        if n == 10:
            run.add("new")
        elif n == 16:
            run.remove("old")
        elif n == 20:
            run.add("old")
        if n % 2:
            run.save()
        run.close()
        run = je.LiveRun.load(path)
        copy = je.LiveRun.load(path, attach=False)
        assert run.ask() == copy.ask() and run.names == copy.names
        equal(run, copy)
        steps(run, 1, rng)
    assert run.names == ("plain", "bold", "new", "old") and run.told == 24
    assert (run.counts.sum(), run._fold.arms.most) == (24, 5)
    again = je.LiveRun.load(path, attach=False)
    assert again.summary().equals(run.summary()) and again.summary().notes == run.summary().notes
    run.save(tmp_path / "copy.live")
    other = je.LiveRun.load(tmp_path / "copy.live", attach=False)
    equal(other, run)
    assert other.names == run.names


@pytest.mark.slow
def test_the_rest_of_a_run_knows_its_arms():
    """The forecast, summary, figure and doubt are of those that are in; counts are counted."""
    run, rng = made(), np.random.default_rng(2)
    steps(run, 12, rng)
    run.tell(counts={"old": (3.0, 5)})
    run.add("new")
    run.tell(counts={"new": (4.0, 4)})
    run.remove("old")
    assert run.told == 21 and run.counts.tolist() == [4, 4, 4]
    assert run.means[2] == pytest.approx(1.0)
    words = "4 of at most 5 arms have been in; removed: old. Times count the rewards"
    assert any(note.startswith(words) for note in run.summary().notes)
    assert run.summary().arm.tolist() == ["plain", "bold", "new"]
    assert [len(rewards) for rewards in run._rewards().values()] == [4, 4, 0]
    found = run.forecast(runs=4, most=500)
    assert found.now.shape == (3,) and found.answers.shape == (4, 3)
    assert [one.get_text() for one in run.figure().axes[1].get_yticklabels()] == list(run.names)


def test_who_may_join_and_leave(tmp_path):
    """Refusals change nothing, neither the run nor its file."""
    run, rng = made(), np.random.default_rng(3)
    run.save(tmp_path / "mine.live")
    steps(run, 5, rng)
    waiting = run.ask(3)
    assert run.waiting == tuple(waiting)
    for arm in ("bold", 3, ["new"], None):
        refused(run, r"arm: got .*; allowed: an arm that is not in, one of most_arms=5",
                lambda arm=arm: run.add(arm))  # fmt: skip
        refused(run, "arm: got .*; allowed: one of three arms or more",
                lambda arm=arm: run.remove("purple" if arm == "bold" else arm))  # fmt: skip
    refused(run, "arm: got ' '; allowed: an arm that is not in", lambda: run.add(" "))
    run.add("new")
    run.add("late")
    assert run.waiting == () and run.ask() == "new"
    refused(run, "arm: got 'last'; allowed: .* one of most_arms=5", lambda: run.add("last"))
    run.tell(waiting[0], 0.0)  # it comes though nobody waits for it
    run.remove("old")
    refused(run, "arm: got 'old'", lambda: run.tell("old", 1.0))
    run.add("old")  # is no sixth arm, and has its rewards
    run.remove("new")  # without a reward
    run.remove("late")
    assert run.names == ("plain", "bold", "old") and run.counts.sum() == 6 and run.ask() != "new"
    run.tell(["old", "plain", "bold"] * 20, [9.0, 0.0, 0.0] * 20)
    assert run.stopped and run.answer_arms == ("old",)
    for change in (lambda: run.add("new"), lambda: run.remove("plain")):
        with pytest.raises(je.errors.OverError, match="ended after 66 rewards"):
            change()
    two = made("ab")
    refused(two, "arm: got 'a'; allowed: one of three arms", lambda: two.remove("a"))
    plain = made(most_arms=None)
    for change in (lambda: plain.add("new"), lambda: plain.remove("old")):
        with pytest.raises(je.errors.ArgumentError, match="most_arms: got None; .*without"):
            change()


@pytest.mark.slow
def test_with_a_reference_one_arm_may_be_left():
    run = je.LiveRun(["a", "b"], je.BestArm(reference=0.5), je.Uniform(), most_arms=3)
    run.tell(["a", "b"], [0.1, 0.9])
    refused(run, "arm: got 'c'; allowed: one of two arms or more", lambda: run.remove("c"))
    run.remove("a")
    assert run.names == run.answer_arms == ("b",)
    refused(run, "arm: got 'b'; allowed: one of two arms or more", lambda: run.remove("b"))


def test_a_name_of_digits_is_no_place():
    """Arms "1" to "4": what comes for 2 is never that of the arm at place 2."""
    run = made("1234")
    run.tell({"arm": [1, 2, 3, 4, 2.0], "reward": [1.0, 2.0, 3.0, 4.0, 2.0]})  # a float column
    run.remove("2")
    for told in (lambda: run.tell(2, 7.0), lambda: run.tell({"arm": [2], "reward": [7.0]}),
                 lambda: run.tell([2.0], [7.0]), lambda: run.tell(counts={2: (7.0, 1)}),
                 lambda: run.difference(0, 1)):  # fmt: skip
        refused(run, r"arm: got .*; allowed: .*'1', '3', '4'", told)
    run.tell({"arm": [3, 3.0], "reward": [3.0, 3.0]})
    assert run.means.tolist() == [1.0, 3.0, 4.0] and run.counts.tolist() == [1, 3, 1]


def test_an_arm_that_leaves_while_a_reward_is_read(monkeypatch):
    """The numbers of arms stay until the reward is in."""
    run, read, threads = made(["old", *"abc"]), given.entries, []
    run.tell(["old", *"abc"], [1.0, 2.0, 3.0, 5.0])

    def slow(*arguments):
        found = read(*arguments)
        threads.append(threading.Thread(target=run.remove, args=("old",)))
        threads[0].start()
        threads[0].join(0.5)
        return found

    monkeypatch.setattr(given, "entries", slow)
    run.tell("a", 4.0)
    threads[0].join()
    assert run.names == ("a", "b", "c") and run.means.tolist() == [3.0, 3.0, 5.0]


def test_a_file_of_format_4_is_read(tmp_path):
    """Its settings lack `most_arms`, and nothing else differs."""
    path = tmp_path / "mine.live"
    run = made(most_arms=None, threshold=je.Mixture(pieces=10))
    run.save(path)
    steps(run, 9, np.random.default_rng(6))
    run.save()
    run.close()
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        settings = json.loads(base.execute("SELECT settings FROM head").fetchone()[0])
        assert settings.pop("most_arms") == "None"
        base.execute("UPDATE head SET format = 4, settings = ?", (json.dumps(settings),))
    again = je.LiveRun.load(path)
    equal(again, run)
    again.tell(again.ask(), 1.0)
    again.close()
    assert je.LiveRun.load(path, attach=False).told == 10


def test_a_union_of_fewer_pairs_is_not_proven():
    call = made()._fold.call
    object.__setattr__(call, "threshold", je.Mixture(pieces=4))  # K - 1 of five arms
    words = "this call needs pieces = 10, and the threshold has 4"
    assert proven(call) == words


def refused(run: je.LiveRun, message: str, change) -> None:
    before = run.names, run.told, run.waiting, list(run._events), run._state
    with pytest.raises(je.errors.ArgumentError, match=message):
        change()
    assert before == (run.names, run.told, run.waiting, run._events, run._state)


def test_a_stop_may_come_with_a_removal():
    """The answer is the best of those that are in."""
    run = made(("old", "plain", "bold", "new"))
    run.tell(["old", "plain", "bold", "new"] * 15, [1.9, 0.0, 2.0, 0.0] * 15)
    assert not run.stopped and run.answer_arms == ("bold",)
    run.remove("old")
    assert run.stopped and run.answer_arms == ("bold",) and run.samples == 60


def test_join_and_leave_from_the_shell(shell, tmp_path):
    shell("new", "--arms", "a", "b", "c", "--rule", "uniform", "--most-arms", "5")
    shell("tell", "a", "1", "b", "0", "c", "0")
    assert shell("add", "d").endswith("3 rewards; a check needs the first of d.\n")
    assert shell("ask") == "d\n"
    shell("tell", "d", "0")
    assert "The run is open after 4 rewards" in shell("remove", "a")
    assert "4 of at most 5 arms have been in; removed: a. Times" in shell("show")
    before = (tmp_path / "mine.live").read_bytes()
    refusal = "arm: got 'b'; allowed: an arm that is not in, one of"
    assert refusal in shell("add", "b", code=2)
    assert (tmp_path / "mine.live").read_bytes() == before


# The proof: its union, and an adversary.


def test_the_union_is_of_all_pairs():
    """A reference is a candidate too; slack is of pairs."""
    for problem, most, pairs in ((je.BestArm(), 8, 28), (je.BestArm(0.1), 2, 1),
                                 (je.BestArm(reference=0.5), 3, 6)):  # fmt: skip
        assert wrong_answers(problem, 2, most) == pairs
        run = je.LiveRun(["a", "b"], problem, je.Uniform(), most_arms=most)
        assert run._fold.call.threshold == je.Mixture(pieces=pairs)
    run = je.LiveRun(["a", "b"], je.BestArm(), je.Uniform(), most_arms=3,
                     threshold=je.Mixture((5.0,), pieces=1))  # fmt: skip
    assert run._fold.call.threshold == je.Mixture((5.0,), pieces=3)


def crossing(arms: int, level: float, first: float) -> float:
    """The chance that some pair's wealth, a product of two arms', ever reaches the level.

    Arms are bet on one after the other: to `first`, or to 0. Once one is there, each of the
    rest is bet on to `level/first`.
    """
    found, none = 0.0, 1.0
    for left in range(arms - 1, -1, -1):
        found += none / first * (1 - (1 - first / level) ** left)
        none *= 1 - 1 / first
    return found


def bet(rng: np.random.Generator, goals: np.ndarray) -> np.ndarray:
    """Whether bold play on fair coins takes a wealth of 1 to each goal, or to 0."""
    wealth = np.ones_like(goals)
    while (open := (wealth > 0) & (wealth < goals)).any():
        coin = rng.choice([-1, 1], goals.size)
        stake = np.where(open, np.minimum(wealth, goals - wealth), 0)
        wealth = np.where(open & (coin * stake >= goals - wealth), goals, wealth + coin * stake)
    return wealth > 0


def test_an_adversary_who_bets_on_fair_coins_errs_below_delta():
    """20,000 runs against the level of a live run with 8 arms at most, delta = 0.1.

    Who removes all arms but a pair whose wealth reaches the level has it stop with an error. At
    28 pairs that has probability 0.08: more than 2000 errors then have probability below 1e-20.
    At 7 pairs, M - 1, it is 0.25, and 2000 or fewer have probability below 1e-300. 18 pairs are
    the most that fail with probability 1 - 1e-6.
    """
    run = je.LiveRun(["a", "b"], je.BestArm(), je.Uniform(), delta=0.1, most_arms=8)
    level, rng, rows = run._fold.call.threshold.pieces / 0.1, np.random.default_rng(8), 20000
    first = max(np.linspace(1.5, 40, 400), key=lambda x: crossing(8, level, x))
    won, wrong = np.zeros((2, rows), bool)
    for _ in range(8):
        hit = bet(rng, np.where(won, level / first, first))
        wrong |= won & hit
        won |= hit
    chance = crossing(8, level, first)
    assert abs(wrong.sum() - rows * chance) < 5 * math.sqrt(rows * chance * (1 - chance))
    assert wrong.sum() <= 0.1 * rows

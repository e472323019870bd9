"""Contracts of exported rules and problems; problems of one's own; `rarely`."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import catalogue
from jaxelim.contracts import Rarely
from jaxelim.contracts.sets import ArmSet
from jaxelim.lanes import LaneOps
from jaxelim.testing import ContractError, check

CASES = {
    "fws": je.BestArm(), "lazy-tas": je.TopM(2), "lingame": je.Thresholding(), "lucb": je.TopM(2),
    "oracle": je.Thresholding(), "racing": je.BestArm(), "rage": je.BestArm(), "tas": je.TopM(2),
    "top-two": je.Thresholding(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rules(name):
    steps, many = (300, 100) if name == "tas" else (3000, 400)
    check(catalogue.rules()[name](), CASES[name], steps=steps, runs=many)


@pytest.mark.parametrize("problem", [je.BestArm(), je.TopM(4), je.Thresholding(0.3)], ids=repr)
def test_problems(problem):
    told = []
    report = str(check(problem, progress=lambda *now: told.append(now[:3])))
    assert told == [(n, 2, 0) for n in range(3)]
    assert report.splitlines()[0].endswith(": passed") and "300 pairs" in report


@pytest.mark.parametrize("answer", [0, 1])
def test_the_number_of_active_pieces(answer):
    """Of a set of arms: all that are left but the answer, which may have been dropped itself."""
    pieces = ArmSet(jnp.asarray([7, 0, 0, 9], jnp.int32), jnp.int32(2))
    seen = SimpleNamespace(lanes=LaneOps(None), answer=jnp.int32(answer))
    assert pieces.active_count(seen) == pieces.active(seen).sum() == (2 if answer == 0 else 1)


@pytest.mark.slow
def test_half_spaces_pass_as_a_problem():
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(4, 3))
    directions = np.stack([np.delete(arms[i] - arms, i, 0) for i in range(4)])
    best = lambda theta: jnp.argmax(jnp.asarray(arms) @ theta)  # noqa: E731
    instance = je.Instance(arms, rng.normal(size=3))
    check(je.HalfSpaces(best, directions), instance=instance)
    wrong = je.HalfSpaces(best, directions[:, :2])
    with pytest.raises(ContractError, match="in a piece"):
        check(wrong, instance=instance)


@dataclasses.dataclass(frozen=True)
class BestHalf(je.contracts.Problem):
    """Whether the best arm is among the first `size` arms."""

    size: int = 2
    name = "best-half"
    shared_answers = True

    def answer(self, seen):
        return jnp.argmax(seen.means)

    def public(self, seen, answer):
        return jnp.stack([answer < self.size, answer >= self.size])

    def width(self, arms):
        return 2

    def shape(self, seen, answer):
        inside = jnp.arange(len(seen.means)) < self.size
        return je.contracts.Pairs(answer, inside != (answer < self.size))


class Unique(BestHalf):
    """The same, but it says that each answer has a public form of its own."""

    shared_answers = False


class Blind(BestHalf):
    """Its pieces leave out one rival."""

    name = "blind"

    def shape(self, seen, answer):
        shape = super().shape(seen, answer)
        rival = jnp.arange(len(seen.means)) == self.size
        return je.contracts.Pairs(shape.first, shape.exists & ~rival)


@pytest.mark.slow
def test_a_problem_of_ones_own():
    assert "walks of its set" in str(check(BestHalf()))
    with pytest.raises(ContractError, match="another answer is False"):
        check(Unique())
    with pytest.raises(ContractError, match="in a piece is False"):
        check(Blind())


@pytest.mark.slow
def test_stops_on_the_right_half():
    """The two best arms tie inside their half. n = 400 runs at delta = 0.1; 79 errors or more
    come by luck with probability below 1e-6 at a rate of 0.1, so a rate of 0.28 is seen."""
    instance = je.Instance(np.eye(4), [1.0, 1.0, 0.2, 0.0])
    stopping = je.LLR(), je.SelectiveElimination(), je.FullElimination()
    found = je.simulate(instance, BestHalf(), je.LinGapE(), delta=0.1, runs=400, stopping=stopping,
                        engine=je.Engine(devices=1))  # fmt: skip
    assert found.stopped.all() and found.answer.shape == (3, 1, 400, 2)
    llr, selective, full = found.samples[:, 0]
    assert (full <= selective).all() and (selective <= llr).all() and (selective < llr).any()
    assert (~found.correct).sum(-1).max() <= stats.binom.isf(1e-6, 400, 0.1)
    with pytest.raises(je.errors.ArgumentError):  # best arm has no unique answer there
        je.simulate(instance, je.BestArm(), je.LinGapE(), runs=2)


class OutOfRange(BestHalf):
    """Its answer is at times no arm."""

    def shape(self, seen, answer):
        shape = super().shape(seen, answer)
        return je.contracts.Pairs(jnp.where(seen.means[0] > 0.9, 7, shape.first), shape.exists)


def test_arms_of_a_shape_out_of_range_end_the_run():
    instance = je.Instance(np.eye(3), [1.0, 0.5, 0.0])
    with pytest.raises(je.errors.ArgumentError, match="^problem: .*it gave 7 after"):
        je.simulate(instance, OutOfRange(), je.Uniform(), runs=4, engine=je.Engine(devices=1))


NOW = np.array([False, True, False, True])
TREE = {"arm": np.arange(4), "table": np.arange(12.0).reshape(3, 4)}
DONE = {"arm": -TREE["arm"], "table": 2 * TREE["table"]}


def test_work_counts_where_it_is_due():
    found = Rarely()(NOW, lambda: DONE, TREE)
    for name in TREE:
        np.testing.assert_array_equal(found[name], np.where(NOW, DONE[name], TREE[name]))


def test_work_is_not_computed_where_it_is_never_due():
    done = []
    work = lambda: jax.debug.callback(lambda: done.append(1)) or 1.0  # noqa: E731
    step = jax.jit(lambda go: Rarely()(go, work, 0.0))
    for go, value, times in [(False, 0.0, 0), (True, 1.0, 1)]:
        assert step(go) == value
        jax.effects_barrier()
        assert len(done) == times


def test_the_first_call_leaves_work_out_and_notes_it():
    def untraced():
        raise AssertionError

    first = Rarely(jnp.zeros(4, bool))
    assert not first.called and first(NOW, untraced, TREE) is TREE and first.called
    assert first(NOW[::-1], untraced, TREE) is TREE
    np.testing.assert_array_equal(first.asks, [True, True, True, True])


@pytest.mark.parametrize("rarely", [Rarely(), Rarely(jnp.zeros([], bool))])
def test_refusals(rarely):
    for go in (1, 0.5, np.arange(4)):
        with pytest.raises(TypeError, match="first argument of rarely has dtype .*, not bool"):
            rarely(go, lambda: 0, 0)
    with pytest.raises(TypeError, match="work of rarely returns .*, otherwise is "):
        Rarely()(NOW, lambda: {"arm": TREE["arm"]}, TREE)


@pytest.mark.parametrize("choose, rare", [
    (lambda self, view, state, seldom: 0, True), (lambda self, view, state: 0, False),
    (lambda self, view, state, size=3: 0, False), (lambda self, view, state, *rest: 0, False),
])  # fmt: skip
def test_who_takes_it(choose, rare):
    assert type("Mine", (je.contracts.SamplingRule,), {"choose": choose}).rare is rare


class FirstPiece(je.BestArm):
    """Only the first piece of an answer counts."""

    def shape(self, seen, answer):
        pieces = super().shape(seen, answer)
        first = jnp.cumsum(pieces.exists.astype(jnp.int32), 0) == 1
        return dataclasses.replace(pieces, exists=pieces.exists & first, count=None)


def test_a_problem_of_ones_own_class_has_its_own_program():
    """Equal settings of another class are another problem, also beside one that has compiled."""
    instance = je.Instance.unstructured([0.0, 0.2, 0.3, 0.5])
    whole, part = (je.simulate(instance, problem, je.Uniform(), runs=20, max_samples=100_000)
                   for problem in (je.BestArm(), FirstPiece()))  # fmt: skip
    assert part.samples.mean() < whole.samples.mean() / 2


@pytest.mark.parametrize("one", [
    je.BestArm(), je.BestArm(items=np.eye(2)), je.Oracle(), je.Recorded([[0.0, 1.0]] * 2),
    je.HalfSpaces(lambda theta: jnp.int32(0), np.ones((2, 1, 2))),
], ids=lambda one: type(one).__name__)  # fmt: skip
def test_things_of_other_classes_are_not_equal(one):
    again = object.__new__(type("Own", (type(one),), {}))
    vars(again).update(vars(one))
    assert one == one and hash(one) == hash(one) and again != one and one != again


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Sloppy(je.contracts.SamplingRule):
    traits = je.contracts.Traits(reads=("rewards", "pieces"))

    def choose(self, view, state):
        return view.t * 7, state


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Undocumented(je.Uniform):
    """Leaves its argument undocumented."""

    hidden: int = 1


def test_the_check_detects_arms_out_of_range_and_reads_docstrings():
    with pytest.raises(ContractError, match="allowed: a rule that chooses arms from 0 to 2"):
        check(Sloppy(), je.BestArm(), je.Instance(np.eye(3), [1, 0, 0]), runs=40, steps=100)
    with pytest.raises(ContractError, match="hidden"):
        check(Undocumented())

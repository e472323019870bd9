"""The general definition of elimination against the efficient sets and the twin.

`HalfSpaces` with every answer and every piece of a problem is the definition. It agrees
with the twin's definition number by number. The efficient sets of best arm, top m and
thresholding never stop or eliminate later. Everything is observed on the same noise and
the same trajectories.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests import twin

K, D, M, LEVEL = 5, 3, 2, 0.2
INSTANCES, RUNS, PULLS = 8, 4, 150
# With threshold log(1/delta) the first delta eliminates all within a few samples.
DELTAS = (0.9, 0.5, 0.1, 0.01)
STOPPING = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
LLR, SELECTIVE, FULL = range(3)

ARMS = np.random.default_rng(0).normal(size=(K, D))
THETA = 1.5 * np.random.default_rng(1).normal(size=(INSTANCES, D))
NOISE = np.random.default_rng(2).standard_normal((RUNS, PULLS))
# the half-spaces depend on the arms, so all instances share them
SHARED = je.Instance(ARMS, THETA)

SPECS = {"best-arm": ("bai",), "top-m": ("topm", M), "thresholding": ("osi", LEVEL)}
EFFICIENT = {"best-arm": je.BestArm(), "top-m": je.TopM(M), "thresholding": je.Thresholding(LEVEL)}
RULES = {"best-arm": (je.LinGapE(), "lingape"), "top-m": (je.Uniform(), "uniform"),
         "thresholding": (je.LinGame(), "lingame")}  # fmt: skip
# the tests of a problem share programs
PROBLEMS = [
    pytest.param(name, marks=pytest.mark.xdist_group(f"definition {name}")) for name in SPECS
]


def threshold(t, delta):
    return jnp.zeros_like(t) - jnp.log(delta)


def play(problem, rule):
    return je.simulate(
        SHARED, problem, rule, delta=DELTAS, stopping=STOPPING, runs=RUNS, noise=NOISE,
        threshold=threshold, record=("pair_times",), engine=je.Engine(devices=1), ridge=1.0,
    )  # fmt: skip


@functools.cache
def efficient(name):
    return play(EFFICIENT[name], RULES[name][0])


def pieces(name):
    """The twin's labels of every answer's pieces, [A, Q, 2]."""
    problem = twin.Pieces(SPECS[name], K)
    return np.stack([problem.of(answer) for answer in problem.answers()])


def half_spaces(name):
    """All answers of a problem, with all their pieces."""
    problem = twin.Pieces(SPECS[name], K)
    answers = np.stack(problem.answers())
    place = np.zeros(2**K, np.int32)
    place[answers @ 2 ** np.arange(K)] = np.arange(len(answers))
    y, c = zip(*(twin.halfspaces(problem, ARMS, labels) for labels in pieces(name)), strict=True)

    def answer(theta):
        means = jnp.asarray(ARMS) @ theta
        if name == "thresholding":
            member = means >= LEVEL
        else:
            member = jnp.zeros(K, bool).at[jnp.argsort(-means)[: problem.m]].set(True)
        return jnp.asarray(place)[jnp.sum(jnp.where(member, 2 ** np.arange(K), 0))]

    return je.HalfSpaces(answer, np.stack(y), np.stack(c))


@functools.cache
def definition(name):
    return play(half_spaces(name), RULES[name][0])


def in_order(samples):
    return (np.diff(samples[:, [FULL, SELECTIVE, LLR]], axis=1) >= 0).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_efficient_sets_never_stop_or_eliminate_later(name):
    """The efficient sets eliminate what the definition eliminates, and no later.

    A piece corresponds to an arm or a pair there. The exception is an arm already found
    to be in the top m: it needs no further tests.
    """
    ours, general = efficient(name), definition(name)
    np.testing.assert_array_equal(ours.samples[:, LLR], general.samples[:, LLR])
    np.testing.assert_array_equal(ours.pulls[:, LLR], general.pulls[:, LLR])
    assert (ours.samples <= general.samples).all()
    assert in_order(ours.samples) and in_order(general.samples)
    if name == "best-arm":  # not vacuous: some runs stop strictly earlier
        assert (ours.samples[:, SELECTIVE] < general.samples[:, SELECTIVE]).any()
    assert ours.stopped.mean() > 0.5
    labels, seen = pieces(name), 0
    for at in np.ndindex(ours.samples.shape):
        if at[1] == LLR:
            continue
        theirs, mine = general.elimination_times[at], ours.elimination_times[at]
        for a, q in zip(*np.nonzero((theirs > 0) & (theirs <= ours.samples[at])), strict=True):
            (first, second), by = labels[a, q], theirs[a, q]
            at_piece = {"top-m": (first, second), "best-arm": second, "thresholding": first}
            time = mine[at_piece[name]]
            found = name == "top-m" and np.sum((mine[first] > 0) & (mine[first] <= by)) >= K - M
            assert 0 < time <= by or found
            seen += 1
    assert seen > 1000


@pytest.mark.parametrize("name", PROBLEMS)
def test_half_spaces_equal_the_twins_definition(name):
    general = definition(name)
    problem = twin.Pieces(SPECS[name], K)
    answers = [tuple(answer.tolist()) for answer in problem.answers()]
    labels = pieces(name).tolist()
    for i, d, r in np.ndindex(3, len(DELTAS), 1):
        theirs = twin.run(
            twin.Linear(ARMS, THETA[i]), SPECS[name], RULES[name][1], noise=NOISE[r],
            delta=DELTAS[d], max_samples=PULLS, beta=lambda t, delta: -np.log(delta),
            stopping=("llr", "selective-definition", "full-definition"),
        )  # fmt: skip
        for s, stop in enumerate(theirs.stops.values()):
            at = (i, s, d, r)
            for field in ("samples", "stopped", "pulls", "tests_stopping", "tests_sampling"):
                np.testing.assert_array_equal(
                    getattr(general, field)[at], getattr(stop, field), f"{field} at {at}"
                )
            assert answers[int(np.argmax(general.answer[at]))] == tuple(stop.answer.tolist())
            assert general.answer[at].sum() == 1
            if s != LLR:
                known = stop.elimination_times
                times = [[known.get((answer, tuple(label)), 0) for label in of_answer]
                         for answer, of_answer in zip(answers, labels, strict=True)]  # fmt: skip
                np.testing.assert_array_equal(general.elimination_times[at], times)


@pytest.mark.slow
def test_papers_alpha_on_the_two_dimensional_example():
    """At eps = 0.01 arms 3.. are eliminated from sampling, and arm 2 never is."""
    instance = je.instances.two_dimensional(6, 0.01)
    common = dict(runs=8, delta=0.01, max_samples=20_000, stopping=je.LLR(), ridge=1.0)
    plain = je.simulate(instance, je.BestArm(), je.LinGapE(), **common)
    resets = je.simulate(instance, je.BestArm(), je.LinGapE(), **common,
                         elimination=je.Resets(je.SelectiveElimination()))  # fmt: skip
    pulls = 20_000 - 6
    assert (plain.tests_sampling == 5 * pulls).all()
    read = resets.tests_sampling / pulls
    assert (read < 3).all() and (read >= 1).all()


@pytest.mark.parametrize("given, times", [
    ({"t0": 2**31}, []), ({"t0": 2**30}, [2**30]), ({}, [2, 4, 16, 256, 65536]),
])  # fmt: skip
def test_the_resets_are_at_squares_up_to_the_last_t(given, times):
    resets = je.Resets(je.SelectiveElimination(), **given)
    assert resets.reset_times(je.Heuristic()).tolist() == times


def test_an_untraceable_level_is_named_with_its_cause():
    """Of a threshold, and of an alpha; tests/data/bad_input.tsv has all kinds."""
    level = lambda t, delta: 1 / 0  # noqa: E731
    alpha = je.Resets(je.SelectiveElimination(), alpha=level)
    for settings in (dict(threshold=level), dict(elimination=alpha)):
        with pytest.raises(je.errors.ArgumentError) as caught:
            je.simulate(SHARED, je.BestArm(), je.LinGapE(), runs=2, ridge=1.0, **settings)
        assert caught.value.given is level and caught.value.__cause__ is not None

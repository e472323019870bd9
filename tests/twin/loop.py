"""Section 1: one run, and the stopping rules that observe it (section 5)."""

from types import SimpleNamespace

import numpy as np

from tests.twin.elimination import Stats, elimination_set
from tests.twin.native_rules import Lucb, Racing, Rage, UGapE, XyAdaptive
from tests.twin.pending import Pending
from tests.twin.problems import Problem
from tests.twin.resets import Resets, ResetSets
from tests.twin.rule import Stop
from tests.twin.rules import (
    Fws,
    LazyTas,
    LinGame,
    LinGapE,
    LinGifa,
    OptimisticTas,
    Oracle,
    Tas,
    Uniform,
)
from tests.twin.thresholds import heuristic

RULES = {
    "uniform": Uniform,
    "oracle": Oracle,
    "lingape": LinGapE,
    "lingame": LinGame,
    "fws": Fws,
    "lazy_tas": LazyTas,
    "tas": Tas,
    "optimistic_tas": OptimisticTas,
    "lingifa": LinGifa,
    "lucb": Lucb,
    "ugape": UGapE,
    "racing": Racing,
    "rage": Rage,
    "xy_adaptive": XyAdaptive,
}


class Observer:
    """One stopping rule that observes the trajectory (section 5)."""

    def __init__(self, problem, name):
        self.name = name
        self.set = elimination_set(problem, name)
        self.active = []
        self.tests_stopping = 0
        self.open = True

    def check(self, stats, threshold, tests_sampling, now=None):
        """Test `stats`; a run that ends has the samples and pulls of `now`, by default theirs."""
        if self.name != "native":
            self.tests_stopping += self.set.update(stats, threshold)
            answer = self.set.answer(stats)
        self.active.append(self.set.size)
        if self.name != "native" and answer is not None:
            self.close(stats if now is None else now, answer, tests_sampling)

    def close(self, stats, answer, tests_sampling, stopped=True):
        self.open = False
        self.record = SimpleNamespace(
            samples=stats.t,
            stopped=stopped,
            truncated=not stopped,
            answer=answer.copy(),
            pulls=stats.counts.copy(),
            active=np.array(self.active),
            elimination_times=self.set.times,
            tests_stopping=self.tests_stopping,
            tests_sampling=tests_sampling,
        )


def run(
    arms,
    theta,
    problem,
    rule,
    *,
    noise,
    delta=0.01,
    beta=heuristic,
    stopping=("llr",),
    elimination=None,
    ridge=1.0,
    noise_std=1.0,
    max_samples=20000,
    batch=1,
    delay=0,
    **settings,
):
    """One trajectory of `rule`, up to the last stop, the cap or the end of the noise.

    A rule that stops natively ends the run for every stopping rule still open. If no
    piece of the answer is active at sampling, all its pieces are.

    Args:
      arms: features [K, d].
      theta: [d].
      noise: standard normals [T]; sample s has reward mean + noise_std * noise[s].
      problem: ("bai",), ("items", z), ("topm", m), ("osi", level), ("osi",) or
        ("reference", level).
      rule: a name of RULES; `settings` are the rule's own.
      batch, delay: of rewards that wait (see `tests.twin.pending`); for rules without a native
        test.
      stopping: any of "llr", "native", "selective", "full", "selective-definition",
        "full-definition".
      elimination: at sampling: None, "selective" or "full" (that stopping rule's set,
        never reset), or a Resets.

    Returns:
      A namespace: arms and rewards of every pull, theta_hat_0 at t = K, the sampling
      rule's object, `active` of the first stopping rule, and `stops`. The latter maps
      each stopping rule's name to its record. An elimination time of 0 means never;
      `tests_sampling` counts the choices that were followed by a pull.
    """
    phi = np.asarray(arms, float)
    theta = np.asarray(theta, float) / noise_std
    if problem[0] in ("osi", "reference") and len(problem) > 1:
        problem = (problem[0], problem[1] / noise_std)
    problem = Problem(phi, problem)
    K, mu = problem.K, phi @ theta
    cap = min(max_samples, len(noise))
    if cap < K:
        raise ValueError("the cap and the noise must cover the initial pulls")

    counts, known, sums = np.zeros(K, int), np.zeros(K, int), np.zeros(K)
    pulled, rewards, pending = [], [], Pending(K, batch, delay)

    def enter(k, reward):
        known[k] += 1
        sums[k] += reward

    def pull(k):
        reward = mu[k] + noise[len(pulled)]
        counts[k] += 1
        pulled.append(k)
        rewards.append(reward * noise_std)
        return reward

    for k in range(K):
        enter(k, pull(k))
    sampler = RULES[rule](problem, delta, beta, theta, **settings)
    if "native" in stopping and not sampler.native:
        raise ValueError(f"{rule} has no native stopping rule")
    observers = [Observer(problem, name) for name in stopping]
    if isinstance(elimination, Resets):
        sets = ResetSets(problem, elimination, beta)
    else:
        sets = elimination and elimination_set(problem, elimination)

    def active(answer):
        labels = problem.pieces(answer)
        if sets:
            kept = labels[sets.keeps(labels)]
            labels = kept if len(kept) else labels
        return labels

    theta_hat_0 = None
    tests_sampling = 0
    while True:
        t = len(pulled)
        group = pending.entering(t)
        for k, reward in group:
            enter(k, reward)
        entered = Stats(problem, known.copy(), sums.copy(), ridge)
        stats = Stats.with_pending(problem, counts.copy(), entered, ridge)
        tests = bool(group) or theta_hat_0 is None
        if theta_hat_0 is None:
            theta_hat_0 = stats.theta
            sampler.start(stats)
        threshold = beta(entered.t, delta)
        if sets and tests:
            sets.update(entered, delta if isinstance(elimination, Resets) else threshold)
        for observer in observers:
            if observer.open and tests:
                observer.check(entered, threshold, tests_sampling, stats)
        open_observers = [observer for observer in observers if observer.open]
        if not open_observers or (t == cap and not sampler.native):
            choice = None
        else:
            choice = sampler.choose(stats, t + 1, active)
        if isinstance(choice, Stop):
            for observer in open_observers:
                observer.close(stats, choice.answer, tests_sampling)
            break
        if not open_observers or t == cap:
            for observer in open_observers:
                observer.close(stats, stats.answer, tests_sampling, stopped=False)
            break
        tests_sampling += sampler.reads
        reward = pull(choice)
        pending.chosen(len(pulled), choice, reward)

    return SimpleNamespace(
        arms=np.array(pulled),
        rewards=np.array(rewards),
        theta_hat_0=theta_hat_0,
        sampler=sampler,
        active=observers[0].record.active,
        stops={observer.name: observer.record for observer in observers},
    )

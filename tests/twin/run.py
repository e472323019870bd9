"""Section 1: one run, and the stopping rules that observe it (section 5); thresholds (3)."""

import math
from types import SimpleNamespace

import numpy as np

from tests.twin import native_rules, rules
from tests.twin.arms import Stacks
from tests.twin.elimination import Resets, ResetSets, elimination_set
from tests.twin.worlds import Rewards

RULES = {
    "uniform": rules.Uniform, "oracle": rules.Oracle, "lingape": rules.LinGapE,
    "lingame": rules.LinGame, "fws": rules.Fws, "lazy_tas": rules.LazyTas, "tas": rules.Tas,
    "optimistic_tas": rules.OptimisticTas, "lingifa": rules.LinGifa, "lucb": native_rules.Lucb,
    "ugape": native_rules.UGapE, "racing": native_rules.Racing, "rage": native_rules.Rage,
    "xy_adaptive": native_rules.XyAdaptive, "top_two": rules.TopTwo,
}  # fmt: skip


def heuristic(t, delta):
    return np.log((1.0 + t) / delta)


heuristic.constants = (1.0, np.log(3.0) / np.log(2.0), 1.0)  # c1, c2 and x0 of section 6


def gk16(t, delta):
    return np.log((1.0 + np.log(t)) / delta)


class Pending:
    """Pulls whose rewards have not entered: that of sample s does at a batch's end >= s + delay."""

    def __init__(self, start, batch=1, delay=0):
        self.start, self.batch, self.delay = start, batch, delay
        self.waiting = []

    def end(self, s):
        end = self.start
        while end < s + self.delay:
            end += self.batch
        return end

    def chosen(self, s, arm, reward):
        self.waiting.append((self.end(s), arm, reward))

    def entering(self, samples):
        """The (arm, reward) that enter once so many samples were chosen, in their order."""
        entering = [(arm, reward) for end, arm, reward in self.waiting if end <= samples]
        self.waiting = [pull for pull in self.waiting if pull[0] > samples]
        return entering


class Observer:
    """One stopping rule that observes the trajectory (section 5)."""

    def __init__(self, pieces, name):
        self.name, self.set = name, elimination_set(pieces, name)
        self.active, self.tests, self.record = [], 0, None

    def check(self, seen, threshold):
        """The answer to stop with, or None."""
        answer = None
        if self.name != "native":
            self.tests += self.set.update(seen, threshold)
            answer = self.set.answer(seen)
        self.active.append(self.set.size)
        return answer

    def close(self, counts, answer, tests_sampling, stopped=True):
        self.record = SimpleNamespace(
            samples=int(counts.sum()),
            stopped=stopped,
            truncated=not stopped,
            answer=answer.copy(),
            pulls=counts.copy(),
            active=np.array(self.active),
            elimination_times=self.set.times,
            tests_stopping=self.tests,
            tests_sampling=tests_sampling,
        )


def run(world, spec, rule, *, noise, delta=0.01, beta=heuristic, stopping=("llr",),
        elimination=None, max_samples=20000, initial=None, batch=1, delay=0, follow=None,
        **settings):  # fmt: skip
    """One trajectory of `rule`, up to the last stop, the cap or the end of the noise.

    A native stop ends the run for every stopping rule still open.

    Args:
      world, spec: an instance and a problem; see `worlds` and `pieces.Pieces`.
      rule: a name of RULES, or a class like those; `settings` are the rule's own.
      noise: normals or uniforms, as the world has them: [T].
      delta, beta: the error probability, and the threshold of (t, delta).
      stopping: any of "llr", "native", "selective", "full", "selective-definition",
        "full-definition".
      elimination: at sampling: None, "selective" or "full" (that stopping rule's set,
        never reset), or a Resets.
      initial: pulls of each arm at the start, in rounds; None: the world's.
      batch, delay: of rewards that wait; see `Pending`.
      follow: another program's arms; see `rules.Rule`.

    Returns:
      A namespace: arms and rewards of every pull, the first check's `seen`, the rule's object
      `sampler`, `sure`, up to which sample the choices are the only right ones, `active` of
      the first stopping rule, and `stops`. The latter maps each stopping rule's name to its
      record. An elimination time of 0 means never; `tests_sampling` counts the choices that
      were followed by a pull.
    """
    pieces, K, initial = world.pieces(spec), world.K, initial or world.initial
    cap = min(max_samples, len(noise))
    if cap < initial * K:
        raise ValueError("the cap and the noise must cover the initial pulls")
    known, counts, stacks = Rewards(K), np.zeros(K, int), isinstance(world, Stacks)
    arms, rewards, pending = [], [], Pending(initial * K, batch, delay)
    kind = RULES[rule] if isinstance(rule, str) else rule
    sampler = kind(pieces, delta, beta, world, follow, **settings)
    if "native" in stopping and not sampler.native:
        raise ValueError(f"{rule} has no native stopping rule")
    observers = [Observer(pieces, name) for name in stopping]
    if isinstance(elimination, Resets):
        sets = ResetSets(pieces, elimination, beta, delta)
    else:
        sets = elimination and elimination_set(pieces, elimination)

    def pull(k):
        rewards.append(world.draw(k, float(noise[len(arms)])))
        counts[k] += 1
        arms.append(int(k))
        return rewards[-1]

    for n in range(initial * K):
        known.enter(n % K, pull(n % K))
    first, tests_sampling, sure = None, 0, initial * K
    while True:
        over = stacks and world.used_up(counts).all()  # no pull fills the last batch
        t, group = len(arms), pending.entering(math.inf if over else len(arms))
        for k, reward in group:
            known.enter(k, reward)
        entered = world.seen(pieces, known, known.counts.copy())
        seen = world.seen(pieces, known, counts.copy()) if pending.waiting else entered
        tests = bool(group) or first is None
        if first is None:
            first = seen
            sampler.start(seen)
        threshold = beta(entered.t, delta)
        if sets and tests:
            sets.update(entered, threshold)
        for observer in observers:
            if observer.record is None and tests:
                answer = observer.check(entered, threshold)
                if answer is not None:
                    observer.close(counts, answer, tests_sampling)
        if stacks and tests and world.used_up(entered.counts).all():
            for observer in observers:
                if observer.record is None:
                    observer.close(counts, entered.answer, tests_sampling)
        still = [observer for observer in observers if observer.record is None]

        def active(answer, seen=seen):
            labels = pieces.of(answer, seen.candidates)
            kept = labels[sets.keeps(labels)] if sets else labels
            kept = kept[~world.decided(pieces, kept, seen.counts)] if stacks else kept
            return kept if len(kept) else labels

        sampler.stop, arm = None, None
        if still and (t < cap or sampler.native):
            arm = sampler.choose(seen, t + 1, active)
        native = sampler.stop if tests else None
        if native is not None or t == cap:
            for observer in still:
                answer = seen.answer if native is None else native
                observer.close(counts, answer, tests_sampling, native is not None)
            still = []
        if not still:
            break
        if stacks:
            arm = world.instead(seen, arm, active(seen.answer))
        tests_sampling += sampler.reads
        pending.chosen(t + 1, arm, pull(arm))
        sure += sampler.sure

    return SimpleNamespace(
        arms=np.array(arms),
        rewards=np.array(rewards) * world.scale,
        first=first,
        sampler=sampler,
        sure=sure,
        active=observers[0].record.active,
        stops={observer.name: observer.record for observer in observers},
    )

"""One run on independent arms (section 1), under any number of stopping rules."""

from types import SimpleNamespace

import numpy as np

from tests.twin.arm_rules import RULES
from tests.twin.masks import stopping_rule
from tests.twin.pending import Pending
from tests.twin.thresholds import heuristic
from tests.twin.worlds import Problem, Seen


class Rewards:
    """The rewards that have entered: counts, means and variances."""

    def __init__(self, K):
        self.counts, self.sums, self.all = np.zeros(K, int), np.zeros(K), [[] for _ in range(K)]

    def enter(self, k, reward):
        self.counts[k] += 1
        self.sums[k] += reward
        self.all[k].append(reward)

    def means(self):
        return self.sums / self.counts

    def variances(self):
        equal = np.array([len(set(x)) == 1 for x in self.all])
        return np.where(equal, 0.0, [np.var(x) for x in self.all])


def run(world, mu, spec, rule, *, noise, delta=0.1, beta=heuristic, stopping=("llr",),
        elimination=None, settings=None, initial=None, follow=None, batch=1, delay=0):  # fmt: skip
    """One trajectory, up to the last stop or the noise's end.

    At t samples the stopping rules are checked with beta(t, delta). Then the rule chooses
    sample t + 1 with beta(t + 1, delta), and its native test ends all rules still open.

    Args:
      world: of `worlds`.
      mu: means [K].
      spec: of `worlds.Problem`.
      rule: a name in `arm_rules.RULES`, or a class like those.
      noise: uniforms, or normals: [T].
      delta, beta: the error probability and the threshold of (t, delta).
      stopping: any of "llr", "selective", "full", "native".
      elimination: None, or the one stopping rule whose set sampling reads.
      settings: of the rule, as a dictionary.
      initial: pulls of each arm at the start, in rounds; None: the world's.
      follow: another program's arms; see `arm_rules.Rule`.
      batch, delay: of rewards that wait; see `tests.twin.pending`.

    Returns:
      A namespace: `arms` and `rewards` [T], the `rule`, `sure`, up to which sample the
      choices are the only right ones, `bounded`, how often an estimate was an end of the
      range or tied, and `stops` by name: samples, stopped, answer, pulls [K], tests.
    """
    mu = np.asarray(mu, float)
    K, initial = len(mu), initial or world.pulls
    problem, known = Problem(spec, K), Rewards(K)
    rules = {name: stopping_rule(problem, name) for name in stopping if name != "native"}
    tests, stops, bounded = dict.fromkeys(stopping, 0), {}, 0
    counts, arms, rewards = np.zeros(K, int), [], []
    pending, first = Pending(initial * K, batch, delay), True

    def pull(k):
        rewards.append(world.draw(mu[k], k, float(noise[len(arms)])))
        counts[k] += 1
        arms.append(int(k))
        return rewards[-1]

    def close(name, answer, stopped):
        stops[name] = SimpleNamespace(samples=len(arms), stopped=stopped, answer=answer.copy(),
                                      pulls=counts.copy(), tests=tests[name])  # fmt: skip

    def look(counts):
        variances = known.variances() if world.pulls > 1 else None
        return Seen(world, problem, counts, known.means(), variances)

    for n in range(initial * K):
        known.enter(n % K, pull(n % K))
    truth = Seen(world, problem, counts.copy(), mu)
    kind = RULES[rule] if isinstance(rule, str) else rule
    sampler = kind(problem, lambda t: beta(t, delta), truth, follow, **(settings or {}))
    sure = initial * K
    while True:
        t, group = len(arms), pending.entering(len(arms))
        for k, reward in group:
            known.enter(k, reward)
        tested, first = bool(group) or first, False
        seen = look(known.counts.copy())
        ends = {world.low, world.high}
        bounded += len(set(seen.means.tolist()) | ends) < K + len(ends)
        for name, pieces in rules.items():
            if name not in stops and tested:
                answer, number = pieces.update(seen, beta(seen.counts.sum(), delta))
                tests[name] += number
                if answer is not None:
                    close(name, answer, True)
        still = [name for name in stopping if name not in stops]
        arm, native = None, None
        if still:
            ahead = look(counts.copy())
            labels = problem.pieces(problem.answer(ahead.means), ahead.means)
            if elimination is not None:
                labels = rules[elimination].active(labels)
            if t < len(noise) or sampler.native:
                arm, native = sampler.choose(ahead, t + 1, labels)
            native = native if tested else None
        if native is not None or t == len(noise):
            for name in still:
                answer = problem.answer(seen.means) if native is None else native
                close(name, answer, native is not None)
            still = []
        if not still:
            return SimpleNamespace(arms=np.array(arms), rewards=np.array(rewards), rule=sampler,
                                   stops=stops, sure=sure, bounded=bounded)  # fmt: skip
        pending.chosen(t + 1, arm, pull(arm))
        sure += sampler.sure

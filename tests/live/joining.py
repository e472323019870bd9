"""Many runs in which arms join and leave, in plain NumPy: Gaussian arms in turn, selective stops.

It says the rules of docs/how-to/arms-that-join.md by themselves: who is in, whose rewards
count, and what is refuted.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

STRENGTHS = np.array([3.0, 10, 30, 100, 300, 1000])


class Change(NamedTuple):
    """A change of every run: who joins or leaves after so many rewards, [R] each."""

    after: np.ndarray
    arm: np.ndarray
    joins: np.ndarray  # bool


@dataclasses.dataclass
class Runs:
    """R runs of M arms: z [R, T] is the noise of reward n, means [R, M] of unit variance."""

    means: np.ndarray
    z: np.ndarray
    members: np.ndarray  # [R, M] bool: who is in
    changes: list[Change]
    level: float

    def __post_init__(self):
        rows, arms = self.means.shape
        self.counts, self.sums = np.zeros((2, rows, arms))
        self.active, self.began = self.members.copy(), np.zeros(rows, bool)
        self.samples, self.answer = np.zeros(rows, int), np.full(rows, -1)
        self.refuted_truth = np.zeros(rows, bool)  # a pair of arms that are in, ever
        self.best_in = np.zeros(rows, int)

    def ended(self) -> "Runs":
        """All runs, until their stop or the last noise."""
        for n in range(self.z.shape[1]):
            self._changed(n)
            arm = self._chosen()
            rows = np.flatnonzero(self.samples == 0)
            self.counts[rows, arm[rows]] += 1
            self.sums[rows, arm[rows]] += self.means[rows, arm[rows]] + self.z[rows, n]
            self._test(rows, n + 1)
        return self

    def _changed(self, n: int) -> None:
        for change in self.changes:
            rows = np.flatnonzero((change.after == n) & (self.samples == 0))
            if rows.size:
                self.members[rows, change.arm[rows]] = change.joins[rows]
                self.active[rows], self.began[rows] = self.members[rows], False
                self._test(rows, n)

    def _chosen(self) -> np.ndarray:
        """The first that lacks a reward; else in turn, by the number of rewards that count."""
        t = np.where(self.members, self.counts, 0).sum(1).astype(int)
        lacks = self.members & (self.counts == 0)
        place = np.cumsum(self.members, 1) - 1
        turn = self.members & (place == (t % self.members.sum(1))[:, None])
        return np.argmax(np.where(lacks.any(1)[:, None], lacks, turn), 1)

    def _test(self, rows: np.ndarray, n: int) -> None:
        """One test of these runs, where they look."""
        member, counts = self.members[rows], self.counts[rows]
        t = np.where(member, counts, 0).sum(1).astype(int)
        grid = 2 ** np.maximum(np.log2(np.maximum(t, 1)).astype(int) - 7, 0)
        look = ((t % grid == 0) | ~self.began[rows]) & ~(member & (counts == 0)).any(1)
        rows, member, counts = rows[look], member[look], counts[look]
        self.began[rows] = True
        means = np.where(member, self.sums[rows] / np.maximum(counts, 1), -np.inf)
        leader = means.argmax(1)
        one = np.arange(rows.size)
        log_e = log_pair(counts[one, leader][:, None], counts, means[one, leader][:, None], means)
        others = member & (np.arange(member.shape[1]) != leader[:, None])
        refuted = others & (log_e > self.level)
        truth = self.means[rows]
        self.refuted_truth[rows] |= (refuted & (truth > truth[one, leader][:, None])).any(1)
        self.active[rows] &= ~refuted
        left = self.active[rows].sum(1)
        over = left <= 1
        answer = np.where(left == 1, self.active[rows].argmax(1), leader)
        self.answer[rows[over]], self.samples[rows[over]] = answer[over], n
        self.best_in[rows] = np.where(member, truth, -np.inf).argmax(1)


def log_pair(n_i: Any, n_k: Any, m_i: Any, m_k: Any) -> np.ndarray:
    """log e of {mu_i <= mu_k}, m_i >= m_k: docs/reference/definitions.md, Mixtures."""
    n_i, n_k = (np.maximum(n, 1)[..., None] for n in np.broadcast_arrays(n_i, n_k))
    a, b = n_i**2 / (n_i + STRENGTHS), n_k**2 / (n_k + STRENGTHS)
    off = np.where(np.isfinite(m_k), m_i - m_k, 0)[..., None]
    value = a * b / (a + b) * off**2 / 2
    value -= (np.log1p(n_i / STRENGTHS) + np.log1p(n_k / STRENGTHS)) / 2
    most = value.max(-1)
    return most + np.log(np.mean(np.exp(value - most[..., None]), -1))


def random_runs(rows: int, rewards: int, seed: int, level: float, spread: float) -> Runs:
    """Four arms; two join and one leaves, any that is in then, at times that are random."""
    rng = np.random.default_rng(seed)
    means = spread * rng.standard_normal((rows, 6))
    times = np.sort(rng.integers(8, rewards // 2, (3, rows)), 0)
    times += np.arange(3)[:, None]  # one after the other
    role = rng.permuted(np.tile([0, 0, 1], (rows, 1)), axis=1)  # 1: leaves
    members = np.zeros((rows, 6), bool)
    members[:, :4] = True
    now, changes, newest = members.copy(), [], np.full(rows, 4)
    for k in range(3):
        joins = role[:, k] == 0
        leaver = rng.random((rows, 6)) * now
        arm = np.where(joins, newest, leaver.argmax(1))
        now[np.arange(rows), arm] = joins
        newest += joins
        changes.append(Change(times[k], arm, joins))
    return Runs(means, rng.standard_normal((rows, rewards)), members, changes, level)

"""Top-two rules: a leader, a challenger, and a share of the turns for the leader."""

import dataclasses
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.pieces import pairs_of
from jaxelim.errors import ArgumentError
from jaxelim.families.draws import fold
from jaxelim.lanes import index_like, pytree, settings
from jaxelim.numerics.logarithm import log

LEADERS = {
    "eb": "The best empirical arm", "ucb": "The largest upper bound", "ts": "A posterior draw",
}  # fmt: skip
CHALLENGERS = {"tc": "smallest LLR", "tci": "smallest LLR + log N", "rs": "best arm of a new draw"}
SELECTIONS = ("sampling", "tracking")
BONUS = 1.2 * (1 + 1.2)
"""alpha (1 + s), alpha = s = 1.2: the UCB leader's bounds are at level BONUS log t."""
REDRAWS = 200
"""Most draws for one challenger of kind "rs"."""


@pytree
class Turns:
    """What tracking has given each leader, and what it was due."""

    due: Array  # [K] the sum of the shares at the turns of leader i
    taken: Array  # [K] how often leader i was pulled as such


@settings
class TopTwo(SamplingRule):
    """Choose a leader and a challenger; pull the leader with probability `share`.

    Leader i:
    "eb": the best empirical arm.
    "ucb": argmax_k U_k, bounds at level 2.64 log t.
    "ts": the best arm of a draw from the posterior.

    Challenger j, L(i, j) the LLR of {mu_i <= mu_j}:
    "tc": argmin_j L(i, j).
    "tci": argmin_j L(i, j) + log N_j.
    "rs": the best arm of a further draw, repeated while it is i; after 200 draws "tc".

    A share "ids" is n_i d(m_i, u)/(n_i d(m_i, u) + n_j d(m_j, u)), u the n-weighted mean
    of both; n_j/(n_i + n_j) at equal means.

    Select "sampling": pull i with probability `share`, else j.
    Select "tracking": in each turn of leader i, B_i += share; pull i, and A_i += 1, if
    A_i <= B_i, else j.

    The leader "eb" serves top m and signs too. The active piece of smallest L ("tc"), or
    of smallest L plus the sum of log N over its arms ("tci"), has i and j as its arms.
    For signs it is one arm, which is pulled. With `BestArm(reference=)` the reference leads
    or challenges as an arm does, and the other arm of its piece is pulled. `BestArm(epsilon=)`
    takes the leader "eb" with "tc" or "tci", L with slack; a share "ids" is at the closest
    point of the piece. With elimination at sampling, leader and challenger are among the arms
    of active pieces and the empirical best.

    "eb" with "tc" can starve an arm: after unlucky first rewards the best arm may never
    be pulled again, and only `max_samples` ends the run, which the result flags as truncated.
    "tci", "ucb" and "ts" explore. "eb" and "ucb" cost no random draws, "ts" K posterior draws
    a sample, "rs" up to 200 K more, and most near the stop.

    Russo 2016 and 2020; Shang et al. 2020; Jourdan, Degenne, Baudry, de Heide & Kaufmann
    2022; Jourdan & Degenne 2023; You, Qin, Wang & Yang 2023.

    Args:
        leader: "eb", "ucb" or "ts".
        challenger: "tc", "tci" or "rs".
        share: a number in (0, 1), or "ids".
        select: "sampling" or "tracking".

    Raises:
        ArgumentError: a setting is none of these.
    """

    leader: str = "eb"
    challenger: str = "tci"
    share: float | str = 0.5
    select: str = "sampling"
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "top-m", "thresholding", "best-or-none"),
        structures=("unstructured",), families=None, slack=True, reads=("pieces", "chance"),
        lanes_last=True,
        source="Russo 2016; Shang et al. 2020; Jourdan et al. 2022; You et al. 2023",
    )  # fmt: skip

    def __post_init__(self):
        checks.choice("leader", self.leader, LEADERS)
        checks.choice("challenger", self.challenger, CHALLENGERS)
        checks.choice("select", self.select, SELECTIONS)
        if isinstance(self.share, str):
            if self.share != "ids":
                raise ArgumentError("share", self.share, '"ids", or a number above 0 and below 1')
        else:
            share = checks.real("share", self.share, low=0, high=1, open=True)
            object.__setattr__(self, "share", share)
        traits = dataclasses.replace(
            type(self).traits,
            problems=type(self).traits.problems if self._pieces else ("best-arm",),
            slack=self._pieces,
            reads=("pieces",) + ("chance",) * (self.select == "sampling") + ("key",) * self._draws,
        )
        object.__setattr__(self, "traits", traits)

    @property
    def _draws(self) -> bool:
        """Whether it draws from the posterior."""
        return self.leader == "ts" or self.challenger == "rs"

    @property
    def _pieces(self) -> bool:
        """Whether leader and challenger are the arms of the answer's pieces."""
        return self.leader == "eb" and self.challenger != "rs"

    def needs(self, family, problem):
        share = self.share == "ids" and problem.name != "thresholding"
        named = {"interval": self.leader == "ucb", "posterior": self._draws, "share": share}
        return tuple(name for name, needed in named.items() if needed)

    def init(self, view):
        if self.select == "sampling" or view.shape.signs:
            return ()
        none = jnp.zeros_like(view.means)
        return Turns(none, none)

    def choose(self, view, state):
        lanes = view.lanes
        shape, active, evidence = self._led(view)
        index = evidence.values()
        if self.challenger == "tci":
            logs = log(view.counts)
            if shape.several:
                a, b = shape.ends(lanes, logs)
                logs = shape.flat(a + b)
            else:  # the leader's own is common to all pieces of a row, and a reference has none
                more = jnp.zeros_like(logs[: index.shape[0] - logs.shape[0]])
                logs = jnp.concatenate([logs, more])
            index = index + logs
        piece = lanes.argmin(jnp.where(active, index, jnp.inf))
        i, j = shape.arms(lanes, piece)
        if shape.signs:
            return i, state
        if self.challenger == "rs":
            j = self._redrawn(view, i, j)
        share = self._share(view, piece, i, j)
        if self.select == "sampling":
            assert view.chance is not None  # drawn, as `reads` says
            return jnp.where(view.chance < share, i, j), state
        own = index_like(view.means) == i
        if shape.level is not None:  # no turn of a pair where the reference is one of the two
            own = own & (i != j)
        due = state.due + jnp.where(own, share, 0)
        first = lanes.take(state.taken, i) <= lanes.take(due, i)
        taken = state.taken + (own & first).astype(due.dtype)
        return jnp.where(first, i, j), Turns(due, taken)

    def _share(self, view, piece, i, j):
        """The leader's share: []."""
        if self.share != "ids":
            return jnp.asarray(self.share, view.means.dtype)
        if not view.shape.slack:
            return view.family.share(view, i, j)
        parts = view.counts * view.evidence.gradient(piece)  # n_k d(m_k, .) at i and j, their sum L
        own, other = (view.lanes.take(parts, arm) for arm in (i, j))
        return own / (own + other)

    def _led(self, view):
        """The pieces of the leader, which of them count, and the evidence about them."""
        if self.leader == "eb":
            return view.shape, view.active, view.evidence
        if self.leader == "ts":
            scores = self._drawn(view, 0)
        else:
            interval = view.family.interval(view, view.means, BONUS * jnp.log(view.time))
            scores = _among(_playing(view), interval.upper)
        leader, playing = view.lanes.argmax(scores), _playing(view)
        others = index_like(view.means) != leader
        shape = pairs_of(view.shape).row(leader, others, view.means.shape[0] - 1)
        active = others if playing is None else others & playing
        return shape, active, view.evidence.about(shape)

    def _drawn(self, view, n):
        """The n-th draw from the posterior, -inf at arms that do not play: [K]."""
        drawn = view.family.posterior(fold(view.key, n), view.counts, view.means)
        return _among(_playing(view), drawn)

    def _redrawn(self, view, i, otherwise):
        """The best arm of the first further draw in which it is not i."""
        none = jnp.full_like(i, view.means.shape[0])

        def again(carry):
            tried, challenger = carry
            if i.ndim:
                return self._attempts(view, i, tried, challenger)
            best = view.lanes.argmax(self._drawn(view, tried + 1))
            return tried + 1, jnp.where(best == i, none, best)

        def goes_on(carry):
            tried, challenger = carry
            return jnp.any((tried < REDRAWS) & (challenger == none))

        _, challenger = jax.lax.while_loop(goes_on, again, (jnp.zeros_like(i), none))
        return jnp.where(challenger == none, otherwise, challenger)

    def _attempts(self, view, i, tried, challenger):
        """One more draw: lanes without a challenger share B draws, so that no lane waits alone."""
        (arms, size), index = view.means.shape, jnp.arange(i.shape[0], dtype=i.dtype)
        waiting = (tried < REDRAWS) & (challenger == arms)
        count = jnp.maximum(jnp.sum(waiting, dtype=i.dtype), 1)
        order = jnp.argsort(~waiting, stable=True).astype(i.dtype)
        several = size // count  # draws for each waiting lane
        lane = order[jnp.minimum(index // several, count - 1)]
        n = tried[lane] + 1 + index % several
        key, counts, means = view.key[lane], view.counts[:, lane], view.means[:, lane]
        playing = _playing(view)
        playing = None if playing is None else playing[:, lane]
        drawn = view.family.posterior(fold(key, n), counts, means)
        best = view.lanes.argmax(_among(playing, drawn))
        good = (index < several * count) & (n <= REDRAWS) & (best != i[lane])
        late = np.iinfo(np.int32).max
        first = jnp.full_like(i, late).at[lane].min(jnp.where(good, n * arms + best, late))
        challenger = jnp.where(waiting & (first < late), first % arms, challenger)
        return jnp.where(waiting, tried + several, tried), challenger


def _playing(view):
    """The arms of active pieces, and the empirical best: [K] bool; None: all arms."""
    if view.reduced.elimination is None:
        return None
    return view.active | (index_like(view.means) == view.answer)


def _among(playing, scores):
    """The scores [K], -inf at arms that do not play."""
    return scores if playing is None else jnp.where(playing, scores, -jnp.inf)


class _Named(Protocol):
    def __call__(self, share: float | str = 0.5, select: str = "sampling") -> TopTwo: ...


def _named(
    name: str, leader: str, challenger: str, source: str, select: str = "sampling"
) -> _Named:
    """The rule of a paper, by its name there, as a function of share and select."""

    def rule(share: float | str = 0.5, select: str = select) -> TopTwo:
        return TopTwo(leader, challenger, share, select)

    rule.__name__ = rule.__qualname__ = name
    rule.__doc__ = f"{LEADERS[leader]} leads, the {CHALLENGERS[challenger]} challenges. {source}"
    return rule


TTTS = _named("TTTS", "ts", "rs", "Top-two Thompson sampling. (Russo 2016)")
T3C = _named("T3C", "ts", "tc", "(Shang et al. 2020, Algorithm 2)")
TSTC = _named("TSTC", "ts", "tc", "`T3C` under another name. (Jourdan et al. 2022)")
TSTCI = _named("TSTCI", "ts", "tci", "(Jourdan et al. 2022)")
EBTC = _named("EBTC", "eb", "tc", "(Jourdan et al. 2022)\n\nIt can starve an arm: see `TopTwo`.")
EBTCI = _named("EBTCI", "eb", "tci", "(Jourdan et al. 2022)")
TTUCB = _named("TTUCB", "ucb", "tc", "(Jourdan & Degenne 2023)", "tracking")

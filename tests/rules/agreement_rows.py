"""Rules, thresholds and elimination as the library and the twin have them; a row of agreement."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import jaxelim as je
from tests import twin

PLAIN = {
    "uniform": (je.Uniform(), "uniform", {}),
    "lucb": (je.LUCB(), "lucb", {}),
    "lucb-2": (je.LUCB(pulls=2), "lucb", {"pulls": 2}),
    "ugape": (je.UGapE(), "ugape", {}),
    "racing": (je.Racing(), "racing", {}),
    "lingame": (je.LinGame(), "lingame", {}),
    "fws": (je.FWS(), "fws", {}),
    "lazy-tas": (je.LazyTaS(), "lazy_tas", {}),
    "oracle": (je.Oracle(), "oracle", {}),
    "tas": (je.TrackAndStop(gap_share=1e-10), "tas", {}),
    "tas, C": (je.TrackAndStop("C", gap_share=1e-10, schedule=3), "tas",
               {"tracking": "C", "every": 3}),
}  # fmt: skip
TOP_TWO = {
    "ttts": je.TTTS(), "t3c": je.T3C(), "ebtc": je.EBTC(), "ebtci": je.EBTCI(),
    "tstci": je.TSTCI(), "ebtc, 0.3": je.EBTC(0.3, "tracking"),
    "ebtci, ids": je.EBTCI("ids", "tracking"), "ttucb, ids": je.TTUCB("ids"),
    "eb, rs": je.TopTwo("eb", "rs"), "ucb, tci": je.TopTwo("ucb", "tci", 0.7, "tracking"),
}  # fmt: skip
GAUSSIAN = {
    "lingape": (je.LinGapE(), "lingape", {}),
    "optimistic lingame": (je.OptimisticLinGame(), "lingame", {"optimistic": True}),
    "optimistic tas": (je.OptimisticTaS(gap_share=1e-10), "optimistic_tas", {}),
    "lingifa": (je.LinGIFA(), "lingifa", {}),
    "rage": (je.RAGE(), "rage", {}),
    "xy-adaptive": (je.XYAdaptive(), "xy_adaptive", {}),
}
RULES = {**PLAIN, **{name: (rule, "top_two", {}) for name, rule in TOP_TWO.items()}, **GAUSSIAN}


def log_inverse(t, delta):
    """A threshold so low that one early test may eliminate everything."""
    return jnp.zeros_like(t) - jnp.log(delta)


def never(t, delta):
    return 1e9 + 0 * (t + delta)


BETAS = {
    "heuristic": (je.Heuristic(), twin.heuristic),
    "gk16": (je.GK16(), twin.gk16),
    "never": (never, never),
    "log(1/delta)": (log_inverse, lambda t, delta: -np.log(delta)),
}
ELIMINATION = {
    "selective": (je.SelectiveElimination(), "selective"),
    "full": (je.FullElimination(), "full"),
    "selective, resets": (
        je.Resets(je.SelectiveElimination(), alpha=je.Heuristic(), t0=2.0),
        twin.Resets("selective", alpha=twin.heuristic, t0=2.0),
    ),
    "full, resets": (
        je.Resets(je.FullElimination(), alpha=je.Heuristic(), t0=2.0),
        twin.Resets("full", alpha=twin.heuristic, t0=2.0),
    ),
}
STOPPING = {"llr": je.LLR(), "selective": je.SelectiveElimination(), "full": je.FullElimination(),
            "native": je.Native()}  # fmt: skip
WAITS = ({"batch": 7}, {"batch": 1, "delay": 5}, {"batch": 3, "delay": 4}, {"batch": 2, "delay": 5})
"""Batches and delays that share a program: up to seven rewards are pending."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One program of the library beside the twin.

    vmapped: whether the rule is also called for each run under `jax.vmap`.
    pulls: whether each pull is compared, up to where rounding alone decides; else the ends of
        runs under all stopping rules.
    """

    place: str
    problem: str
    rule: str
    elimination: str | None = None
    deltas: tuple = (0.05,)
    beta: str = "heuristic"
    waits: tuple = ({},)
    vmapped: bool = False
    pulls: bool = False
    length: int = 250

    @property
    def id(self):
        waits = "waits" if self.waits[0] else ""
        parts = self.rule, self.problem, self.place, self.elimination, waits
        return ", ".join(filter(None, parts))

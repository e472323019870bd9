"""Checked calls for tests, as `simulate` makes them."""

from typing import Any

import jaxelim as je
from jaxelim.simulation.call import CheckedCall


def checked(instance, problem, rule, **settings: Any) -> CheckedCall:
    """The checked call of a small simulation; `settings` are keywords of `simulate`."""
    usual = dict(delta=0.1, stopping=je.LLR(), elimination=None, threshold=je.Heuristic(), runs=2,
                 seed=0, max_samples=1000)  # fmt: skip
    return CheckedCall.checked(instance=instance, problem=problem, rule=rule, **(usual | settings))

"""Checks of a sampling rule, a problem, a reward family or a threshold.

Each check returns a `Report` that prints as text. It raises `ContractError` at the
first law that is broken. What holds on the instances and draws of a check is evidence, not a
proof.
"""

from jaxelim.testing.exact import exact_bracket
from jaxelim.testing.problem_checks import check_problem
from jaxelim.testing.report import ContractError, Report
from jaxelim.testing.rule_checks import check_sampling_rule
from jaxelim.testing.threshold_checks import (
    ErrorRate,
    ThresholdReport,
    check_threshold,
    hard_instance,
)
from jaxelim.testing.whole_family import check_family, check_source

__all__ = [
    "ContractError", "ErrorRate", "Report", "ThresholdReport", "check_family", "check_problem",
    "check_sampling_rule", "check_source", "check_threshold", "exact_bracket", "hard_instance",
]  # fmt: skip

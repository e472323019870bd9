"""The check of a rule, problem, reward family, source, threshold or stopping rule.

`check` returns a `Report` that prints as text, or raises `ContractError` with a sentence of
each law that is broken. What holds on the instances and draws of a check is evidence, not a
proof.
"""

from jaxelim.testing.checking import check
from jaxelim.testing.problems import exact_bracket
from jaxelim.testing.report import ContractError, ErrorRate, Report
from jaxelim.testing.rules import hard_instance

__all__ = ["ContractError", "ErrorRate", "Report", "check", "exact_bracket", "hard_instance"]

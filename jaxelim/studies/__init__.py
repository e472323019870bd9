"""Studies: several rules, instances and problems in one call."""

from jaxelim.studies.grid import study
from jaxelim.studies.study import Study

__all__ = ["Study", "study"]

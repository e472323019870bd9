"""Studies: several rules, instances and problems in one call."""

from jaxelim.studies.grid import Study, study

__all__ = ["Study", "study"]

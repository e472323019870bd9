"""Live runs: a sampling rule chooses arms, and the rewards come from outside."""

from jaxelim.live.forecast import LiveForecast
from jaxelim.live.report import PValues
from jaxelim.live.run import LiveRun
from jaxelim.simulation.results.confidence import Intervals

__all__ = ["Intervals", "LiveForecast", "LiveRun", "PValues"]

"""Live runs: a sampling rule chooses arms, and the rewards come from outside."""

from jaxelim.live.run import Evidence, LiveRun

__all__ = ["Evidence", "LiveRun"]

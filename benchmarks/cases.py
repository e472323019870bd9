"""What is timed: one simulation, as plain data that goes to a process of its own."""

import dataclasses

CHUNK = 256  # the engine's own choice on every backend


def whole_chunks(chunks: int, arms: int = 50) -> int:
    """The cap that ends a run in the last step of so many chunks: equally long runs that leave no lane idle."""
    return arms + CHUNK * chunks - 1


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of `je.simulate` in words that JSON holds.

    Args:
        rule, problem, m: names of the command line.
        instance: a shipped instance, or "K x d" for directions drawn uniformly on the sphere, with gaps so small that no run
            stops on its own.
        elimination: at sampling, where the rule looks at pieces at all: "selective", "full" or None.
        max_samples: the cap; a run that meets it is over, which makes runs equally long.
        lanes, devices: None leaves the choice to the engine.
        schedule: every how many samples a rule solves for its allocation; None: as it does by default.
    """

    rule: str
    problem: str = "best-arm"
    m: int | None = None
    instance: str = "linear-d20"
    stopping: tuple[str, ...] = ("selective",)
    elimination: str | None = "selective"
    delta: tuple[float, ...] = (0.01,)
    runs: int = 1000
    max_samples: int = 1_000_000
    lanes: int | None = None
    devices: int | None = 1
    schedule: int | None = None


@dataclasses.dataclass(frozen=True)
class Timing:
    """How a case is timed.

    Args:
        repeats: timed calls, after one that compiles.
        core: pin the process to this core; None: all that there are.
        anchor: runs of the C anchor around every timed call; 0 for none.
        profile: also say where the time of one more call goes.
    """

    repeats: int = 3
    core: int | None = None
    anchor: int = 0
    profile: bool = False

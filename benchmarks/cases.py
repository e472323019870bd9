"""A timed case: one simulation as plain data, sent to a process of its own."""

import dataclasses

CHUNK = 256  # the engine's default on every backend


def whole_chunks(chunks: int, arms: int = 50) -> int:
    """The cap that ends every run in the last step of `chunks` chunks.

    All runs are then equally long, and no lane idles.
    """
    return arms + CHUNK * chunks - 1


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of `je.simulate`, in values that JSON holds.

    Args:
        rule, problem, m: names of the command line.
        instance: a shipped instance; "K x d": K directions uniform on the sphere,
            with gaps so small that no run stops on its own; or means, "0.5, 0.3".
        elimination: at sampling, if the rule supports it: "selective", "full" or None.
        max_samples: the cap; runs that reach it are equally long.
        lanes, devices: None leaves the choice to the engine.
        schedule: samples between two allocation solves; None: the rule's default.
        family: of rewards, for an instance given by its means; None: Gaussian.
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
    family: str | None = None


@dataclasses.dataclass(frozen=True)
class Timing:
    """How a case is timed.

    Args:
        repeats: timed calls, after one that compiles.
        core: the core to pin the process to; None: all cores.
        anchor: runs of the C anchor around every timed call; 0 for none.
        profile: also profile the kernels of one more call.
    """

    repeats: int = 3
    core: int | None = None
    anchor: int = 0
    profile: bool = False

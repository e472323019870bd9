"""A timed case: one simulation as plain data, sent to a process of its own.

JAX is imported inside the functions: a process settles its environment first.
"""

import dataclasses
from typing import Any

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
        rule, problem: texts as on the command line.
        instance: a shipped instance, or means, "0.5, 0.3".
        elimination: at sampling, if the rule supports it: "selective", "full" or None.
        max_samples: the cap; runs that reach it are equally long.
        lanes, devices: None leaves the choice to the engine.
        family: of rewards, for an instance given by its means; None: Gaussian.
    """

    rule: str
    problem: str = "best-arm"
    instance: str = "linear-d20"
    stopping: tuple[str, ...] = ("selective",)
    elimination: str | None = "selective"
    delta: tuple[float, ...] = (0.01,)
    runs: int = 1000
    max_samples: int = 1_000_000
    lanes: int | None = None
    devices: int | None = 1
    family: str | None = None


@dataclasses.dataclass(frozen=True)
class Timing:
    """How a case is timed.

    Args:
        repeats: timed calls, after one that compiles.
        core: the core to pin the process to; None: all cores.
        anchor: runs of the C anchor around every timed call; 0 for none.
    """

    repeats: int = 3
    core: int | None = None
    anchor: int = 0


def arguments(case: Case) -> tuple[tuple, dict]:
    """The instance, problem and rule of a case, and the keywords of `je.simulate`."""
    import jaxelim as je
    from jaxelim import catalogue

    if ", " in case.instance:
        own = () if case.family is None else (catalogue.made("family", case.family),)
        instance = je.Instance.unstructured(list(map(float, case.instance.split(", "))), *own)
    else:
        instance = je.load_instance(case.instance)
    rule = catalogue.made("rule", case.rule)
    looks = case.elimination is not None and rule.traits.elimination
    settings: dict[str, Any] = {
        "delta": list(case.delta),
        "stopping": tuple(catalogue.made("stopping", name) for name in case.stopping),
        "elimination": catalogue.made("elimination", case.elimination) if looks else None,
        "runs": case.runs,
        "max_samples": case.max_samples,
        "ridge": 1.0 if case.family is None else None,  # 1: the paper's setting
        "engine": je.Engine(lanes=case.lanes, devices=case.devices),
    }
    return (instance, catalogue.made("problem", case.problem), rule), settings

"""Arguments of `je.simulate` for a `Case`, and the inputs of its compiled program.

JAX is imported inside the functions: a process settles its environment first.
"""

from typing import Any

from benchmarks.cases import Case


def find_instance(name: str, family: str | None = None) -> Any:
    """An instance by its name.

    A shipped one; "K x d": directions uniform on the sphere, small gaps; or the means of
    unstructured arms, as in "0.5, 0.3".
    """
    import numpy as np

    import jaxelim as je
    from jaxelim import catalogue

    if ", " in name:
        means = [float(mean) for mean in name.split(", ")]
        own = () if family is None else (catalogue.find_family(family, ()),)
        return je.Instance.unstructured(means, *own)
    if " x " not in name:
        return je.load_instance(name)
    K, d = map(int, name.split(" x "))
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((K, d))
    return je.Instance(
        arms / np.linalg.norm(arms, axis=1, keepdims=True), 0.01 * rng.standard_normal(d), name=name
    )


def arguments(case: Case) -> tuple[tuple, dict]:
    """The instance, problem and rule of a case, and the keywords of `je.simulate`."""
    import jaxelim as je
    from jaxelim import catalogue

    rule = catalogue.find_rule(case.rule)(
        **({} if case.schedule is None else {"schedule": case.schedule})
    )
    known = catalogue.stopping_rules()
    looks = case.elimination is not None and rule.traits.elimination
    settings = {
        "delta": list(case.delta),
        "stopping": tuple(known[name]() for name in case.stopping),
        "elimination": known[case.elimination]() if looks else None,
        "runs": case.runs,
        "max_samples": case.max_samples,
        "ridge": 1.0 if case.family is None else None,  # 1: the paper's setting
        "engine": je.Engine(lanes=case.lanes, devices=case.devices),
    }
    return (
        find_instance(case.instance, case.family),
        catalogue.find_problem(case.problem, case.m),
        rule,
    ), settings


def planned(given: tuple, settings: dict, backend: str | None = None) -> tuple:
    """The spec that such a call compiles for, and its program's inputs and queue.

    Must be called under `scope.engine`; `backend` as for `spec_of`.
    """
    from jaxelim import thresholds
    from jaxelim.simulation.call import CheckedCall
    from jaxelim.simulation.plan import inputs_of, queue_of, settled, spec_of

    instance, problem, rule = given
    usual: dict = {"threshold": thresholds.Heuristic(), "seed": 0, "ridge": 1.0}
    call = CheckedCall.checked(instance=instance, problem=problem, rule=rule, **usual | settings)
    spec = spec_of(call, backend=backend)
    inputs = inputs_of(call, spec)
    return settled(call, spec, inputs), inputs, queue_of(call, spec)[0]

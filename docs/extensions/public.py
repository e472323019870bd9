"""The public names of jaxelim, by kind, and where the reference has each."""

import functools
import importlib
import inspect
from typing import Any, NamedTuple

import jaxelim as je

MODULES = (
    "cluster", "contracts", "families", "figures", "instances", "live", "lower_bound", "problems",
    "stopping", "store", "testing", "thresholds",
)  # fmt: skip
"""The public submodules: every name in their `__all__` is in the reference."""


class Kind(NamedTuple):
    """A page of the reference: module of its names, the names, and parts that are no public names
    but types of their arguments and results."""

    module: str
    names: str
    parts: str = ""


RULES = [
    name
    for name in je.__all__
    if getattr(getattr(je, name), "__module__", "").startswith("jaxelim.sampling.")
    and name != "EvidenceGap"
]

KINDS: dict[str, list[Kind]] = {
    "simulate": [
        Kind(
            "", "simulate study trace compare load_result load_study load_store Engine Result "
            "Study Comparison Trace",
            "simulation.results.summary.Summary "
            "simulation.results.two_samples.Estimated",
        ),
    ],
    "instances": [
        Kind("", "Instance load_instance load_items", "instances.arms.Arms"),
        Kind("instances", "names describe Description linear_d10 linear_d20 soare two_dimensional "
             "unstructured"),
    ],
    "problems": [Kind("", "BestArm TopM"), Kind("", "Thresholding AnyAbove HalfSpaces")],
    "rules": [Kind("", " ".join(RULES)), Kind("", "EvidenceGap")],
    "stopping": [Kind("", "LLR Native SelectiveElimination FullElimination Resets")],
    "thresholds": [
        Kind("", "Heuristic GK16 LinearThreshold KaufmannKoolen "
             "Mixture PieceThreshold", "mixtures.grid.Grid"),
    ],
    "families": [
        Kind("", " ".join(kind.__name__ for kind in je.families.KINDS)),
        Kind("", "OneParameter Recorded"),
        Kind("families", "known made named settings_of"),
    ],
    "lower-bound": [
        Kind("", "complexity characteristic_time optimal_allocation optimal_information "
             "allocation_value sample_bound kl_bound practical_time elimination_bounds"),
        Kind("", "complexity_gradients design_features sensitivity price best_extra_arm "
             "hardest_instance information_regret efficiency PrecisionError"),
        Kind("lower_bound", "Complexity EliminationBounds ExtraArm Gradients InformationRegret "
             "Search Sensitivity Solution oracle_weights least_information least_weights solve",
             "pieces.Pieces"),
    ],
    "figures": [
        Kind("figures", "tau_figure survival_figure delta_figure ratio_figure comparison_figure "
             "active_arms_figure study_figure every_figure"),
        Kind("figures", "allocation_figure design_figure pulls_figure"),
        Kind("figures", "active_arms active_counts save write figure_file MARKERS STYLES"),
    ],
    "live": [
        Kind("", "LiveRun"),
        Kind("live", "LiveEvidence Intervals LiveForecast",
             "state.LiveState live.p_values.PValues"),
    ],
    "stores": [
        Kind("store", "Store Block Entry Held Stored Merged merge ranges canonical checksum "
             "differences digest slug write_whole FORMAT REVISION"),
    ],
    "clusters": [Kind("cluster", "local connect workers_of compute_all WorkBlock Listener")],
    "testing": [
        Kind("testing", "check_sampling_rule check_problem check_family check_threshold "
             "hard_instance Report ThresholdReport ErrorRate ContractError"),
    ],
    "contracts": [
        Kind("", "SamplingRule StoppingRule Problem PieceSet Family Traits ASK OK"),
        Kind("", "View Estimate Snapshot Statistics Evidence Rows Levels Directions Interval",
             "contracts.views.ArmContext contracts.shapes.Shape contracts.shapes.SymmetricInterval "
             "lanes.LaneOps evidence.gaussian.LinearEvidence"),
    ],
    "errors": [
        Kind("", "JaxelimError ArgumentError TieError UnsupportedError UnknownNameError "
             "InstanceFileError RuleError FamilyError SetupError "
             "MissingPackageError Interrupted OverError OrderError"),
        Kind("", "ClusterError WorkersLost SchedulerLost WorkerMismatch"),
        Kind("", "StoreError DamagedFileError ResultFileError ConflictError LockedError"),
        Kind("", "RidgeWarning StarvationWarning LiveFileWarning"),
    ],
}  # fmt: skip
"""The pages of the reference."""


def paths(kind: Kind) -> list[str]:
    """The dotted names of a part of a page, as a user writes them."""
    prefix = f"jaxelim.{kind.module}".rstrip(".")
    parts = [f"{prefix}.{name}" for name in kind.parts.split()]
    return [*(f"{prefix}.{name}" for name in kind.names.split()), *parts]


def found(path: str) -> Any:
    """The object of a dotted name."""
    names = path.split(".")
    for end in range(len(names), 0, -1):
        try:
            module = importlib.import_module(".".join(names[:end]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, names[end:], module)
    raise LookupError(path)


@functools.cache
def places() -> dict[str, str]:
    """The path in the reference of each name: of `LinGapE` and `jaxelim.LinGapE`, say."""
    known: dict[str, str] = {}
    for kinds in KINDS.values():
        for kind in kinds:
            for path in paths(kind):
                short = path.removeprefix("jaxelim.")
                for name in (path, short, f"je.{short}", path.rsplit(".", 1)[1]):
                    known.setdefault(name, path)
    return known


def target(code: str) -> str | None:
    """The path in the reference of a name, a call of it or a documented part of it; or None."""
    name = code.removesuffix("()")
    known = places()
    if name in known:
        return known[name]
    owner, _, part = name.rpartition(".")
    if owner in known:
        one = inspect.getattr_static(found(known[owner]), part, None)
        if (
            isinstance(found(known[owner]), type)
            and getattr(one, "__doc__", None)
            and (inspect.isfunction(one) or isinstance(one, property | staticmethod | classmethod))
        ):
            return f"{known[owner]}.{part}"
    return None


def missing() -> set[str]:
    """Public names that no page has."""
    there = {id(found(path)) for kinds in KINDS.values() for kind in kinds for path in paths(kind)}
    names = {f"jaxelim.{name}" for name in je.__all__}
    for module in MODULES:
        inside = importlib.import_module(f"jaxelim.{module}")
        names |= {f"jaxelim.{module}.{name}" for name in inside.__all__}
    return {
        name for name in names if not inspect.ismodule(found(name)) and id(found(name)) not in there
    }

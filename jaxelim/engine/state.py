"""The spec that the engine's compiled functions are built for; their arguments, results, state."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import Family, Problem, SamplingRule, Source, StoppingRule
from jaxelim.contracts.views import Statistics, Tree
from jaxelim.lanes import LaneOps, named_pytree
from jaxelim.thresholds import Mixture

REVISION = 18
"""Revision of the numbers, part of all settings.

Raise it when a run draws or computes other numbers; runs of two revisions are
never joined.
"""
LANE_GROUP = 16
"""Lanes come in groups of this many, so that results do not depend on the number of lanes.

In smaller groups XLA:CPU rounds LinGame's weights differently.
"""
GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CONDITIONAL,WHILE",
    "xla_gpu_graph_min_graph_size": 1,
}
"""Options of XLA:GPU that make one CUDA graph of a whole call of `advance`.

By default its loops are run by the host, which waits at each test.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """How the steps of a program run, which changes no number of a run.

    The steps of a CPU and of a GPU differ by what is here, and by what a family's
    `settled` makes of `tuned`.
    """

    lanes: int  # per device; 1 where runs are taken one after the other
    chunk: int  # steps
    queue: int  # capacity in runs, per device
    devices: int
    gpu: bool = False  # else a CPU (see `jaxelim.lanes`)

    @property
    def single(self) -> bool:
        """Whether one lane takes runs one after the other."""
        return self.lanes == 1

    def lane_ops(self, flag: Array) -> LaneOps:
        """The primitives of the program; `flag` as in `Inputs`."""
        return LaneOps(gpu=True) if self.gpu else LaneOps(flag, kernel=self.single)

    def compiler_options(
        self, optimization: str | None, inner_loops: bool = False
    ) -> dict[str, Any] | None:
        """The options of XLA; those that XLA_FLAGS names for a GPU are left to it.

        `optimization` is as of `cpu_options`; `inner_loops`: every step has a loop inside.
        """
        if not self.gpu:
            # XLA makes one kernel of such steps and their loop, which is slower than many.
            many = {"xla_disable_hlo_passes": "small-while-loop-hoisting"}
            return cpu_options(optimization) | (many if inner_loops else {})
        if jax.default_backend() != "gpu":
            return None
        named = os.environ.get("XLA_FLAGS", "")
        return {name: value for name, value in GRAPHS.items() if name not in named}


def cpu_options(optimization: str | None) -> dict[str, str]:
    """Options of XLA:CPU for a program, at LLVM's level `optimization`; None: XLA's choice."""
    level = {} if optimization is None else {"xla_backend_optimization_level": optimization}
    return {"xla_cpu_prefer_vector_width": "512", **level}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """All that a program depends on. Equal specs share one compiled program."""

    problem: Problem
    family: Family  # of the statistics and the evidence
    source: Family | Source  # of the rewards: the family, or the static part of a source
    rule: SamplingRule
    stopping: tuple[StoppingRule, ...]
    elimination: Any  # at sampling, or None
    threshold: Callable
    per_lane_instances: bool  # every lane has its own instance
    deltas: int  # number of deltas observed on one trajectory
    log: int  # length of the log of lane 0; 0 for none
    initial_pulls: int = 1  # of each arm
    evidence: Mixture | None = None  # whose largest log e of each piece is kept
    record: tuple[str, ...] = ()  # what else is kept: "pair_times", "means"
    places: int | None = None
    """Room for pending rewards, a power of two; 0: they come from outside; None: none waits."""
    execution: Execution
    dtype: ClassVar[Any] = jnp.dtype("float64")

    @property
    def observers(self) -> int:
        """Number of observers of a run: each is a stopping rule at a delta."""
        return len(self.stopping) * self.deltas

    @property
    def by_vmap(self) -> bool:
        """Whether the rule's methods are called under `jax.vmap`."""
        return not self.rule.traits.lanes_last

    def executed(self, **changes: Any) -> "Spec":
        """The same spec, executed otherwise."""
        return dataclasses.replace(self, execution=dataclasses.replace(self.execution, **changes))

    def initial_samples(self, inputs: "Inputs") -> int:
        """The number of samples of a run before its first check: n K."""
        return self.initial_pulls * inputs.features.shape[1]


@named_pytree
class Inputs:
    """What all runs share; I instances."""

    flag: Array  # [] int32, 1; see `jaxelim.lanes`
    cap: Array  # [] int32: the most samples of a run
    features: Array  # [I, K, d]
    nature: Tree  # [I, ..]: what the source's `draw` needs of the truth
    tables: Tree  # [I, ..]: what the family's `start` needs
    prepared: Tree  # [I, ..]: the results of the rule's `prepare`
    constants: Tree  # the problem's own arrays
    key: Array  # of the seed
    noise: Array | None  # [runs, T], if given
    transposed: Array | None = None  # [d, K]: the features transposed, for steps in one kernel
    timing: tuple | None = None  # batch and delay, [] int32 each, if rewards wait
    prices: Array | None = None  # [K]: the costs of pulls, of mean 1


@named_pytree
class Queue:
    """The runs to do: R places, `length` of them in use; a leading axis on several devices."""

    run: Array  # [R] int32: run index, which the noise depends on
    row: Array  # [R] int32: row of given noise
    instance: Array  # [R] int32
    delta: Array  # [D, R]
    length: Array  # [] int32


@named_pytree
class Run:
    """What is fixed over the runs of B lanes."""

    item: Array  # [B] place in the queue; past its end in an empty lane
    index: Array  # [B] run index, which the noise depends on
    row: Array  # [B] row of given noise
    instance: Array  # [B]
    delta: Array  # [D, B]
    features: Array | None  # [K, d, B]; None where lanes share an instance
    nature: Tree  # likewise
    prepared: Tree  # of the rule, likewise


def of_run(own: Tree, shared: Tree) -> Tree:
    """What the lanes have of their own, or what they share, [1, ..] as in `Inputs`."""
    return jax.tree.map(lambda x: x[0], shared) if own is None else own


@named_pytree
class Record:
    """What each observer of a run leaves; S stopping rules, D deltas, W width of an answer."""

    samples: Array  # [S, D, B] int32: when the observer's run was over, 0 while open
    stopped: Array  # [S, D, B] bool: ended by its stopping rule, not by the cap
    answer: Array  # [S, D, W, B] bool
    pulls: Array | None  # [S, D, K, B] where observers stop at different times
    tests_stopping: Array  # [S, D, B] int64: pieces tested
    work: tuple = ()  # as `Lane.work`, each [S, D, B]
    estimates: Tree = ()  # [S, D, K, B]: by name, as of `step.estimates_of`


@named_pytree
class Pending:
    """The pending rewards of B lanes (see `observing`)."""

    entered: Statistics  # of the rewards that have entered
    checked: Array  # [B] int32: how many had entered at the last check; 0 before the first
    arms: Array | None  # [P, B] int32: of the last P pulls, that of sample s at (s - 1) mod P
    rewards: Array | None  # [P, B]: likewise; None, both, where rewards come from outside


@named_pytree
class Lane:
    """The state of B lanes, the last axis of every array."""

    run: Run  # None in the state of loops
    stats: Statistics  # what the rule sees: t and counts of all pulls
    rule_state: Tree
    observers: tuple  # the stopping rules' states, each [D, .., B]
    sampling: Tree  # the state of an elimination at sampling with sets of its own
    record: Record
    work: tuple  # pieces tested for sampling so far, and solves if the rule counts them: [B] int64
    done: Array  # [B] bool
    fault: Array  # [B] int64: what ended a run that fails, as in `watching`; 0: nothing
    log_e: Array | None = None  # [.., B]: the largest log e of each piece, if it is recorded
    pending: Pending | None = None  # pulls whose rewards have not entered; None: there are none

    @property
    def varying(self) -> "Lane":
        """Without what is fixed, which stays outside the state of loops."""
        nothing: Any = None
        return dataclasses.replace(self, run=nothing)

    def with_fixed(self, of: "Lane") -> "Lane":
        """With the runs of another lane."""
        return dataclasses.replace(self, run=of.run)


@named_pytree
class Outcome:
    """What R finished runs leave, the first axis of every array."""

    item: Array  # [R] place in the queue
    record: Record  # with pulls
    times: tuple  # of each stopping rule: [R, D, ..] int32, or None
    degenerate: Array | None  # [R] int32: as the family's method of that name


class Outline(NamedTuple):
    """What a trace of all methods of a call tells, before its program is compiled."""

    lane: Lane  # shapes and dtypes
    outcome: Outcome  # likewise
    rare: bool  # whether a choice may need rare work
    in_one_kernel: bool  # whether a kernel may hold the steps of a single lane
    inner_loops: bool  # whether every step has a loop inside, which XLA would hoist at a loss


@named_pytree
class Log:
    """The trace of lane 0, T places."""

    arm: Array  # [T] int32
    reward: Array  # [T]
    remaining: Array  # [T] int32: `remaining` of the stopping rule's set
    first_rewards: Array  # [n K], of n initial pulls of each arm
    theta_hat_0: Array  # [d], after the initial pulls


@named_pytree
class Carry:
    """The loop's state between two chunks."""

    lane: Lane
    out: Outcome  # rows in the order of finishing; the first `finished` are in use
    log: Log | None
    next: Array  # [] int32: the next place in the queue
    finished: Array  # [] int32
    iterations: Array  # [] int64: steps so far
    samples: Array  # [] int64: samples drawn
    live: Array  # [] int32: runs in lanes and in the queue
    failed: Array  # [] bool: a run has ended as `Lane.fault` says

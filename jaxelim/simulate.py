"""The public calls: everything is checked here, on the host, before anything compiles; then the engine runs."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import checks, engine
from jaxelim.base import Problem, SamplingRule
from jaxelim.elimination import LLR, Native, Resets, SelectiveElimination, StoppingRule
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families import gaussian
from jaxelim.instance import Instance
from jaxelim.progress import Progress
from jaxelim.result import Result, Trace
from jaxelim.thresholds import Heuristic

_MAX_SAMPLES = 2**31 - 2**16  # t is counted in int32, and a chunk may run past the cap


@dataclasses.dataclass(frozen=True)
class Engine:
    """How the work is laid out; nothing here changes a result.

    Args:
        lanes: runs side by side on each device, rounded up to a multiple of 8; None: chosen by backend.
        chunk: steps between two looks at who has finished; None: chosen by backend.
        devices: how many of JAX's devices to use; None: all of them (never more than there are runs).
        precision: "float64" or "float32".
        vmapped: run the rule through `jax.vmap` of its one-run form even where it has a faster one (the tests hold the two
            equal).
        form: how V^-1 is kept, "arms", "square" or "diagonal"; None: chosen by cost.
        shrink: go on with fewer lanes once few runs are left, which takes another compilation; None: where that pays.
    """

    lanes: int | None = None
    chunk: int | None = None
    devices: int | None = None
    precision: str = "float64"
    vmapped: bool = False
    form: str | None = None
    shrink: bool | None = None

    def __post_init__(self):
        for name in ("lanes", "chunk", "devices"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.integer(name, value, low=1))
        checks.choice("precision", self.precision, ("float64", "float32"))
        if not isinstance(self.vmapped, bool):
            raise ArgumentError("vmapped", self.vmapped, "True or False")
        if self.shrink is not None and not isinstance(self.shrink, bool):
            raise ArgumentError("shrink", self.shrink, "None, True or False")
        if self.form is not None:
            checks.choice("form", self.form, gaussian.FORMS)


def float64_scope():
    """Float64 and lanes-last broadcasting for our own tracing, whatever the caller's flags; they are never touched."""
    stack = _Scope()
    return stack


class _Scope:
    def __enter__(self):
        self._parts = [jax.enable_x64(True), jax.numpy_rank_promotion("allow")]
        for part in self._parts:
            part.__enter__()

    def __exit__(self, *error):
        for part in reversed(self._parts):
            part.__exit__(*error)


def simulate(
    instance: Instance,
    problem: Problem,
    rule: SamplingRule,
    *,
    delta: Any = 0.01,
    stopping: StoppingRule | Sequence[StoppingRule] = LLR(),  # noqa: B008 (frozen)
    elimination: Any = None,
    threshold: Callable = Heuristic(),  # noqa: B008 (frozen)
    runs: Any = 1000,
    seed: int = 0,
    max_samples: int = 1_000_000,
    ridge: float = 1.0,
    noise: Any = None,
    record: Sequence[str] = (),
    engine: Engine = Engine(),  # noqa: A002, B008 (frozen)
    progress: Any = False,
) -> Result:
    """Run a sampling rule many times and observe one or several stopping rules on its trajectories.

    Args:
        instance: one instance, or a batch of them.
        problem: `BestArm()`, `TopM(m)`, `Thresholding(level)` or `HalfSpaces(...)`.
        rule: a sampling rule.
        delta: the error probability, a number or a 1-D array, in (0, 1).
        stopping: one stopping rule or several, observed side by side. Deltas and stopping rules share one trajectory per run
            wherever the rule's choices depend on neither; else there is one trajectory per delta.
        elimination: at sampling: None, or `SelectiveElimination()` or `FullElimination()`, the rule then looking only at the
            pieces that the (one, matching) stopping rule has left.
        threshold: beta, a callable of (t, delta).
        runs: how many runs, or a 1-D array of run indexes. Run r of a seed is the same run in every call.
        seed: of the noise, an integer in [0, 2^63).
        max_samples: a run that has drawn so many without stopping is cut off, and flagged `truncated`.
        ridge: lambda of V = lambda I + sum_k N_k phi_k phi_k'; 0 is allowed where the arms span R^d.
        noise: standard normals [runs, T] in place of the seeded ones; a run that uses its row up is truncated.
        record: ("pair_times",) to keep, for top m, when each ordered pair of arms was eliminated.
        engine: how the work is laid out.
        progress: True to show runs done, samples per second and time left.

    Returns:
        A `Result`; arrays are [stopping, delta, run], with a batch of instances [instance, stopping, delta, run].

    Raises:
        ArgumentError: an argument is wrong; it is named, with what was given and what is allowed.
        UnsupportedError: a combination that is not defined, with the reason.
        TieError: an instance whose correct answer is not unique.
    """
    if not isinstance(progress, bool) and not callable(progress):
        raise ArgumentError("progress", progress, "True, False or a callable of (runs done, runs, samples, seconds)")
    job = _Job.checked(
        instance, problem, rule, delta, stopping, elimination, threshold, runs, seed, max_samples, ridge, noise, record, engine
    )
    with float64_scope():
        return job.run(progress)


def trace(
    instance: Instance,
    problem: Problem,
    rule: SamplingRule,
    *,
    noise: Any = None,
    stopping: StoppingRule = LLR(),  # noqa: B008 (frozen)
    elimination: Any = None,
    delta: float = 0.01,
    threshold: Callable = Heuristic(),  # noqa: B008 (frozen)
    max_samples: int = 20_000,
    seed: int = 0,
    run: int = 0,
    ridge: float = 1.0,
    engine: Engine = Engine(lanes=1, devices=1),  # noqa: A002, B008 (frozen)
) -> Trace:
    """One run, step by step, the K initial pulls included.

    Args:
        instance, problem, rule, stopping, elimination, delta, threshold, max_samples, seed, ridge, engine: as in `simulate`,
            one of each.
        noise: standard normals [T] in place of the seeded ones: sample s has reward mean[arm] + noise[s].
        run: the run index, where the noise is seeded.

    Returns:
        A `Trace`.
    """
    if noise is not None:
        noise = checks.real_array("noise", noise, ndim=1)[None]
    if not isinstance(stopping, StoppingRule):
        raise ArgumentError("stopping", stopping, "one stopping rule")
    if isinstance(instance, Instance) and instance.batched:
        raise ArgumentError("instance", instance, "one instance, not a batch")
    if not isinstance(engine, Engine):
        raise ArgumentError("engine", engine, "an Engine(...)")
    delta = checks.real("delta", delta, low=0, high=1, open=True)
    run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
    job = _Job.checked(
        instance,
        problem,
        rule,
        delta,
        stopping,
        elimination,
        threshold,
        np.array([run]),
        seed,
        max_samples,
        ridge,
        noise,
        (),
        dataclasses.replace(engine, devices=1),
    )
    with float64_scope():
        return job.trace()


def _ready(program: engine.Program, inputs: dict, queue: dict, carry: dict) -> tuple[tuple[dict, dict], dict]:
    """Inputs and queue, and the state, on their devices, the program compiled for them."""
    inputs, queue, carry = program.place(inputs, queue, carry)
    return (inputs, queue), jax.block_until_ready(program.advance(inputs, queue, carry, np.int32(0)))


def _stopping_rules(stopping: Any) -> tuple[StoppingRule, ...]:
    rules = (stopping,) if isinstance(stopping, StoppingRule) else stopping
    if not isinstance(rules, Sequence) or not rules or not all(isinstance(rule, StoppingRule) for rule in rules):
        raise ArgumentError("stopping", stopping, "a stopping rule such as LLR(), or a non-empty sequence of them")
    if len({repr(rule) for rule in rules}) < len(rules):
        raise ArgumentError("stopping", stopping, "each stopping rule once")
    return tuple(rules)


def _check_threshold(threshold: Any, deltas: np.ndarray, first: int, last: int) -> None:
    """A threshold must be finite on the times that a run may see, must not fall in t nor rise in delta."""
    if not callable(threshold) or isinstance(threshold, type):
        raise ArgumentError("threshold", threshold, "a threshold such as Heuristic(), or a callable of (t, delta)")
    times = np.unique(np.round(np.geomspace(first, max(last, first + 1), 200)))
    with float64_scope():
        falling = np.sort(deltas)[::-1]
        try:
            values = np.array([np.asarray(threshold(jnp.asarray(times), jnp.full(times.shape, d))) for d in falling])
        except Exception as error:
            raise ArgumentError(
                "threshold",
                threshold,
                "a callable of (t, delta) made of jax.numpy operations",
                f"it raised {type(error).__name__}: {error}",
            ) from error
    if values.shape != (falling.size, times.size) or values.dtype.kind != "f":
        raise ArgumentError("threshold", threshold, "one real number per t", f"it gave shape {values.shape[1:]}")
    if not np.isfinite(values).all():
        bad = np.argwhere(~np.isfinite(values))[0]
        raise ArgumentError(
            "threshold",
            threshold,
            "finite values",
            f"at t = {times[bad[1]]:g}, delta = {falling[bad[0]]:g} it is {values[tuple(bad)]}",
        )
    slack = 1e-12 * np.abs(values).max()
    if np.any(np.diff(values, axis=1) < -slack):
        raise ArgumentError("threshold", threshold, "a threshold that does not decrease in t")
    if np.any(np.diff(values, axis=0) < -slack):
        raise ArgumentError("threshold", threshold, "a threshold that does not increase in delta")


@dataclasses.dataclass(frozen=True)
class _Job:
    """A checked call."""

    instance: Instance
    problem: Problem
    rule: SamplingRule
    deltas: np.ndarray
    stopping: tuple[StoppingRule, ...]
    elimination: Any
    threshold: Callable
    runs: np.ndarray
    seed: int
    max_samples: int
    ridge: float
    noise: np.ndarray | None
    record: tuple[str, ...]
    layout: Engine

    @staticmethod
    def checked(
        instance, problem, rule, delta, stopping, elimination, threshold, runs, seed, max_samples, ridge, noise, record, layout
    ) -> "_Job":
        if not isinstance(instance, Instance):
            raise ArgumentError("instance", instance, "an Instance, such as load_instance('linear-d20')")
        if not isinstance(problem, Problem):
            raise ArgumentError("problem", problem, "a problem such as BestArm()")
        if not isinstance(rule, SamplingRule):
            raise ArgumentError("rule", rule, "a sampling rule such as LinGapE()")
        if not isinstance(layout, Engine):
            raise ArgumentError("engine", layout, "an Engine(...)")
        deltas = checks.deltas(delta)
        rules = _stopping_rules(stopping)
        indexes = checks.runs(runs)
        seed = checks.seed(seed)
        max_samples = checks.integer("max_samples", max_samples, low=instance.K, high=_MAX_SAMPLES)
        ridge = checks.real("ridge", ridge, low=0)
        if noise is not None:
            noise = checks.real_array("noise", noise, ndim=2)
            if noise.shape[0] != indexes.size or noise.shape[1] < instance.K:
                raise ArgumentError("noise", noise.shape, f"shape [{indexes.size} runs, at least K = {instance.K} samples]")
        if not isinstance(record, str | Sequence):
            raise ArgumentError("record", record, "a sequence of names, of which there is one: 'pair_times'")
        record = (record,) if isinstance(record, str) else tuple(record)
        for name in record:
            checks.choice("record", name, ("pair_times",))
        if ridge == 0:
            for i, one in enumerate(instance.singles):
                rank = np.linalg.matrix_rank(one.arms)
                if rank < instance.d:
                    raise ArgumentError(
                        "ridge",
                        ridge,
                        "a number above 0, or arms that span R^d",
                        f"the arms of instance {i} span {rank} of {instance.d} dimensions",
                    )
        for one in instance.singles:
            problem.check(one.arms, one.theta)
        _check_threshold(threshold, deltas, instance.K, max_samples)
        _check_combination(instance, problem, rule, rules, elimination, threshold, deltas)
        job = _Job(
            instance,
            problem,
            rule,
            deltas,
            rules,
            elimination,
            threshold,
            indexes,
            seed,
            max_samples,
            ridge,
            noise,
            record,
            layout,
        )
        if job.layout.form is not None:
            allowed = ["diagonal"] if instance.structure == "unstructured" else ["arms", "square"]
            if instance.structure == "unstructured":
                allowed += ["arms", "square"]
            if problem.uses_theta:
                allowed = [form for form in allowed if form != "arms"]
            if job.layout.form not in allowed:
                raise ArgumentError("form", job.layout.form, f"one of {allowed} for this instance and problem")
        return job

    @property
    def shared(self) -> bool:
        """Whether all deltas can be observed on one trajectory."""
        return self.deltas.size == 1 or not (self.rule.uses_delta or self.elimination is not None)

    def _spec(self, log: int = 0) -> engine.Spec:
        backend = jax.default_backend()
        layout = self.layout
        items = self.instance.size * self.runs.size * (1 if self.shared else self.deltas.size)
        devices = min(layout.devices or len(jax.devices()), len(jax.devices()), items)
        each = -(-items // devices)
        careful = gaussian.may_cancel(self.instance, self.ridge, min(self.max_samples, 10_000))
        form = layout.form or gaussian.choose_form(self.instance, self.problem.uses_theta, careful)
        if layout.lanes is not None:
            wanted = layout.lanes
        elif backend == "cpu":
            wanted = 64 if layout.precision == "float64" else 128
        else:
            wanted = 8192
        most = engine.LANE_GROUP  # no more lanes than runs; by powers of two, so that few sizes are ever compiled
        while most < each:
            most *= 2
        lanes = min(-(-wanted // engine.LANE_GROUP) * engine.LANE_GROUP, most)
        chunk = -(-(layout.chunk or 256) // engine.BURST) * engine.BURST
        queue = 64
        while queue < each:
            queue *= 2
        return engine.Spec(
            problem=self.problem.scaled(self.instance.noise_std).skeleton(),
            rule=self.rule.skeleton(),
            stopping=self.stopping,
            elimination=self.elimination,
            threshold=self.threshold,
            ridge=self.ridge,
            form=form,
            careful=careful,
            owned=self.instance.batched,
            deltas=self.deltas.size if self.shared else 1,
            lanes=lanes,
            chunk=chunk,
            queue=queue,
            given_noise=self.noise is not None,
            precision=layout.precision,
            tuned=backend == "cpu",
            vmapped=layout.vmapped,
            pair_times="pair_times" in self.record,
            log=log,
            devices=devices,
        )

    def _queue(self, spec: engine.Spec) -> tuple[dict, np.ndarray]:
        """The runs to do, dealt out to the devices in turn (leading axis: device), and the place of each in the result.

        The smallest delta first: the longest runs are not left for the end."""
        deltas = np.argsort(self.deltas, kind="stable")
        order = [None] if self.shared else deltas
        instance, row = np.meshgrid(np.arange(self.instance.size), np.arange(self.runs.size), indexing="ij")
        n = instance.size
        which = np.concatenate([np.full(n, -1 if d is None else d) for d in order])
        instance, row = np.tile(instance.ravel(), len(order)), np.tile(row.ravel(), len(order))
        size = which.size
        levels = np.broadcast_to(self.deltas[:, None], (self.deltas.size, size)) if self.shared else self.deltas[which][None]
        tables = {
            "run": self.runs[row].astype(np.int32),
            "row": row.astype(np.int32),
            "instance": instance.astype(np.int32),
            "delta": levels.astype(spec.dtype),
        }
        dealt = []
        for device in range(spec.devices):
            mine = np.arange(device, size, spec.devices)
            part = {name: np.take(x, np.resize(mine, spec.queue), -1) for name, x in tables.items()}
            dealt.append({**part, "length": np.int32(mine.size)})
        queue = jax.tree.map(lambda *x: np.stack(x), *dealt) if spec.devices > 1 else dealt[0]
        return queue, np.stack([which, instance, row])

    def _inputs(self, spec: engine.Spec) -> dict:
        beginning = gaussian.Beginning.of(self.instance, spec.form, self.ridge)
        real = lambda x: np.asarray(x, spec.dtype)  # noqa: E731
        prepared = self.rule.prepare(self.instance, self.problem, self.ridge)
        if not self.instance.batched:
            prepared = jax.tree.map(lambda x: np.asarray(x)[None], prepared)
        as_is = lambda x: real(x) if np.asarray(x).dtype.kind == "f" else np.asarray(x)  # noqa: E731
        cap = self.max_samples if self.noise is None else min(self.max_samples, self.noise.shape[1])
        inputs = {
            "flag": np.int32(1),
            "cap": np.int32(cap),
            "features": real(beginning.features),
            "mu": real(beginning.mu),
            "g": real(beginning.g),
            "matrix": real(beginning.matrix),
            "estimator": real(beginning.estimator),
            "prepared": jax.tree.map(as_is, prepared),
            "problem": jax.tree.map(as_is, self.problem.scaled(self.instance.noise_std).constants()),
            "key": jax.random.key(np.uint64(self.seed)),
        }
        if self.noise is not None:
            inputs["noise"] = self.noise
        return inputs

    def _drive(self, spec: engine.Spec, progress: Any, queue: dict) -> tuple[dict, dict]:
        """Chunks until every run has stopped; the host looks in between."""
        inputs = self._inputs(spec)  # may still refuse an argument: before there is a program
        host = inputs, queue  # placed anew for every program
        began = time.perf_counter()
        program = engine.program(spec)
        placed, carry = _ready(program, *host, program.empty(*host))
        compiling = time.perf_counter() - began
        bar = Progress(progress, int(np.sum(queue["length"])))
        chunks, computed, iterations, waited = 1, 0, 0, 0.0
        while True:
            last = time.perf_counter()
            carry = program.advance(*placed, carry, np.int32(chunks))
            live, finished, samples = (np.asarray(carry[k]) for k in ("live", "finished", "samples"))
            took = time.perf_counter() - last
            if took < 0.5:
                chunks = min(2 * chunks, 4096)
            elif took > 2 and chunks > 1:
                chunks //= 2
            bar.update(int(np.sum(finished)), int(np.sum(samples)))
            total = int(np.sum(carry["iterations"]))
            computed, iterations = computed + (total - iterations) * spec.lanes, total
            if np.sum(live) == 0:
                break
            fewer = self._fewer_lanes(spec, int(np.max(live)))
            if fewer is None:
                continue
            # Nobody knows how long the last runs will be. To compile once as much has been spent on waiting for them as
            # compiling costs is never worse than twice the best that can be done.
            waited += took
            if self.layout.shrink or engine.compiled(fewer) or waited > compiling:
                before = time.perf_counter()
                smaller = engine.program(fewer)
                placed, carry = _ready(smaller, *host, smaller.taken_over(*host, carry, spec))
                program, spec, chunks, waited = smaller, fewer, 1, 0.0
                compiling += time.perf_counter() - before
        bar.close()
        out = jax.tree.map(np.asarray, {k: carry[k] for k in ("out", "log", "samples", "chooses", "finished")})
        work = {
            "seconds": time.perf_counter() - began - compiling,
            "compile_seconds": compiling,
            "samples_drawn": int(np.sum(out["samples"])),
            "samples_computed": computed,
            "choose_rounds": int(np.sum(out["chooses"])),
        }
        return out, work

    def _fewer_lanes(self, spec: engine.Spec, live: int) -> engine.Spec | None:
        """The program to go on with when a device has so many lanes' work left at most; None: this one."""
        if self.layout.shrink is False or spec.log:
            return None
        sizes = [lanes for lanes in engine.FEW_LANES if live <= lanes and 2 * lanes <= spec.lanes]
        return dataclasses.replace(spec, lanes=sizes[0]) if sizes else None

    def run(self, progress: Any) -> Result:
        spec = self._spec()
        queue, places = self._queue(spec)
        out, work = self._drive(spec, progress, queue)
        n_instances, n_deltas, n_runs = self.instance.size, self.deltas.size, self.runs.size
        rows = {}
        raw = out["out"] if spec.devices > 1 else jax.tree.map(lambda x: x[None], out["out"])
        finished = np.atleast_1d(out["finished"])
        where_to = np.concatenate([raw["item"][d, : finished[d]] * spec.devices + d for d in range(spec.devices)])
        for name, x in raw.items():
            if name != "item":
                rows[name] = np.concatenate([x[d, : finished[d]] for d in range(spec.devices)])
        which, instance, row = places[:, where_to]
        arrays = {}
        for name, x in rows.items():
            if name.startswith("times_"):
                x = x[:, None]
            shape = (n_instances, x.shape[1], n_deltas, n_runs, *x.shape[3:])
            full = np.zeros(shape, x.dtype)
            if self.shared:
                full[instance, :, :, row] = x
            else:
                full[instance, :, which, row] = x[:, :, 0]
            arrays[name] = full if self.instance.batched else full[0]
        return Result.assembled(self, spec, arrays, work)

    def trace(self) -> Trace:
        length = 4096  # powers of two: traces of all lengths share few compiled programs
        while length < self.max_samples + 2:
            length *= 2
        spec = self._spec(log=length)
        queue, _ = self._queue(spec)
        out, _ = self._drive(spec, False, queue)
        return Trace.assembled(self, out)


def _check_combination(instance, problem, rule, stopping, elimination, threshold, deltas) -> None:
    """Refuse, with a sentence, what the paper does not define."""
    name = type(rule).__name__
    if problem.name not in rule.problems:
        raise UnsupportedError("problem", problem, f"one that {name} is defined for: {', '.join(rule.problems)}")
    if instance.structure not in rule.structures:
        raise UnsupportedError(
            "instance", instance.structure, f"{' or '.join(rule.structures)} arms: {name} is not defined for others"
        )
    for one in stopping:
        if one.name not in rule.stopping:
            raise UnsupportedError("stopping", one, f"{name} stops by: {', '.join(rule.stopping)}")
    if elimination is None:
        return
    if not isinstance(elimination, SelectiveElimination | Resets):
        raise ArgumentError("elimination", elimination, "None, SelectiveElimination(), FullElimination() or Resets(...)")
    if not rule.elimination:
        raise UnsupportedError("elimination", elimination, f"None: {name} does not look at pieces when it samples")
    if isinstance(elimination, Resets):
        elimination.check(threshold, deltas)
    if elimination.shared and (len(stopping) > 1 or type(stopping[0]) is not type(elimination)):
        raise UnsupportedError(
            "stopping",
            stopping,
            f"{elimination!r} alone: with a shared set, sampling stops looking at the pieces that this "
            "stopping rule has dropped, and any other rule would wait for them for ever",
        )


__all__ = ["Engine", "LLR", "Native", "simulate", "trace"]

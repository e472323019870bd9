"""H*, T* and w* as functions of features and parameter, for grad, jit and vmap.

A plain call computes in float64 under any setting of jax_enable_x64, and returns NumPy.
Under a transformation (jit, grad, vmap, ...) the inputs have the caller's precision. It
must be float64 (jax_enable_x64 on), unless the caller requests float32.

Under a transformation nothing bounds the rounding: derivatives of nearly collinear arms
need `complexity_gradients`, which moves them to exact coordinates.

For independent arms of a one-parameter family theta is the vector of means. At an end
of the family's range a derivative in that mean is infinite; it is refused in a plain
call of `complexity_gradients`, and meaningless under a transformation.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxelim import checks, scope
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.shapes import Shape
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.evidence.derivatives import product
from jaxelim.evidence.designs import LinearContext
from jaxelim.families import OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN
from jaxelim.lower_bound import derivatives, solves
from jaxelim.lower_bound.certified import certified, exact_instance, ill_posed
from jaxelim.lower_bound.derivatives import GAP, GAUSSIAN, Inputs
from jaxelim.lower_bound.exact_gradients import in_coordinates, moved_back
from jaxelim.lower_bound.pieces import (
    Pieces,
    combinations,
    has_slack,
    pieces_of,
    refuse_costs,
    refuse_slack,
)
from jaxelim.lower_bound.solves import Truth, derivatives_at, solve_arms
from jaxelim.saddle import closed

_GAP_FLOAT32 = 3e-5
# Where a weight and its slack are both below this, rounding could change the active set.
_LEAST_MARGIN = 1e-5
_WORST_CONDITION = 1e11
_RAISED = 1e-12  # added to traced weights, so that V_w has an inverse where some are 0


# Jitted: a transformation without jit would dispatch the operations of the rules one by one.
@functools.partial(jax.jit, static_argnums=2)
def _value(inputs, marks, gap):
    return derivatives.value(inputs, marks, gap)


@functools.partial(jax.jit, static_argnums=2)
def _time(inputs, marks, gap):
    value = derivatives.value(inputs, marks, gap)
    return jnp.where(value > 0, 1 / jnp.where(value > 0, value, 1), jnp.inf)


@functools.partial(jax.jit, static_argnums=2)
def _allocation(inputs, marks, gap):
    return derivatives.optimum(inputs, marks, gap).allocation


class PrecisionError(ArgumentError):
    """A caller in float32 traced a function that computes in float64."""


def optimal_information(
    arms, theta, problem: Any, *, noise_std=1.0, family: OneParameter | None = None, bonus=None,
    gap: float = GAP, precision="float64",
):  # fmt: skip
    """H*(theta) = max_w min_p H_p(w, theta) per sample, [].

    Differentiable in arms, theta, noise_std and bonus, by Danskin's theorem; no
    iteration is differentiated. Pieces are locally constant: where the correct answer
    changes H* is 0 and has a kink. Where w* is not unique, the derivative is one
    element of the generalised gradient. It belongs to the pair found, the analytic
    centre of the optimal pairs.

    Args:
        arms: [K, d] features; None: independent arms, theta holds their means.
        theta: [d] parameter.
        problem: what to identify; see `complexity`.
        noise_std: standard deviation of Gaussian noise, > 0.
        family: of the rewards; with one of independent arms alone, arms must be None. None:
            Gaussian(noise_std). For Logistic() and arms=None theta holds the scores.
        bonus: [K] per-arm bonuses of the optimistic form, or None.
        gap: relative duality gap of the solve (in float32 at least 3e-5).
        precision: "float64"; or "float32", for a caller that traces in float32.

    Returns:
        float64 NumPy [] from a plain call, else a traced array. Under a transformation a
        tie of the answer gives 0, its least value, with derivative 0.

    Raises:
        PrecisionError: traced in float32, without precision="float32".
        TieError: a tie, in a plain call.
        ArgumentError: as in `complexity`.

    Reference: Tirinzoni & Degenne (2022), section 2.
    """
    return _call(_value, arms, theta, problem, noise_std, family, bonus, gap, precision)


def characteristic_time(
    arms, theta, problem: Any, *, noise_std=1.0, family: OneParameter | None = None, bonus=None,
    gap: float = GAP, precision="float64",
):  # fmt: skip
    """T*(theta) = 1/H*(theta) in samples, []; differentiable as `optimal_information`.

    Under a transformation a tie of the answer gives inf, with derivative 0.

    Args: arms, theta, problem, noise_std, family, bonus, gap, precision: as there; Raises too.
    """
    return _call(_time, arms, theta, problem, noise_std, family, bonus, gap, precision)


def optimal_allocation(
    arms, theta, problem: Any, *, noise_std=1.0, family: OneParameter | None = None, bonus=None,
    gap: float = GAP, precision="float64",
):  # fmt: skip
    """w*(theta) [K], differentiable by the implicit function theorem on its active set.

    The derivative exists where w* is unique with strict complementarity: each arm
    without weight, and each piece without mixture, has a positive slack. Elsewhere the
    returned one belongs to the active set found; where the system is singular, as for
    equal arms, it is that of least norm. The field `stable` of `complexity_gradients`
    separates the two cases. Under a transformation the derivative at a tie is 0.

    Args: arms, theta, problem, noise_std, family, bonus, gap, precision: as
        `optimal_information`; Raises too.
    """
    return _call(_allocation, arms, theta, problem, noise_std, family, bonus, gap, precision)


def _call(function, arms, theta, problem, noise_std, family, bonus, gap, precision):
    if family is not None and (isinstance(noise_std, Tracer) or noise_std != 1.0):
        raise ArgumentError("noise_std", noise_std, f"its default with family={family!r}")
    if isinstance(family, Family) and family.has("design"):
        noise_std, family = family.scale, None
    if family is not None and not (isinstance(family, Family) and differentiable(family)):
        allowed = "a OneParameter such as Bernoulli(), Logistic(), or None"
        raise ArgumentError("family", family, allowed)
    precision = checks.choice("precision", precision, ("float64", "float32"))
    gap = checks.real("gap", gap, low=0, open=True)
    arguments = {"arms": arms, "theta": theta, "noise_std": noise_std} | (
        {} if bonus is None else {"bonus": bonus}
    )
    traced = [name for name, x in arguments.items() if isinstance(x, Tracer)]
    if arms is None:
        if not isinstance(theta, Tracer):
            theta = checks.real_array("theta", theta, ndim=1)
        arms = np.eye(theta.shape[-1])
        del arguments["arms"]
    elif family is not None and not family.linear:
        raise ArgumentError("arms", arms, f"None, for independent arms, with family={family!r}")
    if not traced:
        instance = Instance(arms, theta, None if family else noise_std, family=family)
        pieces = pieces_of(instance, problem)
        if instance.batched:
            raise ArgumentError(
                "arms",
                arms,
                "features [K, d] of one instance; use jax.vmap, or complexity, for many",
            )
        extra = None if bonus is None else checks.real_array("bonus", bonus, shape=(instance.K,))
        wide = None if extra is None else extra[None]
        if family is not None:
            solution = solve_arms(instance, pieces, wide, gap)
        else:
            solution, _ = certified(instance, problem, pieces, wide, gap)
        value = solution.value[0]
        numbers = {_value: value, _time: 1 / value, _allocation: solution.allocation[0]}
        return numbers[function]
    dtype = jnp.dtype(precision)
    if precision == "float64" and not jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
        name = traced[0]
        allowed = (
            "float64 under a transformation: switch on jax_enable_x64, or ask for "
            "precision='float32'"
        )
        raise PrecisionError(
            name, arguments[name].dtype, allowed, "complexity_gradients needs neither"
        )
    arms, theta = jnp.asarray(arms, dtype), jnp.asarray(theta, dtype)
    if arms.ndim != 2 or theta.shape != arms.shape[1:]:
        raise ArgumentError(
            "arms", arms.shape, "features [K, d] and theta [d]", f"theta has shape {theta.shape}"
        )
    noise_std = jnp.asarray(noise_std, dtype)
    shape, space = traced_shape(problem, arms, theta, family)
    directions, offsets = shape.directions(space), shape.offsets(dtype)
    extra = jnp.zeros(arms.shape[0], dtype) if bonus is None else jnp.asarray(bonus, dtype)
    if family is None or family.linear:
        units = theta / noise_std, directions, offsets / noise_std
        inputs = Inputs.linear(arms, *units, extra, family or GAUSSIAN)
    else:
        costs = family.scales(jax.lax.stop_gradient(theta))
        kind = "any" if bonus is not None else closed.kind_of_shape(shape)
        inputs = Inputs(family.plain(), None, theta, costs, directions, offsets, extra, kind)
    gap = gap if precision == "float64" else max(gap, _GAP_FLOAT32)
    return function(inputs, shape.exists.astype(dtype), gap)


def traced_value(instance: Instance, pieces: Pieces, weights: jax.Array) -> jax.Array:
    """min_p H_p(w) of traced weights [K] or [I, K], differentiable twice in them: [I].

    Raises:
        ArgumentError: weights of another shape.
        PrecisionError: weights in another precision than float64.
    """
    shapes = [(instance.K,)] + [(instance.size, instance.K)] * instance.batched
    if weights.shape not in shapes:
        allowed = f"weights of shape {' or '.join(map(str, shapes))}"
        raise ArgumentError("weights", weights.shape, allowed, "jax.vmap takes many")
    if weights.dtype != np.float64:
        allowed = "float64 under a transformation: switch on jax_enable_x64"
        raise PrecisionError("weights", weights.dtype, allowed)
    with jax.ensure_compile_time_eval():  # else jit would trace what is on the host
        truth = Truth.of(instance, pieces)
    static = instance.family.plain(), has_slack(pieces)
    wide = jnp.broadcast_to(weights, (instance.size, instance.K)) + _RAISED

    def least(i: int) -> jax.Array:
        def at(w):
            return derivatives_at(*static, truth.at(i), w)

        return derivatives.least(at, pieces.valid[i], wide[i])

    return jnp.stack([least(i) for i in range(instance.size)])


def traced_shape(problem: Any, arms, theta, family: Family | None) -> tuple[Shape, LinearContext]:
    """The pieces of a traced instance, and the features [K, d] that their directions move with.

    Which pieces exist is locally constant. A level is one of scores.

    Raises:
        UnsupportedError: an object with half-spaces that is no `Problem`.
    """
    refuse_slack(problem)
    if not isinstance(problem, Problem):
        allowed = "a jaxelim.Problem under a transformation; complexity_gradients takes others"
        raise UnsupportedError("problem", problem, allowed)
    features, theta = jax.lax.stop_gradient((arms, theta))
    scores: Any = product(features, theta)
    constants = jax.tree.map(lambda x: jnp.asarray(x, arms.dtype), problem.constants())
    means: Any = scores if family is None else family.mean(scores)
    seen = Estimate(PLAIN, means, theta, constants)
    shape = problem.shape(seen, problem.answer(seen))
    if shape.level is not None and family is not None:
        level = float(family.link(np.asarray(shape.level)))
        shape = dataclasses.replace(shape, level=level)  # type: ignore[type-var]
    return shape, LinearContext(PLAIN, arms, constants)


@dataclasses.dataclass(frozen=True, eq=False)
class Gradients:
    """Derivatives of H*, T* and w*, float64; a batch has a leading axis [I] on every field.

    Those by features (`_arms`) are None for a one-parameter family.
    """

    value: np.ndarray  # [] H*
    time: np.ndarray  # [] T*
    allocation: np.ndarray  # [K] w*
    mixture: np.ndarray  # [P] q*
    gap: np.ndarray  # [] relative duality gap of the pair they are taken at
    value_theta: np.ndarray  # [d] dH*/dtheta
    value_arms: np.ndarray | None  # [K, d] dH*/dphi
    time_theta: np.ndarray  # [d] dT*/dtheta
    time_arms: np.ndarray | None  # [K, d] dT*/dphi
    allocation_theta: np.ndarray | None  # [K, d] dw*_k/dtheta
    allocation_arms: np.ndarray | None  # [K, K, d] dw*_k/dphi_j
    margin: np.ndarray  # [] strict complementarity of the active set, in [0, 1]; 0: none
    stable: np.ndarray  # [] bool: w* is unique with a clear active set, so its derivatives
    # exist; and rounding leaves them 6 digits

    def __repr__(self) -> str:
        return f"<Gradients of H* = {self.value}, stable: {self.stable}>"


def complexity_gradients(
    instance: Instance, problem: Any, gap: float = GAP, *, bonus=None, jacobian: bool = True
) -> Gradients:
    """Derivatives of H*, T* and w* in theta and in the features, in float64.

    Args:
        instance: one instance or a batch. For independent arms of a one-parameter family
            theta is the vector of means, and derivatives by features are None.
        problem: what to identify; see `complexity`.
        gap: relative duality gap of the solves.
        bonus: [K] bonuses of the optimistic form, or None.
        jacobian: whether to compute the derivatives of w*; if not, their
            fields are None.

    Raises:
        ArgumentError: a mean at an end of the family's range, where derivatives are
            infinite; and as `complexity`.
        TieError, UnsupportedError: as `complexity`.

    Reference: Danskin's theorem and the implicit function theorem at the saddle point
        of Tirinzoni & Degenne (2022), section 2.
    """
    gap = checks.real("gap", gap, low=0, open=True)
    pieces, family = pieces_of(instance, problem), instance.family
    if not differentiable(family):
        allowed = f"a family with one unknown an arm: H* has no derivatives for {family!r}"
        raise UnsupportedError("family", family, allowed)
    extra = np.zeros(instance.K)
    extra = extra if bonus is None else checks.real_array("bonus", bonus, shape=extra.shape)
    if family.linear:
        refuse_costs(instance, "derivatives by features")
    truth = Truth.of(instance, pieces)
    if not family.linear:
        _refuse_ends(instance)
    kind = solves.kind_of(instance, pieces, bonus)
    ill = ill_posed(instance, pieces) if family.has("design") else np.zeros(len(truth.theta), bool)
    scale, parts = family.scale if family.linear else 1.0, []
    with scope.float64():
        for i, valid in enumerate(pieces.valid):
            here: Any = [None if x is None else x[i] for x in truth]
            phi, point, costs, y, offsets, prices = here  # phi is None for independent arms
            costs = costs if prices is None else costs * prices
            moves: Any = ()
            own: Any = None
            if phi is not None:
                rows = combinations(problem, phi, point * scale, family)
                rows = np.zeros((0, instance.K)) if rows is None else rows
                moves = np.pad(rows, ((0, len(y) - len(rows)), (0, 0)))
                if ill[i]:
                    exact = exact_instance(instance, problem, pieces, i)
                    own = exact, phi, point, y, moves, extra, scale
                    phi, point, y, offsets = in_coordinates(exact, phi, point, len(y), scale)
                y = y - moves @ phi
            arrays = (phi, point, costs, y, offsets, extra), moves, valid.astype(float)
            numbers, moves, marks = jax.tree.map(jnp.asarray, arrays)
            inputs = Inputs(family.plain(), *numbers, kind)  # pyright: ignore[reportCallIssue]
            part = _gradients(inputs, moves, marks, gap, jacobian)
            part = jax.device_get(part)
            parts.append(part if own is None else moved_back(part, *own))
    return _collected(instance, parts, scale)


def differentiable(family: Family) -> bool:
    """Whether H* has derivatives: an arm has one unknown, or a theta is the only one."""
    return family.has("truth") and (family.linear or family.has("divergence"))


def _refuse_ends(instance: Instance) -> None:
    """Refuse means at an end of the family's range, where derivatives are infinite."""
    family: Any = instance.family
    means = instance.means
    ends = means[(means <= family.low) | (means >= family.high)]
    if ends.size:
        allowed = f"means inside ({family.low:g}, {family.high:g}), where H* has derivatives"
        raise ArgumentError("instance", instance, allowed, f"{ends[0]:g} is not")


def _collected(instance: Instance, parts: list, noise_std: float) -> Gradients:
    """The gradients of a batch, from those of instances of unit noise."""
    fields = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    for name in [name for name in fields if name.endswith("_theta")]:
        # The chain rule of theta / noise_std.
        fields[name] = fields[name] / noise_std
    square = np.square(fields["value"])
    fields["time"] = 1 / fields["value"]
    fields["time_theta"] = -fields["value_theta"] / square[:, None]
    if "value_arms" in fields:
        fields["time_arms"] = -fields["value_arms"] / square[:, None, None]
    condition = fields.pop("condition")
    fields["stable"] = (
        (fields["margin"] > _LEAST_MARGIN) & (condition < _WORST_CONDITION) & np.isfinite(condition)
    )
    absent = [field.name for field in dataclasses.fields(Gradients) if field.name not in fields]
    fields |= dict.fromkeys(absent)
    if not instance.batched:
        fields = {name: None if array is None else array[0] for name, array in fields.items()}
    return Gradients(**fields)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _gradients(inputs: Inputs, moves, marks, gap, jacobian):
    """Derivatives by theta, and by features [K, d] where there are any.

    Args:
        inputs: with directions that stay where features move.
        moves: [P, K] directions as combinations of features, added to those; () without.
        marks: [P] 1 on pieces, 0 on padding.
        gap: relative duality gap.
        jacobian: whether to compute the derivatives of w*.
    """
    names = ("theta",) if inputs.features is None else ("theta", "arms")
    at = tuple(x for x in (inputs.theta, inputs.features) if x is not None)

    def moved(theta, arms=None):
        if arms is None:
            return dataclasses.replace(inputs, theta=theta)
        directions = product(moves, arms) + inputs.directions
        return dataclasses.replace(inputs, theta=theta, features=arms, directions=directions)

    positions = tuple(range(len(at)))
    best = derivatives.optimum(moved(*at), marks, gap)
    value, slopes = jax.value_and_grad(
        lambda *x: derivatives.value(moved(*x), marks, gap), argnums=positions
    )(*at)
    system = derivatives.conditions(moved(*at), best.allocation, best.mixture, marks > 0)
    fields = dict(
        value=value, allocation=best.allocation, mixture=best.mixture, gap=best.gap,
        margin=system.margin, condition=derivatives.condition(system.matrix),
    )  # fmt: skip
    fields |= {f"value_{name}": slope for name, slope in zip(names, slopes, strict=True)}
    if jacobian:
        both = jax.jacfwd(
            lambda *x: derivatives.optimum(moved(*x), marks, gap).allocation, argnums=positions
        )(*at)
        fields |= {f"allocation_{name}": rows for name, rows in zip(names, both, strict=True)}
    return fields

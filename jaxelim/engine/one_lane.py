"""Walks over traced functions; and the steps of a single lane, as one kernel of XLA:CPU.

XLA:CPU calls one kernel for each fused group of operations, at some 35 ns a call. A loop
over one lane has little else to do. A call that carries the attribute `xla_cpu_small_call`
is compiled into one kernel, with the loops and branches in it.

The attribute is documented nowhere, and leaves three things to its user. Operations that need
a library have no form inside a kernel. XLA ends the process where the call has a parameter
that nothing inside reads, or an argument that is a constant. This module keeps to all three.

Jaxprs and literals are told by their attributes: `jax.extend`, which has their classes,
imports Pallas too, and takes a tenth of the package's import.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer, eval_jaxpr
from jax.experimental.xla_metadata import set_xla_metadata

from jaxelim.scope import TRIED

WORKS = jax.__version_info__ <= TRIED
"""Whether XLA is known to compile such calls: it ends the process where it cannot."""
_INSIDE = frozenset({"cond", "while", "jit", "pjit", "scan", "custom_jvp_call", "custom_vjp_call",
                     "closed_call"})  # fmt: skip
"""Primitives whose own functions are looked into."""
_ALLOWED = frozenset(
    """
    abs add and argmax argmin atan2 bitcast_convert_type broadcast_in_dim cbrt ceil
    clamp clz concatenate convert_element_type copy copy_p cos cumsum div dot_general
    dynamic_slice dynamic_update_slice eq eq_to erf exp exp2 expm1 expand_dims floor
    gather ge gt integer_pow iota is_finite le le_to log log1p logistic lt lt_to max min
    mul ne neg nextafter not or pad population_count pow random_bits random_fold_in
    random_unwrap random_wrap reduce_and reduce_max reduce_min reduce_or reduce_prod
    reduce_sum rem reshape rev round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin slice sqrt square squeeze stack stop_gradient sub tan
    tanh threefry2x32 transpose unstack xor
    """.split()
)
"""Primitives that XLA:CPU compiles without a library."""
_LARGE = 4096
"""From this number of entries on XLA:CPU hands reductions of floats to a library."""


def is_literal(v: Any) -> bool:
    """Whether an operand is a number written into the jaxpr; else it is a variable."""
    return hasattr(v, "val")


def operations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr: those of branches, loops and calls before these themselves."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in _INSIDE:
            for value in equation.params.values():
                for part in value if isinstance(value, tuple | list) else (value,):
                    inner = getattr(part, "jaxpr", part)  # of a closed jaxpr
                    if hasattr(inner, "eqns"):
                        yield from operations(inner)
        yield equation


class Traced:
    """A function of a pytree, traced once on `state`; it may close over other arrays.

    Operations keep their lines of f, which profiles name; those of an inlined `jax.jit` do not.
    """

    def __init__(self, f: Callable[[Any], Any], state: Any):
        self.closed, shapes = jax.make_jaxpr(f, return_shape=True)(state)
        self.result = jax.tree.structure(shapes)

    def __call__(self, state: Any) -> Any:
        out = eval_jaxpr(self.closed.jaxpr, self.closed.consts, *jax.tree.leaves(state))
        return jax.tree.unflatten(self.result, out)

    @property
    def allowed(self) -> bool:
        """Whether a kernel may hold all operations of f."""
        return not blocking(self.closed.jaxpr)


def blocking(jaxpr: Any) -> set[str]:
    """The names of the operations in a jaxpr that no kernel may hold."""
    names = {x.primitive.name for x in operations(jaxpr) if _needs_library(x)}
    return names | {x.primitive.name for x in operations(jaxpr)} - _ALLOWED - _INSIDE


def _needs_library(equation: Any) -> bool:
    """Whether a library computes it: a product of matrices or a batch, or a large reduction."""
    name = equation.primitive.name
    if name in ("reduce_max", "reduce_min", "reduce_sum"):
        x = equation.invars[0].aval
        return x.size >= _LARGE and jnp.issubdtype(x.dtype, jnp.floating)
    if name != "dot_general":
        return False
    (left, right), (batch, _) = equation.params["dimension_numbers"]
    shapes = [v.aval.shape for v in equation.invars]
    sizes = [
        math.prod(n for axis, n in enumerate(shape) if axis not in summed)
        for shape, summed in zip(shapes, (left, right), strict=True)
    ]
    return min(sizes) > 1 or any(shapes[0][axis] > 1 for axis in batch)


def as_one_kernel(f: Callable[[Any], Any], flag: Array, state: Any) -> Any:
    """f(state) by a tagged call, for operations that a kernel may hold; `flag` as in `Inputs`.

    What f closes over becomes an argument of the call.
    """
    traced = Traced(f, state)
    closed = traced.closed
    values, consts = [*closed.consts, *jax.tree.leaves(state)], len(closed.consts)
    makes = [_made(x) for x in values]

    def called(*args: Array) -> list[Array]:
        handed = iter(args)
        inside = [next(handed) if make is None else make() for make in makes]
        out = eval_jaxpr(closed.jaxpr, inside[:consts], *inside[consts:])
        # So each parameter is read, whatever XLA removes; the sum is never below 0.
        return [sum(map(_first, args), jnp.int32(0)) < 0, *out]

    args = [
        x if isinstance(x, Tracer) else at_run_time(x, flag)
        for x, make in zip(values, makes, strict=True) if make is None
    ]  # fmt: skip
    first, *out = jax.jit(called, inline=False)(*args)
    # The attribute goes to the operation that makes this value, the call.
    never: Any = set_xla_metadata(first, xla_cpu_small_call="true", inlineable="false")
    least = min(range(len(out)), key=lambda i: out[i].size)
    out[least] = jnp.where(never, jnp.zeros_like(out[least]), out[least])
    return jax.tree.unflatten(traced.result, out)


def at_run_time(x: Any, flag: Array) -> Array:
    """x, so that XLA does not see a constant in it."""
    x = jnp.asarray(x)
    other = ~x if x.dtype == jnp.bool_ else x + jnp.ones((), x.dtype)
    return jnp.where(flag > 0, x, other)


def _first(x: Array) -> Array:
    """0 or 1, by the first entry of x: [] int32."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    entry = x.reshape(-1)[:1].reshape(())
    return (entry if entry.dtype == jnp.bool_ else entry > 0).astype(jnp.int32)


def _made(x: Any) -> Callable[[], Array] | None:
    """How to make x inside: an empty array, or a constant of equal numbers or of 0, 1, 2, .."""
    if x.size == 0:
        return lambda: jnp.zeros(x.shape, x.dtype)
    if isinstance(x, Tracer):
        return None
    x = np.asarray(x)
    if np.all(x == x.flat[0]):
        return lambda: jnp.full(x.shape, x.flat[0], x.dtype)
    long = [axis for axis, n in enumerate(x.shape) if n > 1]
    if len(long) == 1 and np.array_equal(x.ravel(), np.arange(x.size)):
        return lambda: jax.lax.broadcasted_iota(x.dtype, x.shape, long[0])
    return None

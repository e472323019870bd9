"""Compiles functions into one kernel of XLA's CPU backend.

XLA:CPU calls one kernel for each fused group of operations, at some 35 ns a call. A loop
over one lane has little else to do. A call that carries the attribute
`xla_cpu_small_call` is compiled into one kernel, with the loops and branches in it.

The attribute leaves three things to its user. Operations that need a library have no
form inside a kernel. XLA ends the process where the call has a parameter that nothing
inside reads, or an argument that is a constant. This module keeps to all three, and
`jaxelim.engine.cpu.attribute` tries in a child process whether that suffices.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer, eval_jaxpr
from jax.experimental.xla_metadata import set_xla_metadata

from jaxelim.engine.jaxprs import composite, is_literal, operations

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
    tanh threefry2x32 transpose xor
    """.split()
)
"""Primitives that XLA:CPU compiles without a library."""
_LIBRARY_REDUCES = frozenset({"reduce_max", "reduce_min", "reduce_sum"})
_LARGE = 4096
"""From this number of entries on XLA:CPU hands these reductions of floats to a library."""


class Traced:
    """A function of a pytree, traced once.

    Args:
        f: the function; it may close over other arrays of the program.
        state: what it is called on, or the like.
    """

    def __init__(self, f: Callable[[Any], Any], state: Any):
        leaves, structure = jax.tree.flatten(state)

        def flat(*leaves: Any) -> Any:
            return f(jax.tree.unflatten(structure, leaves))

        self.closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
        self._result = jax.tree.structure(shapes)

    def __call__(self, state: Any) -> Any:
        """f(state)."""
        closed, leaves = self.closed, jax.tree.leaves(state)
        return self._packed(eval_jaxpr(closed.jaxpr, closed.consts, *leaves))

    @property
    def allowed(self) -> bool:
        """Whether a kernel may hold all operations of f."""
        return not blocking(self.closed.jaxpr)

    def kernel(self, g: Callable[[Any], Any], flag: Array) -> Callable[[Any], Any]:
        """g, a function of the same pytree that calls f, as one kernel if f allows that.

        Args:
            g: of operations that a kernel may hold, f apart.
            flag: [] int32, 1, an argument of the program (see `jaxelim.lanes`).
        """
        if not self.allowed:
            return g
        return lambda state: as_one_kernel(g, flag, state)

    def _packed(self, leaves: Any) -> Any:
        return jax.tree.unflatten(self._result, leaves)


def blocking(jaxpr: Any) -> set[str]:
    """The names of the operations in a jaxpr that no kernel may hold."""
    names = set()
    for equation in operations(jaxpr):
        name = equation.primitive.name
        if composite(equation):
            continue
        if name not in _ALLOWED or name == "dot_general" and _of_matrices(equation):
            names.add(name)
        elif name in _LIBRARY_REDUCES and _is_large(equation.invars[0].aval):
            names.add(name)
    return names


def _of_matrices(equation: Any) -> bool:
    """Whether a product is one of matrices, or of a batch."""
    (left, right), (batch, _) = equation.params["dimension_numbers"]
    shapes = [v.aval.shape for v in equation.invars]
    sizes = [
        math.prod(n for axis, n in enumerate(shape) if axis not in summed)
        for shape, summed in zip(shapes, (left, right), strict=True)
    ]
    return min(sizes) > 1 or any(shapes[0][axis] > 1 for axis in batch)


def _read_in(jaxpr: Any) -> set[Any]:
    """The variables that an equation or the result of a jaxpr reads."""
    operands = [v for equation in jaxpr.eqns for v in equation.invars]
    return {v for v in [*operands, *jaxpr.outvars] if not is_literal(v)}


def _is_large(x: Any) -> bool:
    """Whether a library sums these floats."""
    return x.size >= _LARGE and jnp.issubdtype(x.dtype, jnp.floating)


def as_one_kernel(f: Callable[..., Any], flag: Array, *arguments: Any) -> Any:
    """f(*arguments) by a tagged call, on what it reads.

    Args:
        f: of pytrees of arrays, of operations that a kernel may hold. What it closes
            over becomes an argument.
        flag: [] int32, 1, an argument of the program (see `jaxelim.lanes`).
        arguments: arrays that XLA does not see as constants (see `at_run_time`).
    """
    traced = Traced(lambda arguments: f(*arguments), arguments)
    closed, leaves = traced.closed, jax.tree.leaves(arguments)
    jaxpr = closed.jaxpr
    names: list[Any] = [*jaxpr.constvars, *jaxpr.invars]
    values = [*closed.consts, *leaves]
    read = _read_in(jaxpr)
    made = {i: make for i, x in enumerate(values) if (make := _made(x)) is not None}
    handed = [i for i, v in enumerate(names) if i not in made and v in read]

    def called(*args):
        inside = dict(zip(handed, args, strict=True)) | {i: make() for i, make in made.items()}
        ordered = [  # nothing reads the others
            inside[i] if i in inside else jnp.zeros(v.aval.shape, v.aval.dtype)
            for i, v in enumerate(names)
        ]
        consts, leaves = ordered[: len(closed.consts)], ordered[len(closed.consts) :]
        out = eval_jaxpr(jaxpr, consts, *leaves)
        # So each parameter is read, whatever XLA removes; the sum is never below 0.
        return [sum(map(_first, args), jnp.int32(0)) < 0, *out]

    args = [
        x if isinstance(x, Tracer) else at_run_time(x, flag) for x in (values[i] for i in handed)
    ]
    first, *out = jax.jit(called, inline=False)(*args)
    # The attribute goes to the operation that makes this value, the call.
    never: Any = set_xla_metadata(first, xla_cpu_small_call="true", inlineable="false")
    least = min(range(len(out)), key=lambda i: out[i].size)
    out[least] = jnp.where(never, jnp.zeros_like(out[least]), out[least])
    return traced._packed(out)


def loop(length: int, step: Callable[[Array, Any], Any], state: Any, flag: Array) -> Any:
    """`fori_loop(0, length, step, state)`, as one kernel if `step` allows that."""
    start = at_run_time(jnp.int32(0), flag), state
    traced = Traced(lambda c: (c[0] + 1, step(*c)), start)

    def steps(c: Any) -> Any:
        return jax.lax.while_loop(lambda c: c[0] < length, traced, c)

    return traced.kernel(steps, flag)(start)[1]


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

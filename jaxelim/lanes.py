"""Primitives for one run and for many runs in lanes.

A run's own axes come first, lanes last. Scalars are [] or [B], vectors [n] or [n, B],
matrices [n, q] or [n, q, B]. Broadcasting aligns from the right, so most expressions
serve one run and many; this module holds the operations for which that is not enough.
Both forms give the same numbers, up to rounding where a sum has another order.

`LaneOps.flag` and `LaneOps.gpu` choose the form.

- Neither: the plain form, for one run, also under `jax.vmap`.
- `flag` a traced positive integer: the CPU form. Reductions over arms are balanced
  trees of compares, vectorised over the lanes. `materialize` stops XLA:CPU from
  recomputing a producer in every consumer. The flag must be traced: XLA folds
  constants, and a constant flag would undo this without a message.
- `kernel` too: the same, for a loop that is compiled into one kernel (see
  `jaxelim.engine.one_lane`). Products with shared matrices are written out, since a
  library's call has no form there. They round as that call does.
- `gpu`: the GPU form, of few kernels and of nothing that ends a CUDA graph. Reductions
  are the same trees, in the kernels that read them. Products and inverses of small
  matrices are written out, since a library's call is a kernel of its own, or a wait of
  the host.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import matrices

Tree = Any
_Kind = TypeVar("_Kind")
_UNROLLED = 10
"""Terms that a pass of a loop over a longer axis adds, for a lane alone."""
_WIDEST_TREE = 64
"""Above this length trees fold in two levels: as many operations, far fewer nodes to compile."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def pytree(kind: type[_Kind]) -> type[_Kind]:
    """A frozen dataclass that compiled programs take apart, but for fields marked static."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(kind))


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
def named_pytree(kind: type[_Kind]) -> type[_Kind]:
    """A `pytree` whose fields are given by name."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, kw_only=True)(kind))


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def settings(kind: type[_Kind]) -> type[_Kind]:
    """A frozen dataclass that compiled programs depend on as a whole."""
    return jax.tree_util.register_static(dataclasses.dataclass(frozen=True)(kind))


def where(condition: Array, new: Tree, old: Tree) -> Tree:
    """Select `new` in the lanes where `condition` ([] or [B]) holds, else `old`; any pytree."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


# Reductions by balanced trees. They use lax, which traces faster than jax.numpy.


def balanced(combine: Callable, parts: list) -> Any:
    """Combine the parts in pairs, the results in pairs, and so on: a balanced tree."""
    while len(parts) > 1:
        paired = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = paired + parts[2 * len(paired) :]
    return parts[0]


def _block(n: int) -> int:
    """Length of the blocks in which an axis of length n is folded."""
    return int(np.ceil(np.sqrt(n)))


def _by_blocks(x: Array, fold: Callable) -> Any:
    """What `fold` makes of the rows of each block of the first axis; the last may be shorter.

    Padding it would be slow: XLA:CPU computes the producer of a padding one by one.
    """
    n, wide = x.shape[0], _block(x.shape[0])
    whole = n // wide * wide
    blocks = x[:whole].reshape((-1, wide) + x.shape[1:])
    folded = fold([blocks[:, i] for i in range(wide)])
    if whole == n:
        return folded
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), folded, fold(_rows(x[whole:])))


def _rows(x: Array) -> list[Array]:
    """x[0], x[1], .."""
    return [jax.lax.index_in_dim(x, i, keepdims=False) for i in range(x.shape[0])]


def _better(compare: Callable, a: Array, b: Array) -> Array:
    """The entries of b where they compare so with those of a, else those of a."""
    return jax.lax.select(compare(b, a), b, a)


def _first_of_largest(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """The larger entries with what goes with them; of equal ones the first."""
    better = jax.lax.gt(b[0], a[0])
    return jax.lax.select(better, b[0], a[0]), jax.lax.select(better, b[1], a[1])


def index_like(x: Array) -> Array:
    """0, 1, .., n - 1 along the first axis of x ([n] or [n, B]): int32, [n] or [n, 1]."""
    return jnp.arange(x.shape[0], dtype=jnp.int32).reshape((-1,) + (1,) * (x.ndim - 1))


@dataclasses.dataclass(frozen=True)
class ArmBlock:
    """The arms first, .., first + m - 1, the same in all lanes.

    Functions that take indices [m] take a block too, and slice where they would gather.
    """

    first: Array  # [] int32
    m: int

    def like(self, x: Array) -> Array:
        """The indices along the second axis of x, with ones to broadcast: [m] or [m, 1]; int32."""
        return self.first + np.arange(self.m, dtype=np.int32).reshape((-1,) + (1,) * (x.ndim - 2))

    def of(self, x: Array, axis: int = 0) -> Array:
        """The slice of x at these indices along an axis."""
        return jax.lax.dynamic_slice_in_dim(x, self.first, self.m, axis)


ARMS_A_BLOCK = 4
"""Arms a block: small products cost more to call than to compute, large ones leave the cache."""


def over_arm_blocks(n: int, f: Callable[[Tree, ArmBlock], Tree], state: Tree) -> Tree:
    """Fold f(state, arms) over blocks of n arms. The last block may repeat earlier arms."""
    m = min(ARMS_A_BLOCK, n)
    return jax.lax.fori_loop(
        0, -(-n // m), lambda b, state: f(state, ArmBlock(jnp.minimum(b * m, n - m), m)), state
    )


def _each(n: int, i: Array) -> np.ndarray:
    """0, 1, .., n - 1 along a new axis before those of i; int32."""
    return np.arange(n, dtype=np.int32).reshape((-1,) + (1,) * i.ndim)


def saturated(x: Any) -> Array:
    """Convert integers to int32, clipped to its range.

    A clipped number stays outside any smaller range, so later range checks still see
    it.
    """
    x = jnp.asarray(x)
    if not np.can_cast(x.dtype, np.int32):
        bounds = np.iinfo(np.int32)
        x = jnp.clip(x, max(bounds.min, np.iinfo(x.dtype).min), bounds.max)
    return x.astype(jnp.int32)


def _flat(x: Array, *axes: tuple[Array | np.ndarray, int]) -> Array:
    """Gather from x in row-major order, at the sum of index * stride over the axes."""
    dtype = np.int32 if x.size < 2**31 else np.int64
    places = functools.reduce(operator.add, [i.astype(dtype) * dtype(n) for i, n in axes])
    return x.reshape(-1).at[places].get(mode="promise_in_bounds")


def _outer(a: Array, b: Array) -> Array:
    """Multiply a [n, B] by b [B], or by every row of b [m, B]: [n, B] or [n, m, B]."""
    return a * b if b.ndim < a.ndim else a[:, None] * b


@pytree
class LaneOps:
    """The primitives, in the form that `flag` chooses (see the module's docstring)."""

    flag: Array | None = None
    read: Array | None = None  # [] int32: only the first `read` lanes are read; None: all
    kernel: bool = dataclasses.field(default=False, metadata={"static": True})
    gpu: bool = dataclasses.field(default=False, metadata={"static": True})

    @property
    def alone(self) -> "LaneOps":
        """The primitives for one of these lanes, as under `jax.vmap`."""
        return LaneOps(gpu=self.gpu)

    def one_by_one(self, f: Callable[[Array], Tree], start: Tree) -> Tree:
        """Write f(lane), the result of one run, into `start` [.., B] for each lane that is read."""

        def put(i, out):
            return jax.tree.map(lambda o, x: o.at[i].set(x), out, f(i))

        out = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), start)
        count = jax.tree.leaves(out)[0].shape[0] if self.read is None else self.read
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), jax.lax.fori_loop(0, count, put, out))

    def _by_trees(self, x: Array) -> bool:
        return (self.gpu or self.flag is not None) and x.ndim > 1

    def materialize(self, f: Callable, *x: Tree) -> Tree:
        """f(*x), computed once: XLA:CPU would compute it again in every consumer."""
        if self.flag is None:
            return f(*x)
        f = jax.jit(f, inline=True)  # one trace serves eval_shape and the branch
        shapes = jax.eval_shape(f, *x)

        def zeros(*_: Tree) -> Tree:
            return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

        return jax.lax.cond(self.flag > 0, f, zeros, *x)

    def rounded(self, product: Array, always: bool = False) -> Array:
        """A product [.., B], rounded before it is added: in one kernel, or `always`.

        XLA makes a product and a sum one operation, which rounds once. Of a sum of two
        products it may take either; in one kernel another than in many. An operation
        on the bits stops that for the one that many kernels round. A select would not:
        LLVM decides it before the loop.
        """
        if self.flag is None or not (self.kernel or always):
            return product
        bits = jax.lax.bitcast_convert_type(product, jnp.dtype(f"int{8 * product.itemsize}"))
        nothing = (self.flag >> 31).astype(bits.dtype)
        return jax.lax.bitcast_convert_type(bits ^ nothing, product.dtype)

    def _fold(self, combine: Callable, plain: Callable, x: Array) -> Array:
        """The entries along axis 0 combined: by a tree, or as `plain` does."""
        if not self._by_trees(x):
            return plain(x, 0)
        folded = functools.partial(balanced, combine)
        if x.shape[0] > _WIDEST_TREE:
            x = self.materialize(lambda x: _by_blocks(x, folded), x)
        return self.materialize(lambda x: folded(_rows(x)), x)

    def argmax(self, x: Array) -> Array:
        """The first index of the largest entry along axis 0: int32, [] or [B]; x without NaN."""
        if not self._by_trees(x):
            return jnp.argmax(x, 0).astype(jnp.int32)

        def largest(parts):
            placed = [(x, jax.lax.full_like(x, i, jnp.int32)) for i, x in enumerate(parts)]
            return balanced(_first_of_largest, placed)

        n = x.shape[0]
        if n <= _WIDEST_TREE:
            return self.materialize(lambda x: largest(_rows(x))[1], x)
        values, place = self.materialize(lambda x: _by_blocks(x, largest), x)
        row = self.argmax(values)
        return row * _block(n) + self.take(place, row)

    def argmin(self, x: Array) -> Array:
        """The first index of the smallest entry along axis 0: int32, [] or [B]; x without NaN."""
        return self.argmax(-x)

    def max(self, x: Array) -> Array:
        """The largest entry along axis 0."""
        return self._fold(functools.partial(_better, jax.lax.gt), jnp.max, x)

    def min(self, x: Array) -> Array:
        """The smallest entry along axis 0."""
        return self._fold(functools.partial(_better, jax.lax.lt), jnp.min, x)

    def sum(self, x: Array) -> Array:
        """The sum along axis 0; counts booleans in int32."""
        if x.dtype == jnp.bool_:
            return self._counted(x, lambda x: x)
        return self._fold(jax.lax.add, functools.partial(jnp.sum, dtype=x.dtype), x)

    def zeros(self, x: Array) -> Array:
        """The number of zeros along axis 0: int32."""
        return self._counted(x, lambda x: x == 0)

    def _counted(self, x: Array, holds: Callable) -> Array:
        """The number of entries along axis 0 that hold."""
        if x.shape[0] > _WIDEST_TREE or not self._by_trees(x):
            plain = functools.partial(jnp.sum, dtype=jnp.int32)
            return self._fold(jax.lax.add, plain, holds(x).astype(jnp.int32))

        def ones(x):  # inside: to write and read another array costs as much as the sum
            return [holds(row).astype(jnp.int32) for row in _rows(x)]

        return self.materialize(lambda x: balanced(jax.lax.add, ones(x)), x)

    def any(self, x: Array) -> Array:
        """Whether any entry along axis 0 holds."""
        return self._fold(jax.lax.bitwise_or, jnp.any, x)

    def take(self, x: Array, i: Array) -> Array:
        """x[i] in each lane: x [n] or [n, B], i [] or [B] -> [] or [B].

        All lanes may share x [n] while i is [B]. In `take`, `row` and `column` i
        may have one more axis before the lanes, [m] or [m, B]; the result then has
        that axis too.
        """
        if x.ndim == 1 or i.ndim == 0:
            return x[i]
        b = x.shape[1]
        if b == 1:  # shared by all lanes
            return x[:, 0][i]
        return _flat(x, (i, b), (np.arange(b), 1))

    def row(self, x: Array, i: Array | ArmBlock) -> Array:
        """x[i] in each lane: x [n, q] or [n, q, B], i [] or [B] -> [q] or [q, B].

        All lanes may share x [n, q] while i is [B]; then the result is [q, B].
        """
        if isinstance(i, ArmBlock):
            return jnp.swapaxes(i.of(x), 0, 1)
        if i.ndim == 0:
            return x[i]
        if i.shape == (1,):  # a slice of a lane alone, where a gather would take entry by entry
            row = jax.lax.dynamic_index_in_dim(x, i[0], keepdims=False)
            return row if x.ndim > 2 else row[:, None]
        q = x.shape[1]
        if x.ndim == 2 and self.kernel:
            # From the flat array a kernel would divide for every entry.
            rows = jax.lax.GatherDimensionNumbers((0,), (0,), (0,))
            return jax.lax.gather(x, i[..., None], rows, (1, q), mode="promise_in_bounds")
        if x.ndim == 2:
            return _flat(x, (i, q), (_each(q, i), 1))
        b = x.shape[2]
        # One gather from the flat array: XLA:CPU transposes the result of any other form.
        return _flat(x, (i, q * b), (_each(q, i), b), (np.arange(b), 1))

    def column(self, x: Array, i: Array | ArmBlock) -> Array:
        """x[:, i] in each lane: x [q, n] or [q, n, B], i [] or [B] -> [q] or [q, B]."""
        if isinstance(i, ArmBlock):
            return i.of(x, 1)
        if i.ndim == 0:
            return x[:, i]
        if i.shape == (1,):
            column = jax.lax.dynamic_index_in_dim(x, i[0], 1, keepdims=False)
            return column if x.ndim > 2 else column[:, None]
        if x.ndim == 2:
            return x.at[:, i].get(mode="promise_in_bounds")
        q, n, b = x.shape
        return _flat(x, (i, b), (_each(q, i), n * b), (np.arange(b), 1))

    def put(self, x: Array, i: Array, value: Array) -> Array:
        """x [n, B] with value [B] at place i [B] of each lane."""
        if i.shape == (1,):
            return jax.lax.dynamic_update_slice(x, value[None], (i[0], jnp.int32(0)))
        lane = np.arange(i.shape[0], dtype=np.int32)
        return x.at[i, lane].set(value, mode="promise_in_bounds", unique_indices=True)

    def dot(self, matrix: Array, vector: Array, transposed: Array | None = None) -> Array:
        """matrix @ vector in each lane.

        matrix [n, q] (shared) or [n, q, B], vector [q] or [q, B] -> [n] or [n, B].
        `dot` and `symmetric_dot` take m vectors too: [q, m] or [q, m, B] -> [n, m]
        or [n, m, B].

        `transposed` is the shared matrix transposed, [q, n], if the caller holds it. In one
        kernel columns of the matrix are added, and read there as rows.
        """
        if matrix.ndim == 2:
            if self.kernel and vector.ndim > 1:
                columns = matrix.T if transposed is None else transposed
                return self._written_dot(columns, vector)
            if self.gpu and vector.ndim > 1 and matrix.shape[1] <= _WIDEST_TREE:
                wide = (slice(None),) + (None,) * (vector.ndim - 1)
                terms = [matrix[:, q][wide] * vector[q] for q in range(matrix.shape[1])]
                return functools.reduce(jnp.add, terms)
            flat = vector.reshape(vector.shape[0], -1) if vector.ndim > 2 else vector
            found = matrices.product(matrix, flat)
            return found.reshape(matrix.shape[:1] + vector.shape[1:])
        if matrix.shape[1] <= _WIDEST_TREE:
            terms = [_outer(matrix[:, q], vector[q]) for q in range(matrix.shape[1])]
            return balanced(jnp.add, terms)
        return self._wide_dot(matrix, vector)

    def _written_dot(self, columns: Array, vector: Array) -> Array:
        """`dot` of a shared matrix in one kernel, [q, B] or [q, m, B], by its columns [q, n].

        The terms are added in their order, each by one fused multiply-add, as in the
        library's product; so both round alike.
        """
        wide = (slice(None),) + (None,) * (vector.ndim - 1)

        def added(total, columns, vector):
            for q in range(columns.shape[0]):
                term = columns[q][wide] * vector[q]
                total = self.rounded(term) if total is None else total + term
            return total

        n = columns.shape[0]
        first = n if n <= _WIDEST_TREE else n % _UNROLLED or _UNROLLED
        total = self.materialize(lambda c, v: added(None, c[:first], v[:first]), columns, vector)
        if first == n:
            return total

        def more(i, total):
            at = first + i * _UNROLLED
            few = (jax.lax.dynamic_slice_in_dim(x, at, _UNROLLED, 0) for x in (columns, vector))
            return added(total, *few)

        return jax.lax.fori_loop(0, (n - first) // _UNROLLED, more, total)

    def symmetric_dot(self, matrix: Array, vector: Array) -> Array:
        """`dot` for a symmetric matrix [q, q] or [q, q, B], by its contiguous rows."""
        if matrix.ndim == 2:
            return self.dot(matrix, vector)
        if matrix.shape[1] <= _WIDEST_TREE:
            # A plain left-to-right sum, not a tree: each of its steps is one fused multiply-add.
            def added(matrix, vector):
                terms = list(map(_outer, _rows(matrix), _rows(vector)))
                terms[1:2] = map(self.rounded, terms[1:2])
                return functools.reduce(jnp.add, terms)

            return self.materialize(added, matrix, vector)
        return self._wide_dot(matrix, vector)

    def _wide_dot(self, matrix: Array, vector: Array) -> Array:
        if vector.ndim == 1:  # shared by all lanes
            vector = vector[:, None]
        vector = jnp.broadcast_to(vector, vector.shape[:-1] + matrix.shape[2:])
        return jnp.einsum("nqb,q...b->n...b", matrix, vector, precision="highest")

    def inverse(self, a: Array) -> Array:
        """Invert symmetric positive definite matrices [q, q] or [q, q, B]."""
        if a.ndim == 2:
            return matrices.inverse(a, not self.gpu)
        rounded = functools.partial(self.rounded, always=True)
        return matrices.swept(a, self.materialize, rounded, not self.gpu)

    def solver(self, a: Array) -> Callable[[Array], Array]:
        """How to solve a x = b in one run: a [q, q] symmetric positive definite, b [q, n]."""
        factor = self.inverse_factor(a)
        return lambda b: matrices.product(factor.T, matrices.product(factor, b))

    def inverse_factor(self, a: Array) -> Array:
        """The inverse of the lower Cholesky factor in one run: a [q, q]."""
        return matrices.factor_inverse(a, not self.gpu)


PLAIN = LaneOps()
"""The plain form."""

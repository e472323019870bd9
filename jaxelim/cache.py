"""Bounded caches of compiled or traced programs, by a key and the layout of the arrays."""

import collections
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

KEPT = 32
"""Number of compiled programs in a cache; a program of the engine holds tens of MB of code."""


class Cache:
    """The `size` values of make(key, arrays) that were used last; threads may share it."""

    def __init__(self, make: Callable[..., Any], size: int):
        self._make, self._size = make, size
        self._held: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, arrays: Any) -> Any:
        """The value for this key and for arrays of this layout, a pytree; made if missing."""
        full = key, _layout(arrays)
        with self._lock:
            if full in self._held:
                self._held.move_to_end(full)
                return self._held[full]
        made = self._make(key, arrays)  # outside the lock: it may raise, or take long
        dropped = []  # released outside the lock
        with self._lock:
            made = self._held.setdefault(full, made)
            while len(self._held) > self._size:
                dropped.append(self._held.popitem(last=False))
        return made

    def peek(self, key: Hashable, arrays: Any) -> Any:
        """The value if it is in the cache, else None; does not count as a use."""
        with self._lock:
            return self._held.get((key, _layout(arrays)))

    def values(self) -> list:
        """All values, the least recently used first."""
        with self._lock:
            return list(self._held.values())

    def cache_clear(self) -> None:
        """Drop all values."""
        with self._lock:
            held, self._held = self._held, collections.OrderedDict()
        del held  # released outside the lock


class Jitted:
    """`jax.jit(f, ...)` whose executables are freed with its last reference.

    `f` must not hold a reference to it.
    """

    def __init__(self, f: Callable, **options: Any):
        self.jit: Any = jax.jit(f, **options)
        weakref.finalize(self, self.jit.clear_cache).atexit = False

    def __call__(self, *arrays: Any) -> Any:
        return self.jit(*arrays)


def jitted(f: Callable) -> Callable:
    """Compile `f(key, *arrays)` for every key and layout of the arrays, in a bounded cache."""
    programs = Cache(lambda key, _: Jitted(lambda *arrays: f(key, *arrays)), KEPT)
    return lambda key, *arrays: programs(key, arrays)(*arrays)


def _layout(tree: Any) -> Hashable:
    """The structure, shapes and dtypes of a tree, which a compiled function depends on."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((np.shape(x), x.dtype) for x in leaves)

"""What is compiled or traced once and kept, in bounded numbers: by a key and the shapes and dtypes of the arrays given."""

import collections
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import numpy as np

KEPT = 32
"""How many compiled programs are kept: one of the engine's holds 10 to 45 MB of code."""


class Info(NamedTuple):
    """The state of a cache."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Cache:
    """What `make` gives for a key and for arrays of some layout; at most `size` of them.

    The one not used for longest is dropped. Threads may share a cache.
    """

    def __init__(self, make: Callable[..., Any], size: int):
        self._make, self._size = make, size
        self._held: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def __call__(self, key: Hashable, arrays: Any) -> Any:
        """The one for this key and for arrays like these, a pytree."""
        full = key, _layout(arrays)
        with self._lock:
            if full in self._held:
                self._hits += 1
                self._held.move_to_end(full)
                return self._held[full]
        made = self._make(key, arrays)  # may raise; and may take long, which keeps no other thread waiting
        dropped = []  # their last references go once the lock is free again
        with self._lock:
            self._misses += 1
            made = self._held.setdefault(full, made)
            while len(self._held) > self._size:
                dropped.append(self._held.popitem(last=False))
        return made

    def peek(self, key: Hashable, arrays: Any) -> Any:
        """The same where it is there, else None; not counted as a use."""
        with self._lock:
            return self._held.get((key, _layout(arrays)))

    def values(self) -> list:
        """All that are held now, the one not used for longest first."""
        with self._lock:
            return list(self._held.values())

    def cache_info(self) -> Info:
        """Hits, misses, the greatest number held and that held now."""
        with self._lock:
            return Info(self._hits, self._misses, self._size, len(self._held))

    def cache_clear(self) -> None:
        """Drop all."""
        with self._lock:
            held, self._held = self._held, collections.OrderedDict()
            self._hits = self._misses = 0
        del held


class Jitted:
    """`jax.jit(f, ...)`, whose executables go with the last reference to it; `f` must not lead back to it."""

    def __init__(self, f: Callable, **options: Any):
        self.jit: Any = jax.jit(f, **options)
        weakref.finalize(self, self.jit.clear_cache).atexit = False

    def __call__(self, *arrays: Any) -> Any:
        return self.jit(*arrays)


def jitted(f: Callable) -> Callable:
    """`f(key, *arrays)`, compiled for every key and every layout of the arrays, a bounded number of which are kept."""
    programs = Cache(lambda key, _: Jitted(lambda *arrays: f(key, *arrays)), KEPT)
    return lambda key, *arrays: programs(key, arrays)(*arrays)


def _layout(tree: Any) -> Hashable:
    """The structure, shapes and dtypes of a tree: what a compiled function depends on."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((np.shape(x), x.dtype) for x in leaves)

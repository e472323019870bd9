"""What the methods of a user's class return: calls of them, and words for results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import JaxelimError, in_words


@contextmanager
def blamed(
    method: str, fault: Callable[[str], Exception], hint: Callable[[Exception], str] | None = None
) -> Iterator[None]:
    """Turn what a user's method raises into `fault(note)`; the library's own exceptions pass.

    The note is such as "choose raised ValueError: ..", with the hint on that exception.
    """
    try:
        yield
    except (JaxelimError, FloatingPointError):  # JAX's debug_nans raises the latter
        raise
    except Exception as error:
        more = "" if hint is None else hint(error)
        raise fault(f"{method} raised {in_words(error)}{more}") from error


def described(x: Any) -> str:
    """Describe an array by dtype and shape, a sequence by length, other objects by type."""
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of length {len(x)}"
    if isinstance(x, Array | jax.ShapeDtypeStruct | np.ndarray | np.generic):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return "None" if x is None else f"of type {type(x).__name__}"


def array_of(x: Any) -> Array | None:
    """x as an array; None where it is none."""
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError):
        return None

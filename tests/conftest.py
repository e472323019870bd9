"""Flags of the test suite; the library sets none of them.

The x64 flag is off unless the environment turns it on.
"""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("NPROC", "1")

import hypothesis
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("house", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("house")

"""Flags of the test suite; the library sets none of them.

The x64 flag is off unless the environment turns it on.
"""

import dataclasses
import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("NPROC", "1")

import hypothesis
import jax
import pytest

from jaxelim.simulation import drive

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("house", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True, scope="module")
def one_device(request):
    """One device where a layout does not name their number, unless the module is marked `devices`.

    A program for two devices compiles for a quarter longer, and computes the same.
    """
    if request.node.get_closest_marker("devices"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        used = drive.used_devices
        patch.setattr(
            drive,
            "used_devices",
            lambda layout: used(dataclasses.replace(layout, devices=layout.devices or 1)),
        )
        yield

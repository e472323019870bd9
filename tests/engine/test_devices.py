"""Runs are dealt to all devices, and do not depend on their number."""

import jax
import pytest

import jaxelim as je
from tests.engine.test_invariance import ALL, COMMON, INSTANCE, equal

pytestmark = pytest.mark.devices


@pytest.mark.shipped
def test_two_devices_and_one():
    # With one device the test would compare a run with itself.
    assert len(jax.devices()) >= 2, "run the tests with JAX_NUM_CPU_DEVICES=2"
    given = INSTANCE, je.BestArm(), je.LinGapE()
    all_of_them = je.simulate(*given, stopping=ALL, engine=je.Engine(shrink=False), **COMMON)
    assert all_of_them.layout["devices"] == len(jax.devices())
    one = je.simulate(*given, stopping=ALL, engine=je.Engine(shrink=False, devices=1), **COMMON)
    assert one.layout["devices"] == 1
    assert one.stopped.all() and one.samples.max() > 4 * one.samples.min()
    equal(all_of_them, one)

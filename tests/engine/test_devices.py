"""Runs are dealt to all devices, and do not depend on their number."""

import jax
import pytest

import jaxelim as je
from tests.engine.test_invariance import ALL, COMMON, INSTANCE, equal


@pytest.mark.slow
@pytest.mark.devices
def test_two_devices_and_one():
    given = INSTANCE, je.BestArm(), je.LinGapE()
    all_of_them = je.simulate(*given, stopping=ALL, engine=je.Engine(shrink=False), **COMMON)
    assert all_of_them.layout["devices"] == len(jax.devices())
    one = je.simulate(*given, stopping=ALL, engine=je.Engine(shrink=False, devices=1), **COMMON)
    assert one.layout["devices"] == 1
    assert one.stopped.all() and one.samples.max() > 4 * one.samples.min()
    equal(all_of_them, one)

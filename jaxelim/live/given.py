"""Arms and rewards as callers have them: scalars, sequences, and columns of a data frame."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxelim.errors import ArgumentError


def arms_and_rewards(arm: Any, reward: Any) -> tuple[list, Any, bool]:
    """The arms, their rewards, and whether there may be several.

    A column is what has `to_numpy`, as one of pandas or polars. Bools are the numbers 0
    and 1.

    Args:
        arm: an arm, a sequence or column of them; or a data frame of two columns.
        reward: numbers likewise; None with a data frame.

    Raises:
        ArgumentError: a data frame of other columns, or two columns of different indices.
    """
    if reward is None:
        names = list(getattr(arm, "columns", ()))
        if len(names) != 2:
            allowed = "a number; None only beside a data frame of two columns, arms and rewards"
            raise ArgumentError("reward", reward, allowed)
        arm, reward = arm[names[0]], arm[names[1]]
    indices: list[Any] = [getattr(column, "index", None) for column in (arm, reward)]
    if all(hasattr(index, "equals") for index in indices) and not indices[0].equals(indices[1]):
        raise ArgumentError("reward", reward, "a column with the index of the arms' column")
    arm, reward = _plain(arm), _plain(reward)
    if isinstance(arm, list):
        numbers = [_number(x) for x in reward] if isinstance(reward, list) else reward
        return arm, numbers, True
    return [arm], _number(reward), False


def _plain(value: Any) -> Any:
    """A list of the entries of a sequence or a column; other values as they are."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return value


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, bool | np.bool_) else value

"""Functions of numbers in plain arithmetic, which XLA:CPU vectorises."""

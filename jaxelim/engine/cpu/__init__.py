"""What only the compiler of a CPU needs: steps in one kernel, and runs in one lane."""

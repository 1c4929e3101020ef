"""The settings of a run."""

SEED = 1
RATE = 0.5
STEPS = 8

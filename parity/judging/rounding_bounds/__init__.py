"""Running error analysis: the rounding errors that a Cell's own computation may commit, in any usual order of sums."""

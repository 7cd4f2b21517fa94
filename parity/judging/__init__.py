"""The comparison of several sides with a reference, Cell by Cell: truth, noise and verdicts."""

"""Several sides held against a reference, Cell by Cell: the truth, its noise, the verdicts."""

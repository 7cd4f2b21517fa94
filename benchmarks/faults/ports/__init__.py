"""Some of the networks, ported by hand to Cells, in files of the same names; `build()` makes the port."""

"""Some of the networks, ported by hand to Cells, each in a file of the name of the network; `build()` makes the port."""

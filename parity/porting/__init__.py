"""A torch module held against its port: a network written by hand as Cells."""

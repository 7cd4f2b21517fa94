"""The sides: the ways of running a model, one file each."""

"""What a model can be run by, one file a side."""

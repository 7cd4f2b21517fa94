"""Pairs two torch modules by their names, which may divide their work among Cells differently."""

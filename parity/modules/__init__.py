"""Comparison of two torch modules, which may divide their work among Cells differently."""

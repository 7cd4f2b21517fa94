"""Ops that run programs or functions: branches, loops, gradients written by hand, operators shaped by values."""

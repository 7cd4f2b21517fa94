"""Ops that run programs or functions: branches, loops, user-defined gradients, operators with runtime shapes."""

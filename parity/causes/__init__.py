"""Causes of failures: hypotheses about a failing Cell, each tested by running the reference's Cell changed that way."""

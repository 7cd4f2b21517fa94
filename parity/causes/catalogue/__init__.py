"""Hypotheses about a Cell whose candidate can't be read as a program: changes that people make by mistake.

An entry is a generator in a file of its kind. It gets the reference's Cell and the evidence, and yields each change
with the program that has it; `Diagnosis` runs them, and what isn't proved isn't named.
"""

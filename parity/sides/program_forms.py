"""`ProgramForms`: a program in the dtypes and with the changed numbers of runs, and their gradients, made once."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.ir.program import Program
from ...runtime.programs.gradient_program import GradientProgram, differentiate

Form = tuple[str, int]
"""The dtype, and the number of the perturbation."""


class ProgramForms:
    """The forms of a program.

    Args:
        make: returns the program in a dtype and with a perturbation.
    """

    def __init__(self, make: Callable[[str, int], Program]) -> None:
        self._make = make
        self._programs: dict[Form, Program] = {}
        self._gradients: dict[Form, GradientProgram] = {}

    def program(self, dtype: str, perturbed: int) -> Program:
        """Return the program in a dtype, with a perturbation; 0 for none."""
        if (dtype, perturbed) not in self._programs:
            for way in {way for _, way in self._programs} - {0, perturbed}:  # float64 weights that aren't needed again
                self._programs.pop((dtype, way), None)
                self._gradients.pop((dtype, way), None)
            self._programs[dtype, perturbed] = self._make(dtype, perturbed)
        return self._programs[dtype, perturbed]

    def gradient(self, dtype: str, perturbed: int) -> GradientProgram:
        """Return the gradient program of that form."""
        if (dtype, perturbed) not in self._gradients:
            self._gradients[dtype, perturbed] = differentiate(self.program(dtype, perturbed), every_boundary=True)
        return self._gradients[dtype, perturbed]

    def clear(self) -> None:
        """Forget all forms."""
        self._programs.clear()
        self._gradients.clear()

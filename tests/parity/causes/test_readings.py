"""Parameters that a port holds as they are and reads with other axes, or from the other end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]

Step = Callable[[Tensor, Tensor], Tensor]
X = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    def __init__(self, step: Step) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kernel = nn.Parameter(torch.randn(3, 3, 3, 3))
        self._step = step

    def forward(self, x: Tensor) -> Tensor:
        return self._step(x, self.kernel).tanh()


def by_conv(change: Callable[[Tensor], Tensor] = lambda kernel: kernel) -> Step:
    return lambda x, kernel: functional.conv2d(x, change(kernel))


def by_windows(change: Callable[[Tensor], Tensor] = lambda kernel: kernel) -> Step:
    """A convolution written out: windows times the kernel's rows."""

    def step(x: Tensor, kernel: Tensor) -> Tensor:
        windows = functional.unfold(x, 3)
        return (change(kernel).flatten(1) @ windows).view(2, 3, 4, 4)

    return step


MISTAKES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "window": (lambda k: k.flip(2, 3), "kernel is read flipped along axes 2 and 3 in the candidate"),
    "rows": (lambda k: k.flip(2), "kernel is read flipped along axis 2 in the candidate"),
    "channels": (lambda k: k.transpose(0, 1), "kernel is read with axes 0 and 1 exchanged in the candidate"),
    "height and width": (lambda k: k.mT, "kernel is read with axes 2 and 3 exchanged in the candidate"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_order_in_which_a_parameter_is_read_is_told(name: str) -> None:
    change, words = MISTAKES[name]
    report = parity.compare(Network(by_conv()), Network(by_windows(change)), (X,), probe=False)
    (cause,) = report.cells[""].causes
    assert cause.summary == words
    assert cause.gradients
    assert cause.error < 1e-11


def test_a_parameter_that_is_scaled_is_read_in_its_order() -> None:
    report = parity.compare(Network(by_conv()), Network(by_windows(lambda k: 0.5 * k)), (X,), probe=False)
    assert not report.ok
    assert not any("is read" in cause.summary for cause in report.cells[""].causes)


def test_windows_are_a_convolution() -> None:
    assert parity.compare(Network(by_conv()), Network(by_windows()), (X,), probe=False).ok


class Waves(nn.Module):
    """A product of spectra, with the real and imaginary parts of a parameter as they are, or side by side."""

    def __init__(self, sign: float = 1.0, *, parts: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 2))
        self.sign, self.parts = sign, parts

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x)
        if not self.parts:
            return torch.fft.irfft(spectrum * torch.view_as_complex(self.weight), n=6)
        (a, b), (c, d) = (spectrum.real, spectrum.imag), self.weight.unbind(-1)
        d = self.sign * d
        return torch.fft.irfft(torch.complex(a * c - b * d, a * d + b * c), n=6)


def test_a_conjugated_parameter_is_told() -> None:
    report = parity.compare(Waves(), Waves(-1.0, parts=True), (X,), probe=False)
    (cause,) = report.cells[""].causes
    assert cause.summary == "weight is conjugated in the candidate: the imaginary part is negated"

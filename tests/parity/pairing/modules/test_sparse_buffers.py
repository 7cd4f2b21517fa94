"""Networks with sparse buffers, such as the adjacency of a graph, are compared like those with dense ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

LAYOUTS = {
    "dense": lambda matrix: matrix.clone(),
    "coordinates": lambda matrix: matrix.to_sparse(),
    "compressed rows": lambda matrix: matrix.to_sparse_csr(),
}
ADJACENCY = torch.tensor([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.5, 0.0, 2.0]])


class Convolution(nn.Module):
    def __init__(self, layout: str, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 5)
        self.register_buffer("adjacency", LAYOUTS[layout](ADJACENCY * factor))

    def forward(self, x: Tensor) -> Tensor:
        return self.adjacency @ self.fc(x)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("candidate", LAYOUTS)
@pytest.mark.parametrize("reference", LAYOUTS)
@pytest.mark.every(2)
def test_layouts_of_a_buffer(reference: str, candidate: str) -> None:
    x = torch.randn(3, 4)
    parity.compare(Convolution(reference), Convolution(candidate), (x,)).raise_if_failed()
    report = parity.compare(Convolution(reference), Convolution(candidate, 1.001), (x,))
    assert report.failing == [""]

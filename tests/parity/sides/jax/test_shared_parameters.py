"""Weights that are tied in torch, in JAX, or in both, with a map of names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flax")

import jax.numpy as jnp
from flax import nnx

from cellbridge import parity
from cellbridge.parity import jax_side
from cellbridge.parity.results.structure import OTHER_PARTS
from cellbridge.parity.sides.jax.cells import other_names
from tests.parity.pairing.modules.test_tied_and_partial import IDS, Reference
from tests.parity.sides.jax.networks import array

CELLS = '[cells]\n"embed" = "words"\n"head" = "out"\n[parameters]\n"embed.weight" = "words.embedding"\n'


class Head(nnx.Module):
    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __call__(self, x: Any) -> Any:
        return x @ self.kernel[...].T


class Port(nnx.Module):
    def __init__(self, reference: Reference, tied: bool, scale: float) -> None:
        self.words, self.scale = nnx.Embed(7, 4, rngs=nnx.Rngs(0)), scale
        self.words.embedding = nnx.Param(array(reference.embed.weight))
        self.out = Head(self.words.embedding if tied else nnx.Param(array(reference.head.weight)))

    def __call__(self, ids: Any) -> Any:
        return self.out(jnp.tanh(self.words(ids)) * self.scale)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("reference_tied", "port_tied", "head"),
    [
        (True, True, "out.kernel"),
        (True, False, "out.kernel"),
        (False, True, "out.kernel"),
        (False, True, "words.embedding"),
    ],
)
@pytest.mark.every(2)
def test_a_head_tied_on_either_side(tmp_path: Path, reference_tied: bool, port_tied: bool, head: str) -> None:
    reference, names = Reference(tied=reference_tied), tmp_path / "names.toml"
    names.write_text(f'{CELLS}"head.weight" = "{head}"\n')
    for scale in (1.0, 1.01) if reference_tied != port_tied else (1.0,):
        port = jax_side(Port(reference, port_tied, scale))
        report = parity.compare(reference, port, (IDS,), names=names, diagnose_seconds=0)
        assert report.ok == (scale == 1.0), str(report)
        texts = [difference.text for difference in report.structure if difference.kind == OTHER_PARTS]
        assert len(texts) == (reference_tied != port_tied)


class Twice(nnx.Module):
    def __init__(self, port: Port) -> None:
        self.first, self.second = port, port

    def __call__(self, ids: Any) -> Any:
        return self.first(ids) + self.second(ids)


def test_names_of_shared_variables_and_modules() -> None:
    reference = Reference(tied=True)
    untied, tied = Port(reference, False, 1.0), Port(reference, True, 1.0)
    assert other_names(jax_side(untied)) == {}
    assert other_names(jax_side(tied)) == {"words.embedding": "out.kernel"}
    assert other_names(jax_side(Twice(untied))) == {
        f"second.{name}": f"first.{name}" for name in ("out.kernel", "words.embedding")
    }
    others = ("first.words.embedding", "second.out.kernel", "second.words.embedding")
    assert other_names(jax_side(Twice(tied))) == dict.fromkeys(others, "first.out.kernel")

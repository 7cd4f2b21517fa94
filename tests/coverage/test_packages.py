"""Packages from the index, with real weights and real ONNX files, each judged as its users would.

Missing packages are skipped. Some require other releases of torch, NumPy and ONNX Runtime, so they are installed
without their dependencies: see the command in the README.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.report.report import Report

pytestmark = pytest.mark.slow


def folder(package: str) -> Path:
    """Where a package is; it isn't imported, which might need what the package does beside its network."""
    spec = importlib.machinery.PathFinder.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} isn't installed: pip install --no-deps {package.replace('_', '-')}")
    return Path(spec.origin).parent


def held(report: Report) -> None:
    assert report.ok, str(report)


# ---- ONNX files ----

SILERO = {
    "silero_vad": {"input": (1, 576), "state": (2, 1, 128)},
    "silero_vad_16k_op15": {"input": (3, 576)},
    "silero_vad_16k_sequence": {"input": (4, 576)},
    "silero_vad_half": {"input": (2, 576)},
    "silero_vad_op18_ifless": {"input": (2, 576)},
    "silero_vad_openvino_16k": {},
}


@pytest.mark.parametrize("name", SILERO)
@pytest.mark.parametrize("given", [False, True], ids=["generated", "shape"])
def test_silero_vad(name: str, given: bool, tmp_path: Path) -> None:
    path = str(folder("silero_vad") / "data" / f"{name}.onnx")
    if not given:
        held(check_onnx(path))
        return
    shapes = SILERO[name]
    if name in ("silero_vad", "silero_vad_op18_ifless", "silero_vad_16k_op15"):  # at the rate that these sizes are for
        rng = np.random.default_rng(0)
        batch = shapes["input"][0]
        arrays = {
            "input": 0.1 * rng.standard_normal(shapes["input"]).astype(np.float32),
            "state": 0.1 * rng.standard_normal((2, batch, 128)).astype(np.float32),
            "sr": np.array(16000),
        }
        np.savez(tmp_path / "inputs.npz", **arrays)
        held(check_onnx(path, inputs=str(tmp_path / "inputs.npz")))
    else:
        held(check_onnx(path, shapes=shapes))


RAPIDOCR = {
    "ch_PP-OCRv4_det_infer": (1, 3, 96, 128),
    "ch_PP-OCRv4_rec_infer": (2, 3, 48, 160),
    "ch_ppocr_mobile_v2.0_cls_infer": (2, 3, 48, 192),
}


@pytest.mark.parametrize("name", RAPIDOCR)
def test_rapidocr(name: str) -> None:
    path = str(folder("rapidocr_onnxruntime") / "models" / f"{name}.onnx")
    held(check_onnx(path, shapes={"x": RAPIDOCR[name]}))
    held(compare_onnx(path, path, shapes={"x": RAPIDOCR[name]}, grads=False))


def test_magika() -> None:
    held(check_onnx(str(folder("magika") / "models" / "standard_v3_3" / "model.onnx"), shapes={"bytes": (2, 2048)}))


# ---- torch modules with their weights ----


def source_of(patch: pytest.MonkeyPatch, package: str, path: str, **stand_ins: dict[str, Any]) -> Any:
    """A module of a package, without what the package imports beside it: `stand_ins` have names that it asks for."""
    for name, names in {"": {"__path__": [str(folder(package))]}, **stand_ins}.items():
        stand_in = types.ModuleType(name)
        vars(stand_in).update(names)
        patch.setitem(sys.modules, f"{package}.{name.replace('__', '.')}".rstrip("."), stand_in)
    return importlib.import_module(f"{package}.{path}")


@pytest.mark.parametrize("name", ["PNet", "RNet", "ONet"])
def test_facenet(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins = {"models__utils__detect_face": {"detect_face": None, "extract_face": None}}
    network = getattr(source_of(monkeypatch, "facenet_pytorch", "models.mtcnn", **stand_ins), name)(pretrained=False)
    weights = folder("facenet_pytorch") / "data" / f"{name.lower()}.pt"
    network.load_state_dict(torch.load(weights, weights_only=True))
    size = {"PNet": 40, "RNet": 24, "ONet": 48}[name]
    held(parity.check(network.eval(), (torch.rand(2, 3, size, size) * 2 - 1,)))


def test_facenet_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are downloaded, so that these are random."""
    pytest.importorskip("requests")
    torch.manual_seed(0)
    stand_ins = {"models__utils__download": {"download_url_to_file": None}}
    source = source_of(monkeypatch, "facenet_pytorch", "models.inception_resnet_v1", **stand_ins)
    held(
        parity.check(source.InceptionResnetV1(pretrained=None).eval(), (torch.rand(1, 3, 80, 80) * 2 - 1,), grads=False)
    )


def test_torchcrepe(monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder("torchcrepe")
    source = source_of(monkeypatch, "torchcrepe", "model")
    source.torchcrepe.PITCH_BINS = 360
    network = source.Crepe("tiny")
    network.load_state_dict(torch.load(package / "assets" / "tiny.pth", weights_only=True))
    held(parity.check(network.eval(), (torch.randn(2, 1024),)))


class VoiceEncoder(nn.Module):
    """The network of resemblyzer, as its source has it: its file imports what reads sounds."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(mels)
        raw = torch.relu(self.linear(hidden[-1]))
        return raw / torch.norm(raw, dim=1, keepdim=True)


def test_resemblyzer() -> None:
    network = VoiceEncoder()
    saved = torch.load(folder("resemblyzer") / "pretrained.pt", map_location="cpu", weights_only=False)
    known = network.state_dict()
    network.load_state_dict({name: value for name, value in saved["model_state"].items() if name in known})
    held(parity.check(network.eval(), (torch.rand(2, 20, 40),)))

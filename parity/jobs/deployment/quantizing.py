"""`quantize`: a float32 file becomes one of 8 bits, by `onnxruntime.quantization`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from ....runtime.errors import ConversionError
from ....runtime.lowering.external_data import model_size
from ....runtime.lowering.writing import MODEL_LIMIT
from ...sides.records import Array
from .calibration import Calibration

DYNAMIC_OPERATORS = ["MatMul", "Gather", "Conv", "LSTM"]
"""Operators whose weights are quantized where activations are quantized as they come. `Attention` would become an
operator of ONNX Runtime's own, and `Transpose` would pass codes on."""
BLOCK = 32
_FAILURES = (EncodeError, RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError)


def quantize(
    source: Path, target: Path, calibration: Calibration | None, nodes: Sequence[str] = (), ranges: Path | None = None
) -> None:
    """Write a file with weights of 8 bits per channel.

    Processors without VNNI add two products of unsigned and signed codes in 16 bits, which overflow. So that the file
    computes the same everywhere, weights of static files have codes from -64 to 64, and those of dynamic ones have no
    sign.

    Args:
        source: the float32 file.
        target: the file to write.
        calibration: inputs from which the ranges of activations are taken, which then have 8 bits too, between
            `QuantizeLinear` and `DequantizeLinear` (`quantize_static`, QDQ); None to quantize them as they come
            (`quantize_dynamic`), where only products of matrices, lookups and LSTMs are quantized.
        nodes: names of the nodes to quantize; all if there are none.
        ranges: file of the ranges, which is written by the first of several calls and read by the others.

    Raises:
        ConversionError: `onnxruntime.quantization` can't quantize the model.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    external = model_size(source) > MODEL_LIMIT  # a quantized file may not be much smaller
    with _as_conversion_errors():
        if calibration is None:
            quantize_dynamic(
                source, target, op_types_to_quantize=DYNAMIC_OPERATORS, per_channel=True,
                use_external_data_format=external, nodes_to_quantize=list(nodes),
                weight_type=QuantType.QUInt8, extra_options={"MatMulConstBOnly": True},
            )  # fmt: skip
        else:
            quantize_static(
                source, target, calibration_reader(calibration), quant_format=QuantFormat.QDQ, per_channel=True,
                use_external_data_format=external, nodes_to_quantize=list(nodes), calibration_cache_path=ranges,
                reduce_range=True,
            )  # fmt: skip
    onnx.checker.check_model(str(target))


def quantize_blocks(source: Path, target: Path) -> None:
    """Write a file with weights of 4 bits, in blocks of 32 with a scale each, in products of matrices (MatMulNBits).

    Codes stand for -8 to 7 times the scale; activations stay in float32.

    Raises:
        ConversionError: `onnxruntime.quantization` can't quantize the model, or there is nothing to quantize.
    """
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    with _as_conversion_errors():
        quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=BLOCK, is_symmetric=True)
        quantizer.process()
        if not any(node.op_type == "MatMulNBits" for node in quantizer.model.model.graph.node):
            raise ConversionError(
                "there is nothing to quantize to 4 bits: no product with a stored matrix (MatMul)\n"
                "  a Linear layer on [batch, features] is a Gemm, which ONNX Runtime's quantizer leaves as it is\n"
                "  what to do: --int8 quantizes it"
            )
        quantizer.model.save_model_to_file(str(target), model_size(source) > MODEL_LIMIT)


def quantizable_operators() -> frozenset[str]:
    """Return the operators that `quantize_static` quantizes."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return frozenset({*QDQRegistry, *QLinearOpsRegistry})


def calibration_reader(calibration: Calibration) -> Any:
    """Return what `quantize_static` reads samples from."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Gives the samples one by one."""

        def __init__(self) -> None:
            self._rest = iter(calibration)

        def get_next(self) -> dict[str, Array] | None:
            """Return the next sample; None after the last."""
            return next(self._rest, None)

    return Reader()


@contextmanager
def _as_conversion_errors() -> Iterator[None]:
    """Keep the advice that onnxruntime.quantization logs to itself, and turn its errors into `ConversionError`."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    except _FAILURES as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConversionError(
            f"onnxruntime.quantization can't quantize the model: {type(error).__name__}: {reason}"
        ) from error
    finally:
        logging.disable(before)

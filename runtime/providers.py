"""The execution providers of ONNX Runtime, by the names that users give them: one object each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SUFFIX = "ExecutionProvider"
GPU, CPU_ONLY = "onnxruntime-gpu", "onnxruntime"


@dataclass(frozen=True)
class Provider:
    """An execution provider, and how sessions use it.

    Attributes:
        name: the name that users give.
        ort_name: the name that ONNX Runtime gives it.
        package: the distribution of ONNX Runtime that has it; empty if none on the package index does.
        options: options of the provider, of which those that choose the arithmetic make it compute in the dtypes of
            the model.
        arithmetic: what it does to float32 with these options, for the reader of a report.
        device: where ONNX Runtime keeps its tensors: "cpu" or "cuda".
        before: names of the providers that take what it can't run, before the CPU.
        needs: what the machine needs for it, in words.
        newest_opset: the newest operator set that it reads, if that isn't ONNX Runtime's.
    """

    name: str
    ort_name: str
    package: str = ""
    options: dict[str, str] = field(default_factory=dict)
    arithmetic: str = ""
    device: str = "cpu"
    before: tuple[str, ...] = ()
    needs: str = ""
    newest_opset: int | None = None

    def chain(self, **more: str) -> list[Any]:
        """Return the providers of a session in order of preference, with `more` options of this one."""
        if self.name == "cpu":
            return [self.ort_name]
        later = [find(name) for name in self.before]
        chosen = {**self.options, **more}
        return [
            (self.ort_name, chosen),
            *((provider.ort_name, provider.options) for provider in later),
            PROVIDERS["cpu"].ort_name,
        ]


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("cpu", "CPUExecutionProvider", CPU_ONLY),
        Provider(
            "cuda", "CUDAExecutionProvider", GPU,
            # by default it multiplies float32 matrices in TF32, whose mantissa has only 10 bits
            {"use_tf32": "0"}, "float32 is multiplied in float32, not in TF32", "cuda", needs="a GPU, CUDA and cuDNN",
        ),
        Provider(
            "tensorrt", "TensorrtExecutionProvider", GPU,
            {"trt_fp16_enable": "0", "trt_int8_enable": "0"},
            "engines of float16 and int8 are off; float32 is multiplied in TF32 unless NVIDIA_TF32_OVERRIDE=0 is set",
            "cuda", ("cuda",), "a GPU, CUDA, cuDNN and TensorRT",
        ),
        Provider(
            "openvino", "OpenVINOExecutionProvider", "onnxruntime-openvino",
            # by default it computes float32 in bfloat16 on processors that have it
            {"device_type": "CPU", "precision": "FP32"}, "float32 is computed in float32 on the CPU",
            needs="OpenVINO, which the package brings",
            newest_opset=22,  # it takes Attention, of 23, and then can't read it
        ),
        Provider(
            "coreml", "CoreMLExecutionProvider", CPU_ONLY,
            # the GPU and the Neural Engine compute in float16
            {"ModelFormat": "MLProgram", "MLComputeUnits": "CPUOnly"}, "float32 is computed in float32 on the CPU",
            needs="macOS",
        ),
        Provider(
            "directml", "DmlExecutionProvider", "onnxruntime-directml", needs="Windows and a GPU with DirectX 12"
        ),
        Provider("xnnpack", "XnnpackExecutionProvider"),
        Provider("dnnl", "DnnlExecutionProvider"),
        Provider("migraphx", "MIGraphXExecutionProvider", needs="a GPU of AMD and ROCm"),
        Provider("qnn", "QNNExecutionProvider", "onnxruntime-qnn", needs="a processor of Qualcomm"),
        Provider("webgpu", "WebGpuExecutionProvider", needs="a GPU with WebGPU"),
    )
}  # fmt: skip
"""The known providers. Others that ONNX Runtime offers are used with its own options, under the names of `short_name`.
"""


def find(name: str) -> Provider:
    """Return a provider by its name; one that isn't known has no options."""
    return PROVIDERS.get(name) or Provider(name, f"{name}{SUFFIX}")


def short_name(ort_name: str) -> str:
    """Return the name that users give a provider of ONNX Runtime: the known one, or its own without the suffix."""
    short_names = {provider.ort_name: name for name, provider in PROVIDERS.items()}
    return short_names.get(ort_name) or ort_name.removesuffix(SUFFIX)

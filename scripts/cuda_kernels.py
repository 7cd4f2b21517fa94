"""Write parity/jobs/deployment/kernels.json: the kernels that ONNX Runtime has for the CPU and for CUDA.

For each operator it has the first and the last version of a kernel (0: no last one) and, for CUDA, the dtypes.

    python scripts/cuda_kernels.py

needs onnxruntime-gpu with the libraries of CUDA, cuDNN and TensorRT, because it asks ONNX Runtime itself
(`get_all_opkernel_def`, which its documentation of operators is made with, too).
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

TARGET = Path(__file__).parent.parent / "parity" / "deployment" / "kernels.json"
PROVIDERS = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}
NO_END = 2**31 - 1

Types = dict[str, list[str]]


def main() -> None:
    """Write the file."""
    onnxruntime.preload_dlls()
    by_provider: dict[str, Any] = {name: defaultdict(lambda: defaultdict(list)) for name in PROVIDERS.values()}
    for kernel in state.get_all_opkernel_def():
        if kernel.provider in PROVIDERS:
            operator = f"{kernel.domain}:{kernel.op_name}" if kernel.domain else kernel.op_name
            types = {name: sorted(map(_short, some)) for name, some in kernel.type_constraints.items()}
            by_provider[PROVIDERS[kernel.provider]][operator][kernel.version_range].append(types)
    providers = {
        name: {
            operator: [
                [first, 0 if last == NO_END else last, *([_merged(types)] if name != "cpu" else [])]
                for (first, last), types in sorted(of.items())
            ]
            for operator, of in sorted(operators.items())
        }
        for name, operators in by_provider.items()
    }
    lines = [f'{{"onnxruntime": "{onnxruntime.__version__}", "providers": {{']
    for name, operators in providers.items():
        rows = [f"  {json.dumps(operator)}: {json.dumps(kernels)}" for operator, kernels in operators.items()]
        lines.append(f'"{name}": {{\n' + ",\n".join(rows) + "\n}" + ("," if name != "cuda" else ""))
    TARGET.write_text("\n".join([*lines, "}}", ""]), encoding="utf-8")


def _short(text: str) -> str:
    """`tensor(float)` is `float`."""
    return text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text


def _merged(kernels: list[Types]) -> list[Types]:
    """Merge kernels that differ in the types of one parameter."""
    rest, result = [dict(types) for types in kernels], list[Types]()
    while rest:
        first = rest.pop(0)
        changed = True
        while changed:
            changed = False
            for other in rest:
                different = [name for name in first if first[name] != other.get(name)]
                if first.keys() == other.keys() and len(different) <= 1:
                    for name in different:
                        first[name] = sorted({*first[name], *other[name]})
                    rest.remove(other)
                    changed = True
                    break
        result.append(first)
    return result


if __name__ == "__main__":
    main()

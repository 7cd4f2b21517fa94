"""The nodes of a file that an accelerator would leave to the CPU: asked of the providers here, or known of CUDA."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime

from ....runtime.compiled.isolated import IsolatedSession
from ....runtime.compiled.session import SessionError, choose_provider
from ....runtime.errors import UsageError
from ....runtime.providers import PROVIDERS
from ...sides.provider_notes import by_cell, nodes_left
from .kernels import nodes_without_cuda, version_of_table

SMALL = 1024


def usable_accelerators() -> list[str]:
    """Return the names of the known providers, other than the CPU, that ONNX Runtime can use on this machine."""
    offered = onnxruntime.get_available_providers()
    names = [name for name, provider in PROVIDERS.items() if name != "cpu" and provider.ort_name in offered]
    result = []
    for name in names:
        try:
            result.append(choose_provider(name))
        except UsageError:  # its libraries or its device aren't here
            continue
    return result


def fallback_notes(path: Path) -> list[str]:
    """Return remarks on the nodes of a file that would run on the CPU, by accelerator.

    The file is loaded on the accelerators of this machine; for CUDA without a GPU, a table of kernels is asked.
    """
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:  # shapes and dtypes are all that matters, and some bytes of sizes
        if len(tensor.raw_data) > SMALL:
            tensor.ClearField("raw_data")
    usable, notes = usable_accelerators(), list[str]()
    for name in usable:
        try:
            session = IsolatedSession(path, name)
            try:
                if nodes := session.nodes_elsewhere():
                    notes.append(nodes_left(name, nodes, model.graph))
            finally:
                session.close()
        except (SessionError, UsageError) as error:
            notes.append(f"{name} can't run the file: {str(error).partition(chr(10))[0]}")
    if "cuda" not in usable and (missing := nodes_without_cuda(model)):
        notes.append(
            f"on cuda, {len(missing)} of {len(model.graph.node)} nodes would run on the CPU, because onnxruntime "
            f"{version_of_table()} has no kernel for them: {by_cell(missing, model.graph)}"
        )
    return notes

"""Checks that onnxruntime is intact: two of its distributions in one environment overwrite each other's files."""

from __future__ import annotations

import importlib
from importlib import metadata

from .errors import UsageError

PACKAGES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino")
"""Distributions that install their files into the same folder, `onnxruntime`."""
NEEDED = ("InferenceSession", "SessionOptions", "OrtValue", "get_available_providers")


def installed_packages() -> list[str]:
    """Return those of `PACKAGES` that are installed according to their metadata."""
    names = {
        distribution.name.lower().replace("_", "-") for distribution in metadata.distributions() if distribution.name
    }
    return [name for name in PACKAGES if name in names]


def require_intact(module: str = "onnxruntime") -> None:
    """Raise `UsageError`, which says how to repair the installation, unless ONNX Runtime is intact."""
    try:
        package = importlib.import_module(module)
        missing = [name for name in NEEDED if not hasattr(package, name)]
        problem = f"it has no {missing[0]}" if missing else ""
    except (ImportError, AttributeError, OSError) as error:
        problem = str(error)
    if problem:
        raise UsageError(f"ONNX Runtime can't be used: {problem}\n{_reason(installed_packages())}")


def conflict_hint() -> str:
    """Return a hint for errors about a missing GPU if two packages are in conflict; empty if there is only one."""
    return f"\n{_reason(packages)}" if len(packages := installed_packages()) > 1 else ""


def _reason(packages: list[str]) -> str:
    if not packages:
        return "  what to do: it isn't installed; pip install onnxruntime-gpu (or onnxruntime, for the CPU only)"
    package = "onnxruntime-gpu" if "onnxruntime-gpu" in packages else packages[0]
    if len(packages) > 1:
        why = (
            f"{' and '.join(packages)} are installed together: their files have the same names, so one has overwritten "
        )
        why += "or removed those of the other"
    else:
        why = f"files of {packages[0]} are missing: another package with the same files was uninstalled, or the "
        why += "installation was interrupted"
    to_remove = " ".join(dict.fromkeys([*packages, "onnxruntime", "onnxruntime-gpu"]))
    return f"  why: {why}\n  what to do: pip uninstall -y {to_remove}, then pip install {package}"

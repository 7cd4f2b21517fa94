"""The floors of each room, which `test_architecture.py` holds and the site draws."""

from __future__ import annotations

FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "runtime": (
        # the core: programs, run and differentiated
        ("installed.py", "lazy.py", "namespace.py", "visible.py", "providers.py", "traits.py"),
        ("errors.py",),
        (
            "checks.py",
            "memory.py",
            "onnxruntime_package.py",
            "tensor_like.py",
            "current_trace.py",
            "per_thread.py",
            "registration.py",
            "workarounds.py",
        ),
        ("tree.py",),
        ("ir",),
        ("precision.py", "tracing.py", "storage"),
        ("ops",),
        ("onnx_functions",),
        ("programs",),
        ("ops/higher_order",),
        ("ops/linear_algebra",),
        ("ops/__init__.py",),
        ("storage/programs.py", "lowering"),
        ("compiled",),
        # what people write Cells with
        ("common/tape.py",),
        ("context.py",),
        ("common",),
        ("functional",),
        ("common/__init__.py", "eager", "train/metrics"),
        ("nn",),
        ("graph",),
        ("common/api.py", "optim", "amp"),
        ("train", "train_step"),
        ("attachments.py",),
        ("__init__.py",),
    ),
    "converter": (
        ("exclusive.py", "rows.py", "seed.py", "torch_version.py", "warning.py", "unsupported.py"),
        ("dtypes.py",),
        ("structure",),
        ("mapped_weights.py",),
        ("exported", "torchscript", "capture/tables", "onnx_out", "torch_out/calls", "cell_source/text"),
        ("onnx_in/model", "torch_out/tables", "cell_source/forms", "jax_in/tables"),
        ("onnx_in/tables", "cell_source/layers"),
        ("capture", "onnx_in", "torch_out", "cell_source", "jax_in"),
        ("__init__.py",),
    ),
    "parity": (
        ("support", "dtypes.py"),
        ("options.py", "correspondence"),
        ("results", "weights"),
        ("verdicts",),
        ("report", "sides"),
        ("causes", "inputs"),
        ("judging", "pairing"),
        ("checking",),
        ("jobs",),
        ("assertions.py", "commands", "pytest_failures.py", "pytest_options.py", "pytest_pages.py"),
        ("cli.py", "pytest_plugin.py"),
        ("__init__.py", "__main__.py"),
    ),
}
"""The floors, lowest first.

A file may import from its own row and from those above it in this table, but no two files each other. A row lists files
and folders; where two apply to a file, the longer one holds.
"""

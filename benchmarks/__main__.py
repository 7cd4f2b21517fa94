"""Measure against peers and write `benchmarks/RESULTS.md`.

    python -m benchmarks                 all topics, about two hours; nothing else should run on the machine
    python -m benchmarks TOPIC ...       only these; the other sections of RESULTS.md stay
    python -m benchmarks --check         compare with the last measurements: exit code 1 if a ratio got worse than its
                                         noise explains; printed only
    python -m benchmarks --gpu           the topics of a GPU, on a machine that has one, about fifteen minutes
    python -m benchmarks --quick         one repetition on a small model, printed only, to see that it works

This process imports neither torch nor NumPy: the peak memory that the kernel reports for a child includes that of the
process which started it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import (
    browser,
    check,
    checkpoints,
    conversion,
    coverage,
    deployment,
    eager_training,
    families,
    gpu,
    growth,
    inference,
    interpreter,
    other_names,
    out_of_core,
    recordings,
    sweeps,
    tables,
    training_networks,
    training_step,
    unrolled,
    verdicts,
    whole_process,
)

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"


@dataclass(frozen=True)
class Topic:
    """A section of RESULTS.md.

    Attributes:
        title: title of the section.
        explanation: description of what is measured.
        measure: measures, quickly or in full, and returns the table.
    """

    title: str
    explanation: str
    measure: Callable[[bool], str]


def _whole_process(quick: bool) -> str:
    return tables.table(
        [row for model in _models(quick) for row in whole_process.measure(ROOT, model, 1 if quick else 7)]
    )


def _verdicts(quick: bool) -> str:
    return verdicts.measure(ROOT, verdicts.NAMES[:1] if quick else verdicts.NAMES, 1 if quick else 3)


def _interpreter(quick: bool) -> str:
    models = _models(quick) if quick else (*_models(quick), *verdicts.NAMES)
    return tables.table([row for model in models for row in interpreter.measure(ROOT, model, 1 if quick else 30)])


def _eager_training(quick: bool) -> str:
    return tables.table(eager_training.measure(ROOT, 1 if quick else 50))


def _conversion(quick: bool) -> str:
    models = _models(quick) if quick else (*conversion.FIXTURES, *conversion.LARGE)
    return tables.table(conversion.measure(ROOT, models, 1 if quick else 3))


def _families(quick: bool) -> str:
    rows = families.measure(ROOT, ["state_spaces"], 2) if quick else families.measure(ROOT, families.MODULES)
    return tables.table(rows)


def _training_step(quick: bool) -> str:
    networks = ("lenet",) if quick else tuple(training_networks.NETWORKS)
    return training_step.measure(ROOT, networks, 1 if quick else 9)


def _inference(quick: bool) -> str:
    return inference.measure(ROOT, ("lstm_classifier",) if quick else inference.MODELS, 1 if quick else 9)


def _growth(quick: bool) -> str:
    return growth.measure(ROOT, growth.QUICK_SIZES if quick else growth.SIZES, 1 if quick else 2)


def _unrolled(quick: bool) -> str:
    return unrolled.measure(ROOT, unrolled.QUICK_STEPS if quick else unrolled.STEPS, 1 if quick else 3)


def _other_names(quick: bool) -> str:
    networks = other_names.QUICK if quick else other_names.NETWORKS
    return tables.table(other_names.measure(ROOT, networks, 1 if quick else 3))


def _gpu_training(quick: bool) -> str:
    networks = ("lenet",) if quick else tuple(training_networks.NETWORKS)
    return gpu.training(ROOT, networks, 1 if quick else 5)


def _gpu_inference(quick: bool) -> str:
    return gpu.inference(ROOT, ("lstm_classifier",) if quick else gpu.MODELS, 1 if quick else 5)


def _gpu_tf32(quick: bool) -> str:
    return gpu.tf32(ROOT, ("transformer_encoder",) if quick else gpu.MODELS, 1 if quick else 5)


def _recordings(quick: bool) -> str:
    return tables.table(recordings.measure(ROOT, "bert_base" if quick else recordings.MODEL, 1 if quick else 3))


def _sweeps(quick: bool) -> str:
    return tables.table(
        sweeps.measure(ROOT, 2 if quick else sweeps.MODELS, 4 if quick else sweeps.MANY, 1 if quick else 3)
    )


def _out_of_core(quick: bool) -> str:
    return tables.table(out_of_core.measure(ROOT, ["quick"] if quick else ["1 billion", "7 billion"]))


def _checkpoints(quick: bool) -> str:
    sizes = ["quick"] if quick else ["1 billion", "7 billion"]
    return tables.table(checkpoints.measure(ROOT, sizes, 100 if quick else 5_000))


def _deployment(quick: bool) -> str:
    return deployment.measure(ROOT, ("transformer_encoder",) if quick else deployment.MODELS, 3 if quick else 15)


def _browser(quick: bool) -> str:
    return tables.table(browser.measure(ROOT, 1 if quick else 5))


def _models(quick: bool) -> tuple[str, ...]:
    return ("lstm_classifier",) if quick else ("resnet18", "minilm")


TOPICS = {
    "parity-run": Topic(whole_process.TITLE, whole_process.EXPLANATION, _whole_process),
    "verdicts": Topic(verdicts.TITLE, verdicts.EXPLANATION, _verdicts),
    "interpreter": Topic(interpreter.TITLE, interpreter.EXPLANATION, _interpreter),
    "eager-training": Topic(eager_training.TITLE, eager_training.EXPLANATION, _eager_training),
    "training-step": Topic(training_step.TITLE, training_step.EXPLANATION, _training_step),
    "inference": Topic(inference.TITLE, inference.EXPLANATION, _inference),
    "conversion": Topic(conversion.TITLE, conversion.EXPLANATION, _conversion),
    "families": Topic(families.TITLE, families.EXPLANATION, _families),
    "recordings": Topic(recordings.TITLE, recordings.EXPLANATION, _recordings),
    "sweeps": Topic(sweeps.TITLE, sweeps.EXPLANATION, _sweeps),
    "out-of-core": Topic(out_of_core.TITLE, out_of_core.EXPLANATION, _out_of_core),
    "checkpoints": Topic(checkpoints.TITLE, checkpoints.EXPLANATION, _checkpoints),
    "deployment": Topic(deployment.TITLE, deployment.EXPLANATION, _deployment),
    "growth": Topic(growth.TITLE, growth.EXPLANATION, _growth),
    "unrolled": Topic(unrolled.TITLE, unrolled.EXPLANATION, _unrolled),
    "other-names": Topic(other_names.TITLE, other_names.EXPLANATION, _other_names),
    "coverage": Topic(coverage.TITLE, coverage.EXPLANATION, lambda quick: coverage.table(ROOT)),
}
if browser.MODULES in os.environ:
    TOPICS["browser"] = Topic(browser.TITLE, browser.EXPLANATION, _browser)
GPU_TOPICS = {
    "gpu-training": Topic(gpu.TRAINING, gpu.OF_TRAINING, _gpu_training),
    "gpu-inference": Topic(gpu.INFERENCE, gpu.OF_INFERENCE, _gpu_inference),
    "gpu-tf32": Topic(gpu.TF32, gpu.OF_TF32, _gpu_tf32),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure against peers.")
    topics = TOPICS | GPU_TOPICS
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help=f"{', '.join(topics)}; all but the GPU's by default")
    parser.add_argument("--gpu", action="store_true", help="the topics of a GPU")
    parser.add_argument("--check", action="store_true", help="compare with RESULTS.md, and change nothing")
    parser.add_argument("--quick", action="store_true", help="one repetition on a small model, printed only")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.topics if name not in topics]
    if unknown:
        parser.error(f"no topic {', '.join(unknown)}; there are {', '.join(topics)}")
    names = arguments.topics or list(GPU_TOPICS if arguments.gpu else TOPICS)
    card = gpu.device(ROOT) if GPU_TOPICS.keys() & names else ""
    if GPU_TOPICS.keys() & names and not card:
        parser.error("torch and ONNX Runtime can't both use a GPU here (onnxruntime-gpu, a CUDA build of torch)")
    if arguments.check and arguments.quick:
        parser.error("--check needs full measurements: leave --quick out")
    last = tables.sections(RESULTS.read_text(encoding="utf-8"))
    slower: list[str] = []
    for name in names:
        topic = topics[name]
        print(f"measuring {name}", flush=True)
        circumstances = tables.circumstances()  # before the measurements, for its load average
        table = topic.measure(arguments.quick)
        where = f"{card} " if name in GPU_TOPICS else ""
        section = tables.section(topic.title, f"{topic.explanation} {where}{circumstances}", table)
        print(section, flush=True)
        if arguments.check:
            slower += [f"{name}: {row}" for row in check.slower_rows(last.get(topic.title, ""), section)]
        elif not arguments.quick:
            text = RESULTS.read_text(encoding="utf-8")
            RESULTS.write_text(tables.document(text, section), encoding="utf-8")
    if arguments.check:
        print(
            "\n".join(["slower than in RESULTS.md:", *slower] if slower else ["nothing is slower than in RESULTS.md"])
        )
        raise SystemExit(bool(slower))


if __name__ == "__main__":
    main()

"""A port by another hand, aligned by values, against a copy of the reference, paired by names.

    python -m benchmarks.other_names NETWORK KIND

compares one, in a process of its own, and exits with an error if parity doesn't hold.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .tables import Row
from .whole_process import Usage, usage

if TYPE_CHECKING:
    from torch import nn

TITLE = "Ports by another hand"
EXPLANATION = (
    "Wall time and peak resident memory of a process that compares a network with its port by another hand, which is "
    "aligned by values, against one that compares it with a copy, whose Cells have the same names. Both networks, "
    "ResNet-50 at 224 and BERT-base at length 128, are those of transformers; one port is of plain layers, the other "
    "of torch's own encoder layers."
)
TARGETS = {"wall time": 1.5, "peak memory": 1.3}
NETWORKS = ("resnet50", "bert_base")
QUICK = ("bert_small",)


def measure(root: Path, networks: tuple[str, ...], turns: int) -> list[Row]:
    """Return rows for these networks; both kinds take turns."""
    rows: list[Row] = []
    for network in networks:
        usages: dict[str, list[Usage]] = {"port": [], "copy": []}
        for _ in range(turns):
            for kind, of_kind in usages.items():
                of_kind.append(usage([sys.executable, "-m", "benchmarks.other_names", network, kind], root))
        for metric, unit, attribute in (("wall time", "s", "seconds"), ("peak memory", "MiB", "memory")):
            port, copied = ([getattr(turn, attribute) for turn in usages[kind]] for kind in ("port", "copy"))
            rows.append(Row(network, metric, unit, port, copied, TARGETS[metric]))
    return rows


def _resnet50() -> tuple[nn.Module, nn.Module, tuple[Any, ...]]:
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    from .plain_resnet import resnet50

    reference, port = ResNetForImageClassification(ResNetConfig()).eval(), resnet50().eval()
    pairs = zip(port.state_dict(), reference.state_dict().values(), strict=True)  # both in order of computation
    port.load_state_dict(dict(pairs))
    return reference, port, (torch.randn(1, 3, 224, 224),)


def _bert(**sizes: int) -> tuple[nn.Module, nn.Module, tuple[Any, ...]]:
    import torch

    from .twins.pairs import bert

    for name, size in sizes.items():
        setattr(bert, name, size)
    reference = bert.build().eval()
    ids = torch.randint(1, bert.WORDS, (1, bert.LENGTH))
    return reference, bert.port_torch(reference).eval(), (ids, torch.ones_like(ids))


def _main(network: str, kind: str) -> None:
    import copy

    import torch

    from cellbridge import parity
    from cellbridge.parity.support.process import tuned_process

    torch.manual_seed(0)
    if network == "resnet50":
        reference, port, inputs = _resnet50()
    elif network == "bert_base":
        reference, port, inputs = _bert(WIDTH=768, DEPTH=12, HEADS=12, WORDS=30522, LENGTH=128, INNER=3072)
    else:
        reference, port, inputs = _bert()
    if kind == "copy":
        port = copy.deepcopy(reference)
    with tuned_process():  # as commands run
        report = parity.compare(reference, port, inputs)
    assert report.ok, str(report)


if __name__ == "__main__":
    _main(*sys.argv[1:])

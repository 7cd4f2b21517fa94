"""Two networks that have nothing in common are said to be so in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.parity.judging.trial import Trial
from cellbridge.parity.report.items import outcomes
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import FAIL
from cellbridge.runtime.errors import ParityError

IDS = torch.arange(10).reshape(2, 5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(self.norm(x)).relu())  # type: ignore[no-any-return]


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.blocks = nn.Embedding(10, 8), nn.Sequential(Block(), Block())

    def forward(self, ids: Tensor) -> Tensor:
        return self.blocks(self.words(ids))  # type: ignore[no-any-return]


class Other(nn.Module):
    def __init__(self, words: nn.Module | None = None) -> None:
        super().__init__()
        self.table, self.first, self.second = words or nn.Embedding(10, 8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.second(self.first(self.table(ids)).tanh()).cos()  # type: ignore[no-any-return]


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).mean((2, 3)))  # type: ignore[no-any-return]


class Fault(Blocks):
    """The blocks under other names, with a mistake in the second one."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        del self.words, self.blocks
        self.table, self.layers = blocks.words, blocks.blocks

    def forward(self, ids: Tensor) -> Tensor:
        x = self.layers[0](self.table(ids))
        second = self.layers[1]
        return x + second.down(torch.nn.functional.gelu(second.up(second.norm(x))))  # type: ignore[operator, union-attr]


def seeded(make: type[nn.Module], seed: int = 0, *args: nn.Module) -> nn.Module:
    torch.manual_seed(seed)
    return make(*args)


def compared(candidate: nn.Module) -> Report:
    return parity.compare(seeded(Blocks), candidate, (IDS,), diagnose_seconds=0)


def test_no_cell_is_found() -> None:
    report = compared(seeded(Other, 1))
    sentence = report.nothing_in_common
    assert sentence.startswith(
        "The two networks have nothing in common but their inputs: none of 9 Cells of the reference was found in "
        "candidate, which is not the same function, because its output result is off by "
    )
    text = str(report)
    assert " ".join(text.split()).startswith(f"✗ {sentence}")
    assert len(text.splitlines()) < 8
    assert "unpaired" not in text
    assert report.to_dict()["nothing_in_common"] == sentence == report.sentence
    assert outcomes(report, [("", "candidate")]) == {("", "candidate"): (FAIL, sentence)}
    page = report.page()
    assert page.verdict == sentence
    assert [row.path for row in page.rows] == ["(root)"]
    with pytest.raises(ParityError) as caught:
        report.raise_if_failed()
    assert " ".join(str(caught.value).split()).startswith(f"✗ {sentence}")


def test_where_both_still_agree() -> None:
    reference = seeded(Blocks)
    candidate = seeded(Other, 1, reference.words)  # type: ignore[arg-type]
    report = parity.compare(reference, candidate, (IDS,), diagnose_seconds=0)
    ground = "nothing in common but their inputs and words: 8 of 9 Cells of the reference weren't found"
    assert report.nothing_in_common.startswith(f"The two networks have {ground}")
    assert [row.path for row in report.page().rows] == ["(root)", "words", "blocks"]


def test_a_candidate_that_takes_other_inputs() -> None:
    report = compared(Images())
    assert report.sentence.startswith("The two networks can't be compared: candidate raises RuntimeError: ")
    assert report.sentence.endswith("none of its Cells has a counterpart by name")
    assert len(str(report).splitlines()) < 8


class Masked(Other):
    """Takes a mask, too; without it, no Cell inside is reached."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = super().forward(ids) * mask
        return result


def test_a_candidate_that_takes_more_arguments() -> None:
    report = compared(seeded(Masked, 1))
    assert "candidate raises TypeError: Masked.forward() missing 1 required positional argument" in report.sentence
    assert report.sentence.endswith("none of its Cells has a counterpart by name")
    assert len(str(report).splitlines()) < 8


@pytest.mark.causes
def test_no_causes_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "_look_for_causes", lambda *_: pytest.fail("nobody reads them"))
    assert parity.compare(seeded(Blocks), seeded(Other, 1), (IDS,)).nothing_in_common


def test_a_port_with_a_fault_has_much_in_common() -> None:
    reference = seeded(Blocks)
    report = parity.compare(reference, Fault(reference), (IDS,), diagnose_seconds=0)  # type: ignore[arg-type]
    assert report.failed
    assert report.nothing_in_common == ""
    assert "blocks.1" in report.sentence


def test_a_network_without_cells_inside_has_nothing_to_miss() -> None:
    report = parity.compare(nn.Tanh(), nn.Sigmoid(), (torch.randn(3),), diagnose_seconds=0)
    assert report.failed
    assert report.nothing_in_common == ""


def test_the_command_says_it_and_ends_with_1(tmp_path: Path) -> None:
    head = "import torch\nfrom tests.parity.checking.test_nothing_in_common import *\n"
    tail = "\ndef inputs():\n    return IDS\n"
    (tmp_path / "there.py").write_text(f"{head}model = seeded(Blocks){tail}")
    (tmp_path / "here.py").write_text(f"{head}model = seeded(Other, 1){tail}")
    files = str(tmp_path / "there.py"), str(tmp_path / "here.py")
    result = CliRunner().invoke(main, ["compare", *files, "--diagnose-seconds", "0"])
    assert result.exit_code == 1, result.output
    assert "✗ The two networks have nothing in common but their inputs" in " ".join(result.output.split())
    assert "(-v shows the Cells)" in " ".join(result.output.split())
    assert "unpaired" in CliRunner().invoke(main, ["compare", *files, "--diagnose-seconds", "0", "-v"]).output

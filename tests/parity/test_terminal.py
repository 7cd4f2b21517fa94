"""The text of reports at 80 and 60 columns, on a terminal and in a pipe."""

from __future__ import annotations

import io
import math

import pytest
from rich.cells import cell_len
from rich.console import Console

from cellbridge.parity.report.report import Report
from cellbridge.parity.report.terminal import failure_text, render
from cellbridge.parity.results.cell_report import CellReport
from cellbridge.parity.results.comparison import FAIL, INLINED, NOT_COMPARED, NOT_REACHED, SKIPPED, times
from cellbridge.runtime.errors import ParityError
from tests.parity.reports import CONVNET, SIDES, cell, encoder, failing, passing, report, without_comparisons


def shown(of: Report, width: int = 80, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width)
    render(of, console, verbose)
    return console.file.getvalue()  # type: ignore[attr-defined]


def tree_of(of: Report, **options: bool) -> list[str]:
    """The lines of the tree, single-spaced."""
    text = shown(of, **options)
    return [" ".join(line.split()) for line in text.split("\n\n")[0].splitlines()]


def unwrapped(text: str) -> str:
    return " ".join(text.split())


FAULTY_NORM = cell(
    "layers.5.norm1",
    "LayerNorm",
    failing(),
    failing(side="onnxruntime"),
    failing(check="rounding", ratio=41.0, bar=1e-6, dtype="float32", reason="less precise than the reference"),
    failing(feeding="end to end"),
    failing(kind="parameter gradient", tensor="layers.5.norm1.weight", source=""),
    failing(kind="parameter gradient", tensor="layers.5.norm1.bias", index=None, ratio=0.0, reason="no gradient"),
)
FAULTY = report(encoder(12), cell("", "Encoder", failing(feeding="end to end")), FAULTY_NORM)


def test_what_was_compared_is_said_not_what_was_asked_for() -> None:
    only_outputs = report({}, CellReport("", "Net", comparisons=[passing()]))
    assert only_outputs.grads
    assert "against torch; outputs, float32" in unwrapped(shown(only_outputs))


def test_a_small_network_that_passes_is_shown_whole() -> None:
    assert shown(report(CONVNET)) == (
        "Cell           class        verdict  outputs  gradients\n"
        "(root)         ConvNet      ✓ pass      1.3×       1.1×\n"
        "├─ stem        Conv2d       ✓ pass      1.3×       1.1×\n"
        "├─ blocks      Sequential   ✓ pass      1.3×       1.1×\n"
        "│  ├─ 0        Block        ✓ pass      1.3×       1.1×\n"
        "│  │  ├─ norm  BatchNorm2d  ✓ pass      1.3×       1.1×\n"
        "│  │  └─ act   GELU         ✓ pass      1.3×       1.1×\n"
        "│  └─ 1        Block        ✓ pass      1.3×       1.1×\n"
        "│     ├─ norm  BatchNorm2d  ✓ pass      1.3×       1.1×\n"
        "│     └─ act   GELU         ✓ pass      1.3×       1.1×\n"
        "└─ head        Linear       ✓ pass      1.3×       1.1×\n"
        "\n"
        "1.0× is torch's own rounding error, measured against float64.\n"
        "\n"
        "✓ Parity holds: interpreter (outputs and gradients) and onnxruntime (outputs)\n"
        "  agree with torch in 10 Cells\n"
        "  the network as a whole: interpreter: not known, because its outputs were not\n"
        "    compared end to end\n"
        "  10 Cells: 10 pass\n"
        "  net.py: interpreter and onnxruntime against torch; outputs and gradients,\n"
        "    float32, eval mode, seed 0\n"
    )


def test_repeated_layers_that_pass_are_one_line() -> None:
    assert tree_of(report(encoder(12))) == [
        "Cell class verdict outputs gradients Cells",
        "(root) Encoder ✓ pass 1.3× 1.1×",
        "├─ embedding Embedding ✓ pass 1.3× 1.1×",
        "├─ layers.0 … 11 EncoderLayer ✓ pass 1.3× 1.1× 108",
        "└─ head Linear ✓ pass 1.3× 1.1×",
    ]


def test_a_collapsed_line_has_the_worst_of_what_it_stands_for() -> None:
    worse = cell("layers.3.mlp.1", "GELU", passing(ratio=7.6), passing(kind="input gradient", ratio=5.2))
    assert "├─ layers.0 … 11 EncoderLayer ✓ pass 7.6× 5.2× 108" in tree_of(report(encoder(12), worse))


def test_a_few_layers_are_a_line_each() -> None:
    lines = tree_of(report(encoder(4)))
    assert [number for number in range(4) if any(f"layers.{number} EncoderLayer" in line for line in lines)] == [
        0,
        1,
        2,
        3,
    ]


def test_siblings_of_different_classes_are_not_one_line() -> None:
    cells = {"": "Sequential", "0": "Linear", "1": "ReLU", "2": "Linear", "3": "Linear"}
    assert [line.split()[1] for line in tree_of(report(cells))[2:]] == ["0", "1", "2", "3"]


def test_a_large_network_is_collapsed_to_a_screen() -> None:
    cells = {"": "Net"} | {f"stage{i}": "Stage" for i in "abcdefg"}
    cells |= {f"stage{i}.part{j}": "Part" for i in "abcdefg" for j in "abcde"}
    assert len(tree_of(report(cells))) == 2 + 7
    assert len(tree_of(report(cells), verbose=True)) == 2 + 7 + 35


def test_a_failing_cell_is_laid_open_with_its_ancestors() -> None:
    assert tree_of(FAULTY) == [
        "Cell class verdict outputs gradients Cells",
        "(root) Encoder ~ affected ≠ 1.3× 1.1×",
        "├─ embedding Embedding ✓ pass 1.3× 1.1×",
        "├─ layers.0 … 4 EncoderLayer ✓ pass 1.3× 1.1× 45",
        "├─ layers.5 EncoderLayer ✓ pass 1.3× 1.1×",
        "│ ├─ attention SelfAttention ✓ pass 1.3× 1.1× 4",
        "│ ├─ norm1 LayerNorm ✗ FAIL ≠ 41× ≠ 1.1×",
        "│ └─ mlp FeedForward ✓ pass 1.3× 1.1× 3",
        "├─ layers.6 … 11 EncoderLayer ✓ pass 1.3× 1.1× 54",
        "└─ head Linear ✓ pass 1.3× 1.1×",
    ]


def test_verbose_shows_every_cell() -> None:
    assert len(tree_of(FAULTY, verbose=True)) == 1 + len(FAULTY.cells)


def test_a_failing_cell_in_detail() -> None:
    text = shown(FAULTY)
    assert text[text.index("✗ layers.5") : text.index("✗ Parity")] == (
        "✗ layers.5.norm1  LayerNorm\n"
        "  output float64[2, 3]\n"
        "    interpreter, meaning in float64, isolated\n"
        "    not the same function\n"
        "    error 0.00032; up to 1e-09 passes\n"
        "    worst at [1, 2]\n"
        "      torch           0.75\n"
        "      interpreter     0.75032\n"
        "      float64 truth   0.75\n"
        "    from net.py:12\n"
        "      return self.norm(x)\n"
        "    also: onnxruntime, meaning in float64, isolated (off by 0.00032);\n"
        "      interpreter, rounding, isolated (41×); interpreter, meaning in float64,\n"
        "      end to end (off by 0.00032)\n"
        "  parameter gradient layers.5.norm1.weight float64[2, 3]\n"
        "    interpreter, meaning in float64, isolated\n"
        "    not the same function\n"
        "    error 0.00032; up to 1e-09 passes\n"
        "    worst at [1, 2]\n"
        "      torch           0.75\n"
        "      interpreter     0.75032\n"
        "      float64 truth   0.75\n"
        "  others that differ: parameter gradient layers.5.norm1.bias (no gradient)\n"
        "\n"
    )


def test_verbose_shows_every_failing_check_in_full() -> None:
    assert shown(FAULTY).count("worst at") == 2
    assert shown(FAULTY, verbose=True).count("worst at") == 6  # five with an element, and the root's


def test_values_are_told_apart() -> None:
    close = failing(check="rounding", reference_value=0.1, candidate_value=0.1 + 1e-12, truth=-3.0)
    text = shown(report(CONVNET, cell("head", "Linear", close)))
    assert "torch           0.1\n" in text
    assert "interpreter     0.100000000001\n" in text
    assert "float64 truth  -3\n" in text


def test_values_that_are_not_finite_are_shown() -> None:
    broken = failing(candidate_value=math.nan, error=math.inf, ratio=math.inf)
    text = shown(report(CONVNET, cell("head", "Linear", broken)))
    assert "interpreter     nan\n" in text
    assert "error inf; up to" in text
    assert "inf×" not in text.partition("1.0×")[0], "infinity is no multiple of anything"


def test_a_failure_of_rounding_is_not_marked_as_another_meaning() -> None:
    less_precise = failing(check="rounding", ratio=41.0)
    text = shown(report(CONVNET, cell("head", "Linear", less_precise)))
    assert "≠" not in text
    assert "  41×" in text
    assert "41× torch's own rounding error" in text


def test_the_call_is_named_where_there_are_several() -> None:
    text = shown(report(CONVNET, cell("stem", "Conv2d", failing(call=1), calls=2)))
    assert "Conv2d ×2" in text
    assert "✗ stem  Conv2d, called 2 times\n  output, call 1 float64[2, 3]\n" in text


def test_what_could_not_be_compared_is_no_pass() -> None:
    lost = failing(status=NOT_COMPARED, reason="no counterpart", index=None, dtype="", source="")
    alone = without_comparisons("head", "Linear", "")
    alone.comparisons, alone.presence = [lost], None
    text = shown(report(CONVNET, alone))
    assert "└─ head    Linear      ? not compared        ?\n" in text
    assert "✗ head  Linear\n  output\n    interpreter, meaning in float64, isolated\n    no counterpart\n" in text
    assert "✗ Parity fails in 1 Cell: head\n" in text


def test_what_was_not_reached_is_shown_and_counted() -> None:
    text = shown(report(CONVNET, without_comparisons("blocks.1.act", "GELU", NOT_REACHED)))
    assert "│     └─ act   GELU         - not reached\n" in text
    assert "10 Cells: 9 pass, 1 not reached\n" in text
    assert "not reached: the inputs never exercise blocks.1.act, so nothing is known there" in unwrapped(text)


def test_what_was_not_reached_is_counted_where_it_is_collapsed() -> None:
    layers = report(encoder(12), *(without_comparisons(f"layers.{i}.mlp.1", "GELU", NOT_REACHED) for i in range(12)))
    assert "├─ layers.0 … 11 EncoderLayer ✓ pass 1.3× 1.1× 96/108" in tree_of(layers)
    assert "the inputs never exercise layers.*.mlp.1 (12 Cells), so" in unwrapped(shown(layers))


def test_many_that_were_not_reached_are_not_all_named() -> None:
    unused = [
        without_comparisons(path, name, NOT_REACHED) for path, name in CONVNET.items() if path not in ("", "stem")
    ]
    assert "never exercise blocks, blocks.* (2 Cells), blocks.*.norm (2 Cells)" in unwrapped(
        shown(report(CONVNET, *unused))
    )
    many = report(
        {"": "Net", "used": "Linear"}, *(without_comparisons(name, "Linear", NOT_REACHED) for name in "abcdefgh")
    )
    assert "never exercise a, b, c, d, e and 3 others, so" in unwrapped(shown(many))


def test_an_inlined_cell_does_not_open_a_branch() -> None:
    lines = tree_of(report(encoder(6), without_comparisons("layers.2.attention.out", "Linear", INLINED)))
    assert "├─ layers.0 … 5 EncoderLayer ✓ pass 1.3× 1.1× 54" in lines


def test_what_was_left_out_is_one_line() -> None:
    skipped = [without_comparisons(path, name, SKIPPED) for path, name in encoder(6).items() if "layers" in path]
    assert "├─ layers.0 … 5 EncoderLayer - skipped 54" in tree_of(report(encoder(6), *skipped))


def test_nothing_compared_is_no_pass() -> None:
    nothing = [without_comparisons(path, name, SKIPPED) for path, name in CONVNET.items()]
    text = shown(report(CONVNET, *nothing))
    assert "✗ Nothing was compared, so parity is not shown\n" in text
    assert "passes" not in text


def test_outputs_alone_have_no_column_of_gradients() -> None:
    cells = [cell(path, name) for path, name in CONVNET.items()]
    for each in cells:
        each.comparisons = each.outputs
    text = shown(report(CONVNET, *cells, grads=False))
    assert "gradients" not in text
    assert "interpreter (outputs) and onnxruntime (outputs) agree" in text


def test_one_side_and_notes() -> None:
    text = shown(report(CONVNET, sides=["candidate"], notes=["stopped at the first failing Cell"]))
    assert "candidate (nothing) agrees with torch" in text
    assert "  note: stopped at the first failing Cell\n" in text


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [60, 80, 132])
def test_nothing_is_wider_than_the_terminal(width: int, verbose: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # a command isn't broken, so that it can be copied
    reason = "nothing was recorded here on the interpreter side: the Cell or this output has no counterpart " * 3
    long = failing(
        reason=reason,
        tensor="a_very_long_name_of_an_output.with.several.levels",
        shape=(1, 2, 3, 4, 5, 6, 7, 8),
        source=f"/a/folder/{'that/is/deep/' * 9}net.py:1234: return {'self.norm(x) + ' * 9}x",
    )
    deep = {"": "N"} | {".".join(["encoder"] * n): "AClassWithAVeryLongName日本" for n in range(1, 7)}
    for each in (
        report(deep, cell(".".join(["encoder"] * 6), "AClassWithAVeryLongName日本", long), model="m/" * 70),
        report(deep),
        FAULTY,
    ):
        lines = shown(each, width, verbose).splitlines()
        assert max(cell_len(line) for line in lines) <= width
        assert not any(line != line.rstrip() for line in lines)


def test_narrow_terminals_lose_the_class_before_the_path() -> None:
    text = shown(report(encoder(12), FAULTY_NORM, cell("", "Encoder", failing(feeding="end to end"))), 58)
    assert "├─ layers.0 … 4" in text
    assert "EncoderLayer" not in text


def test_a_pipe_gets_no_colour_and_a_terminal_does() -> None:
    assert "\x1b" not in shown(FAULTY)
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard", _environ={})
    render(FAULTY, terminal)
    assert "\x1b[1;31m✗ FAIL" in terminal.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_other_encodings_get_plain_characters(encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    foreign = failing(source="net.py:1: return größe(x, '日本')")
    of = report(encoder(12), cell("layers.5.norm1", "Größe", foreign))
    console = Console(file=stream, width=80)
    render(of, console)
    stream.flush()
    text = stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "|- layers.0 ~ 4   EncoderLayer   + pass      1.3x       1.1x     45\n" in text
    assert "! FAIL" in text
    assert "'??'" in text


def test_control_characters_do_not_reach_the_terminal() -> None:
    nasty = failing(source="net.py:1: x = '\x1b[2J\t[bold]'")
    text = shown(report(CONVNET, cell("head", "Linear", nasty)))
    assert "\x1b" not in text
    assert "[bold]'" in text


def test_failure_text_is_the_failing_cells() -> None:
    text = failure_text(FAULTY)
    assert text.startswith("✗ Parity fails in 1 Cell: layers.5.norm1\n")
    assert "✗ layers.5.norm1  LayerNorm\n" in text
    assert "embedding" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_report_prints_as_what_the_command_shows() -> None:
    assert str(FAULTY) == shown(FAULTY).rstrip("\n")
    assert repr(FAULTY).startswith("<Report of ")
    assert len(repr(FAULTY)) < 120


def test_raise_if_failed_shows_it() -> None:
    with pytest.raises(ParityError, match=r"layers\.5\.norm1  LayerNorm"):
        FAULTY.raise_if_failed()
    report(CONVNET).raise_if_failed()


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.0, "0×"),
        (0.04, "0.0×"),
        (1.25, "1.2×"),
        (9.94, "9.9×"),
        (9.96, "10×"),
        (41.4, "41×"),
        (999.6, "1e3×"),
        (3.2e5, "3e5×"),
        (1e120, "1e120×"),
        (math.inf, "inf×"),
        (math.nan, "inf×"),
    ],
)
def test_ratios_are_short(ratio: float, text: str) -> None:
    assert times(ratio) == text


def test_the_sides_of_the_test_reports() -> None:
    assert {c.side for each in FAULTY.cells.values() for c in each.comparisons} == set(SIDES)
    assert FAULTY.cells["layers.5.norm1"].status == FAIL
    assert FAULTY.failing == ["layers.5.norm1"]


def faulty_encoder(*layers: int, part: str = "norm1", of: int = 12) -> Report:
    """An encoder whose layers have the same fault with different numbers."""
    cells = [
        cell(
            f"layers.{layer}.{part}",
            "LayerNorm",
            failing(ratio=1e6 + layer, error=1e-3 * (layer + 1), source=f"net.py:{layer}: return self.norm(x)"),
            failing(kind="parameter gradient", tensor=f"layers.{layer}.{part}.weight"),
            explanations=["eps=1e-05 in the candidate, 1e-06 in the reference"],
        )
        for layer in layers
    ]
    return report(encoder(of), *cells)


def test_equal_faults_are_told_once_with_the_one_that_is_furthest_off() -> None:
    text = shown(faulty_encoder(*range(12)))
    assert text.count("possible cause: eps=1e-05 in the candidate, 1e-06 in the reference") == 1
    assert text.count("not the same function") == 2  # of the output and of the gradient
    assert "✗ layers.11.norm1  LayerNorm\n" in text
    assert "the same in 12 Cells: layers.*.norm1; this one has the largest error" in text
    assert "✗ Parity fails in 12 Cells: layers.*.norm1\n" in text
    assert len(text.splitlines()) < 50


def test_cells_of_a_pattern_that_dont_fail_are_counted() -> None:
    text = shown(faulty_encoder(*range(0, 12, 2)))
    assert "the same in 6 Cells: layers.*.norm1 (6 of 12 Cells)" in unwrapped(text)


def test_few_equal_faults_are_named() -> None:
    assert "the same in 2 Cells: layers.3.norm1, layers.7.norm1;" in shown(faulty_encoder(3, 7))


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "no such output"},
        {"side": "onnxruntime"},
        {"check": "rounding"},
        {"feeding": "end to end"},
        {"tensor": "output.1"},
        {"kind": "passed value"},
        {"sizes": "batch=1"},
    ],
)
def test_other_faults_are_told_apart(change: dict[str, str]) -> None:
    first, second = (
        cell("layers.0.norm1", "LayerNorm", failing()),
        cell("layers.1.norm1", "LayerNorm", failing(**change)),
    )
    text = shown(report(encoder(2), first, second))
    assert "the same in" not in text


def test_other_causes_and_classes_are_told_apart() -> None:
    first = cell("layers.0.norm1", "LayerNorm", failing())
    for name, causes in (("LayerNorm", ["momentum"]), ("RMSNorm", [])):
        second = cell("layers.1.norm1", name, failing(), explanations=causes)
        assert "the same in" not in shown(report(encoder(2), first, second))


def test_layers_in_which_the_same_cells_fail_are_laid_open_once() -> None:
    assert tree_of(faulty_encoder(*range(11)))[3:8] == [
        "├─ layers.0 … 10 EncoderLayer ✓ pass 1.3× 1.1× 11",
        "│ ├─ attention SelfAttention ✓ pass 1.3× 1.1× 44",
        "│ ├─ norm1 LayerNorm ✗ FAIL ≠ 1.3× ≠ 1.1× 11",
        "│ └─ mlp FeedForward ✓ pass 1.3× 1.1× 33",
        "├─ layers.11 EncoderLayer ✓ pass 1.3× 1.1× 9",
    ]


def test_several_hundred_failing_cells_fit_two_screens() -> None:
    cells = {"": "Net"} | {f"part{i}": f"Class{i}" for i in range(400)}
    faults = [cell(f"part{i}", f"Class{i}", failing(check="rounding", ratio=20.0)) for i in range(400)]
    faults[300] = cell("part300", "Class300", failing())
    whole = report(cells, *faults)
    text = shown(whole)
    assert len(text.splitlines()) < 170
    assert text.index("✗ part300  Class300") < text.index("✗ part0  Class0")  # what is computed before rounding
    assert "and 384 Cells more (-v shows them, --json writes them)" in text
    assert "… and 341 lines more (-v shows them)" in text
    everything = shown(whole, verbose=True)
    assert [i for i in range(400) if f"✗ part{i} " not in everything] == []
    assert len(whole.to_dict()["failing"]) == 400

"""The pytest plugin: in a process of its own as its users run it, and in this process, which has torch already."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cellbridge import parity
from cellbridge.parity.checking import engine
from cellbridge.runtime.errors import UsageError

pytest_plugins = ["pytester"]

MODEL = """
    import torch
    from torch import nn

    class WrongBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * FACTOR

    class Double(nn.Module):
        def forward(self, x):
            return WrongBackward.apply(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.twice = Double()
            self.last = nn.Linear(4, 2)
            if UNUSED:
                self.unused = nn.Linear(4, 4)

        def forward(self, x):
            return self.last(self.twice(self.first(x)))

    def model():
        return Net()

    def inputs():
        return (torch.randn(3, 4),)
"""


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Import what a check needs: pytester forgets modules that a run in this process is the first to import."""
    parity.check(torch.nn.Linear(4, 4), (torch.randn(3, 4),))


@pytest.fixture(autouse=True)
def _no_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of each run, pytest would look five times at all objects of this process for unraised exceptions."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:unraisableexception")


def write(pytester: pytest.Pytester, *, factor: int = 2, unused: bool = False) -> None:
    text = textwrap.dedent(MODEL).replace("FACTOR", str(factor)).replace("UNUSED", str(unused))
    (pytester.path / "parity_net.py").write_text(text)


def test_one_item_per_cell_and_side(pytester: pytest.Pytester) -> None:
    write(pytester)
    result = pytester.runpytest_inprocess("-v", "parity_net.py")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["parity_net.py::(root)[[]interpreter[]] PASSED*", "*last[[]onnxruntime[]] PASSED*"])


def test_the_failing_cell_and_no_other_fails(pytester: pytest.Pytester) -> None:
    write(pytester, factor=3)
    result = pytester.runpytest_inprocess("-v", "parity_net.py")
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["parity_net.py::twice[[]interpreter[]] FAILED*", "*input gradient x*"])
    assert "Traceback" not in result.stdout.str()


def test_all_that_inputs_yields_is_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        parity_net="""
        import torch

        class Odd(torch.nn.Module):
            def forward(self, x):
                return x * 2 if torch.compiler.is_compiling() or x.max() < 5 else x * 3

        def model():
            return torch.nn.Sequential(torch.nn.Identity(), Odd())

        def inputs():
            yield (torch.linspace(-1, 1, 8),)
            yield (torch.linspace(-1, 9, 8),)
        """
    )
    result = pytester.runpytest_inprocess("-v")
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["parity_net.py::1[[]interpreter[]] FAILED*", "*isolated, on input 2*"])


def test_a_cell_that_is_never_exercised_fails_with_its_own_message(pytester: pytest.Pytester) -> None:
    write(pytester, unused=True)
    result = pytester.runpytest_inprocess("parity_net.py")
    result.assert_outcomes(passed=8, failed=2)
    result.stdout.fnmatch_lines(["*the inputs never exercise the Cell unused (Linear)*"])


@pytest.mark.slow
def test_items_are_selected_by_keyword(pytester: pytest.Pytester) -> None:
    write(pytester)
    pytester.runpytest_inprocess("-k", "twice and interpreter", "parity_net.py").assert_outcomes(passed=1, deselected=7)


def test_the_model_is_captured_once_per_file(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write(pytester)
    original, checked = engine.check, []

    def counted(*args: Any, **kwargs: Any) -> parity.Report:
        checked.append(kwargs["model"])
        return original(*args, **kwargs)

    monkeypatch.setattr(engine, "check", counted)
    pytester.runpytest_inprocess("parity_net.py").assert_outcomes(passed=8)
    assert checked == ["parity_net.py"]


def test_a_model_that_cannot_be_converted_fails_each_item_with_the_reason(pytester: pytest.Pytester) -> None:
    text = textwrap.dedent(MODEL).replace("FACTOR", "2").replace("UNUSED", "False")
    text = text.replace("WrongBackward.apply(x)", "x + torch.hash_tensor(x.detach())")
    (pytester.path / "parity_net.py").write_text(text)
    result = pytester.runpytest_inprocess("parity_net.py")
    result.assert_outcomes(failed=8)
    result.stdout.fnmatch_lines(["*aten.hash_tensor.default*"])


def test_assert_parity_fails_with_the_failing_cells(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch
        from torch import nn
        from cellbridge.parity import assert_parity

        def pair():
            torch.manual_seed(0)
            a = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=1e-5))
            b = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=1e-6))
            b.load_state_dict(a.state_dict())
            return a, b

        def test_same():
            a, _ = pair()
            assert_parity(a, a, (torch.randn(2, 4),), grads=True)

        def test_other():
            a, b = pair()
            assert_parity(a, b, (torch.randn(2, 4),), grads=True)
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Parity fails in 1 Cell: 1*"])


UNRELATED = "def is_even(bits):\n    return sum(bits) % 2 == 0\n\nraise SystemExit('this was run')\n"


def refusing(*shown: str) -> Callable[..., parity.Report]:
    """A check that refuses, and shows the options of these names."""

    def check(module: Any, args: Any, kwargs: Any, **options: Any) -> parity.Report:
        raise UsageError(f"called with {[options[name] for name in shown]}\nin full")

    return check


def test_an_unrelated_file_of_that_name_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(parity_bits=UNRELATED, test_mine="def test_mine(): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    assert "parity_bits" not in result.stdout.str()
    result = pytester.runpytest_inprocess("-v")
    result.stdout.fnmatch_lines(["parity: parity_bits.py is ignored, since it defines no model and no inputs"])


@pytest.mark.parametrize("source", ["x = 1\n", "def model(): ...\n"])
def test_who_asks_for_a_file_that_is_no_model_file_is_told_so(pytester: pytest.Pytester, source: str) -> None:
    (pytester.path / "parity_empty.py").write_text(source)
    result = pytester.runpytest_inprocess("parity_empty.py")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["parity: parity_empty.py is ignored, since it defines no *inputs"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise ValueError('broken')\nmodel = inputs = None", "*broken*"),
        ("def model():\n    return 3\ndef inputs(): ...", "*must return an nn.Module*"),
        ("def model(): ...\ndef inputs():\n    return (", "*syntax error*"),
        ("import sys\nsys.exit(3)\nmodel = f()\ninputs = g()", "*ended Python*"),
        (
            "import torch\nclass Odd(torch.nn.Module):\n    def named_modules(self): raise ValueError('odd')\n"
            "model = Odd()\ninputs = ()",
            "*odd*",
        ),
    ],
)
@pytest.mark.every(3)
def test_a_model_file_that_fails_is_an_error_of_its_own(pytester: pytest.Pytester, source: str, message: str) -> None:
    pytester.makepyfile(parity_broken=source, test_mine="def test_mine(): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([message, "ERROR parity_broken.py::model*"])
    assert "Traceback" not in result.stdout.str()


def test_a_model_file_can_skip_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(parity_skipped="import pytest\npytest.importorskip('absent')\nmodel = f()\ninputs = g()")
    pytester.runpytest_inprocess().assert_outcomes(skipped=1)


def test_settings_come_from_the_command_line_else_from_the_ini_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester)
    monkeypatch.setattr(engine, "check", refusing("atol", "dtype", "only", "rtol", "sides", "skip", "train"))
    pytester.makeini(
        """
        [pytest]
        parity_train = true
        parity_dtype = float64
        parity_rtol = 1e-3
        parity_only =
            first
            tw*
        """
    )
    result = pytester.runpytest_inprocess("--parity-dtype", "float16", "--parity-skip=t*", "--parity-side=interpreter")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["called with [[]None, 'float16', [[]'first', 'tw[*]'[]], 0.001, [[]'interpreter'[]], [[]'t[*]'[]], True[]]"]
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--parity-dtype=float99", "*dtype must be one of float32*float99*"),
        ("--parity-rtol=small", "*parity_rtol must be a number*small*"),
        ("--parity-atol=-1", "*atol must be a number of at least 0*-1*"),
        ("--parity-side=onnx", "*there is no side 'onnx'; there are interpreter, onnxruntime*"),
    ],
)
@pytest.mark.every(2)
def test_a_wrong_setting_is_one_message(pytester: pytest.Pytester, option: str, message: str) -> None:
    for arguments in ([option], ["-o", option.removeprefix("--").replace("parity-", "parity_")]):
        result = pytester.runpytest_inprocess(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])
        assert "Traceback" not in result.stderr.str()


def test_why_a_check_was_refused_is_told_in_full_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester)
    monkeypatch.setattr(engine, "check", refusing("train"))
    result = pytester.runpytest_inprocess("-k", "interpreter")
    result.assert_outcomes(failed=4)
    # Where CI is set, pytest repeats whole messages in its summary.
    lines = result.stdout.str().partition("short test summary info")[0].splitlines()
    assert lines.count("in full") == 1
    assert lines.count("  in full at parity_net.py::(root)[interpreter]") == 3


def test_train_mode_is_judged(pytester: pytest.Pytester) -> None:
    write(pytester)
    text = (pytester.path / "parity_net.py").read_text()
    (pytester.path / "parity_net.py").write_text(text.replace("x * 2", "x * (3 if ctx.train else 2)"))
    source = text.replace("return WrongBackward.apply(x)", "return WrongBackward.apply(x) if self.training else x * 2")
    (pytester.path / "parity_net.py").write_text(source.replace("return g * 2", "return g * 3"))
    pytester.runpytest_inprocess("-k", "interpreter").assert_outcomes(passed=4, deselected=4)
    result = pytester.runpytest_inprocess("-k", "interpreter", "--parity-train")
    result.assert_outcomes(passed=3, failed=1, deselected=4)


COUNTED = """
    import os
    from pathlib import Path
    from cellbridge.parity.checking import engine
    from cellbridge.parity.judging.trial import Trial

    original, count = engine.check, Path(__file__).parent / "count"
    Trial.add_causes = lambda *_: None

    def counted(*args, **kwargs):
        with count.open("a") as file:
            file.write("checked\\n")
        if CRASHES:
            os._exit(9)
        return original(*args, **kwargs)

    engine.check = counted
"""


AS_A_WORKER = """

def pytest_collection_finish(session):
    session.config.workerinput = {"testrunuid": "run"}

def pytest_sessionfinish(session):
    del session.config.workerinput
"""


@pytest.mark.slow
def test_workers_share_one_check(pytester: pytest.Pytester) -> None:
    """As workers of xdist do, one after the other and in this process."""
    write(pytester, factor=3)
    pytester.makeconftest((textwrap.dedent(COUNTED) + AS_A_WORKER).replace("CRASHES", "False"))
    (pytester.path / "all").mkdir()
    for worker in ("gw0", "gw1"):
        result = pytester.runpytest_inprocess(f"--basetemp={pytester.path / 'all' / worker}", "parity_net.py")
        result.assert_outcomes(passed=7, failed=1)
        result.stdout.fnmatch_lines(["FAILED parity_net.py::twice[[]interpreter[]]*"])
    assert (pytester.path / "count").read_text() == "checked\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distribution", "passed"),
    [(["-n", "2"], 7), (["--dist", "each", "--tx", "2*popen"], 14), (["--dist", "loadfile", "-n", "2"], 7)],
)
def test_workers_of_xdist_share_one_check(pytester: pytest.Pytester, distribution: list[str], passed: int) -> None:
    write(pytester, factor=3)
    pytester.makeconftest(textwrap.dedent(COUNTED).replace("CRASHES", "False"))
    result = pytester.runpytest_subprocess(*distribution, "--parity-html", "pages")
    result.assert_outcomes(passed=passed, failed=passed // 7)
    assert (pytester.path / "pages" / "index.html").read_text().count("<bdi>parity_net.py</bdi>") == 1
    result.stdout.fnmatch_lines(["FAILED parity_net.py::twice[[]interpreter[]]*"])
    assert (pytester.path / "count").read_text() == "checked\n"


@pytest.mark.slow
@pytest.mark.parametrize("crashes", [1, 100])
def test_a_worker_that_crashes_holds_nobody_up(pytester: pytest.Pytester, crashes: int) -> None:
    write(pytester)
    condition = f"len(count.read_text().splitlines()) <= {crashes}"
    pytester.makeconftest(textwrap.dedent(COUNTED).replace("CRASHES", condition))
    result = pytester.runpytest_subprocess("-n", "2", timeout=300)
    if crashes == 1:
        result.assert_outcomes(passed=7, failed=1)
    else:
        result.assert_outcomes(failed=8)
        result.stdout.fnmatch_lines(["*2 workers ended while they checked parity_net.py*parity run*"])
    assert len((pytester.path / "count").read_text().splitlines()) == 2


def test_names_of_cells_do_not_act_on_the_terminal(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        parity_net="""
        import torch

        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.add_module("a\\x1b[2J\\n\\u202eb", torch.nn.Linear(2, 2))

            def forward(self, x):
                return next(self.children())(x)

        def model():
            return Network()

        def inputs():
            return (torch.ones(1, 2),)
        """
    )
    output = "\n".join(pytester.runpytest("--collect-only", "-q").outlines)
    assert r"a\x1b[2J\n\u202eb[interpreter]" in output


@pytest.mark.slow
def test_a_page_on_a_file_that_fails(pytester: pytest.Pytester) -> None:
    write(pytester, factor=3)
    result = pytester.runpytest_inprocess("--parity-html", "pages/new", "parity_net.py")
    result.assert_outcomes(passed=7, failed=1)
    page = pytester.path / "pages" / "new" / "parity_net.html"
    result.stdout.fnmatch_lines([f"*to look at it: {page}"])
    assert "Parity fails in 1 Cell: twice" in page.read_text()


def test_no_page_on_a_file_that_passes(pytester: pytest.Pytester) -> None:
    write(pytester)
    pytester.makeini("[pytest]\nparity_html = pages")
    pytester.runpytest_inprocess("parity_net.py").assert_outcomes(passed=8)
    (overview,) = (pytester.path / "pages").iterdir()
    assert overview.name == "index.html"
    assert "1 holds" in overview.read_text()


def test_the_overview_lists_all_comparisons(pytester: pytest.Pytester) -> None:
    write(pytester)
    (pytester.path / "parity_net.py").rename(pytester.path / "parity_good.py")
    write(pytester, factor=3)
    pytester.makepyfile(parity_broken="model = inputs = 3", test_own=ASSERTION)
    result = pytester.runpytest_inprocess("--parity-html", "pages")
    overview = pytester.path / "pages" / "index.html"
    result.stdout.fnmatch_lines([f"parity: the overview is {overview}"])
    text = overview.read_text()
    assert "2 fail, 1 couldn&#39;t be judged, 1 holds" in text
    links = re.findall('href="([^"]+[.]html)"', text)
    assert links[0] == "parity_net.html"
    assert re.fullmatch(r"test_own.py.test_tanh.a.b-[0-9a-f]{6}.html", links[1])
    assert len(links) == 2
    assert all((pytester.path / "pages" / link).is_file() for link in links)
    for name in ("parity_net.py", "parity_good.py", "parity_broken.py", "test_own.py::test_tanh[a/b]"):
        assert f"<bdi>{name}</bdi>" in text


def test_a_folder_for_pages_that_cannot_be_made(pytester: pytest.Pytester) -> None:
    write(pytester)
    (pytester.path / "pages").write_text("a file")
    result = pytester.runpytest_inprocess("--parity-html", "pages", "parity_net.py")
    result.assert_outcomes(failed=8)
    result.stdout.fnmatch_lines(["*can't write *pages: it is a file*"])


ASSERTION = """
    import pytest
    import torch
    from cellbridge.parity import assert_parity

    @pytest.mark.parametrize("negative", [False, True], ids=["same", "a/b"])
    def test_tanh(negative):
        def network(x):
            return -torch.tanh(x) if negative else torch.tanh(x)

        class Other(torch.nn.Module):
            def forward(self, x):
                return network(x)

        assert_parity(torch.nn.Tanh(), Other(), (torch.ones(3),))
"""


def test_a_page_on_an_assertion_that_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASSERTION)
    result = pytester.runpytest_inprocess("--parity-html", "pages")
    result.assert_outcomes(passed=1, failed=1)
    (page,) = (pytester.path / "pages").glob("test_*.html")
    assert re.fullmatch(r"test_a_page_on_an_assertion_that_fails.py.test_tanh.a.b-[0-9a-f]{6}.html", page.name)
    assert "Parity fails in 1 Cell" in page.read_text()
    result.stdout.fnmatch_lines(["*- parity -*", f"to look at it: {page}"])


def test_an_assertion_that_fails_without_a_folder_for_pages(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASSERTION)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*to look at it*")


@pytest.mark.parametrize(
    ("settings", "arguments"), [("parity_atol = 1e9", []), ("", ["--parity-atol", "1e9"])], ids=["ini", "option"]
)
@pytest.mark.every(2)
def test_a_tolerance_is_said(pytester: pytest.Pytester, settings: str, arguments: list[str]) -> None:
    write(pytester)
    pytester.makefile(".ini", pytest=f"[pytest]\n{settings}\n")
    result = pytester.runpytest_inprocess("-q", "parity_net.py", *arguments)
    words = "within the tolerance atol=1e9 (given in pytest's settings), which replaces the computed bar"
    result.stdout.fnmatch_lines([f"parity: Cells are judged {words}"])


def test_computed_bars_need_no_word(pytester: pytest.Pytester) -> None:
    write(pytester)
    result = pytester.runpytest_inprocess("-q", "parity_net.py")
    result.stdout.no_fnmatch_line("*tolerance*")

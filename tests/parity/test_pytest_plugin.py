"""The pytest plugin, run as its users run it."""

from __future__ import annotations

import textwrap

import pytest

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


def write(pytester: pytest.Pytester, *, factor: int = 2, unused: bool = False) -> None:
    text = textwrap.dedent(MODEL).replace("FACTOR", str(factor)).replace("UNUSED", str(unused))
    (pytester.path / "parity_net.py").write_text(text)


def test_one_item_per_cell_and_side(pytester: pytest.Pytester) -> None:
    write(pytester)
    result = pytester.runpytest_subprocess("-v", "parity_net.py")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["parity_net.py::(root)[[]interpreter[]] PASSED*", "*last[[]onnxruntime[]] PASSED*"])


def test_the_failing_cell_and_no_other_fails(pytester: pytest.Pytester) -> None:
    write(pytester, factor=3)
    result = pytester.runpytest_subprocess("-v", "parity_net.py")
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["parity_net.py::twice[[]interpreter[]] FAILED*", "*input gradient x*"])
    assert "Traceback" not in result.stdout.str()


def test_a_cell_that_is_never_exercised_fails_with_its_own_message(pytester: pytest.Pytester) -> None:
    write(pytester, unused=True)
    result = pytester.runpytest_subprocess("parity_net.py")
    result.assert_outcomes(passed=8, failed=2)
    result.stdout.fnmatch_lines(["*the inputs never exercise the Cell unused (Linear)*"])


def test_items_are_selected_by_keyword(pytester: pytest.Pytester) -> None:
    write(pytester)
    pytester.runpytest_subprocess("-k", "twice and interpreter", "parity_net.py").assert_outcomes(
        passed=1, deselected=7
    )


def test_the_model_is_captured_once_per_file(pytester: pytest.Pytester) -> None:
    write(pytester)
    (pytester.path / "conftest.py").write_text(
        textwrap.dedent(
            """
            from cellbridge.parity import engine

            original, count = engine.check, []

            def counted(*args, **kwargs):
                count.append(1)
                return original(*args, **kwargs)

            engine.check = counted

            def pytest_sessionfinish():
                print(f"checked {len(count)} times")
            """
        )
    )
    result = pytester.runpytest_subprocess("-s", "parity_net.py")
    assert "checked 1 times" in result.stdout.str()


def test_a_file_that_is_no_model_file_is_a_collection_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "parity_empty.py").write_text("x = 1\n")
    result = pytester.runpytest_subprocess("parity_empty.py")
    result.assert_outcomes(errors=1)
    assert "Traceback" not in result.stdout.str()


def test_a_model_that_cannot_be_converted_fails_each_item_with_the_reason(pytester: pytest.Pytester) -> None:
    text = textwrap.dedent(MODEL).replace("FACTOR", "2").replace("UNUSED", "False")
    text = text.replace("WrongBackward.apply(x)", "x + torch.hash_tensor(x.detach())")
    (pytester.path / "parity_net.py").write_text(text)
    result = pytester.runpytest_subprocess("parity_net.py")
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
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Parity fails in 1 Cell: 1*"])

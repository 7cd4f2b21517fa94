"""Dimensions: arithmetic on symbols is arithmetic on their sizes, and text gives them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.runtime.ir.dim_parser import parse
from cellbridge.runtime.ir.dims import Dim, SymbolicDim, evaluate, maximum, minimum, product, symbol

SIZES = st.fixed_dictionaries({"n": st.integers(1, 50), "m": st.integers(1, 50), "s0": st.integers(1, 50)})
N, M = symbol("n"), symbol("m")


def _combined(children: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    divisor = st.integers(-4, 4).filter(bool)
    return st.one_of(
        st.builds(lambda a, b: a + b, children, children),
        st.builds(lambda a, b: a - b, children, children),
        st.builds(lambda a, b: a * b, children, children),
        st.builds(lambda a, b: a // b, children, divisor),
        st.builds(lambda a, b: a % b, children, divisor),
        st.builds(maximum, children, children),
        st.builds(minimum, children, children),
    )


DIMS = st.recursive(st.integers(-5, 5) | st.sampled_from([N, M, symbol("s0")]), _combined, max_leaves=8)


@given(DIMS, DIMS, SIZES)
def test_arithmetic_is_that_of_the_sizes(a: Dim, b: Dim, sizes: dict[str, int]) -> None:
    x, y = evaluate(a, sizes), evaluate(b, sizes)
    assert evaluate(a + b, sizes) == x + y
    assert evaluate(a - b, sizes) == x - y
    assert evaluate(a * b, sizes) == x * y
    assert evaluate(maximum(a, b), sizes) == max(x, y)
    assert evaluate(minimum(a, b), sizes) == min(x, y)
    assert evaluate(product([a, b, 3]), sizes) == 3 * x * y


@given(DIMS, DIMS, SIZES)
def test_division_is_that_of_the_sizes(a: Dim, b: Dim, sizes: dict[str, int]) -> None:
    x, y = evaluate(a, sizes), evaluate(b, sizes)
    if y != 0:
        assert evaluate(a // b, sizes) == x // y
        assert evaluate(a % b, sizes) == x % y


@given(DIMS, DIMS, DIMS)
def test_equal_polynomials_compare_equal(a: Dim, b: Dim, c: Dim) -> None:
    assert (a + b) * c == c * b + a * c
    assert hash((a + b) * c) == hash(c * b + a * c)
    assert a - a == 0
    assert isinstance(a - a, int)


@given(DIMS)
def test_text_gives_the_dimension_back(dim: Dim) -> None:
    assert parse(str(dim)) == dim


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (2 * N + 1, "2*n + 1"),
        (1 - N, "-n + 1"),
        ((N - 1) // -2, "((n - 1)//(-2))"),
        (-(N // 2), "-((n)//(2))"),
        ((N * M) % 3 - 5, "((m*n)%(3)) - 5"),
        (maximum(N, 0), "max(n, 0)"),
        (2 * N // 2, "n"),
        ((2 * N - 1) // 2, "n - 1"),
        ((5 * N + 7) // 2, "2*n + ((n + 1)//(2)) + 3"),
        ((-N) // 2, "((-n)//(2))"),
        ((4 * N + 3) % 4, "3"),
    ],
)
def test_text(dim: Dim, text: str) -> None:
    assert str(dim) == text
    assert parse(text) == dim


@pytest.mark.parametrize("text", ["", "n**2", "n m", "1.5", "True", "f(n, m)", "max(n)", "n//0", "__import__('os')"])
def test_what_is_no_dimension_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a dimension"):
        parse(text)


def test_questions_that_only_a_run_can_answer_are_refused() -> None:
    for ask in (bool, range, lambda dim: [0][dim]):
        with pytest.raises(TypeError, match="n is symbolic"):
            ask(N)
    with pytest.raises(TypeError):
        N < 4  # type: ignore[operator]  # noqa: B015
    with pytest.raises(ZeroDivisionError):
        N // 0


def test_solving_for_the_symbol() -> None:
    def solve(dim: Dim, size: int) -> tuple[str, int] | None:
        assert isinstance(dim, SymbolicDim)
        return dim.solve(size)

    assert solve(N, 7) == ("n", 7)
    assert solve(2 * N + 1, 7) == ("n", 3)
    for unsolved in (N * N, N + M, N * M, N // 2, N + N * M):
        assert solve(unsolved, 7) is None

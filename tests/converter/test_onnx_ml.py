"""Operators of the domain ai.onnx.ml, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from cellbridge.converter import from_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import CellbridgeError

RNG = np.random.default_rng(0)
KINDS = {"float32": "float", "int64": "int64"}
X = RNG.standard_normal((5, 3)).astype(np.float32)
NINE = "0.5, -1.0, 2.0, 0.25, 1.5, -0.75, -0.5, 0.125, 1.0"


def model(node: str, x: np.ndarray[Any, Any], outputs: str) -> onnx.ModelProto:
    dims = ", ".join(("n", *map(str, x.shape[1:])))
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> net ({KINDS[x.dtype.name]}[{dims}] x) => '
        f"({outputs}) {{ {node} }}"
    )


def agrees(node: str, x: np.ndarray[Any, Any], outputs: str = "float[n, k] y") -> None:
    """A graph gives in the interpreter what it gives in ONNX Runtime."""
    made = model(node, x, outputs)
    results = from_onnx(made)(x)
    for y, expected in zip(
        results if isinstance(results, tuple) else (results,), run_model(made, {"x": x}).values(), strict=True
    ):
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("x", [X, np.arange(-4, 8).reshape(4, 3)], ids=["floats", "integers"])
def test_scaler(x: np.ndarray[Any, Any]) -> None:
    agrees("y = ai.onnx.ml.Scaler<offset = [0.5, 1.0, -2.0], scale = [2.0, 3.0, 0.5]>(x)", x)
    agrees("y = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x)", x)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    x = np.concatenate([X, np.zeros((1, 3), np.float32)])
    agrees(f'y = ai.onnx.ml.Normalizer<norm = "{norm}">(x)', x)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(transform: str) -> None:
    options = f'coefficients = [{NINE}], intercepts = [0.5, -1.0, 0.25], post_transform = "{transform}"'
    agrees(f"y = ai.onnx.ml.LinearRegressor<targets = 3, {options}>(x)", X)
    classes = "classlabels_ints = [7, 3, 11]"
    node = f"y, z = ai.onnx.ml.LinearClassifier<{classes}, {options}>(x)"
    agrees(node, X, "int64[n] y, float[n, k] z")


def test_a_regressor_of_one_target() -> None:
    agrees("y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, -2.0, 0.5]>(x)", X)


def test_label_encoder() -> None:
    labels = np.array([[4, 9, 1], [5, 4, 0]])
    options = "keys_int64s = [4, 1, 9], values_floats = [0.5, 1.5, -2.0], default_float = 8.0"
    agrees(f"y = ai.onnx.ml.LabelEncoder<{options}>(x)", labels)
    agrees("y = ai.onnx.ml.LabelEncoder<keys_int64s = [4, 9], values_int64s = [1, 2]>(x)", labels, "int64[n, k] y")
    numbers = np.array([1.5, np.nan, -1.0, 0.0], np.float32)
    options = "keys_floats = [1.5, -1.0], values_int64s = [3, 4], default_int64 = 6"
    agrees(f"y = ai.onnx.ml.LabelEncoder<{options}>(x)", numbers, "int64[n] y")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ('y = ai.onnx.ml.LabelEncoder<keys_floats = [1.0], values_strings = ["a"]>(x)', "labels that are strings"),
        ("y = ai.onnx.ml.LabelEncoder<keys_floats = [1.0, 2.0], values_floats = [1.0]>(x)", "given 2 and 1"),
        ("y = ai.onnx.ml.Scaler<offset = [1.0, 2.0], scale = [1.0]>(x)", "offset has 2 numbers for 3 features"),
        ('y = ai.onnx.ml.Normalizer<norm = "L3">(x)', "MAX, L1 or L2, given 'L3'"),
        ("y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0]>(x)", "needed 3 coefficients"),
        ('y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0], post_transform = "RELU">(x)', "'RELU'"),
        (
            'y, z = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, 3.0], classlabels_strings = ["a", "b"]>(x)',
            "classes that are strings",
        ),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    with pytest.raises(CellbridgeError, match=message):
        from_onnx(model(node, X, "float[n, k] y"))


def test_labels_in_tensors() -> None:
    keys, values = "keys_tensor = int64[3] {4, 1, 9}", "values_tensor = double[3] {0.5, 1.5, -2.0}"
    labels = np.array([[4, 9, 1], [5, 4, 0]])
    made = model(f"y = ai.onnx.ml.LabelEncoder<{keys}, {values}, default_tensor = double[1] {{8.0}}>(x)", labels, "y")
    made.opset_import[1].version = 4
    (expected,) = run_model(made, {"x": labels}).values()
    np.testing.assert_array_equal(from_onnx(made)(labels), expected)
    made = model(f"y = ai.onnx.ml.LabelEncoder<{keys}, values_tensor = double[2] {{0.5, 1.5}}>(x)", labels, "y")
    made.opset_import[1].version = 4
    with pytest.raises(CellbridgeError, match="given 3 and 2"):
        from_onnx(made)


def test_imputer() -> None:
    x = np.where(X > 1, np.nan, X).astype(np.float32)
    agrees("y = ai.onnx.ml.Imputer<imputed_value_floats = [0.5], replaced_value_float = nan>(x)", x)
    agrees("y = ai.onnx.ml.Imputer<imputed_value_floats = [0.5, 1.0, 2.0], replaced_value_float = nan>(x)", x)
    integers = np.arange(12).reshape(4, 3) % 4
    node = "y = ai.onnx.ml.Imputer<imputed_value_int64s = [7, 8, 9], replaced_value_int64 = 3>(x)"
    agrees(node, integers, "int64[n, k] y")


def test_one_hot_encoder() -> None:
    for x in (np.array([[4, 9], [1, 0]]), np.array([4.7, 1.2, -3.0], np.float32)):
        agrees("y = ai.onnx.ml.OneHotEncoder<cats_int64s = [4, 1, 9]>(x)", x, "float[n, ...] y".replace(", ...", ""))


def test_feature_vectorizer() -> None:
    for dimensions in ("3", "2", "5"):
        agrees(f"y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [{dimensions}]>(x)", X)
    agrees("a = Exp(x) y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 3]>(x, a)", X)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors(kernel: str, one_class: int) -> None:
    options = f'kernel_type = "{kernel}", kernel_params = [0.4, 0.5, 3.0], one_class = {one_class}, rho = [0.25]'
    vectors = f"n_supports = 3, support_vectors = [{NINE}], coefficients = [0.5, -1.5, 2.0]"
    agrees(f"y = ai.onnx.ml.SVMRegressor<{options}, {vectors}>(x)", X)
    agrees(f"y = ai.onnx.ml.SVMRegressor<{options}, coefficients = [0.5, -1.5, 2.0]>(x)", X)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("y = ai.onnx.ml.Imputer<imputed_value_floats = [0.5, 1.0]>(x)", "or 3, given 2"),
        ("y = ai.onnx.ml.Imputer(x)", "or 3, given 0"),
        ('y = ai.onnx.ml.OneHotEncoder<cats_strings = ["a"]>(x)', "categories that are strings"),
        ("y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 3]>(x)", "2 inputdimensions for 1 inputs"),
        ("y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [4611686018427387904]>(x)", "features of an input, given"),
        ("y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [-1]>(x)", "features of an input, given -1"),
        ("y = ai.onnx.ml.SVMRegressor<n_supports = 4611686018427387904, rho = [1.0]>(x)", "with 0 coefficients"),
        ("y = ai.onnx.ml.SVMRegressor<n_supports = -1, rho = [1.0]>(x)", "-1 vectors"),
        ("y = ai.onnx.ml.SVMRegressor<coefficients = [1.0, 2.0, 3.0]>(x)", "and 0 rho"),
    ],
)
def test_features_that_are_refused(node: str, message: str) -> None:
    with pytest.raises(CellbridgeError, match=message):
        from_onnx(model(node, X, "float[n, k] y"))

"""The Dockerfile and the conda recipe say what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = CONFIGURATION["project"]
RECIPE = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
CONDA_NAMES = {"torch": "pytorch"}
ONE_IN_CONDA = "onnxruntime"  # its builds with CUDA have the same name


def requirements() -> dict[str, str]:
    """The bounds of each dependency by its name in conda."""
    parsed = [Requirement(text) for text in PROJECT["dependencies"]]
    bounds = {CONDA_NAMES.get(each.name, each.name): bounds_of(str(each.specifier)) for each in parsed}
    del bounds[f"{ONE_IN_CONDA}-gpu"]
    return bounds | {"python": bounds_of(PROJECT["requires-python"])}


def bounds_of(text: str) -> str:
    return ",".join(sorted(text.replace(" ", "").split(",")))


def test_the_recipe_has_the_dependencies() -> None:
    run = dict(text.split(" ", 1) for text in RECIPE["requirements"]["run"])
    assert {name: bounds_of(text) for name, text in run.items()} == requirements()


def test_the_recipe_has_the_commands_and_the_version() -> None:
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert sorted(RECIPE["build"]["python"]["entry_points"]) == sorted(scripts)
    assert RECIPE["context"]["version"] == PROJECT["version"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]


def test_the_image_has_the_torch_that_is_supported() -> None:
    (torch,) = re.findall(r'"(torch[^"]*)"', (ROOT / "Dockerfile").read_text())
    assert bounds_of(str(Requirement(torch).specifier)) == requirements()["pytorch"]


def test_the_image_gets_all_that_the_package_is_built_from() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = CONFIGURATION["tool"]["setuptools"]["packages"]
    folders = {package.removeprefix("cellbridge.").partition(".")[0] for package in packages}
    assert kept == {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "MANIFEST.in", *folders}
    assert all((ROOT / name).exists() for name in kept)

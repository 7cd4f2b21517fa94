"""Whole families of architectures, as small random models that must convert in eval and train mode."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tests.coverage.family_cases import (
    contrastive,
    convolutional,
    decoders,
    detection,
    diffusion,
    encoder_decoders,
    mixtures,
    others,
    speech,
    state_spaces,
    text_encoders,
    vision,
)
from tests.coverage.family_cases.case import Case

GAPS = Path(__file__).with_name("families_gaps.toml")
CASES: list[Case] = [
    *text_encoders.CASES,
    *decoders.CASES,
    *encoder_decoders.CASES,
    *mixtures.CASES,
    *state_spaces.CASES,
    *vision.CASES,
    *convolutional.CASES,
    *detection.CASES,
    *speech.CASES,
    *contrastive.CASES,
    *diffusion.CASES,
    *others.CASES,
]


def gaps_by_case() -> dict[str, dict[str, dict[str, Any]]]:
    """The gaps (`says`, `reason`) of `families_gaps.toml` by case and mode."""
    known: dict[str, dict[str, dict[str, Any]]] = {}
    for gap in tomllib.loads(GAPS.read_text(encoding="utf-8"))["gap"]:
        for mode in gap["modes"]:
            known.setdefault(gap["case"], {})[mode] = gap
    return known

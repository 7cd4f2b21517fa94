"""Inputs for models of libraries, made from the library's own description of a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name

if TYPE_CHECKING:
    import torch

BATCH, TOKENS, SAMPLES = 2, 16, 4000


def image_arguments(size: Sequence[int], settings: Mapping[str, Any]) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Return a function that draws images for a model of timm.

    Args:
        size: channels, height and width that the model was trained with.
        settings: what was set; `in_chans` and `img_size` are other sizes.
    """
    import torch

    channels, height, width = size
    image = settings.get("img_size", (height, width))
    height, width = (image, image) if isinstance(image, int) else image
    return lambda: (torch.randn(BATCH, settings.get("in_chans", channels), height, width),)


def transformer_arguments(module: Any, target: str) -> Callable[[], dict[str, torch.Tensor]]:
    """Return a function that draws arguments for a model of transformers.

    Args:
        module: the model.
        target: its name in messages.

    Raises:
        UsageError: the model takes none of the inputs that are known.
    """
    accepted = inspect.signature(module.forward).parameters
    names = [name for name, (_, fits) in ARGUMENTS.items() if name in accepted and fits(module.config)]
    if module.main_input_name not in names:
        raise UsageError(
            f"{visible_name(target)} takes {module.main_input_name}, which can't be made from its configuration\n"
            "  what to do: write a model file with model() and inputs()"
        )
    if "pixel_values" in names and not hasattr(module.config, "text_config"):
        names = ["pixel_values"]  # DETR has an encoder and a decoder, and no tokens
    return lambda: {name: ARGUMENTS[name][0](module.config) for name in names}


def _tokens(config: Any) -> torch.Tensor:
    """Return token numbers [2, 16 or fewer] without those of padding."""
    import torch

    text = config.get_text_config()
    count = min(TOKENS, getattr(text, "max_position_embeddings", None) or TOKENS)
    tokens = torch.randint(0, text.vocab_size, (BATCH, count))
    return torch.where(tokens == _padding(text), (_padding(text) + 1) % text.vocab_size, tokens)


def _padding(config: Any) -> int:
    padding = getattr(config, "pad_token_id", None)
    return -1 if padding is None else int(padding)


def _images(config: Any) -> torch.Tensor:
    """Return images [2, channels, height, width]."""
    import torch

    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else size
    return torch.randn(BATCH, getattr(vision, "num_channels", None) or 3, height, width)


def _spectrum(config: Any) -> torch.Tensor:
    """Return features [2, mel bins, twice the positions], as Whisper takes them."""
    import torch

    return torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions)


def _sound(config: Any) -> torch.Tensor:
    """Return samples of sound [2, 4000], or a spectrum [2, frames, mel bins] where the configuration has its sizes."""
    import torch

    if hasattr(config, "num_mel_bins"):
        return torch.randn(BATCH, config.max_length, config.num_mel_bins)
    return torch.randn(BATCH, SAMPLES)


def _has_tokens(config: Any) -> bool:
    return hasattr(config.get_text_config(), "vocab_size")


def _has_sizes(*names: str) -> Callable[[Any], bool]:
    return lambda config: all(hasattr(config, name) for name in names)


Draw = Callable[[Any], "torch.Tensor"]
ARGUMENTS: dict[str, tuple[Draw, Callable[[Any], bool]]] = {
    "input_ids": (_tokens, lambda config: _has_tokens(config) and not hasattr(config, "num_mel_bins")),
    "pixel_values": (_images, _has_sizes()),
    "input_features": (_spectrum, _has_sizes("num_mel_bins", "max_source_positions")),
    "input_values": (_sound, _has_sizes()),
    "decoder_input_ids": (_tokens, lambda config: bool(config.is_encoder_decoder) and _has_tokens(config)),
}
"""How each argument of `forward` is drawn from a configuration, and whether that has what it takes."""

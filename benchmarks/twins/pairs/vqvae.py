"""VQ-VAE as it is known in torch, whose ReLUs work in place, against one with channels last."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

HIDDEN, RESIDUAL, CODE, CODES, DEPTH = 12, 6, 5, 11, 2


class Residual(nn.Module):
    def __init__(self, in_channels: int, num_hiddens: int, num_residual_hiddens: int) -> None:
        super().__init__()
        self._block = nn.Sequential(
            nn.ReLU(True),
            nn.Conv2d(in_channels, num_residual_hiddens, kernel_size=3, stride=1, padding=1, bias=False),
            nn.ReLU(True),
            nn.Conv2d(num_residual_hiddens, num_hiddens, kernel_size=1, stride=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self._block(x)
        return result


class ResidualStack(nn.Module):
    def __init__(self, in_channels: int, num_hiddens: int, num_residual_layers: int, num_residual_hiddens: int) -> None:
        super().__init__()
        self._num_residual_layers = num_residual_layers
        self._layers = nn.ModuleList(
            [Residual(in_channels, num_hiddens, num_residual_hiddens) for _ in range(num_residual_layers)]
        )

    def forward(self, x: Tensor) -> Tensor:
        for i in range(self._num_residual_layers):
            x = self._layers[i](x)
        return F.relu(x)


class VectorQuantizer(nn.Module):
    def __init__(self, num_embeddings: int, embedding_dim: int, commitment_cost: float) -> None:
        super().__init__()
        self._embedding_dim = embedding_dim
        self._num_embeddings = num_embeddings
        self._embedding = nn.Embedding(num_embeddings, embedding_dim)
        self._commitment_cost = commitment_cost

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        input_shape = inputs.shape
        flat_input = inputs.view(-1, self._embedding_dim)
        distances = (
            torch.sum(flat_input**2, dim=1, keepdim=True)
            + torch.sum(self._embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat_input, self._embedding.weight.t())
        )
        encoding_indices = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(
            encoding_indices.shape[0], self._num_embeddings, device=inputs.device, dtype=inputs.dtype
        )
        encodings = encodings.scatter(1, encoding_indices, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(input_shape)
        e_latent_loss = F.mse_loss(quantized.detach(), inputs)
        q_latent_loss = F.mse_loss(quantized, inputs.detach())
        loss = q_latent_loss + self._commitment_cost * e_latent_loss
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._conv_1 = nn.Conv2d(3, HIDDEN // 2, kernel_size=4, stride=2, padding=1)
        self._conv_2 = nn.Conv2d(HIDDEN // 2, HIDDEN, kernel_size=4, stride=2, padding=1)
        self._conv_3 = nn.Conv2d(HIDDEN, HIDDEN, kernel_size=3, stride=1, padding=1)
        self._residual_stack = ResidualStack(HIDDEN, HIDDEN, DEPTH, RESIDUAL)

    def forward(self, inputs: Tensor) -> Tensor:
        x = F.relu(self._conv_1(inputs))
        x = F.relu(self._conv_2(x))
        return self._residual_stack(self._conv_3(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._conv_1 = nn.Conv2d(CODE, HIDDEN, kernel_size=3, stride=1, padding=1)
        self._residual_stack = ResidualStack(HIDDEN, HIDDEN, DEPTH, RESIDUAL)
        self._conv_trans_1 = nn.ConvTranspose2d(HIDDEN, HIDDEN // 2, kernel_size=4, stride=2, padding=1)
        self._conv_trans_2 = nn.ConvTranspose2d(HIDDEN // 2, 3, kernel_size=4, stride=2, padding=1)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self._residual_stack(self._conv_1(inputs))
        x = F.relu(self._conv_trans_1(x))
        return self._conv_trans_2(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._encoder = Encoder()
        self._pre_vq_conv = nn.Conv2d(HIDDEN, CODE, kernel_size=1, stride=1)
        self._vq_vae = VectorQuantizer(CODES, CODE, 0.25)
        self._decoder = Decoder()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = self._pre_vq_conv(self._encoder(x))
        loss, quantized, perplexity = self._vq_vae(z)
        return loss, self._decoder(quantized), perplexity


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 16, 16),)


class Conv(nn.Module):
    """On [batch, height, width, channels], with a kernel [height, width, in, out]."""

    def __init__(self, size: int, out: int, kernel: int, stride: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.stride = stride
        self.kernel = nn.Parameter(torch.zeros(kernel, kernel, size, out))
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        side = (self.kernel.shape[0] - 1) // 2
        y = F.conv2d(x.permute(0, 3, 1, 2), self.kernel.permute(3, 2, 0, 1), self.bias, self.stride, side)
        return y.permute(0, 2, 3, 1)


class Up(nn.Module):
    """Zeros between the pixels, then a convolution."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(4, 4, size, out))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        wide = torch.zeros(b, h, 2, w, 2, c, dtype=x.dtype)
        wide[:, :, 0, :, 0] = x
        wide = wide.reshape(b, 2 * h, 2 * w, c)[:, :-1, :-1]
        wide = F.pad(wide, (0, 0, 2, 2, 2, 2)).permute(0, 3, 1, 2)
        return F.conv2d(wide, self.kernel.permute(3, 2, 0, 1), self.bias).permute(0, 2, 3, 1)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(Conv(HIDDEN, RESIDUAL, 3, bias=False) for _ in range(DEPTH))
        self.second = nn.ModuleList(Conv(RESIDUAL, HIDDEN, 1, bias=False) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            x = F.relu(x)
            x = x + second(F.relu(first(x)))
        return F.relu(x)


class Codes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = Conv(3, HIDDEN // 2, 4, 2), Conv(HIDDEN // 2, HIDDEN, 4, 2)
        self.enter, self.encode, self.narrow = Conv(HIDDEN, HIDDEN, 3), Stack(), Conv(HIDDEN, CODE, 1)
        self.codebook = nn.Parameter(torch.zeros(CODES, CODE))
        self.widen, self.decode = Conv(CODE, HIDDEN, 3), Stack()
        self.up1, self.up2 = Up(HIDDEN, HIDDEN // 2), Up(HIDDEN // 2, 3)

    def quantize(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chosen = ((z.unsqueeze(-2) - self.codebook) ** 2).sum(-1).argmin(-1)
        q = self.codebook[chosen]
        loss = ((q - z.detach()) ** 2).mean() + 0.25 * ((q.detach() - z) ** 2).mean()
        share = F.one_hot(chosen.flatten(), CODES).to(z.dtype).mean(0)
        perplexity = (-(share * (share + 1e-10).log()).sum()).exp()
        return z + (q - z).detach(), loss, perplexity

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        x = F.relu(self.down2(F.relu(self.down1(image.permute(0, 2, 3, 1)))))
        z = self.narrow(self.encode(self.enter(x)))
        q, loss, perplexity = self.quantize(z)
        x = self.up2(F.relu(self.up1(self.decode(self.widen(q)))))
        return {"reconstruction": x.permute(0, 3, 1, 2), "loss": loss, "perplexity": perplexity}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"codebook": w["_vq_vae._embedding.weight"]}
    for to, of in (
        ("down1", "_encoder._conv_1"),
        ("down2", "_encoder._conv_2"),
        ("enter", "_encoder._conv_3"),
        ("narrow", "_pre_vq_conv"),
        ("widen", "_decoder._conv_1"),
    ):
        state |= {f"{to}.kernel": w[f"{of}.weight"].permute(2, 3, 1, 0), f"{to}.bias": w[f"{of}.bias"]}
    for to, of in (("up1", "_decoder._conv_trans_1"), ("up2", "_decoder._conv_trans_2")):
        state |= {f"{to}.kernel": w[f"{of}.weight"].permute(2, 3, 0, 1).flip(0, 1), f"{to}.bias": w[f"{of}.bias"]}
    for to, of in (("encode", "_encoder"), ("decode", "_decoder")):
        for i in range(DEPTH):
            block = f"{of}._residual_stack._layers.{i}._block"
            state[f"{to}.first.{i}.kernel"] = w[f"{block}.1.weight"].permute(2, 3, 1, 0)
            state[f"{to}.second.{i}.kernel"] = w[f"{block}.3.weight"].permute(2, 3, 1, 0)
    module = Codes()
    module.load_state_dict(state)
    return module


TWINS = [Twin("vqvae/channels last", Model, port, inputs)]

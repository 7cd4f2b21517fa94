"""ConvLSTM, layer by layer with one convolution, against a step of all layers with gates in another order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

CHANNELS, HIDDEN, DEPTH, SIDE, STEPS = 2, 4, 2, 6, 3


class ConvLSTMCell(nn.Module):
    def __init__(self, input_dim, hidden_dim, kernel_size, bias):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.padding = kernel_size[0] // 2, kernel_size[1] // 2
        self.conv = nn.Conv2d(input_dim + hidden_dim, 4 * hidden_dim, kernel_size, padding=self.padding, bias=bias)

    def forward(self, input_tensor, cur_state):
        h_cur, c_cur = cur_state
        combined = torch.cat([input_tensor, h_cur], dim=1)
        combined_conv = self.conv(combined)
        cc_i, cc_f, cc_o, cc_g = torch.split(combined_conv, self.hidden_dim, dim=1)
        i = torch.sigmoid(cc_i)
        f = torch.sigmoid(cc_f)
        o = torch.sigmoid(cc_o)
        g = torch.tanh(cc_g)
        c_next = f * c_cur + i * g
        h_next = o * torch.tanh(c_next)
        return h_next, c_next

    def init_hidden(self, batch_size, image_size):
        height, width = image_size
        weight = self.conv.weight
        return (
            torch.zeros(batch_size, self.hidden_dim, height, width, device=weight.device, dtype=weight.dtype),
            torch.zeros(batch_size, self.hidden_dim, height, width, device=weight.device, dtype=weight.dtype),
        )


class ConvLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_layers = DEPTH
        self.cell_list = nn.ModuleList(
            [ConvLSTMCell(CHANNELS if i == 0 else HIDDEN, HIDDEN, (3, 3), True) for i in range(DEPTH)]
        )
        self.head = nn.Conv2d(HIDDEN, 1, 1)

    def forward(self, input_tensor):
        b, _, _, h, w = input_tensor.size()
        hidden_state = [cell.init_hidden(b, (h, w)) for cell in self.cell_list]
        last_state_list = []
        seq_len = input_tensor.size(1)
        cur_layer_input = input_tensor
        for layer_idx in range(self.num_layers):
            h, c = hidden_state[layer_idx]
            output_inner = []
            for t in range(seq_len):
                h, c = self.cell_list[layer_idx](cur_layer_input[:, t, :, :, :], [h, c])
                output_inner.append(h)
            layer_output = torch.stack(output_inner, dim=1)
            cur_layer_input = layer_output
            last_state_list.append([h, c])
        return self.head(last_state_list[-1][0]), last_state_list


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, STEPS, CHANNELS, SIDE, SIDE),)


class Gates(nn.Module):
    """A step; the order is input, forget, new, output."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.x2h = nn.Conv2d(size, 4 * HIDDEN, 3, padding="same")
        self.h2h = nn.Conv2d(HIDDEN, 4 * HIDDEN, 3, padding="same", bias=False)

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        gates = self.x2h(x) + self.h2h(hidden)
        let, forget, new, out = gates.unflatten(1, (4, -1)).unbind(1)
        memory = torch.sigmoid(forget) * memory + torch.sigmoid(let) * torch.tanh(new)
        return torch.sigmoid(out) * torch.tanh(memory), memory


class Weather(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(Gates(CHANNELS if i == 0 else HIDDEN) for i in range(DEPTH))
        self.read = nn.Parameter(torch.zeros(HIDDEN))
        self.read_bias = nn.Parameter(torch.zeros(()))

    def forward(self, frames: Tensor) -> dict[str, Tensor | list[tuple[Tensor, Tensor]]]:
        zeros = torch.zeros(frames.shape[0], HIDDEN, SIDE, SIDE, dtype=frames.dtype)
        states = [(zeros, zeros) for _ in self.steps]
        for x in frames.unbind(1):
            for i, step in enumerate(self.steps):
                states[i] = step(x, *states[i])
                x = states[i][0]
        return {"rain": torch.einsum("bchw,c->bhw", x, self.read)[:, None] + self.read_bias, "states": states}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"read": w["head.weight"].flatten(), "read_bias": w["head.bias"].squeeze()}
    for i in range(DEPTH):
        gates = [w[f"cell_list.{i}.conv.weight"].chunk(4)[n] for n in (0, 1, 3, 2)]
        biases = [w[f"cell_list.{i}.conv.bias"].chunk(4)[n] for n in (0, 1, 3, 2)]
        size = CHANNELS if i == 0 else HIDDEN
        state[f"steps.{i}.x2h.weight"] = torch.cat(gates)[:, :size]
        state[f"steps.{i}.h2h.weight"] = torch.cat(gates)[:, size:]
        state[f"steps.{i}.x2h.bias"] = torch.cat(biases)
    module = Weather()
    module.load_state_dict(state)
    return module


TWINS = [Twin("convlstm/all layers step by step", ConvLSTM, port, inputs)]

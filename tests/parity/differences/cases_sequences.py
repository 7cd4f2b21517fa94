"""Recurrent layers and losses ported wrongly."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as torch_nn

from cellbridge.runtime import Tensor, nn
from tests.parity.differences.difference_cases import Case, case, zeros

LOGITS = zeros(4, 3)
LABELS = np.array([0, 2, 1, -100])
WEIGHT = np.array([1.0, 2.0, 3.0], np.float32)

RECURRENT = [
    case(
        torch_nn.LSTM(4, 8),
        nn.LSTM(2, 8),
        "LSTM: input_size=2 here, input_size=4 there; write input_size=4",
        nn.LSTM(4, 8),
    ),
    case(
        torch_nn.GRU(4, 8),
        nn.GRU(4, 4),
        "GRU: hidden_size=4 here, hidden_size=8 there; write hidden_size=8",
        nn.GRU(4, 8),
    ),
    case(
        torch_nn.GRUCell(4, 8, bias=False),
        nn.GRUCell(4, 8),
        "GRUCell: has_bias=True here, bias=False there; write has_bias=False",
        nn.GRUCell(4, 8, has_bias=False),
    ),
    case(
        torch_nn.LSTM(4, 8, num_layers=2),
        nn.LSTM(4, 8),
        "LSTM: num_layers=1 here, num_layers=2 there; write num_layers=2",
        nn.LSTM(4, 8, num_layers=2),
    ),
    case(
        torch_nn.LSTM(4, 8, batch_first=True),
        nn.LSTM(4, 8),
        "LSTM: batch_first=False here, batch_first=True there; write batch_first=True",
        nn.LSTM(4, 8, batch_first=True),
    ),
    case(
        torch_nn.LSTM(4, 8, bidirectional=True),
        nn.LSTM(4, 8),
        "LSTM: bidirectional=False here, bidirectional=True there; write bidirectional=True",
        nn.LSTM(4, 8, bidirectional=True),
    ),
    case(
        torch_nn.LSTM(4, 8, 2, dropout=0.1),
        nn.LSTM(4, 8, 2, dropout=0.9),
        "LSTM: dropout=0.9 here, dropout=0.1 there; write dropout=0.1",
        nn.LSTM(4, 8, 2, dropout=0.1),
    ),
    case(
        torch_nn.RNN(4, 8, nonlinearity="relu"),
        nn.RNN(4, 8),
        "RNN: nonlinearity='tanh' here, nonlinearity='relu' there; write nonlinearity=\"relu\"",
        nn.RNN(4, 8, nonlinearity="relu"),
    ),
    case(
        torch_nn.LSTM(4, 8, proj_size=2),
        nn.LSTM(4, 8),
        "LSTM: proj_size=0 (there is no other) here, proj_size=2 there; "
        "write a step of its own, with a Dense to 2 in it",
        (torch_nn.LSTM(4, 8), nn.LSTM(4, 8)),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2),
        nn.MultiheadAttention(8, 4),
        "MultiheadAttention: num_heads=4 here, num_heads=2 there; write num_heads=2",
        nn.MultiheadAttention(8, 2),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2),
        nn.MultiheadAttention(4, 2),
        "MultiheadAttention: embed_dim=4 here, embed_dim=8 there; write embed_dim=8",
        nn.MultiheadAttention(8, 2),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, batch_first=True),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: batch_first=False here, batch_first=True there; write batch_first=True",
        nn.MultiheadAttention(8, 2, batch_first=True),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, 0.1),
        nn.MultiheadAttention(8, 2, 0.9),
        "MultiheadAttention: dropout=0.9 here, dropout=0.1 there; write dropout=0.1",
        nn.MultiheadAttention(8, 2, 0.1),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, bias=False),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: has_bias=True here, bias=False there; write has_bias=False",
        nn.MultiheadAttention(8, 2, has_bias=False),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, add_bias_kv=True),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: add_bias_kv=False here, add_bias_kv=True there; write add_bias_kv=True",
        nn.MultiheadAttention(8, 2, add_bias_kv=True),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, add_zero_attn=True),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: add_zero_attn=False here, add_zero_attn=True there; write add_zero_attn=True",
        nn.MultiheadAttention(8, 2, add_zero_attn=True),
    ),
    case(
        torch_nn.TransformerEncoderLayer(8, 2, norm_first=True),
        nn.TransformerEncoderLayer(8, 2),
        "TransformerEncoderLayer: norm_first=False here, norm_first=True there; write norm_first=True",
        nn.TransformerEncoderLayer(8, 2, norm_first=True),
    ),
]

LOSSES = [
    case(
        torch_nn.SmoothL1Loss(),
        nn.SmoothL1Loss(),
        "SmoothL1Loss: reduction='none' here, reduction='mean' there; write reduction=\"mean\"",
        nn.SmoothL1Loss(reduction="mean"),
    ),
    case(
        torch_nn.CrossEntropyLoss(),
        nn.SoftmaxCrossEntropyWithLogits(sparse=True),
        "SoftmaxCrossEntropyWithLogits: reduction='none' here, reduction='mean' there; write reduction=\"mean\"",
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        LOGITS,
        LABELS[:3],
    ),
    case(
        torch_nn.CrossEntropyLoss(),
        nn.SoftmaxCrossEntropyWithLogits(reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: sparse=False here, labels=class indices there; write sparse=True",
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        LOGITS,
        LABELS[:3],
    ),
    case(
        torch_nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.SoftmaxCrossEntropyWithLogits(reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: label_smoothing=0.0 here, label_smoothing=0.1 there; "
        "write nn.CrossEntropyLoss(label_smoothing=0.1)",
        nn.CrossEntropyLoss(label_smoothing=0.1),
    ),
    case(
        torch_nn.CrossEntropyLoss(weight=torch.from_numpy(WEIGHT)),
        nn.SoftmaxCrossEntropyWithLogits(reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: weight=None here, weight=array of shape (3) there; "
        "write nn.CrossEntropyLoss(weight=...)",
        (torch_nn.CrossEntropyLoss(), nn.SoftmaxCrossEntropyWithLogits(reduction="mean")),
    ),
    case(
        torch_nn.CrossEntropyLoss(),
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: ignore_index=none (the mean is over all 4 labels) here, ignore_index=-100 (the "
        "mean leaves 1 out) there; write nn.CrossEntropyLoss(ignore_index=-100)",
        nn.CrossEntropyLoss(),
        LOGITS,
        LABELS,
    ),
    case(
        torch_nn.CrossEntropyLoss(ignore_index=0),
        nn.CrossEntropyLoss(),
        "CrossEntropyLoss: ignore_index=-100 here, ignore_index=0 there; write ignore_index=0",
        nn.CrossEntropyLoss(ignore_index=0),
    ),
    case(
        torch_nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(),
        "CrossEntropyLoss: label_smoothing=0.0 here, label_smoothing=0.1 there; write label_smoothing=0.1",
        nn.CrossEntropyLoss(label_smoothing=0.1),
    ),
    case(
        torch_nn.NLLLoss(weight=torch.from_numpy(WEIGHT)),
        nn.NLLLoss(),
        "NLLLoss: weight=None here, weight=array of shape (3) there; write weight=Tensor(...)",
        nn.NLLLoss(Tensor(WEIGHT)),
    ),
    case(
        torch_nn.BCEWithLogitsLoss(),
        nn.BCEWithLogitsLoss(pos_weight=Tensor(WEIGHT)),
        "BCEWithLogitsLoss: pos_weight=array of shape (3) here, pos_weight=None there; write pos_weight=None",
        nn.BCEWithLogitsLoss(),
    ),
    case(
        torch_nn.KLDivLoss(log_target=True),
        nn.KLDivLoss(),
        "KLDivLoss: log_target=False (there is no other) here, log_target=True there; write ops.exp(labels)",
        (torch_nn.KLDivLoss(), nn.KLDivLoss()),
    ),
    case(
        torch_nn.SmoothL1Loss(beta=0.5),
        nn.SmoothL1Loss(reduction="mean"),
        "SmoothL1Loss: beta=1.0 here, beta=0.5 there; write beta=0.5",
        nn.SmoothL1Loss(0.5, "mean"),
    ),
    case(
        torch_nn.HuberLoss(delta=0.5),
        nn.HuberLoss(),
        "HuberLoss: delta=1.0 here, delta=0.5 there; write delta=0.5",
        nn.HuberLoss(delta=0.5),
    ),
    case(
        torch_nn.MarginRankingLoss(0.5),
        nn.MarginRankingLoss(),
        "MarginRankingLoss: margin=0.0 here, margin=0.5 there; write margin=0.5",
        nn.MarginRankingLoss(0.5),
    ),
    case(
        torch_nn.MultiMarginLoss(p=2),
        nn.MultiMarginLoss(),
        "MultiMarginLoss: p=1 here, p=2 there; write p=2",
        nn.MultiMarginLoss(p=2),
    ),
    case(
        torch_nn.TripletMarginLoss(swap=True),
        nn.TripletMarginLoss(),
        "TripletMarginLoss: swap=False here, swap=True there; write swap=True",
        nn.TripletMarginLoss(swap=True),
    ),
    case(
        torch_nn.PoissonNLLLoss(log_input=False),
        nn.PoissonNLLLoss(),
        "PoissonNLLLoss: log_input=True here, log_input=False there; write log_input=False",
        nn.PoissonNLLLoss(log_input=False),
    ),
    case(
        torch_nn.GaussianNLLLoss(full=True),
        nn.GaussianNLLLoss(),
        "GaussianNLLLoss: full=False here, full=True there; write full=True",
        nn.GaussianNLLLoss(full=True),
    ),
    case(
        torch_nn.GaussianNLLLoss(eps=1e-4),
        nn.GaussianNLLLoss(),
        "GaussianNLLLoss: eps=1e-6 here, eps=0.0001 there; write eps=0.0001",
        nn.GaussianNLLLoss(eps=1e-4),
    ),
]

CASES: list[Case] = [*RECURRENT, *LOSSES]

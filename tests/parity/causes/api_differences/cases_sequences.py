"""Recurrent layers and losses ported wrongly."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as torch_nn

from cellbridge.runtime import Tensor, nn
from tests.parity.causes.api_differences.difference_cases import Case, case, zeros

LOGITS = zeros(4, 3)
LABELS = np.array([0, 2, 1, -100])
WEIGHT = np.array([1.0, 2.0, 3.0], np.float32)

RECURRENT = [
    case(
        torch_nn.LSTM(4, 8),
        nn.LSTM(2, 8),
        "LSTM: input_size=2 in the candidate, input_size=4 in the reference; write input_size=4",
        nn.LSTM(4, 8),
    ),
    case(
        torch_nn.GRU(4, 8),
        nn.GRU(4, 4),
        "GRU: hidden_size=4 in the candidate, hidden_size=8 in the reference; write hidden_size=8",
        nn.GRU(4, 8),
    ),
    case(
        torch_nn.GRUCell(4, 8, bias=False),
        nn.GRUCell(4, 8),
        "GRUCell: has_bias=True in the candidate, bias=False in the reference; write has_bias=False",
        nn.GRUCell(4, 8, has_bias=False),
    ),
    case(
        torch_nn.LSTM(4, 8, num_layers=2),
        nn.LSTM(4, 8),
        "LSTM: num_layers=1 in the candidate, num_layers=2 in the reference; write num_layers=2",
        nn.LSTM(4, 8, num_layers=2),
    ),
    case(
        torch_nn.LSTM(4, 8, batch_first=True),
        nn.LSTM(4, 8),
        "LSTM: batch_first=False in the candidate, batch_first=True in the reference; write batch_first=True",
        nn.LSTM(4, 8, batch_first=True),
    ),
    case(
        torch_nn.LSTM(4, 8, bidirectional=True),
        nn.LSTM(4, 8),
        "LSTM: bidirectional=False in the candidate, bidirectional=True in the reference; write bidirectional=True",
        nn.LSTM(4, 8, bidirectional=True),
    ),
    case(
        torch_nn.LSTM(4, 8, 2, dropout=0.1),
        nn.LSTM(4, 8, 2, dropout=0.9),
        "LSTM: dropout=0.9 in the candidate, dropout=0.1 in the reference; write dropout=0.1",
        nn.LSTM(4, 8, 2, dropout=0.1),
    ),
    case(
        torch_nn.RNN(4, 8, nonlinearity="relu"),
        nn.RNN(4, 8),
        "RNN: nonlinearity='tanh' in the candidate, nonlinearity='relu' in the reference; write nonlinearity=\"relu\"",
        nn.RNN(4, 8, nonlinearity="relu"),
    ),
    case(
        torch_nn.LSTM(4, 8, proj_size=2),
        nn.LSTM(4, 8),
        "LSTM: proj_size=0 (there is no other) in the candidate, proj_size=2 in the reference; "
        "write a step of its own, with a Dense to 2 in it",
        (torch_nn.LSTM(4, 8), nn.LSTM(4, 8)),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2),
        nn.MultiheadAttention(8, 4),
        "MultiheadAttention: num_heads=4 in the candidate, num_heads=2 in the reference; write num_heads=2",
        nn.MultiheadAttention(8, 2),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2),
        nn.MultiheadAttention(4, 2),
        "MultiheadAttention: embed_dim=4 in the candidate, embed_dim=8 in the reference; write embed_dim=8",
        nn.MultiheadAttention(8, 2),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, batch_first=True),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: batch_first=False in the candidate, batch_first=True in the reference; write "
        "batch_first=True",
        nn.MultiheadAttention(8, 2, batch_first=True),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, 0.1),
        nn.MultiheadAttention(8, 2, 0.9),
        "MultiheadAttention: dropout=0.9 in the candidate, dropout=0.1 in the reference; write dropout=0.1",
        nn.MultiheadAttention(8, 2, 0.1),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, bias=False),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: has_bias=True in the candidate, bias=False in the reference; write has_bias=False",
        nn.MultiheadAttention(8, 2, has_bias=False),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, add_bias_kv=True),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: add_bias_kv=False in the candidate, add_bias_kv=True in the reference; write "
        "add_bias_kv=True",
        nn.MultiheadAttention(8, 2, add_bias_kv=True),
    ),
    case(
        torch_nn.MultiheadAttention(8, 2, add_zero_attn=True),
        nn.MultiheadAttention(8, 2),
        "MultiheadAttention: add_zero_attn=False in the candidate, add_zero_attn=True in the reference; "
        "write add_zero_attn=True",
        nn.MultiheadAttention(8, 2, add_zero_attn=True),
    ),
    case(
        torch_nn.TransformerEncoderLayer(8, 2, norm_first=True),
        nn.TransformerEncoderLayer(8, 2),
        "TransformerEncoderLayer: norm_first=False in the candidate, norm_first=True in the reference; "
        "write norm_first=True",
        nn.TransformerEncoderLayer(8, 2, norm_first=True),
    ),
]

LOSSES = [
    case(
        torch_nn.SmoothL1Loss(),
        nn.SmoothL1Loss(),
        "SmoothL1Loss: reduction='none' in the candidate, reduction='mean' in the reference; write reduction=\"mean\"",
        nn.SmoothL1Loss(reduction="mean"),
    ),
    case(
        torch_nn.CrossEntropyLoss(),
        nn.SoftmaxCrossEntropyWithLogits(sparse=True),
        "SoftmaxCrossEntropyWithLogits: reduction='none' in the candidate, reduction='mean' in the "
        'reference; write reduction="mean"',
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        LOGITS,
        LABELS[:3],
    ),
    case(
        torch_nn.CrossEntropyLoss(),
        nn.SoftmaxCrossEntropyWithLogits(reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: sparse=False in the candidate, labels=class indices in the "
        "reference; write sparse=True",
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        LOGITS,
        LABELS[:3],
    ),
    case(
        torch_nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.SoftmaxCrossEntropyWithLogits(reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: label_smoothing=0.0 in the candidate, label_smoothing=0.1 in the reference; "
        "write nn.CrossEntropyLoss(label_smoothing=0.1)",
        nn.CrossEntropyLoss(label_smoothing=0.1),
    ),
    case(
        torch_nn.CrossEntropyLoss(weight=torch.from_numpy(WEIGHT)),
        nn.SoftmaxCrossEntropyWithLogits(reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: weight=None in the candidate, weight=array of shape (3) in the reference; "
        "write nn.CrossEntropyLoss(weight=...)",
        (torch_nn.CrossEntropyLoss(), nn.SoftmaxCrossEntropyWithLogits(reduction="mean")),
    ),
    case(
        torch_nn.CrossEntropyLoss(),
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        "SoftmaxCrossEntropyWithLogits: ignore_index=none (the mean is over all 4 labels) in the "
        "candidate, ignore_index=-100 (the "
        "mean leaves 1 out) in the reference; write nn.CrossEntropyLoss(ignore_index=-100)",
        nn.CrossEntropyLoss(),
        LOGITS,
        LABELS,
    ),
    case(
        torch_nn.CrossEntropyLoss(ignore_index=0),
        nn.CrossEntropyLoss(),
        "CrossEntropyLoss: ignore_index=-100 in the candidate, ignore_index=0 in the reference; write ignore_index=0",
        nn.CrossEntropyLoss(ignore_index=0),
    ),
    case(
        torch_nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(),
        "CrossEntropyLoss: label_smoothing=0.0 in the candidate, label_smoothing=0.1 in the reference; "
        "write label_smoothing=0.1",
        nn.CrossEntropyLoss(label_smoothing=0.1),
    ),
    case(
        torch_nn.NLLLoss(weight=torch.from_numpy(WEIGHT)),
        nn.NLLLoss(),
        "NLLLoss: weight=None in the candidate, weight=array of shape (3) in the reference; write weight=Tensor(...)",
        nn.NLLLoss(Tensor(WEIGHT)),
    ),
    case(
        torch_nn.BCEWithLogitsLoss(),
        nn.BCEWithLogitsLoss(pos_weight=Tensor(WEIGHT)),
        "BCEWithLogitsLoss: pos_weight=array of shape (3) in the candidate, pos_weight=None in the "
        "reference; write pos_weight=None",
        nn.BCEWithLogitsLoss(),
    ),
    case(
        torch_nn.KLDivLoss(log_target=True),
        nn.KLDivLoss(),
        "KLDivLoss: log_target=False (there is no other) in the candidate, log_target=True in the "
        "reference; write ops.exp(labels)",
        (torch_nn.KLDivLoss(), nn.KLDivLoss()),
    ),
    case(
        torch_nn.SmoothL1Loss(beta=0.5),
        nn.SmoothL1Loss(reduction="mean"),
        "SmoothL1Loss: beta=1.0 in the candidate, beta=0.5 in the reference; write beta=0.5",
        nn.SmoothL1Loss(0.5, "mean"),
    ),
    case(
        torch_nn.HuberLoss(delta=0.5),
        nn.HuberLoss(),
        "HuberLoss: delta=1.0 in the candidate, delta=0.5 in the reference; write delta=0.5",
        nn.HuberLoss(delta=0.5),
    ),
    case(
        torch_nn.MarginRankingLoss(0.5),
        nn.MarginRankingLoss(),
        "MarginRankingLoss: margin=0.0 in the candidate, margin=0.5 in the reference; write margin=0.5",
        nn.MarginRankingLoss(0.5),
    ),
    case(
        torch_nn.MultiMarginLoss(p=2),
        nn.MultiMarginLoss(),
        "MultiMarginLoss: p=1 in the candidate, p=2 in the reference; write p=2",
        nn.MultiMarginLoss(p=2),
    ),
    case(
        torch_nn.TripletMarginLoss(swap=True),
        nn.TripletMarginLoss(),
        "TripletMarginLoss: swap=False in the candidate, swap=True in the reference; write swap=True",
        nn.TripletMarginLoss(swap=True),
    ),
    case(
        torch_nn.PoissonNLLLoss(log_input=False),
        nn.PoissonNLLLoss(),
        "PoissonNLLLoss: log_input=True in the candidate, log_input=False in the reference; write log_input=False",
        nn.PoissonNLLLoss(log_input=False),
    ),
    case(
        torch_nn.GaussianNLLLoss(full=True),
        nn.GaussianNLLLoss(),
        "GaussianNLLLoss: full=False in the candidate, full=True in the reference; write full=True",
        nn.GaussianNLLLoss(full=True),
    ),
    case(
        torch_nn.GaussianNLLLoss(eps=1e-4),
        nn.GaussianNLLLoss(),
        "GaussianNLLLoss: eps=1e-6 in the candidate, eps=0.0001 in the reference; write eps=0.0001",
        nn.GaussianNLLLoss(eps=1e-4),
    ),
]

CASES: list[Case] = [*RECURRENT, *LOSSES]

"""LeWM (src/model/lewm) as a PyTorch module; firm.torch loads and saves it."""

from __future__ import annotations

from typing import Dict

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the pictures that the reference's encoder is trained on
_VIT, _USUAL, _BARE = 1e-12, 1e-5, 1e-6  # eps of the encoder's norms, of the others, of those without weights


def declare(root: nn.Module, name: str, tensor: Tensor) -> None:
    """Registers a parameter, or a plain tensor as a buffer, under a name with points: each but the last is a module on the way."""
    *folders, last = name.split(".")
    for folder in folders:
        if folder not in root._modules:
            root.add_module(folder, nn.Module())
        root = root._modules[folder]  # type: ignore[assignment]
    if isinstance(tensor, nn.Parameter):
        root.register_parameter(last, tensor)
    else:
        root.register_buffer(last, tensor)


class LeWM(nn.Module):
    """A LeWM: encode() makes latents of frames, embed() embeddings of macro actions, predict() the next latents, forward() a path.

    Parameters have the names and shapes of the file, which are the reference's. In training mode (module.train()) dropout is on
    and the batch norms use and update their statistics."""

    def __init__(self, texts: Dict[str, str], tensors: Dict[str, np.ndarray], image: int):
        super().__init__()
        self.texts, self.image = dict(texts), image
        for name, array in tensors.items():
            tensor = torch.from_numpy(array if array.dtype == np.int64 else array.astype(np.float32))
            counted = name.endswith((".running_mean", ".running_var", ".num_batches_tracked"))
            declare(self, name, tensor if counted else nn.Parameter(tensor))
        heads, head, dropout = texts["firm.lewm"].split()
        self.heads, self.head, self.dropout = int(heads), int(head), float(dropout)
        for name in ("action_mean", "action_std"):
            self.register_buffer(name, torch.tensor([float(w) for w in texts["firm." + name].split()]), persistent=False)
        for name, values in (("image_mean", _MEAN), ("image_std", _STD)):
            self.register_buffer(name, torch.tensor(values), persistent=False)
        # the encoder's names under transformers 4 and 5
        old = "encoder.encoder.layer.0.layernorm_before.weight" in tensors
        stem = "encoder.encoder.layer" if old else "encoder.layers"
        self._stem = stem
        self._thirds = [f"attention.{part}" for part in (("attention.query", "attention.key", "attention.value") if old else ("q_proj", "k_proj", "v_proj"))]
        self._dense = ("attention.output.dense", "intermediate.dense", "output.dense") if old else ("attention.o_proj", "mlp.fc1", "mlp.fc2")
        self.depth = sum(name.startswith(stem + ".") and name.endswith(".layernorm_before.weight") for name in tensors)
        self.predictor_depth = sum(name.endswith(".attn.norm.weight") for name in tensors)
        self.context = tensors["predictor.pos_embedding"].shape[1]
        self.eval()

    # ---- layers, by the names of their parameters ----

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.get_parameter(name + ".weight"), self.get_parameter(name + ".bias"))

    def _norm(self, name: str, x: Tensor, eps: float) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.get_parameter(name + ".weight"), self.get_parameter(name + ".bias"), eps)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _head(self, name: str, x: Tensor) -> Tensor:
        """One hidden layer with batch norm over all rows."""
        rows = self._linear(name + ".0", x).flatten(0, -2)
        norm = self.get_submodule(name + ".1")
        if self.training:
            norm.num_batches_tracked += 1
        rows = F.batch_norm(rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, self.training, 0.1, 1e-5)  # type: ignore[arg-type]
        return self._linear(name + ".3", F.gelu(rows)).reshape(x.shape)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(-3, -2)

    # ---- encoder ----

    def encode(self, frames: Tensor) -> Tensor:
        """Latents (N, width) of frames (N, H, W, 3), uint8 or levels 0 .. 255."""
        levels = (frames.to(self.image_mean.dtype) / 255 - self.image_mean) / self.image_std
        stem = "encoder.embeddings"
        patches = self.get_parameter(f"{stem}.patch_embeddings.projection.weight")
        x = F.conv2d(levels.permute(0, 3, 1, 2), patches, self.get_parameter(f"{stem}.patch_embeddings.projection.bias"), patches.shape[-1])
        x = torch.cat([self.get_parameter(f"{stem}.cls_token").expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], 1)
        x = x + self.get_parameter(f"{stem}.position_embeddings")
        out, up, down = self._dense
        for i in range(self.depth):
            name = f"{self._stem}.{i}"
            u = self._norm(f"{name}.layernorm_before", x, _VIT)
            u = F.scaled_dot_product_attention(*(self._split(self._linear(f"{name}.{third}", u), self.heads) for third in self._thirds))
            x = x + self._linear(f"{name}.{out}", u.transpose(-3, -2).flatten(-2))
            u = self._norm(f"{name}.layernorm_after", x, _VIT)
            x = x + self._linear(f"{name}.{down}", F.gelu(self._linear(f"{name}.{up}", u)))
        return self._head("projector.net", self._norm("encoder.layernorm", x[:, 0], _VIT))

    # ---- actions, predictor ----

    def embed(self, actions: Tensor) -> Tensor:
        """Embeddings (..., width) of raw macro actions (..., controls, action)."""
        u = ((actions - self.action_mean) / self.action_std).flatten(-2)
        x = F.linear(u, self.get_parameter("action_encoder.patch_embed.weight")[..., 0], self.get_parameter("action_encoder.patch_embed.bias"))
        return self._linear("action_encoder.embed.2", F.silu(self._linear("action_encoder.embed.0", x)))

    def _block(self, name: str, x: Tensor, condition: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self._linear(f"{name}.adaLN_modulation.1", condition).chunk(6, -1)
        u = F.layer_norm(x, x.shape[-1:], eps=_BARE) * (1 + scale1) + shift1
        qkv = F.linear(self._norm(f"{name}.attn.norm", u, _USUAL), self.get_parameter(f"{name}.attn.to_qkv.weight"))
        heads = [self._split(part, part.shape[-1] // self.head) for part in qkv.chunk(3, -1)]
        u = F.scaled_dot_product_attention(*heads, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + gate1 * self._drop(self._linear(f"{name}.attn.to_out.0", u.transpose(-3, -2).flatten(-2)))
        u = self._norm(f"{name}.mlp.net.0", F.layer_norm(x, x.shape[-1:], eps=_BARE) * (1 + scale2) + shift2, _USUAL)
        u = self._linear(f"{name}.mlp.net.4", self._drop(F.gelu(self._linear(f"{name}.mlp.net.1", u))))
        return x + gate2 * self._drop(u)

    def predict(self, latents: Tensor, embeddings: Tensor) -> Tensor:
        """(N, n, width) each, n at most `context` -> (N, n, width): row k is the latent after action k."""
        x = latents + self.get_parameter("predictor.pos_embedding")[:, : latents.shape[1]]
        condition = F.silu(embeddings)
        for i in range(self.predictor_depth):
            x = self._block(f"predictor.transformer.layers.{i}", x, condition)
        return self._head("pred_proj.net", self._norm("predictor.transformer.norm", x, _USUAL))

    def forward(self, frames: Tensor, plan: Tensor) -> Tensor:
        """Latents (N, K + 1, width) from frames (N, H, W, 3) and raw macro actions (N, K, controls, action)."""
        path, embeddings = [self.encode(frames)], self.embed(plan)
        for k in range(plan.shape[1]):
            first = max(0, k + 1 - self.context)
            window = torch.stack(path[first:], 1)
            path.append(self.predict(window, embeddings[:, first : k + 1])[:, -1])
        return torch.stack(path, 1)

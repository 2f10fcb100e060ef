"""Models as PyTorch modules: the same weights, differentiable, and back.

    import firm.torch
    world = firm.torch.load("tworoom")
    path = world(frames, history, plan)          # (N, K + 1, config)
    ...                                          # fine-tune
    firm.torch.save(world, "tuned.safetensors")  # firm.load() and the C library take it

Parameters have the names of the model file. All forms of the four tasks are here (World), and LeWM; ensembles are not."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import _files
from ._lewm import LeWM, declare
from .errors import UnavailableError, UsageError
from .model import Model, find

_BESIDE = ("support.", "tokens.", "recorded.")  # lists in a file that are no parameters
_FLAT, _VOTES, _STAGED = 0, 1, 2  # forms of the grounder
_SHARP, _TURN, _STRETCH = 10.0, 10.0, 2.0  # of votes


def _numbers(text: str) -> List[float]:
    return [float(word) for word in text.split()]


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _softpool(logits: Tensor, values: Tensor) -> Tensor:
    """(N, T, K), (N, T, C) -> (N, K, C): sums over T with softmax weights."""
    return torch.softmax(logits, 1).transpose(1, 2) @ values


def _coords(grid: int, like: Tensor) -> Tensor:
    """(grid * grid, 2): the places of cells, x right, y down, -1 .. 1."""
    line = (2 * torch.arange(grid, dtype=like.dtype, device=like.device) + 1) / grid - 1
    return torch.stack([line.repeat(grid), line.repeat_interleave(grid)], 1)


class World(nn.Module):
    """A world model: E tokens(), G ground(), B infer_belief(), R infer_fiber(), T advance(), and forward() for all of them.

    Frames are uint8 or float tensors (N, H, W, 3) with levels 0 .. 255; actions are raw controls."""

    def __init__(self, texts: Dict[str, str], tensors: Dict[str, np.ndarray], config: Sequence[str], image: int, typed: str):
        super().__init__()
        self.texts = dict(texts)
        self.shape = {k: int(v) for k, v in (w.split("=") for w in texts["firm.shape"].split())}
        self.pairs = sum(name.endswith("_sin") for name in config)
        self.config, self.image = tuple(config), image
        self.push = Push(typed, config) if self.shape["spatial"] else None
        self._beside = {}
        for name, array in tensors.items():
            if name.startswith(_BESIDE):
                self._beside[name] = array
            else:
                declare(self, name, nn.Parameter(torch.from_numpy(array.astype(np.float32))))
        for name in ("image_mean", "image_std", "action_mean", "action_std"):
            self.register_buffer(name, torch.tensor(_numbers(texts["firm." + name])), persistent=False)

    # ---- layers, by the names of their parameters ----

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.get_parameter(name + ".weight") + self.get_parameter(name + ".bias")

    def _layernorm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.get_parameter(name + ".gamma"), self.get_parameter(name + ".beta"), 1e-5)

    def _groupnorm(self, name: str, x: Tensor) -> Tensor:
        """x: (N, C, H, W)"""
        gamma, beta = self.get_parameter(name + ".gamma"), self.get_parameter(name + ".beta")
        return F.group_norm(x, self.shape["groups"], gamma, beta, 1e-5)

    def _conv(self, name: str, x: Tensor, kernel: int, stride: int, pad: int) -> Tensor:
        """The file has (kernel row, kernel column, channel) x outputs; x: (N, C, H, W)."""
        weight = self.get_parameter(name + ".weight")
        weight = weight.reshape(kernel, kernel, x.shape[1], -1).permute(3, 2, 0, 1)
        return F.conv2d(x, weight, self.get_parameter(name + ".bias"), stride, pad)

    def _pairnorm(self, c: Tensor) -> Tensor:
        """Brings the leading (sin, cos) pairs to length 1."""
        if not self.pairs:
            return c
        angles = c[..., : 2 * self.pairs].unflatten(-1, (self.pairs, 2))
        angles = angles / angles.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        return torch.cat([angles.flatten(-2), c[..., 2 * self.pairs :]], -1)

    # ---- E ----

    def _patches(self, levels: Tensor) -> Tensor:
        """(N, H, W, 3) -> (N, cells, 48): pixels of a 4 x 4 patch in order, then channels."""
        side = self.image // 4
        return levels.reshape(-1, side, 4, side, 4, 3).transpose(2, 3).reshape(-1, side * side, 48)

    def tokens(self, image: Tensor, before: Optional[Tensor] = None) -> Tensor:
        """Tokens (N, count, width) of frames, and of their change since the frames before."""
        now = image.to(self.image_mean.dtype)
        seen = self._patches((now / 255 - self.image_mean) / self.image_std)
        h = self._linear("tokenizer.stage1.image", seen)
        if before is not None:
            change = self._patches((now - before.to(now.dtype)) / 255 / self.image_std)
            h = h + change @ self.get_parameter("tokenizer.stage1.change.weight")
        side = self.image // 4
        h = h.transpose(1, 2).reshape(len(h), -1, side, side)
        h = _gelu(self._groupnorm("tokenizer.stage1.norm", h))
        for stage in (2, 3, 4):
            stride = 2 if side > self.shape["grid"] else 1
            side //= stride
            h = self._conv(f"tokenizer.stage{stage}.conv", h, 3, stride, 1)
            h = _gelu(self._groupnorm(f"tokenizer.stage{stage}.norm", h))
        cells = h.flatten(2).transpose(1, 2) + self.get_parameter("tokenizer.position")
        return self._look(cells) if self.shape["keypoints"] else cells

    def _look(self, cells: Tensor) -> Tensor:
        """What keypoints see: features and place."""
        where = cells @ self.get_parameter("tokenizer.keypoint.where.weight")
        what = self._linear("tokenizer.keypoint.what", cells)
        places = _coords(self.shape["grid"], cells).expand(len(cells), -1, -1)
        seen = _softpool(where, torch.cat([what, places], 2))
        return torch.cat([seen[..., :-2] + self.get_parameter("tokenizer.keypoint.name"), seen[..., -2:]], 2)

    # ---- G ----

    def _ground_flat(self, tokens: Tensor) -> Tensor:
        h = self._layernorm("grounder.norm", tokens.flatten(1))
        return self._linear("grounder.out", _gelu(self._linear("grounder.hidden", h)))

    def _ground_staged(self, tokens: Tensor) -> Tensor:
        all_ = self._layernorm("grounder.trunk.norm", tokens.flatten(1))
        c = self._linear("grounder.config.out", _gelu(self._linear("grounder.trunk.hidden", all_)))
        x = torch.cat([all_, self._pairnorm(c)], 1)
        return c + self._linear("grounder.residual.out", _gelu(self._linear("grounder.residual.hidden", x)))

    def _ground_votes(self, tokens: Tensor) -> Tensor:
        grid, dim, pairs = self.shape["grid"], len(self.config), self.pairs
        quantities = dim // 2
        h = tokens.transpose(1, 2).unflatten(2, (grid, grid))
        h = _gelu(self._groupnorm("grounder.norm1", self._conv("grounder.look1", h, 3, 1, 1)))
        h = _gelu(h + self._groupnorm("grounder.norm2", self._conv("grounder.look2", h, 3, 1, 1)))
        seen = h.flatten(2).transpose(1, 2)
        raw = self._linear("grounder.vote", seen)
        weight = torch.cat([raw[..., :pairs], _SHARP * raw[..., pairs:quantities]], 2)
        turn = _TURN * raw[..., quantities : quantities + 2 * pairs]
        points = _STRETCH * raw[..., quantities + 2 * pairs :]
        places = _coords(grid, seen).expand(len(seen), -1, -1)
        sums = _softpool(weight, torch.cat([turn, points, places], 2))  # (N, quantities, dim + 2)
        parts = []
        for q in range(quantities):
            part = sums[:, q, 2 * q : 2 * q + 2]
            parts.append(part + sums[:, q, dim:] if q >= pairs else part)
        c = self._pairnorm(torch.cat(parts, 1))
        x = torch.cat([_softpool(weight, seen).flatten(1), c], 1)
        return c + self._linear("grounder.out", _gelu(self._linear("grounder.correct", x)))

    def ground(self, image: Tensor) -> Tensor:
        """The configurations (N, config) that frames show."""
        forms = {_FLAT: self._ground_flat, _VOTES: self._ground_votes, _STAGED: self._ground_staged}
        return self._pairnorm(forms[self.shape["grounder"]](self.tokens(image)))

    # ---- B and R ----

    def _block(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        heads = self.shape["history_heads"]
        qkv = self._linear(name + ".qkv", self._layernorm(name + ".norm1", x))
        q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, 2))
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = x + self._linear(name + ".mix", h)
        h = _gelu(self._linear(name + ".up", self._layernorm(name + ".norm2", x)))
        return x + self._linear(name + ".down", h)

    def _merge(self, tokens: Tensor) -> Tensor:
        pool, grid = self.shape["history_pool"], self.shape["grid"]
        if pool == 1:
            return self._linear("history.token", tokens)
        h = tokens.transpose(1, 2).unflatten(2, (grid, grid))
        return self._conv("history.token", h, pool, pool, 0).flatten(2).transpose(1, 2)

    def infer_belief(self, tokens: Sequence[Tensor], actions: Sequence[Tensor]) -> Tensor:
        """From the tokens of three frames and the two standardised actions between them: (N, belief)."""
        parts = []
        for f in range(3):
            parts.append(self._merge(tokens[f]) + self.get_parameter(f"history.frame{f}"))
            if f < 2:
                parts.append(self._linear("history.action", actions[f])[:, None])
        x = torch.cat(parts, 1)
        group = torch.cat([torch.full((p.shape[1],), i) for i, p in enumerate(parts)]).to(x.device)
        mask = group[None, :] <= group[:, None]  # a token sees its own group and those before
        for i in range(self.shape["history_blocks"]):
            x = self._block(f"history.block{i}", x, mask)
        x = self._layernorm("history.norm", x)
        seen = [part.mean(1) for part in x.split([p.shape[1] for p in parts], 1)]
        if self.shape.get("place"):
            cells = self._layernorm("history.place.norm", tokens[2].flatten(1))
            seen.append(_gelu(self._linear("history.place", cells)))
        return self._linear("history.belief", torch.cat(seen, 1))

    def infer_fiber(self, belief: Tensor, configs: Sequence[Tensor]) -> Tensor:
        """The belief and the two latest changes of the configuration make the fiber (N, fiber)."""
        x = torch.cat([belief, configs[1] - configs[0], configs[2] - configs[1]], 1)
        return self._linear("fiber.out", _gelu(self._linear("fiber.hidden", x)))

    # ---- T ----

    def advance(self, c: Tensor, m: Tensor, u: Tensor) -> Tuple[Tensor, Tensor]:
        """One macro action: c (N, config), m (N, fiber), u (N, controls * action) standardised -> the next c, m."""
        h = self._linear("transition.in", torch.cat([c, m, u], 1))
        if self.push:
            name = "transition.spatial."
            v = self._linear(name + "velocity", m)
            s = self.push.features(c, v, u, self.action_mean, self.action_std)
            y = self._linear(name + "up", self._layernorm(name + "norm", h)) + s @ self.get_parameter(name + "extra.weight")
            h = h + self._linear(name + "down", _gelu(y))
        for i in range(self.shape["blocks"]):
            name = f"transition.block{i}."
            y = _gelu(self._linear(name + "up", self._layernorm(name + "norm", h)))
            h = h + self._linear(name + "down", y)
        y = self._layernorm("transition.norm", h)
        c = self._pairnorm(c + self._linear("transition.config", y))
        if not self.shape["no_fiber"]:
            m = m + self._linear("transition.fiber", y)
        return c, m

    def standardise(self, actions: Tensor) -> Tensor:
        """Raw controls (..., action) as the model sees them."""
        return (actions.to(self.action_mean.dtype) - self.action_mean) / self.action_std

    def start(self, frames: Tensor, history: Tensor) -> Tuple[Tensor, Tensor]:
        """The state (c, m) after three frames (N, 3, H, W, 3) and the two controls between them (N, 2, action)."""
        past = self.standardise(history)
        configs = [self.ground(frames[:, f]) for f in range(3)]
        if self.shape["no_fiber"]:
            return configs[2], configs[2].new_zeros(len(configs[2]), self.shape["fiber"])
        tokens = [self.tokens(frames[:, 0])]
        tokens += [self.tokens(frames[:, f], frames[:, f - 1]) for f in (1, 2)]
        return configs[2], self.infer_fiber(self.infer_belief(tokens, [past[:, 0], past[:, 1]]), configs)

    def forward(self, frames: Tensor, history: Tensor, plan: Tensor) -> Tensor:
        """Predicted configurations (N, K + 1, config), first the present: frames (N, 3, H, W, 3), history (N, 2, action),
        plan (N, K, controls, action) raw controls of K macro actions."""
        c, m = self.start(frames, history)
        path = [c]
        for k in range(plan.shape[1]):
            c, m = self.advance(c, m, self.standardise(plan[:, k]).flatten(1))
            path.append(c)
        return torch.stack(path, 1)


# ---- features of a task where one part pushes another (src/nn/push.h and spatial.h say what they are) ----


class Push:
    """The sections [push] and [box] of a typed task."""

    def __init__(self, typed: str, config: Sequence[str]):
        lines: Dict[str, Dict[str, str]] = {"push": {}, "box": {}}
        section = ""
        for line in typed.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif section in lines:
                key, value = line.split(" = ", 1)
                lines[section][key] = value
        push = lines["push"]
        at = {name: i for i, name in enumerate(config)}
        *block, angle = push["block"].split()
        self.agent = [at[name] for name in push["agent"].split()]
        self.block = [at[name] for name in block]
        self.angle = at[angle + "_sin"]
        self.scale, self.radius = float(push["scale"]), float(push["radius"])
        self.motion, self.centre = _numbers(push["motion"]), _numbers(push["centre"])
        self.soft, self.deep, self.unit, self.arm, self.far = _numbers(push["lengths"])
        self.boxes = [_numbers(box) for box in lines["box"].values()]

    def _box(self, box: Sequence[float], x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
        """The push of a disc at (x, y) on a box, as a force on the box."""
        x0, y0, hx, hy = box
        sx, sy = torch.where(x < x0, -1.0, 1.0), torch.where(y < y0, -1.0, 1.0)
        sx, sy = sx.to(x.dtype), sy.to(x.dtype)
        dx, dy = sx * (x - x0) - hx, sy * (y - y0) - hy
        corner, side = (dx > 0) & (dy > 0), dx > dy
        far = torch.sqrt(torch.where(corner, dx * dx + dy * dy, torch.ones_like(dx)))
        zero = torch.zeros_like(dx)
        d = torch.where(corner, far, torch.where(side, dx, dy))
        nx = torch.where(corner, sx * dx / far, torch.where(side, sx, zero))
        ny = torch.where(corner, sy * dy / far, torch.where(side, zero, sy))
        t = self.radius - d
        g = (t + torch.sqrt(t * t + self.soft * self.soft)) / 2
        z = ((d + self.deep) / self.deep).clamp_min(0)
        g = torch.where(d < 0, g * z * z * (3 - 2 * z), g) / self.unit
        return -g * nx, -g * ny

    def features(self, c: Tensor, v: Tensor, u: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """(N, (controls + 1) * (2 + 3 * boxes)): where the agent is and will be relative to the block, and how it would push it."""
        controls = (u.unflatten(1, (-1, len(mean))) * std + mean)[..., :2]
        speed, p = self.scale * v, self.scale * (c[:, self.agent] - c[:, self.block])
        points = [p]
        for k in range(controls.shape[1]):
            a = controls[:, k]
            p = p + self.motion[0] * a + self.motion[1] * speed
            speed = self.motion[2] * a + self.motion[3] * speed
            points.append(p)
        sin, cos = c[:, self.angle], c[:, self.angle + 1]
        out = []
        for at in points:
            x, y = cos * at[:, 0] + sin * at[:, 1], cos * at[:, 1] - sin * at[:, 0]
            across, arm = x - self.centre[0], y - self.centre[1]
            out += [across / self.far, arm / self.far]
            for box in self.boxes:
                px, py = self._box(box, x, y)
                out += [cos * px - sin * py, sin * px + cos * py, (across * py - arm * px) / self.arm]
        return torch.stack(out, 1)


# ---- files ----


def load(name: Union[str, "os.PathLike[str]"]) -> Union[World, LeWM]:
    """A shipped model by its name, or a .safetensors file, as a module on the CPU in float32: a World, or a LeWM for a file of one."""
    path = find(name)
    model = Model(path)  # the library checks the file
    info = model.info
    texts, tensors = _files.read(path)
    if texts["firm.format"] == "firm-lewm":
        return LeWM(texts, tensors, info.image_size)
    if any(tensor.startswith("member.") for tensor in tensors):
        raise UnavailableError(f"{path} is an ensemble, which has no PyTorch form here; load its models one by one")
    return World(texts, tensors, info.config, info.image_size, model._core.typed())


def save(world: Union[World, LeWM], path: Union[str, "os.PathLike[str]"], *, half: bool = False) -> None:
    """Writes a model file that firm.load() and the C library take, with a right digest. half=True halves the file and rounds
    the weights. What the file has beside weights (support points, recorded sequences, statistics of frames) stays as loaded."""
    if not isinstance(world, (World, LeWM)):
        raise UsageError(f"save takes a model of firm.torch.load(), not {type(world).__name__}")
    tensors: Dict[str, Any] = {}
    for name, parameter in world.state_dict().items():
        array = parameter.detach().cpu().numpy()
        if not np.isfinite(array).all():
            raise UsageError(f"the parameter {name} is not finite; nothing was written")
        if array.dtype != np.int64:
            array = array.astype(np.float16 if half else np.float32)
        if not np.isfinite(array).all():
            raise UsageError(f"the parameter {name} is too large for half=True; nothing was written")
        tensors[name] = array
    tensors.update(getattr(world, "_beside", {}))
    _files.write(os.fspath(path), world.texts, tensors)

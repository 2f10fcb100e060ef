#!/usr/bin/env python3
"""Turns LeWM's weights.pt into safetensors, and back.

    scripts/reference/lewm_weights.py weights.pt model.safetensors
    scripts/reference/lewm_weights.py model.safetensors weights.pt

Needs torch, numpy and nothing else. weights.pt is read with weights_only=True: tensors alone, no code. A state dict
inside {"state_dict": ...}, and names with "model." before them, are understood. Tensors keep their names and numbers;
float16, bfloat16 and float32 stay what they are. The other way the texts that firm adds are left out.
"""

import json
import struct
import sys

TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64"}


def read_pt(path):
    import torch

    state = torch.load(path, map_location="cpu", weights_only=True)
    state = state.get("state_dict", state)
    state = {k.removeprefix("model."): v for k, v in state.items()}
    if "predictor.pos_embedding" not in state:
        raise SystemExit(f"{path} holds no weights of LeWM: predictor.pos_embedding is missing")
    return state


def write_safetensors(state, path):
    import torch

    header, data = {}, b""
    for name, tensor in state.items():
        kind = next((k for k, v in TYPES.items() if getattr(torch, v) == tensor.dtype), None)
        if kind is None:
            raise SystemExit(f"tensor {name} is {tensor.dtype}; only {', '.join(TYPES.values())} are kept")
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    import torch

    with open(path, "rb") as f:
        raw = f.read()
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + size]), bytearray(raw[8 + size :])
    state = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        kind = getattr(torch, TYPES[t["dtype"]])
        state[name] = torch.frombuffer(data[begin:end], dtype=kind).reshape(t["shape"]).clone()
    return state


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.strip())
    source, target = sys.argv[1:]
    if source.endswith(".safetensors"):
        import torch

        torch.save(read_safetensors(source), target)
    else:
        write_safetensors(read_pt(source), target)


if __name__ == "__main__":
    main()

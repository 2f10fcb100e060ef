#!/usr/bin/env python3
"""LeWM's weights there and back: files of the reference package here, files written here in the reference package, and
the costs that both sides give to the same plans.

    scripts/reference/lewm_exchange.py          makes a throw-away virtual environment for it (PyTorch is large)
    python scripts/reference/lewm_exchange.py --inside          in an environment that has the packages

Needs build/firm and build/libfirm.so (make build; BUILD names another folder) and a C compiler.

  there -> here   the package's modules with weights made by a formula; torch.save; lewm_weights.py; firm export; libfirm
  here -> there   firm collect, firm train --world lewm (published sizes, three updates on the CPU); lewm_weights.py;
                  load_state_dict(strict=True) into the package's modules

A cost is the sum of squared differences of the last latent and the goal's, as in the package's criterion(). The limits
are what an independent port reports of itself: 5.6e-3 for costs and 7.3e-4 for the distances after each macro action.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile

import lewm
import lewm_weights
from throwaway import REFERENCE, ROOT, run_inside

BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
FIRM = os.path.join(BUILD, "firm")
COST, DISTANCE = 5.6e-3, 7.3e-4
PLANS, MACROS, ACTION, WIDTH = 6, 5, 10, 192
PUBLISHED = dict(width=WIDTH, depth=12, heads=3, mlp=768, image=224, patch=14, predictor_depth=6, predictor_heads=16,
                 predictor_head=64, predictor_mlp=2048, action_scale=4, projector=2048)


def firm(*words):
    done = subprocess.run([FIRM, *words, "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"firm {' '.join(words)}: {done.stderr.strip()}")


def here(folder, model, pictures, plans):
    """Distances (plans, 1 + macros) by libfirm."""
    import numpy as np

    program = os.path.join(folder, "lewm_costs")
    if not os.path.exists(program):
        subprocess.check_call(["cc", "-std=c17", "-O1", "-I", os.path.join(ROOT, "include"), os.path.join(ROOT, "scripts", "reference", "lewm_costs.c"),
                               "-o", program, "-L", BUILD, "-lfirm", "-Wl,-rpath," + os.path.abspath(BUILD)])
    files = [os.path.join(folder, name) for name in ("pictures", "plans")]
    pictures.tofile(files[0])
    plans.astype(np.float32).tofile(files[1])
    out = subprocess.check_output([program, model, *files, str(len(plans))], text=True)
    return np.array([[float(x) for x in line.split()] for line in out.splitlines()])


def there(model, pictures, plans, mean, std):
    """The same by the package's rollout, and its own costs."""
    import torch

    standard = (torch.from_numpy(plans).reshape(PLANS, MACROS, ACTION // 2, 2) - torch.tensor(mean)) / torch.tensor(std)
    frames = lewm.pixels(pictures)
    model.eval()
    with torch.no_grad():
        goal = model.encode({"pixels": frames[None, 1:2]})["emb"]
        info = {"pixels": frames[None, None, :1].expand(1, PLANS, -1, -1, -1, -1)}
        info = model.rollout(info, standard.reshape(1, PLANS, MACROS, ACTION).float())
        info["goal_emb"] = goal[:, None].expand(1, PLANS, -1, -1)
        path = info["predicted_emb"][0]
        return (path - goal[0]).square().mean(-1).sqrt().double().numpy(), model.criterion(info)[0].double().numpy()


def compare(name, ours, theirs, costs):
    import numpy as np

    far = np.abs(ours - theirs).max()
    cost = WIDTH * ours[:, -1] ** 2
    off = np.abs(cost - costs)
    print(f"{name}: costs {np.array2string(costs, precision=3)}, off by at most {off.max():.2e} (limit {COST:g}), "
          f"{(off / costs).max():.1e} of their size; distances by at most {far:.2e} (limit {DISTANCE:g})")
    if not (off.max() <= COST and far <= DISTANCE):
        raise SystemExit(f"{name}: the two sides differ")


def metadata(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(size))["__metadata__"]


def from_there(folder, pictures, plans):
    import torch

    mean, std = [0.05, -0.1], [0.4, 0.6]
    model = lewm.build(PUBLISHED)
    names = [os.path.join(folder, n) for n in ("weights.pt", "weights.safetensors", "imported.safetensors")]
    torch.save(model.state_dict(), names[0])
    lewm_weights.write_safetensors(lewm_weights.read_pt(names[0]), names[1])
    firm("export", names[1], "-o", names[2], "--task", "tworoom", "--statistics", "{},{};{},{}".format(*mean, *std))
    compare("there -> here", here(folder, names[2], pictures, plans), *there(model, pictures, plans, mean, std))


def from_here(folder, pictures, plans):
    import torch

    data, run = os.path.join(folder, "episodes.h5"), os.path.join(folder, "run")
    firm("collect", "tworoom", "--episodes", "20", "--seed", "3", "-o", data)
    firm("train", "tworoom", "--world", "lewm", "--data", data, "-o", run, "--set", "lewm.batch=2", "--set", "lewm.updates=3", "--set", "lewm.warmup=0",
         "--set", "lewm.rate=1e-3")
    path, back = os.path.join(run, "model.safetensors"), os.path.join(folder, "back.pt")
    torch.save(lewm_weights.read_safetensors(path), back)
    model = lewm.build(PUBLISHED)
    model.load_state_dict(torch.load(back, weights_only=True), strict=True)
    text = metadata(path)
    mean, std = ([float(x) for x in text[key].split()] for key in ("firm.action_mean", "firm.action_std"))
    compare("here -> there", here(folder, path, pictures, plans), *there(model, pictures, plans, mean, std))


def main():
    import numpy as np
    import torch
    import transformers

    print(f"{REFERENCE}, torch {torch.__version__}, transformers {transformers.__version__}")
    pictures = lewm.frames(2, 224)
    plans = (0.8 * lewm.noise("plans", PLANS * MACROS * ACTION)).reshape(PLANS, MACROS, ACTION).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        from_there(folder, pictures, plans)
        from_here(folder, pictures, plans)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        main()
    else:
        run_inside(__file__, lewm.PACKAGES, alone=[REFERENCE])

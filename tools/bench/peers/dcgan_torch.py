#!/usr/bin/env python3
"""PyTorch peer of models/dcgan_cifar10: the same nets, data, rates and steps; its pictures are scored by moka frechet.

Usage: dcgan_torch.py --train cifar10_jpeg_train.tar.gz --out FOLDER [--iterations 11730] [--at 782,3910] [--seed 1]

Follows models/dcgan_cifar10/train_val.prototxt and solver.prototxt:
  round     one update of the discriminator on 64 real and 64 made pictures, which pass it apart, and one of the
            generator on 64 others; noise uniform in [-1, 1)
  update    Adam, 2e-4, 0.5 and 0.999; weights start as N(0, 0.02), scales of batch norms as N(1, 0.02)
  data      B,G,R in [-1, 1]; epochs are reshuffled and follow each other without dropping a record
Where PyTorch's habit differs it is kept: running statistics of the generator are renewed in both halves of a round
(Moka's in its own turn alone). Writes --count pictures FOLDER/ITERATION/NNNNNN.png by the generator in eval mode after
each of the iterations of --at and after the last.
"""

import argparse
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from cifar_torch import read_tar

BATCH = 64
NOISE = 100


def generator():
    def up(inputs, outputs):
        return [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]

    return nn.Sequential(nn.Linear(NOISE, 128 * 16, bias=False), nn.Unflatten(1, (128, 4, 4)), nn.BatchNorm2d(128),
                         nn.ReLU(True), *up(128, 64), *up(64, 32), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())


def discriminator():
    def down(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, True)]

    return nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2, True), *down(32, 64), *down(64, 128),
                         nn.Flatten(), nn.Linear(128 * 16, 1))


def start(module):
    if isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1, 0.02)
        nn.init.zeros_(module.bias)
    elif hasattr(module, "weight"):
        nn.init.normal_(module.weight, 0, 0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def batches(images, rng):
    """Endless: what is left of an epoch begins a batch of the next."""
    left = np.empty(0, dtype=np.int64)
    while True:
        while len(left) < BATCH:
            left = np.concatenate([left, rng.permutation(len(images))])
        yield images[left[:BATCH]].float() / 127.5 - 1
        left = left[BATCH:]


@torch.no_grad()
def draw(g, folder, count, seed):
    folder.mkdir(parents=True, exist_ok=True)
    random = torch.Generator().manual_seed(seed)
    g.eval()
    for first in range(0, count, BATCH):
        z = torch.rand(BATCH, NOISE, generator=random) * 2 - 1
        pixels = ((g(z) + 1) * 127.5).round().clamp(0, 255).byte().numpy()[:, ::-1].transpose(0, 2, 3, 1)
        for i, picture in enumerate(pixels[:count - first]):
            Image.fromarray(np.ascontiguousarray(picture)).save(folder / f"{first + i:06d}.png")
    g.train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--iterations", type=int, default=11730)
    parser.add_argument("--at", default="")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    images, _ = read_tar(args.train)
    g, d = generator().apply(start), discriminator().apply(start)
    print(f"generator {sum(p.numel() for p in g.parameters())}, discriminator "
          f"{sum(p.numel() for p in d.parameters())} parameters", flush=True)
    adam = [torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999)) for net in (d, g)]
    data = batches(images, np.random.default_rng(args.seed))
    at = {int(n) for n in args.at.split(",") if n} | {args.iterations}
    begin = time.time()
    for iteration in range(1, args.iterations + 1):
        made = g(torch.rand(BATCH, NOISE) * 2 - 1).detach()
        loss_d = F.softplus(-d(next(data))).mean() + F.softplus(d(made)).mean()
        d.zero_grad()
        loss_d.backward()
        adam[0].step()
        loss_g = F.softplus(-d(g(torch.rand(BATCH, NOISE) * 2 - 1))).mean()
        g.zero_grad()
        loss_g.backward()
        adam[1].step()
        if iteration % 100 == 0:
            print(f"{iteration}: discriminator {loss_d.item():.4f} generator {loss_g.item():.4f} "
                  f"{(time.time() - begin) / iteration:.3f} s a round", flush=True)
        if iteration in at:
            draw(g, args.out / str(iteration), args.count, args.seed)


if __name__ == "__main__":
    main()

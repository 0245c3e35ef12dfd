#!/usr/bin/env python3
"""A torchvision input pipeline as a peer of `moka bench data`: decode, random-resized-crop, flip, normalise, batch.

Usage: data_torch.py FOLDER BATCH WORKERS SIDE   (FOLDER/CLASS/*.jpg)
"""

import pathlib
import sys

import torch
import torchvision
from torchvision import transforms

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from turns import serve  # noqa: E402


def main():
    folder, batch, workers, side = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(workers)
    picture = transforms.Compose([
        transforms.RandomResizedCrop(side), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    data = torchvision.datasets.ImageFolder(folder, picture)
    loader = torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=workers, drop_last=True,
                                         persistent_workers=True, prefetch_factor=4)

    def endless():
        while True:
            yield from loader

    batches = endless()
    serve(lambda: next(batches), f"{torch.__version__}+torchvision{torchvision.__version__}", batch)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""PyTorch peer of models/clothing_resnet: the same net, pictures, augmentation, rates and update rule, for comparison.

Usage: clothing_torch.py --train FOLDER --validation FOLDER [--seed 1] [--out result.json]
       ... --target 0.8 [--workers 1]    ends at that accuracy and prints the lines of race.py instead
       FOLDER: `moka data export data/clothing/train FOLDER --limit 2000`, so both engines read the same pixels.

Follows models/clothing_resnet/solver.prototxt and train_val.prototxt:
  net       a 3x3 convolution of stride 2, max pooling, four basic blocks with projections; msra filler, BatchNorm eps 1e-5,
            the last scale of a block starts at 0
  data      (B,G,R - mean) / std; training takes rectangles of 25-100 % of the area and aspects 3/4-4/3, resized to 96x96
            with antialiasing, mirrored at random; validation the central 112x112 after the shorter side became 112
  loss      cross-entropy of labels smoothed by 0.1 in training
  rate      a line from --warmup-start-lr to --lr over --warmup iterations, then the cosine to 0
  update    Caffe's: h = momentum*h + rate*(g + decay*w); w -= h, for every parameter, biases and BatchNorm's too
  tests     with --ema-decay by the mean of the weights, as solver_fast.prototxt has it
Prints the validation accuracy as training goes on; the last one counts.
"""

import argparse
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torchvision.transforms import RandomResizedCrop

from cifar_torch import CaffeSgd, MeanOfWeights, batches, rate_at, without_traces
from race import Race, add_options, imported, save

MEAN = (114.6, 120.0, 140.1)  # B, G, R
STD = (62.2, 65.0, 65.8)
CROP, TEST_SIDE = 96, 112


def read_folder(path):
    """uint8 pictures [3,H,W] in B,G,R, of many sizes, and labels [N]; files are LABEL_NUMBER.png."""
    files = sorted(pathlib.Path(path).glob("*.png"), key=lambda file: file.stem.split("_")[1])
    pictures = [torch.from_numpy(np.asarray(Image.open(file).convert("RGB"))[:, :, ::-1].transpose(2, 0, 1).copy())
                for file in files]
    return pictures, torch.tensor([int(file.stem.split("_")[0]) for file in files])


class ConvBn(nn.Sequential):
    def __init__(self, inputs, outputs, kernel=3, stride=1, gamma=1.0):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))
        nn.init.normal_(self[0].weight, std=math.sqrt(2 / (inputs * kernel * kernel)))
        nn.init.constant_(self[1].weight, gamma)


class Basic(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.shortcut = ConvBn(inputs, width, 1, stride)
        self.conv1 = ConvBn(inputs, width, 3, stride)
        self.conv2 = ConvBn(width, width, gamma=0.0)

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.conv2(F.relu(self.conv1(x))))


class ClothingResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = ConvBn(3, 32, 3, 2)
        self.blocks = nn.Sequential(Basic(32, 32, 1), Basic(32, 64, 2), Basic(64, 128, 2), Basic(128, 256, 2))
        self.fc = nn.Linear(256, 10)
        nn.init.normal_(self.fc.weight, std=math.sqrt(2 / 256))
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(self.blocks(F.max_pool2d(F.relu(self.conv1(x)), 2)).mean((2, 3)))


def normalised(picture):
    return (picture - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def resized(picture, height, width):
    return F.interpolate(picture[None].float(), (height, width), mode="bilinear", antialias=True)[0]


def random_crop(picture):
    top, left, height, width = RandomResizedCrop.get_params(picture, (0.25, 1.0), (3 / 4, 4 / 3))
    crop = resized(picture[:, top:top + height, left:left + width], CROP, CROP)
    return normalised(crop.flip(2) if torch.rand(()) < 0.5 else crop)


def centre(picture):
    height, width = picture.shape[1:]
    short = min(height, width)
    whole = resized(picture, round(height * TEST_SIDE / short), round(width * TEST_SIDE / short))
    top, left = (whole.shape[1] - TEST_SIDE) // 2, (whole.shape[2] - TEST_SIDE) // 2
    return normalised(whole[:, top:top + TEST_SIDE, left:left + TEST_SIDE])


def validate(net, pictures, labels):
    net.eval()
    with torch.no_grad():
        scores = torch.cat([net(part.contiguous(memory_format=torch.channels_last)) for part in pictures.split(31)])
    net.train()
    return (scores.argmax(1) == labels).double().mean().item(), F.cross_entropy(scores, labels).item()


def prepare(options):
    """The net, its solver, the mean of its weights and a function of a batch [N,3,96,96], its labels and a rate, which
    takes a step and gives the loss."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    net = ClothingResNet().to(memory_format=torch.channels_last)
    net = torch.compile(net) if options.way == "compile" else net
    solver = CaffeSgd(net.parameters(), options.momentum, options.weight_decay)
    mean = MeanOfWeights(net, options.ema_decay)

    def step(x, target, rate):
        loss = F.cross_entropy(net(x.contiguous(memory_format=torch.channels_last)), target, label_smoothing=0.1)
        loss.backward()
        solver.step(rate)
        mean.update()
        return loss

    return net, solver, mean, step


def train(options):
    net, _, mean, step = prepare(options)
    generator = torch.Generator().manual_seed(options.seed)
    pictures, labels = read_folder(options.train)
    validation, validation_labels = read_folder(options.validation)
    validation = torch.stack([centre(picture) for picture in validation])
    recipe = {key: value for key, value in vars(options).items() if key not in ("train", "validation", "out")}
    result = {"recipe": recipe, "torch": torch.__version__, "tests": [], "losses": [],
              "parameters": sum(p.numel() for p in net.parameters())}
    started, recent = time.monotonic(), []
    for iteration, chosen in enumerate(batches(len(pictures), options.batch, generator)):
        done = iteration == options.iterations
        if done or (iteration and iteration % options.test_interval == 0):
            accuracy, loss = validate(mean.tested(), validation, validation_labels)
            seconds = time.monotonic() - started
            result["tests"].append({"iteration": iteration, "accuracy": accuracy, "loss": loss, "seconds": seconds})
            print(f"iteration {iteration}: accuracy {accuracy:.4f}, test loss {loss:.4f}, {seconds:.0f} s", flush=True)
        if done:
            break
        x = torch.stack([random_crop(pictures[i]) for i in chosen])
        loss = step(x, labels[chosen], rate_at(options, iteration))
        recent.append(loss.item())
        if len(recent) == 52:
            result["losses"].append(sum(recent) / 52)
            recent = []
    return result


class Crops(torch.utils.data.Dataset):
    """Random crops of the pictures, for the workers of a DataLoader."""

    def __init__(self, pictures, labels):
        self.pictures, self.labels = pictures, labels

    def __getitem__(self, i):
        return random_crop(self.pictures[i]), self.labels[i]


def loaded(options, pictures, labels, generator):
    """Batches of crops, made by --workers processes or else by this one."""
    order = (chosen.tolist() for chosen in batches(len(pictures), options.batch, generator))
    return torch.utils.data.DataLoader(Crops(pictures, labels), batch_sampler=order, num_workers=options.workers)


def train_to_target(options):
    """The same training, warmed up on black pictures, on the clock of race.py."""
    torch.set_flush_denormal(True)
    net, solver, mean, step = prepare(options)
    generator = torch.Generator().manual_seed(options.seed)
    files = [imported(folder, read_folder) for folder in (options.train, options.validation)]
    race = Race(options.target, options.metric, options.batch, f"torch {torch.__version__}")
    with without_traces(net, solver):
        for _ in range(3):
            step(torch.zeros(options.batch, 3, CROP, CROP), torch.zeros(options.batch, dtype=torch.long), 0.0)
        validate(net, torch.zeros(31, 3, TEST_SIDE, TEST_SIDE), torch.zeros(31, dtype=torch.long))
    mean.restart()
    race.begin()
    pictures, labels = torch.load(files[0])
    validation, validation_labels = torch.load(files[1])
    validation = torch.stack([centre(picture) for picture in validation])
    race.loaded()
    for iteration, (x, target) in enumerate(loaded(options, pictures, labels, generator)):
        done = iteration == options.iterations
        if done or (iteration and iteration % options.test_interval == 0):
            with race.testing():
                accuracy, loss = validate(mean.tested(), validation, validation_labels)
            if race.test(iteration, iteration * options.batch / len(pictures), accuracy, loss) or done:
                break
        step(x, target, rate_at(options, iteration))
    race.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", required=True, help="folder of exported training pictures")
    parser.add_argument("--validation", required=True, help="folder of exported pictures for validation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=3140)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--warmup", type=int, default=262, help="iterations")
    parser.add_argument("--warmup-start-lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=2e-3)
    parser.add_argument("--ema-decay", type=float, default=0.0, help="tests take the mean of the weights")
    parser.add_argument("--test-interval", type=int, default=157, help="iterations")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes that make crops; 0: between steps (--target)")
    parser.add_argument("--way", choices=["eager", "compile"], default="eager")
    parser.add_argument("--out", help="JSON file for the result")
    add_options(parser)
    options = parser.parse_args()
    if options.target is not None:
        return train_to_target(options)
    result = train(options)
    save(result, options.out)


if __name__ == "__main__":
    main()

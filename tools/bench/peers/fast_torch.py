#!/usr/bin/env python3
"""PyTorch peer of models/cifar10_fast and models/mnist_fast: the same nets, data, augmentation, rates and update rule.

Usage: fast_torch.py --train cifar10_jpeg_train.tar.gz --test cifar10_jpeg_test.tar.gz --target 0.83 [--seed 1]
       fast_torch.py --digits FOLDER --target 0.994 ...      the folder of MNIST's four files

Follows the models' solver.prototxt and train_val.prototxt, from which the whitening filters are read:
  net       convolutions without bias, a maximum of 2x2 in front of the normalisation where it halves, ReLU; cifar10: a
            frozen 2x2 convolution that whitens before them, behind them a global maximum and scores / 8
  data      (pixel - mean) / std; training pads 2 pixels of zeros before the mean, crops and, but for digits, mirrors at
            random; epochs are reshuffled and follow each other without dropping a record; labels are smoothed
  rate      a line from --warmup-start-lr to --lr over --warmup iterations, then a line to 0
  update    Caffe's Nesterov: h' = momentum*h + rate*(g + decay*w); w -= (1 + momentum)*h' - momentum*h
Tests of cifar10 take the mean of the scores of a picture and its mirror. Prints lines of race.py.
"""

import argparse
import math
import pathlib
import re

import torch
import torch.nn.functional as F
from torch import nn

from cifar_torch import MEAN, STD, Pictures, batches, drawn, read_tar, without_traces
from mnist_torch import read_digits
from race import Race, add_options, imported

WHITENED = pathlib.Path(__file__).resolve().parents[3] / "models/cifar10_fast/train_val.prototxt"
PAD = 2


def xavier(layer):
    """Caffe's: by the inputs alone."""
    reach = math.sqrt(3 / layer.weight[0].numel())
    nn.init.uniform_(layer.weight, -reach, reach)
    return layer


class Part(nn.Module):
    """A convolution, a maximum of 2x2 if it halves, a normalisation, ReLU."""

    def __init__(self, inputs, outputs, kernel, halves):
        super().__init__()
        self.halves = halves
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        nn.init.normal_(self.conv.weight, std=math.sqrt(2 / self.conv.weight[0].numel()))

    def forward(self, x):
        x = self.conv(x)
        return F.relu(self.norm(F.max_pool2d(x, 2) if self.halves else x))


class Cifar10(nn.Module):
    mean, std, flipped, smoothing = MEAN, STD, 0.5, 0.2

    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2, bias=False)
        filters = re.search(r"values: \[(.*?)\]", WHITENED.read_text(encoding="utf-8"), re.DOTALL)[1]
        self.whiten.weight.data.copy_(torch.tensor([float(word) for word in filters.split(",")]).view(24, 3, 2, 2))
        self.whiten.weight.requires_grad_(False)
        self.parts = nn.Sequential(Part(24, 32, 3, True), Part(32, 64, 3, True), Part(64, 64, 3, False),
                                   Part(64, 128, 3, True), Part(128, 128, 3, False))
        self.fc = xavier(nn.Linear(128, 10, bias=False))

    def forward(self, x):
        x = F.relu(self.whiten(F.pad(x, (0, 1, 0, 1))))
        return self.fc(self.parts(x).amax((2, 3))) / 8


class Mnist(nn.Module):
    mean, std, flipped, smoothing = (33.32,), (78.57,), 0, 0.1

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(Part(1, 16, 5, True), Part(16, 48, 3, True), Part(48, 96, 3, True))
        self.fc = xavier(nn.Linear(96 * 9, 10, bias=False))

    def forward(self, x):
        return self.fc(self.parts(x).flatten(1))


class Nesterov:
    """Caffe's, with the rate inside the history."""

    def __init__(self, net, momentum, decay):
        self.parameters = [p for p in net.parameters() if p.requires_grad]
        self.momentum, self.decay = momentum, decay
        self.history = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, rate):
        gradients = [p.grad for p in self.parameters]
        torch._foreach_add_(gradients, self.parameters, alpha=self.decay)
        torch._foreach_mul_(gradients, rate)
        torch._foreach_add_(self.parameters, self.history, alpha=self.momentum)
        torch._foreach_mul_(self.history, self.momentum)
        torch._foreach_add_(self.history, gradients)
        torch._foreach_sub_(self.parameters, self.history, alpha=1 + self.momentum)
        for p in self.parameters:
            p.grad = None


def sets_of(options):
    """Pictures and labels to train on and to test with, which are read when they are used."""
    if options.digits:
        return torch.load(imported(options.digits, read_digits), mmap=True)
    return [torch.load(imported(path, read_tar), mmap=True) for path in (options.train, options.test)]


def rate_at(options, iteration):
    if iteration < options.warmup:
        return options.warmup_start_lr + (options.lr - options.warmup_start_lr) * iteration / options.warmup
    return options.lr * (options.iterations - iteration) / (options.iterations - options.warmup)


class Training:
    def __init__(self, options):
        self.precision = options.precision
        self.net = (Mnist if options.digits else Cifar10)().to(memory_format=torch.channels_last)
        self.run = torch.compile(self.net) if options.way == "compile" else self.net
        self.solver = Nesterov(self.net, options.momentum, options.weight_decay)

    def scores(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            return self.run(x).float()

    def step(self, pictures, draw, rate):
        scores = self.scores(pictures.normalise(pictures.augmented(draw, PAD)))
        F.cross_entropy(scores, pictures.labels[draw[:, 0]], label_smoothing=self.net.smoothing).backward()
        self.solver.step(rate)

    def test(self, pictures, size=500):
        self.net.eval()
        right, loss = 0, 0.0
        with torch.inference_mode():
            for start in range(0, len(pictures.images), size):
                target = pictures.labels[start:start + size]
                x = pictures.normalise(pictures.images[start:start + size])
                scores = (self.scores(x) + self.scores(x.flip(3))) / 2 if self.net.flipped else self.scores(x)
                right += (scores.argmax(1) == target).sum().item()
                loss += F.cross_entropy(scores, target, reduction="sum").item()
        self.net.train()
        return right / len(pictures.images), loss / len(pictures.images)


def train(options):
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    training, generator = Training(options), torch.Generator().manual_seed(options.seed)
    net = training.net
    sets = [Pictures(*map(torch.zeros_like, kept), "cpu", net.mean, net.std) for kept in sets_of(options)]
    race = Race(options.target, options.metric, options.batch, f"torch {torch.__version__}")
    with without_traces(net, training.solver):  # black pictures
        for _ in range(3):
            training.step(sets[0], drawn(torch.arange(options.batch), generator, PAD, net.flipped), 0.0)
    training.test(sets[1])
    race.begin()
    for pictures, kept in zip(sets, sets_of(options)):
        pictures.load(*kept)
    race.loaded()
    pictures, tested = sets
    for iteration, chosen in enumerate(batches(len(pictures.images), options.batch, generator)):
        done = iteration == options.iterations
        if done or (iteration and iteration % options.test_interval == 0):
            with race.testing():
                accuracy, loss = training.test(tested)
            if race.test(iteration, iteration * options.batch / len(pictures.images), accuracy, loss) or done:
                break
        training.step(pictures, drawn(chosen, generator, PAD, net.flipped), rate_at(options, iteration))
    race.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", help="tar of CIFAR-10's training pictures")
    parser.add_argument("--test", help="tar of its test pictures")
    parser.add_argument("--digits", type=pathlib.Path, help="folder of MNIST's four files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=1954)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.6)
    parser.add_argument("--warmup", type=int, default=390, help="iterations")
    parser.add_argument("--warmup-start-lr", type=float, default=0.03)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--test-interval", type=int, default=977, help="iterations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--way", choices=["eager", "compile"], default="eager")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    add_options(parser)
    options = parser.parse_args()
    if options.target is None:
        parser.error("--target is missing")
    if not options.digits and not (options.train and options.test):
        parser.error("--train and --test are missing, or --digits")
    train(options)


if __name__ == "__main__":
    main()

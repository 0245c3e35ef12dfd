#!/usr/bin/env python3
"""PyTorch peer of models/lenet: the same net, data, rates and update rule, trained to a target.

Usage: mnist_torch.py --data FOLDER --target 0.99 [--seed 1] [--threads 2]
       FOLDER: train-images-idx3-ubyte.gz and the other three files of MNIST

Follows models/lenet/solver.prototxt and train_val.prototxt:
  net       two convolutions of 5x5 with 2x2 maxima behind each, two inner products; xavier filler, biases 0
  data      pixels / 256; epochs are reshuffled and follow each other without dropping a record
  rate      a cosine to 0; twice of it for biases
  update    Caffe's: h = momentum*h + rate*(g + decay*w); w -= h, for every parameter, biases too
Prints lines of race.py.
"""

import argparse
import gzip
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

from cifar_torch import batches, without_traces
from race import Race, add_options, imported


def read_idx(file, header):
    with gzip.open(file) as stream:
        return torch.frombuffer(bytearray(stream.read()[header:]), dtype=torch.uint8)


def read_digits(folder):
    """uint8 pictures [N,1,28,28] and labels [N] of the training digits and of those for tests."""
    sets = []
    for part in ("train", "t10k"):
        images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
        sets.append((images, read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8).long()))
    return sets


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.ip1, self.ip2 = nn.Linear(800, 500), nn.Linear(500, 10)
        for layer in (self.conv1, self.conv2, self.ip1, self.ip2):
            reach = math.sqrt(3 / layer.weight[0].numel())  # Caffe's xavier: by the inputs alone
            nn.init.uniform_(layer.weight, -reach, reach)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = F.max_pool2d(self.conv2(F.max_pool2d(self.conv1(x), 2)), 2)
        return self.ip2(F.relu(self.ip1(x.flatten(1))))


class Sgd:
    """Caffe's, with a factor of the rate for each parameter."""

    def __init__(self, net, momentum, decay):
        self.parameters, self.momentum, self.decay = list(net.parameters()), momentum, decay
        self.factors = [2.0 if name.endswith("bias") else 1.0 for name, _ in net.named_parameters()]
        self.history = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, rate):
        gradients = torch._foreach_add([p.grad for p in self.parameters], self.parameters, alpha=self.decay)
        torch._foreach_mul_(gradients, [rate * factor for factor in self.factors])
        torch._foreach_mul_(self.history, self.momentum)
        torch._foreach_add_(self.history, gradients)
        torch._foreach_sub_(self.parameters, self.history)
        for p in self.parameters:
            p.grad = None


def scaled(images):
    return (images.float() / 256).contiguous(memory_format=torch.channels_last)


def test(net, images, labels):
    right, loss = 0, 0.0
    with torch.inference_mode():
        for start in range(0, len(images), 500):
            target = labels[start:start + 500]
            scores = net(scaled(images[start:start + 500]))
            right += (scores.argmax(1) == target).sum().item()
            loss += F.cross_entropy(scores, target, reduction="sum").item()
    return right / len(images), loss / len(images)


def train(options):
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    generator = torch.Generator().manual_seed(options.seed)
    file = imported(options.data, read_digits)
    net = LeNet().to(memory_format=torch.channels_last)
    net = torch.compile(net) if options.way == "compile" else net
    solver = Sgd(net, options.momentum, options.weight_decay)

    def step(images, labels, rate):
        F.cross_entropy(net(scaled(images)), labels).backward()
        solver.step(rate)

    race = Race(options.target, options.metric, options.batch, f"torch {torch.__version__}")
    with without_traces(net, solver):
        made = torch.zeros(options.batch, 1, 28, 28, dtype=torch.uint8), torch.zeros(options.batch, dtype=torch.long)
        for _ in range(3):
            step(*made, 0.0)
        test(net, torch.zeros(500, 1, 28, 28, dtype=torch.uint8), torch.zeros(500, dtype=torch.long))
    race.begin()
    (images, labels), tested = torch.load(file)
    race.loaded()
    for iteration, chosen in enumerate(batches(len(images), options.batch, generator)):
        done = iteration == options.iterations
        if done or iteration % options.test_interval == 0:  # at 0 as well, as the solver has it
            with race.testing():
                accuracy, loss = test(net, *tested)
            if race.test(iteration, iteration * options.batch / len(images), accuracy, loss) or done:
                break
        step(images[chosen], labels[chosen], options.lr * (1 + math.cos(math.pi * iteration / options.iterations)) / 2)
    race.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder of MNIST's four files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--test-interval", type=int, default=1000, help="iterations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--way", choices=["eager", "compile"], default="eager")
    add_options(parser)
    options = parser.parse_args()
    if options.target is None:
        parser.error("--target is missing")
    train(options)


if __name__ == "__main__":
    main()

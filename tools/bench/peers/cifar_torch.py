#!/usr/bin/env python3
"""PyTorch peer of models/cifar10_resnet20: the same net, data, augmentation, rates and update rule, for comparison.

With --blocks 9 of models/cifar10_resnet56.

Usage: cifar_torch.py --train cifar10_jpeg_train.tar.gz --test cifar10_jpeg_test.tar.gz [--seed 1] [--out result.json]
       ... --lr 0.1 --warmup 0 --weight-decay 1e-4 --iterations 64000 --steps 32000,48000    models/*/solver.prototxt
       ... --device cuda      the pictures lie on the GPU, and a step is recorded once as a CUDA graph and replayed
       ... --target 0.8       ends at that test accuracy and prints the lines of race.py instead

Follows models/cifar10_resnet20/solver_12epoch.prototxt and train_val.prototxt:
  net       ResNet-20, shortcuts without parameters (every second pixel, zero channels), msra filler, BatchNorm eps 1e-5
  data      (B,G,R - mean) / std; training pads 4 pixels of zeros before the mean, crops 32x32 and mirrors at random;
            epochs are reshuffled and follow each other without dropping a record
  rate      a line from --warmup-start-lr to --lr over --warmup iterations, then the cosine to 0; with --steps the
            rate is divided by 10 at each of them, and nothing else
  update    Caffe's: h = momentum*h + rate*(g + decay*w); w -= h, for every parameter, biases and BatchNorm's too
Prints the test accuracy after each epoch; the tars hold <split>/<class>/<name>.jpg, classes in alphabetical order.
"""

import argparse
import contextlib
import copy
import io
import math
import tarfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from race import Race, add_options, imported, save

MEAN = (113.86, 122.94, 125.28)  # B, G, R
STD = (66.45, 61.91, 62.53)


def read_tar(path):
    """uint8 images [N,3,32,32] in B,G,R and labels [N], in the order of member names."""
    images, names = [], []
    with tarfile.open(path) as tar:
        for member in tar:
            if not member.name.endswith(".jpg"):
                continue
            pixels = np.asarray(Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB"))
            images.append(pixels[:, :, ::-1].transpose(2, 0, 1))
            names.append(member.name)
    order = sorted(range(len(names)), key=names.__getitem__)
    classes = sorted({name.split("/")[-2] for name in names})
    labels = [classes.index(names[i].split("/")[-2]) for i in order]
    return torch.from_numpy(np.stack([images[i] for i in order])), torch.tensor(labels)


class ConvBn(nn.Sequential):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))
        nn.init.normal_(self[0].weight, std=math.sqrt(2 / (inputs * 9)))


class Residual(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.halves = inputs != width
        self.conv1 = ConvBn(inputs, width, 2 if self.halves else 1)
        self.conv2 = ConvBn(width, width)

    def forward(self, x):
        y = self.conv2(F.relu(self.conv1(x)))
        if self.halves:
            x = x[:, :, ::2, ::2]
            x = torch.cat([x, torch.zeros_like(x)], 1)
        return F.relu(x + y)


class ResNet(nn.Module):
    """Three stages of so many blocks: 3 make ResNet-20, 9 ResNet-56."""

    def __init__(self, blocks):
        super().__init__()
        self.conv1 = ConvBn(3, 16)
        more = blocks - 1
        pairs = [(16, 16)] * blocks + [(16, 32)] + [(32, 32)] * more + [(32, 64)] + [(64, 64)] * more
        self.blocks = nn.Sequential(*[Residual(a, b) for a, b in pairs])
        self.fc = nn.Linear(64, 10)
        nn.init.normal_(self.fc.weight, std=math.sqrt(2 / 64))
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.conv1(x))).mean((2, 3)))


class CaffeSgd:
    """The rate inside the history, as Caffe keeps it. decayed: the parameters that the decay is of, if not all."""

    def __init__(self, parameters, momentum, decay, decayed=None):
        self.parameters, self.momentum, self.decay = list(parameters), momentum, decay
        self.decayed = self.parameters if decayed is None else decayed
        self.history = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, rate):
        """rate: a tensor, so that a recorded step reads the present one."""
        gradients = [p.grad for p in self.parameters]
        torch._foreach_add_([p.grad for p in self.decayed], self.decayed, alpha=self.decay)
        torch._foreach_mul_(gradients, rate)
        torch._foreach_mul_(self.history, self.momentum)
        torch._foreach_add_(self.history, gradients)
        torch._foreach_sub_(self.parameters, self.history)
        for p in self.parameters:
            p.grad = None


class MeanOfWeights:
    """The exponential mean of a net's weights, in which an old one counts min(decay, (1+t)/(10+t)); 0: the weights."""

    def __init__(self, net, decay):
        self.of, self.decay, self.updates = net, decay, 0
        self.net = copy.deepcopy(net).requires_grad_(False) if decay else net
        self.means, self.parameters = list(self.net.parameters()), list(net.parameters())

    @torch.no_grad()
    def update(self):
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        if self.decay:
            torch._foreach_lerp_(self.means, self.parameters, 1 - decay)
        self.updates += 1

    def restart(self):
        """From the weights as they are now."""
        if self.decay:
            self.net.load_state_dict(self.of.state_dict())
        self.updates = 0

    def tested(self):
        """The net to be tested: the means, with the statistics of the net as they are now."""
        if self.decay:
            for mine, present in zip(self.net.buffers(), self.of.buffers()):
                mine.copy_(present)
        return self.net


def rate_at(options, iteration, low=0.0):
    """A line from --warmup-start-lr to --lr, then what a cosine from --lr to low has come to meanwhile."""
    if iteration < options.warmup:
        return options.warmup_start_lr + (options.lr - options.warmup_start_lr) * iteration / options.warmup
    return low + (options.lr - low) * (1 + math.cos(math.pi * iteration / options.iterations)) / 2


def stepped_rate(options, iteration):
    return options.lr * 0.1 ** sum(iteration >= step for step in options.steps)


@contextlib.contextmanager
def without_traces(net, solver):
    """Steps taken inside choose kernels and compile; what they leave in weights, statistics and history is undone."""
    state = {name: value.clone() for name, value in net.state_dict().items()}
    yield
    net.load_state_dict(state)
    for slot in solver.history:
        slot.zero_()


class Pictures:
    """Square pictures [N,C,S,S] uint8 and labels [N], where the net computes."""

    def __init__(self, images, labels, device, mean=MEAN, std=STD):
        self.images, self.labels = images.to(device), labels.to(device)
        self.mean = torch.tensor(mean, device=device).view(-1, 1, 1)
        self.std = torch.tensor(std, device=device).view(-1, 1, 1)
        self.channels = torch.arange(images.shape[1], device=device).view(1, -1, 1, 1)
        self.rows = torch.arange(images.shape[2], device=device)

    def load(self, images, labels):
        """Fills in what imported() has kept."""
        self.images.copy_(images)
        self.labels.copy_(labels)

    def normalise(self, images):
        return ((images.float() - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def augmented(self, draw, pad=4):
        """Crops of the padded pictures, mirrored or not, as draw [N,4] says: record, top, left, is mirrored."""
        chosen, top, left, mirrored = draw.unsqueeze(2).unbind(1)
        padded = F.pad(self.images[chosen.flatten()], (pad, pad, pad, pad))
        columns = torch.where(mirrored > 0, len(self.rows) - 1 - self.rows, self.rows) + left
        sample = torch.arange(len(draw), device=draw.device).view(-1, 1, 1, 1)
        return padded[sample, self.channels, (top + self.rows)[:, None, :, None], columns[:, None, None, :]]


def drawn(chosen, generator, pad=4, mirrors=0.5):
    """[N,4] int64: records, where the crops of the padded pictures begin (0 to 2 pad), and 1 for the part mirrored."""
    count = len(chosen)
    top = torch.randint(0, 2 * pad + 1, (count, 1), generator=generator)
    left = torch.randint(0, 2 * pad + 1, (count, 1), generator=generator)
    mirrored = torch.rand(count, 1, generator=generator) < mirrors
    return torch.cat([chosen.view(-1, 1), top, left, mirrored.long()], 1)


def test(net, pictures):
    net.eval()
    right, loss = 0, 0.0
    with torch.no_grad():
        for start in range(0, len(pictures.images), 500):
            target = pictures.labels[start:start + 500]
            scores = net(pictures.normalise(pictures.images[start:start + 500]))
            right += (scores.argmax(1) == target).sum().item()
            loss += F.cross_entropy(scores, target, reduction="sum").item()
    net.train()
    return right / len(pictures.images), loss / len(pictures.images)


def batches(count, size, generator):
    """Record numbers of successive batches, running on from epoch to epoch."""
    waiting = torch.empty(0, dtype=torch.long)
    while True:
        while len(waiting) < size:
            waiting = torch.cat([waiting, torch.randperm(count, generator=generator)])
        yield waiting[:size]
        waiting = waiting[size:]


class Step:
    """A step of training on what was drawn; on a GPU recorded once and replayed. Sums the losses in total."""

    def __init__(self, options, net, pictures):
        self.net, self.pictures = net, pictures
        self.solver = CaffeSgd(net.parameters(), options.momentum, options.weight_decay)
        device = pictures.labels.device
        self.draw = torch.zeros(options.batch, 4, dtype=torch.long, device=device)
        self.rate, self.total = torch.zeros((), device=device), torch.zeros((), device=device)
        self.graph = self.recorded() if device.type == "cuda" else None

    def compute(self):
        x = self.pictures.normalise(self.pictures.augmented(self.draw))
        loss = F.cross_entropy(self.net(x), self.pictures.labels[self.draw[:, 0]])
        loss.backward()
        self.solver.step(self.rate)
        self.total += loss.detach()

    def recorded(self):
        with without_traces(self.net, self.solver):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.compute()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.compute()
        self.total.zero_()
        return graph

    def warm_up(self):
        """Steps at rate 0 on whatever the pictures are so far."""
        if self.graph:
            return
        with without_traces(self.net, self.solver):
            for _ in range(3):
                self.compute()
        self.total.zero_()

    def run(self, draw, rate):
        self.draw.copy_(draw.pin_memory() if self.graph else draw, non_blocking=True)
        self.rate.fill_(rate)
        if self.graph:
            self.graph.replay()
        else:
            self.compute()


def prepare(options):
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    net = ResNet(options.blocks).to(options.device, memory_format=torch.channels_last)
    return torch.compile(net) if options.way == "compile" else net


def train(options):
    net, generator = prepare(options), torch.Generator().manual_seed(options.seed)
    pictures, tested = (Pictures(*read_tar(path), options.device) for path in (options.train, options.test))
    recipe = {key: value for key, value in vars(options).items() if key not in ("train", "test", "out")}
    result = {"recipe": recipe, "torch": torch.__version__, "tests": [], "losses": [],
              "parameters": sum(p.numel() for p in net.parameters())}
    step, rate = Step(options, net, pictures), stepped_rate if options.steps else rate_at
    started = time.monotonic()
    for iteration, chosen in enumerate(batches(len(pictures.images), options.batch, generator)):
        done = iteration == min(options.iterations, options.stop_at or options.iterations)
        if iteration and iteration % 50 == 0:
            result["losses"].append(step.total.item() / 50)
            step.total.zero_()
        if done or (iteration and iteration % options.test_interval == 0):
            accuracy, loss = test(net, tested)
            seconds = time.monotonic() - started
            result["tests"].append({"iteration": iteration, "accuracy": accuracy, "loss": loss, "seconds": seconds})
            print(f"iteration {iteration}: accuracy {accuracy:.4f}, test loss {loss:.4f}, {seconds:.0f} s", flush=True)
        if done:
            break
        step.run(drawn(chosen, generator), rate(options, iteration))
    result["images_per_second"] = iteration * options.batch / (time.monotonic() - started)
    return result


def train_to_target(options):
    """The same training, warmed up on black pictures, on the clock of race.py."""
    torch.set_flush_denormal(True)
    net, generator = prepare(options), torch.Generator().manual_seed(options.seed)
    files = [imported(path, read_tar) for path in (options.train, options.test)]
    pictures, tested = (Pictures(*map(torch.zeros_like, torch.load(file, mmap=True)), options.device) for file in files)
    step, rate = Step(options, net, pictures), stepped_rate if options.steps else rate_at
    race = Race(options.target, options.metric, options.batch, f"torch {torch.__version__}")
    step.warm_up()
    test(net, tested)
    race.begin()
    pictures.load(*torch.load(files[0]))
    tested.load(*torch.load(files[1]))
    race.loaded()
    for iteration, chosen in enumerate(batches(len(pictures.images), options.batch, generator)):
        done = iteration == options.iterations
        if done or (iteration and iteration % options.test_interval == 0):
            with race.testing():
                accuracy, loss = test(net, tested)
            if race.test(iteration, iteration * options.batch / len(pictures.images), accuracy, loss) or done:
                break
        step.run(drawn(chosen, generator), rate(options, iteration))
    race.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", required=True, help="tar of the training images")
    parser.add_argument("--test", required=True, help="tar of the test images")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=3, help="of a stage; 9: ResNet-56")
    parser.add_argument("--epochs", type=float, default=12, help="of 391 iterations")
    parser.add_argument("--iterations", type=int, help="instead of --epochs")
    parser.add_argument("--steps", type=lambda text: [int(step) for step in text.split(",")], default=[],
                        help="iterations at which the rate is divided by 10")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--warmup", type=int, default=391, help="iterations")
    parser.add_argument("--warmup-start-lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--test-interval", type=int, default=391, help="iterations")
    parser.add_argument("--stop-at", type=int, default=0, help="iterations of the schedule to run; 0: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--way", choices=["eager", "compile"], default="eager")
    parser.add_argument("--out", help="JSON file for the result")
    add_options(parser)
    options = parser.parse_args()
    options.iterations = options.iterations or round(options.epochs * 391)
    if options.target is not None:
        return train_to_target(options)
    result = train(options)
    save(result, options.out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""PyTorch peer of models/bccd_ssd: the same net, pictures, augmentation, loss, rates and update rule, for comparison.

Usage: ssd_torch.py --data bccd_trainval.tar [--seed 1] [--out result.json]
       ... --target 0.85 [--workers 1]    ends at that precision

Follows models/bccd_ssd/solver.prototxt and train_val.prototxt:
  net       a 3x3 convolution of stride 2 and seven residual blocks down to a sixty-fourth; on the maps of strides 8, 16,
            32 and 64 a convolution says places and scores of eight default boxes a cell; msra filler (0.01 in the
            heads), BatchNorm eps 1e-5, its statistics the mean of all batches so far, each weighing 0.97 of the next
  data      pictures halved to 320x240 once; (B,G,R - mean) / std; training takes rectangles of 40-100 % of the area and
            aspects 1.1-1.6, resized to 320x240, mirrored at random, every second one recoloured; a box goes of which
            less than 30 % is left
  loss      of MultiBoxLoss (ssd_boxes.py)
  rate      a line from --warmup-start-lr to --lr over --warmup iterations, then the cosine to 0
  update    Caffe's: h = momentum*h + rate*(g + decay*w); w -= h, with gradients cut to a norm of --clip; no decay of
            biases and BatchNorm's parameters
Prints the loss of training and lines of race.py: VOC's mean average precision of the validation pictures at 0.5.
"""

import argparse
import io
import math
import tarfile
from xml.etree import ElementTree

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torchvision.transforms import RandomResizedCrop

import ssd_boxes
from cifar_torch import CaffeSgd, batches, rate_at, without_traces
from race import Race, add_options, imported, save

CLASSES = ("Platelets", "RBC", "WBC")  # from 1 on
MEAN, STD = (182.0, 178.0, 188.0), (20.0, 26.0, 16.0)  # B, G, R
WIDTH, HEIGHT = 320, 240
MAPS = [(30, 40, [(16, 24), (24, 34)]), (15, 20, [(40, 54), (54, 68)]),
        (8, 10, [(84, 112), (112, 144)]), (4, 5, [(176, 208), (208, 256)])]
BOXES = 8  # of a cell
STATISTICS = 0.97  # what a batch weighs beside the next
TESTED = 29  # pictures at once


def read_tar(path):
    """Of train and val: uint8 pictures [N,240,320,3] in B,G,R, and each one's boxes [G,4] and classes [G]."""
    with tarfile.open(path) as tar:
        files = {member.name.partition("/")[2]: tar.extractfile(member).read() for member in tar if member.isfile()}
    splits = []
    for split in ("train", "val"):
        names = files[f"ImageSets/Main/{split}.txt"].decode().split()
        halved = torch.stack([read_picture(files[f"JPEGImages/{name}.jpg"]) for name in names])
        splits.append((halved, [read_objects(files[f"Annotations/{name}.xml"]) for name in names]))
    return splits


def read_picture(file):
    pixels = torch.from_numpy(np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))[:, :, ::-1].copy())
    fours = pixels.view(HEIGHT, 2, WIDTH, 2, 3).int().sum((1, 3))
    return ((fours + 2) // 4).byte()


def read_objects(file):
    """Boxes without an area are left out."""
    root = ElementTree.fromstring(file)
    sides = [float(root.find(f"size/{side}").text) for side in ("width", "height")] * 2
    boxes, labels = [], []
    for one in root.iter("object"):
        corners = [float(one.find(f"bndbox/{corner}").text) for corner in ("xmin", "ymin", "xmax", "ymax")]
        box = [min(max(corner / side, 0.0), 1.0) for corner, side in zip(corners, sides)]
        if box[0] < box[2] and box[1] < box[3]:
            boxes.append(box)
            labels.append(1 + CLASSES.index(one.find("name").text))
    return torch.tensor(boxes).view(-1, 4), torch.tensor(labels, dtype=torch.long)


class ConvBn(nn.Sequential):
    def __init__(self, inputs, outputs, kernel=3, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))
        nn.init.normal_(self[0].weight, std=math.sqrt(2 / (inputs * kernel * kernel)))


class Residual(nn.Module):
    def __init__(self, inputs, width, stride=2):
        super().__init__()
        self.shortcut = ConvBn(inputs, width, 1, stride) if stride > 1 else nn.Identity()
        self.conv1, self.conv2 = ConvBn(inputs, width, 3, stride), ConvBn(width, width)

    def forward(self, x):
        return F.relu_(self.conv2(F.relu_(self.conv1(x))).add_(self.shortcut(x)))


class BloodCellSsd(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = ConvBn(3, 24, 3, 2)
        self.stages = nn.ModuleList([
            nn.Sequential(Residual(24, 32), Residual(32, 64), Residual(64, 64, 1)),
            nn.Sequential(Residual(64, 128), Residual(128, 128, 1)), Residual(128, 128), Residual(128, 128)])
        self.scores = len(CLASSES) + 1
        # Places and scores are channels of one convolution.
        self.heads = nn.ModuleList([nn.Conv2d(width, BOXES * (4 + self.scores), 3, padding=1)
                                    for width in (64, 128, 128, 128)])
        for head in self.heads:
            nn.init.normal_(head.weight, std=0.01)
            nn.init.zeros_(head.bias)

    def forward(self, x):
        """Places [N,P,4] and scores [N,P,classes]."""
        x = F.relu_(self.conv1(x))
        places, scores = [], []
        for stage, head in zip(self.stages, self.heads):
            x = stage(x)
            said = head(x).permute(0, 2, 3, 1)
            places.append(said[..., :BOXES * 4].reshape(len(x), -1, 4))
            scores.append(said[..., BOXES * 4:].reshape(len(x), -1, self.scores))
        return torch.cat(places, 1), torch.cat(scores, 1)


def normalised(pictures):
    """[N,3,240,320], channels last, of bytes [N,240,320,3]."""
    rows = pictures.float().view(len(pictures), HEIGHT, -1)
    rows.sub_(torch.tensor(MEAN).repeat(WIDTH)).div_(torch.tensor(STD).repeat(WIDTH))
    return rows.view(pictures.shape).permute(0, 3, 1, 2)


def uniform(least, most):
    return torch.empty(()).uniform_(least, most).item()


def luma(x):
    """Of whole numbers [3,H,W] in B,G,R; whole numbers, too."""
    return (x[0] * 7471 + x[1] * 38470 + x[2] * 19595 + 32768).mul_(1 / 65536).floor_()


def turned(x, turns):
    """The hue turned by so many circles, few; value and saturation stay."""
    blue, green, red = x
    most = torch.maximum(torch.maximum(blue, green), red)
    least = torch.minimum(torch.minimum(blue, green), red)
    spread = most - least
    # 0 where the channel is the largest, 1 elsewhere: values are whole numbers. As weights they are faster than masks.
    not_red, not_green = (most - red).clamp_(max=1), (most - green).clamp_(max=1)
    others = torch.lerp((blue - red).add_(spread, alpha=2), (red - green).add_(spread, alpha=4), not_green)
    hue = torch.lerp(green - blue, others, not_red).div_(spread.clamp(min=1))
    # In sixths of the circle. A channel is the least up to one from the opposite of its own hue, the most from two on.
    away = hue + torch.tensor([-4.0, -2.0, 0.0]).view(3, 1, 1).add(6 * turns)
    away.abs_().sub_(3).abs_().sub_(1).clamp_(0, 1)
    return away.mul_(spread).add_(least).mul_(255.999 / 255)


def recoloured(picture):
    """Brightness, contrast, saturation and hue in any order; whole numbers after each of them."""
    x = picture.permute(2, 0, 1).to(torch.float, memory_format=torch.contiguous_format)
    for kind in torch.randperm(4).tolist():
        if kind == 0:
            x.mul_(uniform(0.9, 1.1))
        elif kind == 1:
            grey = round(luma(x).mean().item())
            x.sub_(grey).mul_(uniform(0.8, 1.2)).add_(grey)
        elif kind == 2:
            grey = luma(x)
            x.sub_(grey).mul_(uniform(0.8, 1.2)).add_(grey)
        else:
            x = turned(x, uniform(-0.02, 0.02))
        x.clamp_(0, 255).floor_()
    return x.byte().permute(1, 2, 0)


def augmented(picture, boxes, labels):
    planes = picture.permute(2, 0, 1)
    top, left, height, width = RandomResizedCrop.get_params(planes, (0.4, 1.0), (1.1, 1.6))
    crop = planes[None, :, top:top + height, left:left + width]
    picture = F.interpolate(crop, (HEIGHT, WIDTH), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
    corner, sides = torch.tensor([left, top] * 2), torch.tensor([width, height] * 2)
    boxes = (boxes * torch.tensor([WIDTH, HEIGHT] * 2) - corner) / sides
    if torch.rand(()) < 0.5:
        picture, boxes = picture.flip(1), torch.stack([1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], 1)
    if torch.rand(()) < 0.5:
        picture = recoloured(picture)
    left_over = boxes.clamp(0, 1)
    area, whole = ((b[:, 2:] - b[:, :2]).prod(1) for b in (left_over, boxes))
    stays = (area >= 0.3 * whole) & (area > 0)
    return picture, left_over[stays], labels[stays]


class Samples(torch.utils.data.Dataset):
    """Augmented pictures and their matches, for the workers of a DataLoader."""

    def __init__(self, pictures, objects, default):
        self.pictures, self.objects, self.default = pictures, objects, default

    def __getitem__(self, i):
        picture, boxes, labels = augmented(self.pictures[i], *self.objects[i])
        return picture, *self.default.match(boxes, labels)


def collated(samples):
    pictures, learning, classes, codes = zip(*samples)
    boxes = sum(rows * columns * BOXES for rows, columns, _ in MAPS)
    learning = torch.cat([which + i * boxes for i, which in enumerate(learning)])
    return torch.stack(pictures), learning, torch.cat(classes), torch.cat(codes)


def loaded(options, pictures, objects, default, generator):
    """Batches, made by --workers processes or else by this one."""
    order = (chosen.tolist() for chosen in batches(len(pictures), options.batch, generator))
    return torch.utils.data.DataLoader(Samples(pictures, objects, default), batch_sampler=order, collate_fn=collated,
                                       num_workers=options.workers)


def test(net, default, pictures, objects):
    net.eval()
    found = []
    with torch.inference_mode():
        for part in pictures.split(TESTED):
            found += ssd_boxes.detections(default, *net(normalised(part)))
        precision = ssd_boxes.mean_precision(found, objects, len(CLASSES))
    net.train()
    return precision


def prepare(options):
    """The net, its solver and a function that takes a step on a batch at an iteration; it gives the loss."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    net = BloodCellSsd().to(memory_format=torch.channels_last)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    parameters = list(net.parameters())
    solver = CaffeSgd(parameters, options.momentum, options.weight_decay, [p for p in parameters if p.dim() > 1])

    def step(pictures, learning, classes, codes, iteration):
        for norm in norms:
            norm.momentum = (1 - STATISTICS) / (1 - STATISTICS ** (iteration + 1))
        loss = ssd_boxes.multibox_loss(*net(normalised(pictures)), learning, classes, codes)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, options.clip)
        solver.step(rate_at(options, iteration))
        return loss.item()

    return net, solver, step


def warm_up(options, net, solver, step, default):
    """Steps and a test on black pictures with made-up matches."""
    learning, made = torch.arange(0, options.batch * len(default.areas), 128), (HEIGHT, WIDTH, 3)
    with without_traces(net, solver):
        for _ in range(3):
            step(torch.zeros(options.batch, *made, dtype=torch.uint8), learning, torch.ones_like(learning),
                 torch.zeros(len(learning), 4), 0)
        test(net, default, torch.zeros(TESTED, *made, dtype=torch.uint8),
             [(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1]))] * TESTED)


def train(options):
    net, solver, step = prepare(options)
    default = ssd_boxes.DefaultBoxes(ssd_boxes.default_boxes(WIDTH, HEIGHT, MAPS))
    file = imported(options.data, read_tar)
    recipe = {key: value for key, value in vars(options).items() if key not in ("data", "out")}
    result = {"recipe": recipe, "torch": torch.__version__, "parameters": sum(p.numel() for p in net.parameters()),
              "tests": [], "losses": []}
    target = math.inf if options.target is None else options.target
    race = Race(target, options.metric, options.batch, f"torch {torch.__version__}")
    warm_up(options, net, solver, step, default)
    race.begin()
    (pictures, objects), validation = torch.load(file)
    race.loaded()
    generator, recent = torch.Generator().manual_seed(options.seed), []
    for iteration, batch in enumerate(loaded(options, pictures, objects, default, generator)):
        done = iteration == min(options.iterations, options.stop_at or options.iterations)
        if done or (iteration and iteration % options.test_interval == 0):
            with race.testing():
                precision = test(net, default, *validation)
            result["tests"].append({"iteration": iteration, "precision": precision, "seconds": race.clock()})
            if race.test(iteration, iteration * options.batch / len(pictures), precision) or done:
                break
        recent = [*recent[-19:], step(*batch, iteration)]
        if iteration % 100 == 0:
            result["losses"].append({"iteration": iteration, "loss": sum(recent) / len(recent)})
            print(f"iteration {iteration}: loss {sum(recent) / len(recent):.4f}, the mean of up to 20", flush=True)
    race.end()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="tar of BCCD's train and val in VOC's layout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--warmup", type=int, default=100, help="iterations")
    parser.add_argument("--warmup-start-lr", type=float, default=0.001)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--clip", type=float, default=10, help="the largest norm of all gradients")
    parser.add_argument("--test-interval", type=int, default=200, help="iterations")
    parser.add_argument("--stop-at", type=int, default=0, help="iterations of the schedule to run; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes that make samples; 0: between steps")
    parser.add_argument("--out", help="JSON file for the result")
    add_options(parser, "precision")
    options = parser.parse_args()
    result = train(options)
    save(result, options.out)


if __name__ == "__main__":
    main()

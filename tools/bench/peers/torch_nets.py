"""The nets of models/ and tools/bench/nets in PyTorch: the same layers and strides, random weights, for timing."""

import torch
import torch.nn.functional as F
from torch import nn

import shapes


class ConvBn(nn.Module):
    def __init__(self, inputs, outputs, kernel=1, stride=1, pad=0, relu=True, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = relu
        nn.init.kaiming_normal_(self.conv.weight)

    def forward(self, x):
        x = self.bn(self.conv(x))
        return F.relu(x, inplace=True) if self.relu else x


class Bottleneck(nn.Module):
    """Version 1: the stride is in the first 1x1, as in models/resnet50."""

    def __init__(self, inputs, width, outputs, stride):
        super().__init__()
        self.a = ConvBn(inputs, width, 1, stride)
        self.b = ConvBn(width, width, 3, 1, 1)
        self.c = ConvBn(width, outputs, relu=False)
        self.project = ConvBn(inputs, outputs, 1, stride, relu=False) if inputs != outputs else None

    def forward(self, x):
        shortcut = x if self.project is None else self.project(x)
        return F.relu(self.c(self.b(self.a(x))).add_(shortcut), inplace=True)


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBn(3, 64, 7, 2, 3)
        blocks, inputs = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for i in range(count):
                blocks.append(Bottleneck(inputs, width, 4 * width, 2 if i == 0 and stage > 0 else 1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 3, 2, ceil_mode=True)
        return self.fc(self.blocks(x).mean((2, 3)))


class Basic(nn.Module):
    """He's shortcut A: every second pixel, the missing channels zero."""

    def __init__(self, inputs, width):
        super().__init__()
        self.halves = inputs != width
        self.a = ConvBn(inputs, width, 3, 2 if self.halves else 1, 1)
        self.b = ConvBn(width, width, 3, 1, 1, relu=False)

    def forward(self, x):
        shortcut = x
        if self.halves:
            shortcut = x[:, :, ::2, ::2]
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, shortcut.shape[1]))
        return F.relu(self.b(self.a(x)).add_(shortcut), inplace=True)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        pairs = [(16, 16)] * 3 + [(16, 32)] + [(32, 32)] * 2 + [(32, 64)] + [(64, 64)] * 2
        self.blocks = nn.Sequential(ConvBn(3, 16, 3, 1, 1), *[Basic(a, b) for a, b in pairs])
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(self.blocks(x).mean((2, 3)))


class Lrn(nn.LocalResponseNorm):
    def __init__(self):
        super().__init__(5, 1e-4, 0.75, 1.0)


def pool(kernel=3, stride=2, pad=0):
    return nn.MaxPool2d(kernel, stride, pad, ceil_mode=True)


def alexnet(norm):
    def block(inputs, outputs, kernel, stride=1, pad=0, groups=1, normalised=True):
        if norm == "bn":
            return [ConvBn(inputs, outputs, kernel, stride, pad, groups=groups)]
        layers = [nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups), nn.ReLU(inplace=True)]
        return layers + [Lrn()] if normalised else layers

    return nn.Sequential(
        *block(3, 96, 11, 4), pool(), *block(96, 256, 5, 1, 2, 2), pool(),
        *block(256, 384, 3, 1, 1, normalised=False), *block(384, 384, 3, 1, 1, 2, normalised=False),
        *block(384, 256, 3, 1, 1, 2, normalised=False), pool(), nn.Flatten(),
        nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000))


def vgg16():
    layers, inputs = [], 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True), nn.Dropout(),
                         nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def conv_relu(inputs, outputs, kernel=1, stride=1, pad=0):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, pad), nn.ReLU(inplace=True))


class Inception(nn.Module):
    def __init__(self, inputs, n1, r3, n3, r5, n5, np):
        super().__init__()
        self.one = conv_relu(inputs, n1)
        self.three = nn.Sequential(conv_relu(inputs, r3), conv_relu(r3, n3, 3, 1, 1))
        self.five = nn.Sequential(conv_relu(inputs, r5), conv_relu(r5, n5, 5, 1, 2))
        self.pool = nn.Sequential(pool(3, 1, 1), conv_relu(inputs, np))

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


def auxiliary(inputs):
    return nn.Sequential(nn.AvgPool2d(5, 3, ceil_mode=True), conv_relu(inputs, 128), nn.Flatten(),
                         nn.Linear(2048, 1024), nn.ReLU(inplace=True), nn.Dropout(0.7), nn.Linear(1024, 1000))


class GoogLeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv_relu(3, 64, 7, 2, 3), pool(), Lrn(), conv_relu(64, 64),
                                  conv_relu(64, 192, 3, 1, 1), Lrn(), pool())
        self.three = nn.Sequential(Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64),
                                   pool(), Inception(480, 192, 96, 208, 16, 48, 64))
        self.four = nn.Sequential(Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
                                  Inception(512, 112, 144, 288, 32, 64, 64))
        self.five = nn.Sequential(Inception(528, 256, 160, 320, 32, 128, 128), pool(),
                                  Inception(832, 256, 160, 320, 32, 128, 128),
                                  Inception(832, 384, 192, 384, 48, 128, 128), nn.AvgPool2d(7), nn.Flatten(),
                                  nn.Dropout(0.4), nn.Linear(1024, 1000))
        self.aux1, self.aux2 = auxiliary(512), auxiliary(528)

    def forward(self, x):
        a = self.three(self.stem(x))
        b = self.four(a)
        c = self.five(b)
        return (c, self.aux1(a), self.aux2(b)) if self.training else c


class UNet(nn.Module):
    """Ronneberger 2015 with padded convolutions, as tools/bench/nets/unet."""

    def __init__(self, base=32, levels=5, classes=2):
        super().__init__()
        def double(inputs, outputs):
            return nn.Sequential(conv_relu(inputs, outputs, 3, 1, 1), conv_relu(outputs, outputs, 3, 1, 1))

        widths = [base << i for i in range(levels)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(double(2 * w, w) for w in reversed(widths[:-1]))
        self.score = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = []
        for i, level in enumerate(self.down):
            x = level(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, left in zip(self.up, self.join, reversed(kept[:-1])):
            x = join(torch.cat([left, up(x)], 1))
        return self.score(x)


class Generator(nn.Sequential):
    """Radford 2015 at 64x64: 100 -> 512x4x4 -> 256 -> 128 -> 64 -> 3x64x64."""

    def __init__(self):
        layers, inputs = [], 100
        for i, width in enumerate((512, 256, 128, 64)):
            layers += [nn.ConvTranspose2d(inputs, width, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False),
                       nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            inputs = width
        super().__init__(*layers, nn.ConvTranspose2d(inputs, 3, 4, 2, 1), nn.Tanh())


class Discriminator(nn.Sequential):
    def __init__(self):
        layers, inputs = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True)], 64
        for width in (128, 256, 512):
            layers += [nn.Conv2d(inputs, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width),
                       nn.LeakyReLU(0.2, inplace=True)]
            inputs = width
        super().__init__(*layers, nn.Conv2d(inputs, 1, 4), nn.Flatten(0))


# Name: net, shape of one input, classes.
NETS = {name: (make, shapes.SHAPES[name], classes) for name, make, classes in (
    ("resnet50", ResNet50, 1000),
    ("vgg16", vgg16, 1000),
    ("alexnet", lambda: alexnet("lrn"), 1000),
    ("alexnet_bn", lambda: alexnet("bn"), 1000),
    ("googlenet", GoogLeNet, 1000),
    ("cifar10_resnet20", ResNet20, 10),
    ("lenet", lenet, 10),
    ("unet", UNet, 2),
)}

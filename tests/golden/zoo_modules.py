"""The zoo's classifiers as PyTorch modules, written from their papers or taken from torchvision.

MODELS[name] = Model(...) says what a net is compared with: which module, and which of its parts give which blobs.
What torchvision lacks is written here, layer by layer in the order of the paper: AlexNet (with two groups and local
response normalisation), AlexNet-BN in its three forms, MobileNet v1, LeNet and the nets for CIFAR-10. What torchvision
has otherwise than the paper is changed where this file says so, and nowhere else.
"""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torchvision.models.googlenet import BasicConv2d
from torchvision.models.resnet import Bottleneck


def conv_bn(inputs, outputs, kernel, stride=1, pad=0, groups=1, relu=True, eps=1e-5):
    parts = [nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(outputs, eps)]
    return nn.Sequential(*parts, *([nn.ReLU()] if relu else []))


def pool(kernel=3, stride=2):
    """Caffe's: the last window may reach over the border."""
    return nn.MaxPool2d(kernel, stride, ceil_mode=True)


# ---- AlexNet and its normalised forms ----

# channels, kernel, stride, pad, groups of conv1 .. conv5; which are followed by pooling
ALEX = ((3, 96, 11, 4, 0, 1), (96, 256, 5, 1, 2, 2), (256, 384, 3, 1, 1, 1), (384, 384, 3, 1, 1, 2),
        (384, 256, 3, 1, 1, 2))
ALEX_POOLED = (0, 1, 4)


def alex_classifier():
    return nn.Sequential(nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
                         nn.Linear(4096, 1000))


def alexnet():
    """Krizhevsky 2012 with Caffe's order: ReLU, normalisation, pooling as published (conv, ReLU, LRN, pool)."""
    parts = []
    for i, (a, b, kernel, stride, pad, groups) in enumerate(ALEX):
        stage = [nn.Conv2d(a, b, kernel, stride, pad, groups=groups), nn.ReLU()]
        stage += [nn.LocalResponseNorm(5, 1e-4, 0.75)] if i < 2 else []
        stage += [pool()] if i in ALEX_POOLED else []
        parts.append(nn.Sequential(*stage))
    return nn.Sequential(*parts, alex_classifier())


def alexnet_bn_conv():
    """Affine normalisation after each convolution, which has no bias then."""
    parts = []
    for i, (a, b, kernel, stride, pad, groups) in enumerate(ALEX):
        stage = conv_bn(a, b, kernel, stride, pad, groups, eps=1e-4)
        parts.append(nn.Sequential(stage, pool()) if i in ALEX_POOLED else stage)
    return nn.Sequential(*parts, alex_classifier())


def alexnet_bn_pool(last):
    """Normalisation without scale and shift after pool1, pool2, relu3, relu4 and, for 64K, after pool5."""
    parts = []
    for i, (a, b, kernel, stride, pad, groups) in enumerate(ALEX):
        stage = [nn.Conv2d(a, b, kernel, stride, pad, groups=groups), nn.ReLU()]
        stage += [pool()] if i in ALEX_POOLED else []
        stage += [nn.BatchNorm2d(b, 1e-4, affine=False)] if i < 4 or last else []
        parts.append(nn.Sequential(*stage))
    return nn.Sequential(*parts, alex_classifier())


# ---- MobileNet v1 ----


def mobilenet_v1():
    def separable(inputs, outputs, stride):
        return nn.Sequential(conv_bn(inputs, inputs, 3, stride, 1, inputs), conv_bn(inputs, outputs, 1))

    plan = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    plan += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
    return nn.Sequential(conv_bn(3, 32, 3, 2, 1), *[separable(*row) for row in plan], nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(1024, 1000))


# ---- MNIST and CIFAR-10 ----


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


class CaffeMean(nn.Module):
    """3x3 means of stride 2; the last window is cut at the border and divided by what it holds."""

    def forward(self, x):
        return F.avg_pool2d(x, 3, 2, ceil_mode=True, count_include_pad=False)


def cifar_quick():
    return nn.Sequential(nn.Conv2d(3, 32, 5, 1, 2), pool(), nn.ReLU(), nn.Conv2d(32, 32, 5, 1, 2), nn.ReLU(),
                         CaffeMean(), nn.Conv2d(32, 64, 5, 1, 2), nn.ReLU(), CaffeMean(), nn.Flatten(),
                         nn.Linear(1024, 64), nn.Linear(64, 10))


class WithinChannelNorm(nn.Module):
    """Caffe's LRN over 3x3 pixels of each channel: x / (1 + 5e-5 * mean of squares)^0.75."""

    def forward(self, x):
        return x / (1 + 5e-5 * F.avg_pool2d(x * x, 3, 1, 1)) ** 0.75


def cifar_full():
    return nn.Sequential(nn.Conv2d(3, 32, 5, 1, 2), pool(), nn.ReLU(), WithinChannelNorm(),
                         nn.Conv2d(32, 32, 5, 1, 2), nn.ReLU(), CaffeMean(), WithinChannelNorm(),
                         nn.Conv2d(32, 64, 5, 1, 2), nn.ReLU(), CaffeMean(), nn.Flatten(), nn.Linear(1024, 10))


class CifarBlock(nn.Module):
    """Two 3x3 convolutions; where the size halves the shortcut is every second pixel and zero channels."""

    def __init__(self, inputs, width):
        super().__init__()
        self.halves = inputs != width
        self.conv1 = conv_bn(inputs, width, 3, 2 if self.halves else 1, 1)
        self.conv2 = conv_bn(width, width, 3, 1, 1, relu=False)

    def forward(self, x):
        shortcut = x
        if self.halves:
            shortcut = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
        return F.relu(shortcut + self.conv2(self.conv1(x)))


def cifar_resnet(blocks):
    def stage(inputs, width):
        return nn.Sequential(CifarBlock(inputs, width), *[CifarBlock(width, width) for _ in range(blocks - 1)])

    return nn.Sequential(conv_bn(3, 16, 3, 1, 1), stage(16, 16), stage(16, 32), stage(32, 64),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Added(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.branch = nn.Sequential(*parts)

    def forward(self, x):
        return x + self.branch(x)


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def cifar_resnet9():
    def conv(inputs, outputs):
        return conv_bn(inputs, outputs, 3, 1, 1)

    return nn.Sequential(conv(3, 64), conv(64, 128), pool(2), Added(conv(128, 128), conv(128, 128)), conv(128, 256),
                         pool(2), conv(256, 512), pool(2), Added(conv(512, 512), conv(512, 512)),
                         nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(512, 10, bias=False), Times(0.125))


class ProjectedBlock(nn.Module):
    """A basic block whose shortcut is always a 1x1 convolution."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.shortcut = conv_bn(inputs, width, 1, stride, relu=False)
        self.conv1 = conv_bn(inputs, width, 3, stride, 1)
        self.conv2 = conv_bn(width, width, 3, 1, 1, relu=False)

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.conv2(self.conv1(x)))


def clothing_resnet():
    blocks = [ProjectedBlock(*row) for row in ((32, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 2))]
    return nn.Sequential(conv_bn(3, 32, 3, 2, 1), pool(2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(256, 10))


# ---- torchvision's, changed where the paper differs ----


def resnet(depth, version):
    """torchvision's is version 1.5. Version 1: stride 2 in the first 1x1, and He's pooling, which is not padded."""
    net = getattr(torchvision.models, f"resnet{depth}")()
    if version == "1":
        net.maxpool = pool()
        for module in net.modules():
            if isinstance(module, Bottleneck) and module.stride != 1:
                module.conv1.stride, module.conv2.stride = module.conv2.stride, (1, 1)
    return net


def googlenet_parts(net, normalised):
    """The paper has 5x5 convolutions and 3x3 windows where torchvision has 3x3 and 2x2."""
    for name, module in net.named_children():
        if not name.startswith("inception"):
            continue
        old = module.branch3[1].conv
        module.branch3[1].conv = nn.Conv2d(old.in_channels, old.out_channels, 5, padding=2, bias=False)
    net.maxpool4 = pool()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-5  # torchvision: 1e-3
    return net if normalised else without_norm(net)


def without_norm(net):
    """Biases in place of normalisation, and local response normalisation after pool1 and conv2."""
    for module in net.modules():
        if isinstance(module, BasicConv2d):
            module.conv.bias = nn.Parameter(torch.zeros(module.conv.out_channels))
            module.bn = nn.Identity()
    net.maxpool1 = nn.Sequential(net.maxpool1, nn.LocalResponseNorm(5, 1e-4, 0.75))
    net.conv3 = nn.Sequential(net.conv3, nn.LocalResponseNorm(5, 1e-4, 0.75))
    return net


def googlenet(normalised):
    net = torchvision.models.googlenet(aux_logits=False, init_weights=False, transform_input=False)
    return googlenet_parts(net, normalised)


@dataclasses.dataclass
class Model:
    make: Callable  # () -> module; its convolutions, normalisations and linear layers stand in the net's order
    outputs: dict  # name of a module's part ("" is the whole) -> "layer:top" of the net
    size: int = 224
    channels: int = 3
    folder: str = ""  # of models/, unless the model's name
    file: str = "train_val.prototxt"
    stages: tuple = ()
    is_he: bool = False  # the net names its layers as He did; a shortcut's convolution stands first there
    source: str = "torchvision"


def he_outputs(ends):
    tops = {f"layer{i + 1}": f"res{end}_relu:res{end}" for i, end in enumerate(ends)}
    return {**tops, "": "fc1000:fc1000"}


def he(depth, version, ends, **fields):
    return Model(lambda: resnet(depth, version), he_outputs(ends), is_he=True, **fields)


def he_50(make):
    return Model(make, he_outputs(("2c", "3d", "4f", "5c")), is_he=True)


def densenet(depth):
    return Model(getattr(torchvision.models, f"densenet{depth}"), {
        "features.pool0": "pool1:pool1", "features.transition1": "transition2/pool:pool2",
        "features.transition2": "transition3/pool:pool3", "features.transition3": "transition4/pool:pool4",
        "features.norm5": "conv5/scale:conv5/bn", "": "fc:fc"})


def own(make, outputs, **fields):
    return Model(make, outputs, source="tests/golden/zoo_modules.py", **fields)


def alex_bn(last=False, **fields):
    tops = {"0": "bn1:bn1", "1": "bn2:bn2", "3": "bn4:conv4", "4": "bn5:pool5" if last else "pool5:pool5", "": "fc8:fc8"}
    return own(lambda: alexnet_bn_pool(last), tops, size=227, folder="alexnet_bn", file="train_val_pool.prototxt",
               stages=("bn5",) if last else (), **fields)


def vgg(depth, last):
    tops = {str(i): f"pool{n + 1}:pool{n + 1}" for n, i in enumerate(last)}
    return Model(getattr(torchvision.models, f"vgg{depth}"),
                 {**{f"features.{i}": top for i, top in tops.items()}, "": "fc8:fc8"})


def inception(normalised):
    tops = {f"inception{m}": f"inception_{m}/output:inception_{m}/output" for m in ("3a", "3b", "4a", "4e", "5b")}
    return Model(lambda: googlenet(normalised), {**tops, "": "loss3/classifier:loss3/classifier"},
                 file="train_val.prototxt" if normalised else "deploy.prototxt")  # BVLC's tests its auxiliary losses too


CIFAR = {"0": "conv1_relu:conv1", "": "fc10:fc10"}
MODELS = {
    "alexnet": own(alexnet, {"0": "pool1:pool1", "1": "pool2:pool2", "4": "pool5:pool5", "": "fc8:fc8"}, size=227),
    "alexnet_bn": own(alexnet_bn_conv, {"0": "pool1:pool1", "2": "relu3:conv3", "4": "pool5:pool5", "": "fc8:fc8"},
                      size=227),
    "alexnet_bn_64k": alex_bn(last=True),
    "alexnet_bn_pool": alex_bn(),
    "cifar10_full": own(cifar_full, {"3": "norm1:norm1", "7": "norm2:norm2", "": "ip1:ip1"}, size=32),
    "cifar10_quick": own(cifar_quick, {"5": "pool2:pool2", "8": "pool3:pool3", "": "ip2:ip2"}, size=32),
    "cifar10_resnet20": own(lambda: cifar_resnet(3), {
        **CIFAR, "1": "res1c_relu:res1c", "2": "res2c_relu:res2c", "3": "res3c_relu:res3c"}, size=32),
    "cifar10_resnet56": own(lambda: cifar_resnet(9), {
        **CIFAR, "1": "res1i_relu:res1i", "2": "res2i_relu:res2i", "3": "res3i_relu:res3i"}, size=32),
    "cifar10_resnet9": own(cifar_resnet9, {"2": "layer1_pool:pool1", "3": "res1:res1", "8": "res3:res3",
                                           "": "logits:logits"}, size=32),
    "clothing_resnet": own(clothing_resnet, {"1": "pool1:pool1", "2": "res1_relu:res1", "5": "res4_relu:res4",
                                             "": "fc:fc"}, size=112),
    "densenet121": densenet(121),
    "densenet169": densenet(169),
    "densenet201": densenet(201),
    "googlenet": inception(normalised=False),
    "googlenet_bn": inception(normalised=True),
    "lenet": own(lenet, {"1": "pool1:pool1", "3": "pool2:pool2", "": "ip2:ip2"}, size=28, channels=1),
    "mobilenet_v1": own(mobilenet_v1, {"0": "conv1/relu:conv1", "2": "conv2_2/sep/relu:conv2_2",
                                       "6": "conv4_2/sep/relu:conv4_2", "13": "conv6/sep/relu:conv6", "": "fc:fc"}),
    "mobilenet_v2": Model(torchvision.models.mobilenet_v2, {
        "features.0": "conv1/relu:conv1", "features.1": "conv2_1/linear/scale:conv2_1",
        "features.3": "conv3_2/sum:conv3_2/sum", "features.6": "conv4_3/sum:conv4_3/sum",
        "features.13": "conv6_3/sum:conv6_3/sum", "features.18": "conv9/relu:conv9", "": "fc:fc"}),
    "resnet18": he(18, "1.5", ("2b", "3b", "4b", "5b")),
    "resnet34": he(34, "1.5", ("2c", "3d", "4f", "5c")),
    "resnet50": he(50, "1", ("2c", "3d", "4f", "5c")),
    "resnet50_v15": he(50, "1.5", ("2c", "3d", "4f", "5c")),
    "resnet101": he(101, "1", ("2c", "3d", "4b22", "5c")),
    "resnet101_v15": he(101, "1.5", ("2c", "3d", "4b22", "5c")),
    "resnet152": he(152, "1", ("2c", "3b7", "4b35", "5c")),
    "resnet152_v15": he(152, "1.5", ("2c", "3b7", "4b35", "5c")),
    "resnext50": he_50(torchvision.models.resnext50_32x4d),
    "squeezenet10": Model(torchvision.models.squeezenet1_0, {
        "features.2": "pool1:pool1", "features.6": "pool4:pool4", "features.11": "pool8:pool8",
        "features.12": "fire9/concat:fire9", "classifier": "pool10:pool10"}, size=227),
    "squeezenet11": Model(torchvision.models.squeezenet1_1, {
        "features.2": "pool1:pool1", "features.5": "pool3:pool3", "features.8": "pool5:pool5",
        "features.12": "fire9/concat:fire9", "classifier": "pool10:pool10"}, size=227),
    "vgg16": vgg(16, (4, 9, 16, 23, 30)),
    "vgg19": vgg(19, (4, 9, 18, 27, 36)),
    "wide_resnet50": he_50(torchvision.models.wide_resnet50_2),
}

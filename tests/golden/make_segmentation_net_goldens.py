"""Records the full-size segmentation nets' forward pass, from PyTorch modules written apart from the prototxts.

Usage: python3 make_segmentation_net_goldens.py      (PyTorch, torchvision, numpy; some minutes, 3 GB)

fcn8s, segnet and unet are the classes below; deeplab50 is torchvision's deeplabv3_resnet50 without its auxiliary head.
Each module's parameters are filled from the formulas of moka_random.py under the names of the prototxt's layers, which
stand beside the module here; running means and variances from 0.2 (u - 0.5) and 1 + 0.2 (u - 0.5). Inputs are small:
the nets take any size. Two changes, in the test too: fcn8s's scales of pool4 and pool3 are 1, since at 0.01 and 0.0001
their maps would lie below the tolerance, and segnet's Upsample layers double, as fits the small input.

nets/segmentation.json: net -> {"input", "output": shapes, "parameters": trained numbers and, of fcn8s, the fixed ones,
"norm", "max", "samples": the output at moka_random.sample_indices(net, count)}
"""

import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

import moka_random

torch.set_default_dtype(torch.float64)
VGG = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def fill(name, tensor, index, kind="weight"):
    shape = tuple(tensor.shape)
    units = moka_random.named_units(f"{name}/{index}", shape) - 0.5
    if kind == "weight":
        values = units * (2 * np.sqrt(2) * np.sqrt(3 / (np.prod(shape) // shape[0])))
    else:
        values = (1 if kind == "scale" else 0) + 0.2 * units
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.float64(np.float32(values))))


def fill_conv(name, conv):
    fill(name, conv.weight, 0)
    if conv.bias is not None:
        fill(name, conv.bias, 1, "shift")


def fill_batch_norm(name, norm):
    """BatchNorm "name_bn" and Scale "name_scale"."""
    fill(name + "_scale", norm.weight, 0, "scale")
    fill(name + "_scale", norm.bias, 1, "shift")
    fill(name + "_bn", norm.running_mean, 0, "shift")
    fill(name + "_bn", norm.running_var, 1, "scale")


class Fcn8s(nn.Module):
    input = (1, 3, 32, 32)

    def __init__(self):
        super().__init__()
        self.names = {}
        channels = 3
        for stage, (count, width) in enumerate(VGG, 1):
            for i in range(1, count + 1):
                pad = 100 if (stage, i) == (1, 1) else 1
                self.add(f"conv{stage}_{i}", nn.Conv2d(channels, width, 3, padding=pad))
                channels = width
        self.add("fc6", nn.Conv2d(512, 4096, 7))
        self.add("fc7", nn.Conv2d(4096, 4096, 1))
        for name, width in (("score_fr", 4096), ("score_pool4", 512), ("score_pool3", 256)):
            self.add(name, nn.Conv2d(width, 21, 1))
        for name, kernel, stride in (("upscore2", 4, 2), ("upscore_pool4", 4, 2), ("upscore8", 16, 8)):
            self.add(name, nn.ConvTranspose2d(21, 21, kernel, stride, bias=False))

    def add(self, name, conv):
        self.add_module(name, conv)
        fill_conv(name, conv)

    def forward(self, x):
        size = x.shape[2:]
        pools = []
        for stage, (count, _) in enumerate(VGG, 1):
            for i in range(1, count + 1):
                x = F.relu(getattr(self, f"conv{stage}_{i}")(x))
            x = F.max_pool2d(x, 2, ceil_mode=True)
            pools.append(x)
        x = self.score_fr(F.relu(self.fc7(F.relu(self.fc6(x)))))

        def cut(y, like, offset):
            return y[:, :, offset:offset + like[0], offset:offset + like[1]]

        x = self.upscore2(x)
        x = self.upscore_pool4(x + cut(self.score_pool4(pools[3]), x.shape[2:], 5))
        x = self.upscore8(x + cut(self.score_pool3(pools[2]), x.shape[2:], 9))
        return cut(x, size, 31)


class SegNet(nn.Module):
    input = (1, 3, 64, 96)

    def __init__(self):
        super().__init__()
        channels = 3
        for stage, (count, width) in enumerate(VGG, 1):
            for i in range(1, count + 1):
                self.add(f"conv{stage}_{i}", channels, width)
                channels = width
        for stage in range(5, 0, -1):
            count, width = VGG[stage - 1]
            for i in range(count, 0, -1):
                out = width if i > 1 else VGG[stage - 2][1] if stage > 1 else 11
                self.add(f"conv{stage}_{i}_D", width, out)

    def add(self, name, channels, width):
        conv = nn.Conv2d(channels, width, 3, padding=1)
        fill_conv(name, conv)
        self.add_module(name, conv)
        if width == 11:
            return
        norm = nn.BatchNorm2d(width, eps=1e-9)  # always in training mode: the batch's own statistics
        fill(name + "_bn", norm.weight.view(1, -1, 1, 1), 0, "scale")
        fill(name + "_bn", norm.bias.view(1, -1, 1, 1), 1, "shift")
        self.add_module(name + "_bn", norm)

    def layer(self, name, x):
        return F.relu(getattr(self, name + "_bn")(getattr(self, name)(x)))

    def forward(self, x):
        masks = []
        for stage, (count, _) in enumerate(VGG, 1):
            for i in range(1, count + 1):
                x = self.layer(f"conv{stage}_{i}", x)
            x, mask = F.max_pool2d(x, 2, ceil_mode=True, return_indices=True)
            masks.append(mask)
        for stage in range(5, 0, -1):
            x = F.max_unpool2d(x, masks[stage - 1], 2)
            for i in range(VGG[stage - 1][0], 0, -1):
                name = f"conv{stage}_{i}_D"
                x = self.conv1_1_D(x) if name == "conv1_1_D" else self.layer(name, x)
        return x


class UNet(nn.Module):
    input = (1, 1, 204, 188)

    def __init__(self):
        super().__init__()
        channels = 1
        for i, width in enumerate((64, 128, 256, 512, 1024)):
            self.level(f"enc{i}", channels, width)
            channels = width
        for i, width in ((3, 512), (2, 256), (1, 128), (0, 64)):
            self.add(f"dec{i}_up", nn.ConvTranspose2d(2 * width, width, 2, 2))
            self.level(f"dec{i}", 2 * width, width)
        self.add("score", nn.Conv2d(64, 2, 1))

    def add(self, name, conv):
        self.add_module(name, conv)
        fill_conv(name, conv)

    def level(self, name, channels, width):
        self.add(name + "_conv1", nn.Conv2d(channels, width, 3))
        self.add(name + "_conv2", nn.Conv2d(width, width, 3))

    def run(self, name, x):
        x = F.relu(getattr(self, name + "_conv1")(x))
        return F.relu(getattr(self, name + "_conv2")(x))

    def forward(self, x):
        skips = []
        for i in range(4):
            skips.append(self.run(f"enc{i}", x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.run("enc4", x)
        for i in range(3, -1, -1):
            x = F.relu(getattr(self, f"dec{i}_up")(x))
            skip = skips[i]
            y, z = (skip.shape[2] - x.shape[2]) // 2, (skip.shape[3] - x.shape[3]) // 2
            x = torch.cat([skip[:, :, y:y + x.shape[2], z:z + x.shape[3]], x], 1)
            x = self.run(f"dec{i}", x)
        return self.score(x)


class DeepLab(nn.Module):
    input = (1, 3, 96, 128)

    def __init__(self):
        super().__init__()
        self.net = torchvision.models.segmentation.deeplabv3_resnet50(
            weights=None, weights_backbone=None, num_classes=21, aux_loss=False)
        body, head = self.net.backbone, self.net.classifier
        self.pair("conv1", body.conv1, body.bn1)
        for stage in range(2, 6):
            for i, block in enumerate(getattr(body, f"layer{stage - 1}")):
                name = f"res{stage}{'abcdef'[i]}"
                for k in (1, 2, 3):
                    self.pair(f"{name}_conv{k}", getattr(block, f"conv{k}"), getattr(block, f"bn{k}"))
                if block.downsample is not None:
                    self.pair(name + "_shortcut", block.downsample[0], block.downsample[1])
        aspp = head[0]
        for i in range(4):
            self.pair(f"aspp{i}", aspp.convs[i][0], aspp.convs[i][1])
        self.pair("aspp4", aspp.convs[4][1], aspp.convs[4][2])
        self.pair("project", aspp.project[0], aspp.project[1])
        self.pair("head", head[1], head[2])
        fill_conv("score8", head[4])
        self.net.eval()

    @staticmethod
    def pair(name, conv, norm):
        fill_conv(name, conv)
        fill_batch_norm(name, norm)

    def forward(self, x):
        return self.net(x)["out"]


def main():
    goldens = {}
    for name, kind in (("fcn8s", Fcn8s), ("segnet", SegNet), ("unet", UNet), ("deeplab50", DeepLab)):
        module = kind()
        x = torch.from_numpy(moka_random.data(kind.input))
        with torch.no_grad():
            output = module(x)
        y = output.contiguous().numpy().reshape(-1)
        indices = moka_random.sample_indices(name, len(y), 64)
        goldens[name] = {
            "input": list(kind.input), "output": list(output.shape),
            "parameters": sum(p.numel() for p in module.parameters()),
            "norm": float(np.linalg.norm(y)), "max": float(np.abs(y).max()), "samples": y[indices].tolist()}
        print(name, goldens[name]["parameters"], goldens[name]["output"], goldens[name]["max"])
        del module
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets", "segmentation.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(goldens, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Weights of torchvision's nets through `moka import` and `moka export --to torch-names`.

Each net of the zoo with a table of names is met by torchvision's module with drawn weights and statistics: what it
computes of 16 pictures in float64 must be what `moka compare` computes of the imported net, within 1e-5 of the largest
score, and what is exported again must load with strict=True, every value the same. Files that are not a net's are
refused by names. NumPy reads what `moka export --to npz` writes.

Usage: torch_test.py SOURCE MOKA [--nets NET,... | --nets all]. Exits with 77, which says why, where Python has no torch,
torchvision or numpy.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import torch
    import torchvision
except ImportError as missing:
    print(f"skipped: {missing}; pip install torch torchvision numpy")
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("source", type=pathlib.Path)
parser.add_argument("moka", type=pathlib.Path)
parser.add_argument("--nets", default="mobilenet_v2,resnet18,squeezenet11", help="names of models/, or all")
OPTIONS, REST = parser.parse_known_args()
SOURCE, MOKA = OPTIONS.source.resolve(), OPTIONS.moka.resolve()
MODELS = SOURCE / "models"

TOLERANCE = 1e-5
PICTURES = 16
SIDE = 224
DTYPES = {torch.float32: "F32", torch.int64: "I64"}


def tables():
    """Model -> name of torchvision's function, of the classifiers' tables that have rows."""
    found = {}
    for file in sorted(MODELS.glob("*/names.torch.tsv")):
        text = file.read_text()
        if "@differs" not in text:
            found[file.parent.name] = text.split("@module\ttorchvision.models.")[1].split("\n")[0]
    return {model: function for model, function in found.items() if "." not in function}


def write_safetensors(path, state):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    chunks = []
    for name, tensor in state.items():
        raw = tensor.contiguous().numpy().tobytes()
        begin = sum(map(len, chunks))
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, begin + len(raw)]}
        chunks.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data.join(chunks))


def read_safetensors(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    state = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = np.frombuffer(raw[begin:end], "<f4").reshape(entry["shape"])
        state[name] = torch.from_numpy(values.copy())
    return state, header.get("__metadata__", {})


@torch.no_grad()
def module_of(function, seed=1):
    """torchvision's net with weights and statistics that differ from channel to channel."""
    torch.manual_seed(seed)
    options = {"init_weights": True} if function == "googlenet" else {}
    module = getattr(torchvision.models, function)(**options)
    for part in module.modules():
        if isinstance(part, (torch.nn.Conv2d, torch.nn.Linear)):  # what goes in comes out in its size
            part.weight.normal_(0, (2 / part.weight[0].numel()) ** 0.5)
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
            part.weight.uniform_(0.5, 1.5)
            part.num_batches_tracked.fill_(20_000_001)  # no float is so
        if getattr(part, "bias", None) is not None:
            part.bias.normal_(0, 0.1)
    return module.eval()


def pictures(count=PICTURES):
    """Pixels [count,3,SIDE,SIDE] in R, G, B, each picture with its own tint and texture."""
    draw = np.random.default_rng(3)
    coarse = draw.uniform(0, 255, (count, 3, SIDE // 16, SIDE // 16)).repeat(16, 2).repeat(16, 3)
    return np.clip(coarse + draw.normal(0, 20, coarse.shape), 0, 255).astype(np.uint8)


MEAN = np.array([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1)
STD = np.array([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1)


class TorchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_moka(self, *words):
        return subprocess.run([MOKA, *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=900,
                              check=False)

    def moka(self, *words):
        done = self.run_moka(*words)
        self.assertEqual(done.returncode, 0, f"moka {words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, *words):
        done = self.run_moka(*words)
        self.assertEqual(done.returncode, 65, f"moka {words}\n{done.stdout}{done.stderr}")
        return done.stderr

    def score_blob(self, net):
        """The blob that the net's loss reads."""
        text = (self.folder / net).read_text()
        return text.split('type: "SoftmaxWithLoss"')[1].split('bottom: "')[1].split('"')[0]

    def meets_torchvision(self, model, function):
        module = module_of(function)
        write_safetensors(self.folder / "w.safetensors", module.state_dict())
        told = json.loads(self.moka("import", "w.safetensors", "--net", MODELS / model, "--out", "in.safetensors", "--json"))
        self.assertTrue(told["written"])
        self.assertEqual(told["fresh"], [])
        self.assertEqual(len(told["swapped"]), 1)
        pixels = pictures()
        with torch.no_grad():
            scores = module.double()(torch.from_numpy((pixels / 255 - MEAN) / STD)).numpy()
        self.assertGreater(np.ptp(scores, axis=0).max(), 1e-3 * np.abs(scores).max(), "pictures have scores of their own")
        shape = (PICTURES, 1000, 1, 1) if model.startswith("squeezenet") else (PICTURES, 1000)  # pooled, not multiplied
        swapped = (pixels - 255 * MEAN) / (255 * STD)
        np.savez(self.folder / "blobs.npz", **{
            "blob/data": swapped[:, ::-1].astype(np.float32), "blob/label": np.zeros(PICTURES, np.float32),
            f"blob/{self.score_blob('in.prototxt')}": scores.astype(np.float32).reshape(shape)})
        told = self.moka("compare", "in.prototxt", "blobs.npz", "--weights", "in.safetensors", "--tolerance", TOLERANCE)
        self.assertRegex(told, r"(?m)^equal", told)
        print(model, *[line for line in told.splitlines() if self.score_blob("in.prototxt") in line], flush=True)
        self.moka("export", "in.prototxt", "--weights", "in.safetensors", "--to", "torch-names", "--net", MODELS / model,
                  "--out", "out.safetensors")
        state, metadata = read_safetensors(self.folder / "out.safetensors")
        again = module_of(function, seed=2)
        again.load_state_dict(state, strict=True)
        self.assertEqual(metadata["format"], "pt")
        way = json.loads(metadata["preprocessing"])
        self.assertEqual(way["channels"], "RGB")
        np.testing.assert_allclose(way["mean"], MEAN.reshape(-1), rtol=1e-6)
        np.testing.assert_allclose(way["std"], STD.reshape(-1), rtol=1e-6)
        before = module.float().state_dict()
        for name, tensor in again.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                self.assertTrue(torch.equal(tensor, before[name]), name)

    def test_nets_compute_what_torchvision_does(self):
        known = tables()
        names = list(known) if OPTIONS.nets == "all" else OPTIONS.nets.split(",")
        for model in names:
            with self.subTest(model):
                self.meets_torchvision(model, known[model])

    def test_weights_of_another_net_are_told_by_name(self):
        write_safetensors(self.folder / "w.safetensors", module_of("resnet34").state_dict())
        text = self.refused("import", "w.safetensors", "--net", MODELS / "resnet18")
        self.assertIn("80 of 182 names unmatched", text)
        self.assertIn("nearest: resnet34", text)
        self.assertEqual(list(self.folder.glob("*.prototxt")), [])

    def test_what_is_wrong_with_a_file_is_told(self):
        state = module_of("resnet18").state_dict()
        state["fc.weight"] = state["fc.weight"].T
        write_safetensors(self.folder / "w.safetensors", state)
        text = self.refused("import", "w.safetensors", "--net", MODELS / "resnet18")
        self.assertIn("fc.weight is [512,1000], and fc1000/0 is [1000,512]: it is transposed", text)
        state["fc.weight"] = state["fc.weight"].T.contiguous()
        state["fc.weight"][3, 4:7] = float("nan")
        write_safetensors(self.folder / "w.safetensors", state)
        text = self.refused("import", "w.safetensors", "--net", MODELS / "resnet18")
        self.assertIn("3 weights are NaN or infinite", text)
        whole = (self.folder / "w.safetensors").read_bytes()
        (self.folder / "w.safetensors").write_bytes(whole[:len(whole) // 2])
        self.assertRegex(self.refused("import", "w.safetensors", "--net", MODELS / "resnet18"),
                         r"lies at bytes \d+ to \d+ of \d+ \(the file is cut short\)")

    def test_other_classes_start_fresh(self):
        module = torchvision.models.resnet18(num_classes=37)
        np.savez(self.folder / "w.npz", **{f"module.{name}": value.numpy() for name, value in module.state_dict().items()})
        done = self.run_moka("import", "w.npz", "--net", MODELS / "resnet18", "--out", "in.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("fc1000 is left out and will start fresh"), 1, done.stderr)
        names = read_safetensors(self.folder / "in.safetensors")[0]
        self.assertEqual([name for name in names if name.startswith("fc")], [])
        self.moka("import", "w.npz", "--net", MODELS / "resnet18", "--out", "in.safetensors",
                  "layer[fc1000].inner_product_param.num_output=37")
        self.assertEqual(read_safetensors(self.folder / "in.safetensors")[0]["fc1000/0"].shape, (37, 512))

    def test_checkpoints_of_pytorch_are_refused_with_what_converts_them(self):
        for name, zipped in (("new.pth", True), ("old.pt", False)):
            torch.save({"fc.weight": torch.ones(2, 3)}, self.folder / name, _use_new_zipfile_serialization=zipped)
            for words in (("import", name, "--net", MODELS / "resnet18"),
                          ("infer", "--model", MODELS / "resnet18", "--weights", name, "x.png"),
                          ("model", "convert", name, "x.caffemodel")):
                text = self.refused(*words)
                self.assertIn(f'torch.load("{name}", map_location="cpu", weights_only=True)', text)

    def test_torch_names_as_weights_name_the_verb_that_takes_them(self):
        write_safetensors(self.folder / "w.safetensors", module_of("squeezenet1_1").state_dict())
        text = self.refused("export", MODELS / "squeezenet11", "--weights", "w.safetensors", "--to", "npz")
        self.assertIn("moka import w.safetensors --net NAME", text)

    def test_numpy_and_caffe_take_what_is_exported(self):
        module = module_of("squeezenet1_1")
        write_safetensors(self.folder / "w.safetensors", module.state_dict())
        self.moka("import", "w.safetensors", "--net", MODELS / "squeezenet11", "--out", "in.npz")
        self.moka("export", "in.prototxt", "--weights", "in.npz", "--to", "npz", "--out", "out.npz")
        with np.load(self.folder / "out.npz") as arrays:
            self.assertEqual(arrays["conv10/0"].dtype, np.float32)
            np.testing.assert_array_equal(arrays["conv10/0"], module.state_dict()["classifier.1.weight"].numpy())
            np.testing.assert_array_equal(arrays["conv1/0"], module.state_dict()["features.0.weight"].numpy()[:, ::-1])
        self.moka("export", "in.prototxt", "--weights", "out.npz", "--to", "caffe", "--deploy", "caffe.prototxt")
        self.moka("model", "convert", "in.caffemodel", "back.npz", "--model", "caffe.prototxt")
        with np.load(self.folder / "out.npz") as first, np.load(self.folder / "back.npz") as second:
            self.assertEqual(sorted(first), sorted(second))
            for name in first:
                np.testing.assert_array_equal(first[name], second[name])


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=[sys.argv[0], *REST])

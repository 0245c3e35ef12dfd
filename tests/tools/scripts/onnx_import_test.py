#!/usr/bin/env python3
"""`moka import`, checked against ONNX Runtime: small graphs of every op that it reads, nets that torchvision exports, and
nets that `moka export` wrote, which must come back to the last bit. Besides, damaged and hostile files, each of which
must be refused, in the time and memory that a test has, with nothing written.

Usage: onnx_import_test.py SOURCE MOKA [--all-of-torchvision]. Exits with 77, which says why, where Python has no onnx,
onnxruntime or numpy; nets of torchvision are skipped where it or torch is missing, those of its newer export where
onnxscript is.
"""

import json
import logging
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}; pip install onnx onnxruntime numpy")
    sys.exit(77)

SOURCE, MOKA = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
ALL = "--all-of-torchvision" in sys.argv
del sys.argv[1:3]
if ALL:
    sys.argv.remove("--all-of-torchvision")
sys.path.insert(0, str(SOURCE / "tools/zoo"))
sys.path.insert(0, str(SOURCE / "tests/tools/scripts"))
import onnx_cases  # noqa: E402
import onnx_graphs  # noqa: E402
import onnx_hostile  # noqa: E402
from sweeping import made_data  # noqa: E402

TOLERANCE = 1e-5
MEMORY_BYTES = 512 << 20
SECONDS = 10
# Of torchvision: side of the picture. Those of the first list are quick.
QUICK = {"resnet18": 64, "squeezenet1_1": 64, "mobilenet_v3_small": 64, "shufflenet_v2_x1_0": 64, "densenet121": 64,
         "lraspp_mobilenet_v3_large": 65, "vit_b_16": 224}
OTHERS = {"resnet34": 64, "resnet50": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 64, "vgg11_bn": 224, "vgg16": 224,
          "alexnet": 224, "googlenet": 224, "inception_v3": 299, "squeezenet1_0": 224, "mobilenet_v2": 224,
          "mobilenet_v3_large": 224, "mnasnet1_0": 224, "efficientnet_b0": 224, "efficientnet_v2_s": 224,
          "regnet_y_400mf": 224, "regnet_x_400mf": 224, "convnext_tiny": 224, "swin_t": 224, "swin_v2_t": 224,
          "fcn_resnet50": 129, "deeplabv3_resnet50": 129, "deeplabv3_mobilenet_v3_large": 129}
NEWER = ("resnet18", "mobilenet_v3_small")
SEGMENTATION = ("fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")


def run(*words, cwd, limited=False):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    return subprocess.run([MOKA, *map(str, words)], cwd=cwd, capture_output=True, timeout=300, check=False,
                          preexec_fn=limit if limited else None, env=os.environ | {"OMP_NUM_THREADS": "1"})


def plain(name):
    """A name as the importer writes it."""
    name = name.lstrip("/")
    name = name[:-len("_output_0")] if name.endswith("_output_0") and name != "_output_0" else name
    return re.sub(r'[^\x21-\x7e]|["\\]', "_", name)


def by_runtime(file, given):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, given)))


class ImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def moka(self, *words):
        done = run(*words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"moka {words}\n{done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode()

    def imported(self, file, *flags):
        """Imports FILE into a new folder net/; remembers which inputs have their number of images open."""
        shutil.rmtree(self.folder / "net", ignore_errors=True)
        told = json.loads(self.moka("import", file, "--out", "net", "--json", *flags))
        self.open = [text.split(" [")[0] for text in told["inputs"] if "[N" in text]

    def set_batch(self, batch):
        """Gives the inputs of net/ that were left open so many images."""
        file = self.folder / "net/deploy.prototxt"
        layers = file.read_text().split("\nlayer {")
        for i, layer in enumerate(layers):
            if 'type: "Input"' in layer and any(f'top: "{name}"' in layer for name in self.open):
                layers[i] = layer.replace("dim: 1\n", f"dim: {batch}\n", 1)
        file.write_text("\nlayer {".join(layers))

    def agree(self, values, tolerance=TOLERANCE):
        """net/ computes these values, of inputs and outputs."""
        arrays = {f"blob/{plain(name)}": np.asarray(value, np.float32) for name, value in values.items()}
        np.savez(self.folder / "blobs.npz", **arrays)
        content = (self.folder / "net/weights.safetensors").read_bytes()
        tensors = json.loads(content[8:8 + int.from_bytes(content[:8], "little")]).keys() - {"__metadata__"}
        weights = ["--weights", "net/weights.safetensors"] if tensors else []
        told = self.moka("compare", "net/deploy.prototxt", "blobs.npz", *weights, "--tolerance", tolerance)
        self.assertIn("agree", told)
        self.assertNotIn("\nnot ", told)

    def test_every_op_agrees_with_onnx_runtime(self):
        for name, (made, how) in onnx_graphs.graphs().items():
            with self.subTest(name):
                onnx.save(made, self.folder / "model.onnx")
                given = onnx_graphs.feeds(made, 2, **how)
                wanted = by_runtime(self.folder / "model.onnx", given)
                self.imported("model.onnx")
                self.set_batch(2)
                self.agree(given | wanted)

    def test_cases_of_onnx(self):
        """ONNX's own: each is refused, or computes what ONNX says."""
        agreeing = 0
        for name, made, values, most in onnx_cases.cases():
            with self.subTest(name):
                onnx.save(made, self.folder / "model.onnx")
                shutil.rmtree(self.folder / "net", ignore_errors=True)
                done = run("import", "model.onnx", "--out", "net", cwd=self.folder)
                self.assertIn(done.returncode, (0, 65), done.stderr.decode())
                if done.returncode == 0:
                    self.agree(values, most)
                    agreeing += 1
        self.assertGreater(agreeing, 600)

    def test_hostile_files_are_refused_with_nothing_written(self):
        for name, (beside, content, words) in onnx_hostile.files().items():
            with self.subTest(name), tempfile.TemporaryDirectory() as where:
                folder = pathlib.Path(where)
                (folder / "folder").mkdir()
                for file, put in beside.items():
                    (folder / file).parent.mkdir(exist_ok=True)
                    (folder / file).symlink_to(put) if isinstance(put, str) else (folder / file).write_bytes(put)
                (folder / "model.onnx").write_bytes(content)
                files = sorted(folder.rglob("*"))
                begin = time.monotonic()
                done = run("import", "model.onnx", "--out", "net", cwd=folder, limited=True)
                told = done.stderr.decode(errors="replace")
                self.assertIn(done.returncode, (65, 66), f"{done.stdout.decode()}{told}")
                self.assertLess(time.monotonic() - begin, SECONDS)
                self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, MEMORY_BYTES)
                self.assertEqual(sorted(folder.rglob("*")), files, "something was written")
                self.assertIn("model.onnx", told)
                self.assertNotIn("\x1b", told)
                for word in words:
                    self.assertIn(word, told)

    def torchvision_net(self, name):
        """A net of torchvision with drawn weights and statistics, and pictures for it."""
        import torch
        import torchvision
        side = (QUICK | OTHERS)[name]
        torch.manual_seed(1)
        models = torchvision.models.segmentation if name in SEGMENTATION else torchvision.models
        more = {"weights_backbone": None} if name in SEGMENTATION else {}
        if name in ("googlenet", "inception_v3"):
            more = {"init_weights": False, "aux_logits": False}
        net = getattr(models, name)(weights=None, **more).eval()
        draw = torch.Generator().manual_seed(2)
        for key, value in [*net.named_buffers(), *net.named_parameters()]:
            with torch.no_grad():
                if key.endswith("running_mean"):
                    value.copy_(torch.randn(value.shape, generator=draw) * 0.05)
                elif key.endswith("running_var"):
                    value.copy_(torch.rand(value.shape, generator=draw) * 0.5 + 0.75)
                elif not value.any() and value.ndim == 2:  # a head that begins as zeros says nothing
                    value.copy_(torch.randn(value.shape, generator=draw) * 0.05)
        return net, torch.randn(2, 3, side, side, generator=draw)

    def import_and_compare(self, given):
        """model.onnx, whose number of images is open, computes the same once it is imported."""
        wanted = by_runtime(self.folder / "model.onnx", given)
        self.imported("model.onnx")
        self.set_batch(2)
        self.agree(given | wanted)

    def test_nets_of_torchvision(self):
        try:
            import torch
            import torchvision  # noqa: F401
        except ImportError as missing:
            self.skipTest(f"{missing}")
        torch.set_num_threads(1)
        for name in QUICK | OTHERS if ALL else QUICK:
            with self.subTest(name):
                net, given = self.torchvision_net(name)
                # Not under no_grad, where attention takes a way of its own that has no form in ONNX.
                torch.onnx.export(net, (given,), str(self.folder / "model.onnx"), dynamo=False, opset_version=17,
                                  input_names=["input"], dynamic_axes={"input": {0: "batch"}})
                self.import_and_compare({"input": given.numpy()})

    def test_nets_of_torchvision_by_the_newer_export(self):
        """The same by torch.export, which writes later opsets and other ops."""
        try:
            import onnxscript  # noqa: F401
            import torch
            import torchvision  # noqa: F401
        except ImportError as missing:
            self.skipTest(f"{missing}")
        torch.set_num_threads(1)
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        for name in QUICK | OTHERS if ALL else NEWER:
            with self.subTest(name):
                net, given = self.torchvision_net(name)
                program = torch.onnx.export(net, (given,), dynamo=True, input_names=["input"], verbose=False,
                                            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
                program.save(str(self.folder / "model.onnx"))
                self.import_and_compare({"input": given.numpy()})

    def test_recurrent_nets_of_torch(self):
        """Layers of torch.nn, in one and two directions, with sequences in a row; the states that they end with, too."""
        try:
            import torch
        except ImportError as missing:
            self.skipTest(f"{missing}")
        torch.set_num_threads(1)

        class Recurrent(torch.nn.Module):
            def __init__(self, kind, **fields):
                super().__init__()
                self.steps = getattr(torch.nn, kind)(8, 6, batch_first=True, **fields)
                self.scores = torch.nn.Linear(12 if fields else 6, 3)

            def forward(self, x):
                y, last = self.steps(x)
                return self.scores(y), (last[1] if isinstance(last, tuple) else last)
        for kind in ("LSTM", "GRU", "RNN"):
            for fields in ({}, {"num_layers": 2, "bidirectional": True}):
                with self.subTest(kind=kind, fields=fields):
                    torch.manual_seed(1)
                    net, given = Recurrent(kind, **fields).eval(), torch.randn(2, 5, 8)
                    torch.onnx.export(net, (given,), str(self.folder / "model.onnx"), dynamo=False, opset_version=17,
                                      input_names=["input"], dynamic_axes={"input": {0: "batch"}})
                    self.import_and_compare({"input": given.numpy()})

    def test_what_was_exported_comes_back_to_the_last_bit(self):
        for name in ("lenet", "cifar10_resnet20", "cifar10_full", "mobilenet_v2", "cifar10_quick", "mnist_autoencoder"):
            with self.subTest(name):
                folder = SOURCE / "models" / name
                text = (folder / "train_val.prototxt").read_text()
                made_data.DataMaker(MOKA, self.folder, "grey" if "data/mnist/" in text else "colour").make(text)
                self.moka("train", folder, "layer[*].data_param.batch_size=2", "max_iter=1", "test_iter=[1]", "--run", name,
                          "--device", "cpu", "--quiet")
                self.moka("export", f"{name}-0001@last", "--to", "onnx", "--out", f"{name}.onnx")
                self.imported(f"{name}.onnx")
                self.moka("export", "net/deploy.prototxt", "--weights", "net/weights.safetensors", "--out", "again.onnx")
                shape = [d.dim_value or 2 for d in onnx.load(str(self.folder / "again.onnx")).graph.input[0].type.tensor_type.shape.dim]
                given = {onnx.load(str(self.folder / "again.onnx")).graph.input[0].name:
                         np.random.default_rng(1).uniform(0, 1, shape).astype(np.float32)}
                first = by_runtime(self.folder / f"{name}.onnx", given)
                second = by_runtime(self.folder / "again.onnx", given)
                for output, value in first.items():
                    self.assertTrue(np.array_equal(value, second[output]), output)

    def test_labels_and_preprocessing_come_along(self):
        said = {"labels": json.dumps(["cat", "dog"]), "title": "Cats", "task": "CLASSIFY",
                "preprocessing": json.dumps({"channels": "RGB", "mean": [1, 2, 3], "std": [4, 5, 6], "scale": 0.5,
                                             "resize": [8, 9], "input": "x"})}
        made = onnx_graphs.model([onnx_graphs.node("GlobalAveragePool", "x")], {"x": ("N", 3, 4, 4)}, metadata=said)
        onnx.save(made, self.folder / "model.onnx")
        told = json.loads(self.moka("import", "model.onnx", "--json"))
        self.assertEqual(told["inputs"], ["x [N,3,4,4]"])
        self.assertEqual((self.folder / "model/labels.txt").read_text(), "cat\ndog\n")
        card = (self.folder / "model/model.prototxt").read_text()
        for words in ('title: "Cats"', "channels: RGB", "mean: 2", "std: 6", "scale: 0.5", "resize_width: 9"):
            self.assertIn(words, card)

    def test_metadata_of_others_are_left_out_whole_and_told(self):
        said = {"labels": json.dumps(["cat", 7]), "task": "cats",
                "preprocessing": json.dumps({"channels": "YUV", "mean": [1, "2", 3], "std": "an image", "scale": 1e300,
                                             "resize": [8], "resize_short": -1})}
        made = onnx_graphs.model([onnx_graphs.node("GlobalAveragePool", "x")], {"x": ("N", 3, 4, 4)}, metadata=said)
        onnx.save(made, self.folder / "model.onnx")
        done = run("import", "model.onnx", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = done.stderr.decode()
        for words in ('"labels" has 7, which', '"task" is "cats"', 'channels" is "YUV"', 'mean" is [1,"2",3]',
                      'std" is "an image"', 'scale" is 1e+300', 'resize" is [8]', 'resize_short" is -1'):
            self.assertIn(words, told)
        self.assertFalse((self.folder / "model/labels.txt").exists())
        self.assertNotIn("mean", (self.folder / "model/model.prototxt").read_text())
        said = {"labels": "cat, dog", "preprocessing": "[]"}
        made = onnx_graphs.model([onnx_graphs.node("GlobalAveragePool", "x")], {"x": ("N", 3, 4, 4)}, metadata=said)
        onnx.save(made, self.folder / "model.onnx")
        told = run("import", "model.onnx", "--out", "again", cwd=self.folder).stderr.decode()
        self.assertIn('"labels" is no list in JSON: left out', told)
        self.assertIn('"preprocessing" is no object in JSON: left out', told)

    def test_a_folder_that_is_there_stays(self):
        onnx.save(onnx_graphs.unary("Relu")[0], self.folder / "model.onnx")
        (self.folder / "net").mkdir()
        (self.folder / "net/mine").write_text("mine")
        done = run("import", "model.onnx", "--out", "net", cwd=self.folder)
        self.assertEqual(done.returncode, 73)
        self.assertEqual([file.name for file in (self.folder / "net").iterdir()], ["mine"])

    def test_verbs_that_want_weights_or_nets_name_the_verb(self):
        onnx.save(onnx_graphs.convolution("Conv", onnx_graphs.floats(6, 4, 3, 3))[0], self.folder / "model.onnx")
        (self.folder / "net.prototxt").write_text('layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }\n'
                                                   'layer { name: "r" type: "ReLU" bottom: "x" top: "r" }\n')
        for words in (("model", "convert", "model.onnx", "w.safetensors"), ("model", "show", "model.onnx"),
                      ("compare", "net.prototxt", "b.npz", "--weights", "model.onnx"), ("train", "model.onnx"),
                      ("infer", "model.onnx", "picture.png"), ("export", "net.prototxt", "--weights", "model.onnx")):
            with self.subTest(words):
                np.savez(self.folder / "b.npz", **{"blob/x": np.zeros(1, np.float32)})
                done = run(*words, cwd=self.folder)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("moka import", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()

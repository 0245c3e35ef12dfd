"""BVLC Caffe as a contender of tools/bench/compare: `caffe train` over DummyData, timed by its log's clock.

Caffe has no program that waits for commands, so every turn is a process of its own; start-up does not count, as step
times are differences of the log's lines (display: 1 prints one in every step, between backward pass and update).
"""

import os
import pathlib
import re
import subprocess
import tempfile

import shapes
import works

SOLVER = """net: "{net}"
base_lr: 0.0001 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
display: 1 max_iter: {steps} snapshot: 0 snapshot_after_train: false solver_mode: CPU random_seed: 1
"""
DATA = """layer {{ name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param {{ shape {{ {image} }} shape {{ dim: {batch} }}
    data_filler {{ type: "uniform" min: -1 max: 1 }} data_filler {{ type: "constant" }} }} }}
"""
LINE = re.compile(r"^I\d+ (\d+):(\d+):([\d.]+) .*\] Iteration \d+[ ,].*loss", re.M)


def layers(text):
    """The top-level layer { ... } messages of a prototxt."""
    for match in re.finditer(r"^layer \{", text, re.M):
        depth, end = 0, match.start()
        for end in range(match.start(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if text[end] == "}" and depth == 0:
                break
        yield text[match.start():end + 1]


def dummy_net(moka, folder, batch):
    text = subprocess.run([moka, "model", "expand", str(folder / "train_val.prototxt")], check=True,
                          capture_output=True, text=True).stdout
    shape = shapes.SHAPES[folder.name]
    image = " ".join(f"dim: {d}" for d in (batch, *shape))
    kept = [DATA.format(image=image, batch=batch)]
    for layer in layers(text):
        if "phase: TEST" not in layer and '"Data"' not in layer:
            kept.append(layer)
    return "\n".join(kept)


class CaffeWorker:
    name = "caffe"

    def __init__(self, binary, moka, folder, batch, threads):
        self.binary, self.threads, self.peak_bytes = binary, threads, 0
        self.hello = {"version": "BVLC Caffe"}
        self.folder = tempfile.TemporaryDirectory()
        self.net = pathlib.Path(self.folder.name) / "net.prototxt"
        self.net.write_text(dummy_net(moka, folder, batch), encoding="utf-8")

    def run(self, steps, warmup=0):
        solver = self.net.with_name("solver.prototxt")
        solver.write_text(SOLVER.format(net=self.net, steps=steps + max(1, warmup) + 1), encoding="utf-8")
        process = subprocess.Popen([self.binary, "train", f"--solver={solver}", "--logtostderr"], text=True,
                                   env=works.environment(self.threads, True), stderr=subprocess.PIPE)
        log = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss << 10)
        clock = [(int(h) * 60 + int(m)) * 60 + float(s) for h, m, s in LINE.findall(log)]
        if status != 0 or len(clock) < steps + 1:
            raise RuntimeError("caffe failed: " + log[-300:])
        return [1e3 * (b - a) for a, b in zip(clock, clock[1:])][-steps:]

    def cpu_seconds(self):
        return 0.0

    def close(self):
        self.folder.cleanup()

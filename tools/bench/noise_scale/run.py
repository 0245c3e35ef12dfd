#!/usr/bin/env python3
"""What the readout of the gradient noise scale costs: steps with and without it, by turns, of trainings on made-up data.

Usage: run.py MOKA OUT.json [--rounds N] [--interval N]

Each round trains every case twice, in an order that alternates: with noise_scale_interval (10) and without. A step's
time is the mean that RUN/scaling.jsonl has of the last iterations, as a training without the readout has it, too; the
ratio is that of the medians over the rounds. Data and weights stay as they are. The cases are LeNet by two ranks (threads of a process) and by one rank
with iter_size 4, and a perceptron whose gradients are many beside what is computed, the worst case.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

LENET = """
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param {{ num_output: 20 kernel_size: 5 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param {{ num_output: 50 kernel_size: 5 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }} }}
layer {{ name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
  inner_product_param {{ num_output: 500 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }} }}
"""
PERCEPTRON = """
layer {{ name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param {{ num_output: 2048 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param {{ num_output: 1024 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "relu2" type: "ReLU" bottom: "ip2" top: "ip2" }}
layer {{ name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
  inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }} }}
"""
DATA = """name: "made_up"
layer {{ name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param {{ shape {{ dim: {batch} dim: 1 dim: 28 dim: 28 }} shape {{ dim: {batch} }}
    data_filler {{ type: "constant" value: 0.5 }} data_filler {{ type: "constant" value: 3 }} }} }}
"""
LOSS = """
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "{scores}" bottom: "label" top: "loss" }}
"""
# name -> net, its scores, batch of all ranks, ranks, iter_size, iterations
CASES = {
    "lenet, 2 ranks of 32": (LENET, "ip2", 64, 2, 1, 400),
    "lenet, iter_size 4 of 64": (LENET, "ip2", 64, 1, 4, 120),
    "perceptron, 2 ranks of 64": (PERCEPTRON, "ip3", 128, 2, 1, 200),
}


def step_ms(moka, folder, case, interval, name):
    net, scores, batch, ranks, iter_size, iterations = CASES[case]
    (folder / "net.prototxt").write_text((DATA + net + LOSS).format(batch=batch, scores=scores), encoding="utf-8")
    fields = {"net": "net.prototxt", "base_lr": 0, "lr_policy": "fixed", "momentum": 0.9, "random_seed": 1,
              "max_iter": iterations, "iter_size": iter_size, "noise_scale_interval": interval}
    solver = folder / "solver.prototxt"
    solver.write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in fields.items()), encoding="utf-8")
    command = [moka, "train", str(solver), "--device", "cpu", "--quiet", "--runs", str(folder / "runs"), "--run", name]
    if ranks > 1:
        command += ["--ranks", str(ranks)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (scaling,) = (folder / "runs").glob(f"{name}-*/scaling.jsonl")
    return json.loads(scaling.read_text(encoding="utf-8").splitlines()[-1])["mean"]["step_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moka")
    parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--interval", type=int, default=10)
    arguments = parser.parse_args()
    moka = str(pathlib.Path(arguments.moka).resolve())
    times = {case: {"without": [], "with": []} for case in CASES}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.rounds):
            for number, case in enumerate(CASES):
                for kind in ("without", "with") if turn % 2 == 0 else ("with", "without"):
                    interval = arguments.interval if kind == "with" else 0
                    name = f"case{number}_{kind}_{turn}"
                    times[case][kind].append(step_ms(moka, pathlib.Path(folder), case, interval, name))
    result = {"interval": arguments.interval, "cases": {}}
    for case, kinds in times.items():
        medians = {kind: statistics.median(values) for kind, values in kinds.items()}
        ratio = medians["with"] / medians["without"]
        result["cases"][case] = {"median_ms": medians, "ratio": ratio, "step_ms": kinds}
        print(f"{case}: {medians['without']:.3f} ms without, {medians['with']:.3f} ms with, ratio {ratio:.4f}")
    pathlib.Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

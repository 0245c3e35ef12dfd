"""Trainings by real Caffe and by Moka from the same weights on the same records, for every solver type, policy of the
learning rate and way to count batches: weights and solver states after 30 and 60 iterations, and each engine resumed
from the other's state.

Usage: PYTHONPATH=build/release/python python3 solvers_caffe.py CAFFE MOKA LMDB OUT.json

CAFFE: the binary of a BVLC Caffe; MOKA: build/release/moka; LMDB: MNIST's training database.
Differences are the largest over the blob's largest value.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from moka.caffe.proto import caffe_pb2

NET = """
layer { name: "d" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
        data_param { source: "%s" batch_size: 16 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { lr_mult: 1 decay_mult: 1 }
        param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 6 kernel_size: 5 stride: 2
        weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "tanh" type: "TanH" bottom: "conv" top: "tanh" }
layer { name: "ip" type: "InnerProduct" bottom: "tanh" top: "ip" param { lr_mult: 1 } param { lr_mult: 2 }
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
BASE = {"base_lr": 0.01, "lr_policy": '"fixed"', "momentum": 0.9, "weight_decay": 0.0005}
CASES = {
    "SGD": {},
    "SGD without momentum": {"momentum": 0},
    "SGD, step": {"lr_policy": '"step"', "gamma": 0.5, "stepsize": 20},
    "SGD, exp": {"lr_policy": '"exp"', "gamma": 0.98},
    "SGD, inv": {"lr_policy": '"inv"', "gamma": 0.01, "power": 0.75},
    "SGD, multistep": {"lr_policy": '"multistep"', "gamma": 0.3, "stepvalue": [10, 25, 50]},
    "SGD, poly": {"lr_policy": '"poly"', "power": 2},
    "SGD, sigmoid": {"lr_policy": '"sigmoid"', "gamma": 0.1, "stepsize": 30},
    "SGD, L1 decay": {"regularization_type": '"L1"', "weight_decay": 0.001},
    "SGD, clipped": {"clip_gradients": 0.5},
    "SGD, iter_size 2": {"iter_size": 2},
    "SGD, iter_size 3, clipped": {"iter_size": 3, "clip_gradients": 0.3},
    "Nesterov": {"type": '"Nesterov"'},
    "Nesterov by solver_type": {"solver_type": "NESTEROV"},
    "Nesterov, step, clipped, iter_size 2": {"type": '"Nesterov"', "clip_gradients": 0.4, "lr_policy": '"step"',
                                             "gamma": 0.1, "stepsize": 25, "iter_size": 2},
    "AdaGrad": {"type": '"AdaGrad"', "momentum": 0, "delta": 1e-6},
    "RMSProp": {"type": '"RMSProp"', "momentum": 0, "base_lr": 0.001, "rms_decay": 0.98, "delta": 1e-6},
    "AdaDelta": {"type": '"AdaDelta"', "base_lr": 1.0, "momentum": 0.95, "delta": 1e-6},
    "Adam": {"type": '"Adam"', "base_lr": 0.001, "momentum2": 0.999, "delta": 1e-8},
    "Adam, L1 decay, iter_size 2": {"type": '"Adam"', "base_lr": 0.001, "momentum2": 0.99, "delta": 1e-8,
                                    "iter_size": 2, "regularization_type": '"L1"'},
}


def solver_text(fields, prefix, iterations):
    fields = {**BASE, **fields}
    lines = ["{}: {}".format(name, value) for name, values in fields.items()
             for value in (values if isinstance(values, list) else [values])]
    lines += ['net: "net.prototxt"', 'snapshot_prefix: "{}"'.format(prefix), "max_iter: {}".format(iterations),
              "snapshot: 30", "solver_mode: CPU", "random_seed: 3"]
    return "\n".join(lines) + "\n"


def train(binary, fields, prefix, iterations=60, **flags):
    with open(prefix + ".prototxt", "w", encoding="utf-8") as file:
        file.write(solver_text(fields, prefix, iterations))
    command = [binary, "train", "--solver={}.prototxt".format(prefix)]
    done = subprocess.run(command + ["--{}={}".format(*flag) for flag in flags.items()], capture_output=True, text=True)
    if done.returncode:
        sys.exit("{} failed:\n{}".format(" ".join(command), done.stderr[-2000:]))


def weights(path):
    net = caffe_pb2.NetParameter()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return [np.array(blob.data) for layer in net.layer for blob in layer.blobs]


def state(path):
    saved = caffe_pb2.SolverState()
    with open(path, "rb") as file:
        saved.ParseFromString(file.read())
    return (saved.iter, saved.current_step), [np.array(blob.data) for blob in saved.history]


def difference(ours, theirs):
    if [a.shape for a in ours] != [b.shape for b in theirs]:
        return float("inf")
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(ours, theirs))


def compare(caffe, moka, number, fields):
    theirs, ours = "caffe{}".format(number), "moka{}".format(number)
    train(caffe, fields, theirs, weights="start.caffemodel")
    train(moka, fields, ours, weights="start.caffemodel")
    row = {}
    for iteration in (30, 60):
        ending = "_iter_{}.".format(iteration)
        counters, history = state(theirs + ending + "solverstate")
        our_counters, our_history = state(ours + ending + "solverstate")
        row["iteration_{}".format(iteration)] = {
            "weights": difference(weights(ours + ending + "caffemodel"), weights(theirs + ending + "caffemodel")),
            "history": difference(our_history, history), "counters_equal": counters == our_counters}
    # Caffe starts its data from the beginning when it resumes, Moka goes on where the iteration says: Caffe resumed
    # from Moka's state is held against Caffe resumed from its own, Moka resumed from Caffe's against the whole run.
    for binary, name, source in ((caffe, "cc", theirs), (caffe, "cm", ours), (moka, "mc", theirs)):
        train(binary, fields, name, snapshot=source + "_iter_30.solverstate")
    last = "_iter_60.caffemodel"
    row["caffe_resumed_from_moka"] = difference(weights("cm" + last), weights("cc" + last))
    row["moka_resumed_from_caffe"] = difference(weights("mc" + last), weights(theirs + last))
    return row


def main():
    caffe, moka, lmdb, out = (os.path.abspath(path) for path in sys.argv[1:5])
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("net.prototxt", "w", encoding="utf-8") as file:
            file.write(NET % lmdb)
        train(caffe, {"base_lr": 0}, "start", 1)
        os.rename("start_iter_1.caffemodel", "start.caffemodel")
        for number, (name, fields) in enumerate(CASES.items()):
            rows[name] = compare(caffe, moka, number, fields)
            print(name, json.dumps(rows[name]), flush=True)
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"what": "largest difference over the largest value, Moka against BVLC Caffe, 60 iterations of 16 records",
                   "command": "python3 tools/bench/peers/solvers_caffe.py CAFFE MOKA LMDB OUT.json", "solvers": rows},
                  file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()

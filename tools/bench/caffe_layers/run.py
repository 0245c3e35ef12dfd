"""Every layer of a real Caffe alone, against Moka: blobs, and gradients of bottoms and parameters.

Usage: PYTHONPATH=CAFFE/python python3 run.py MOKA [--only TEXT] [--keep FOLDER] [--out FILE]

A case is a tiny net: its bottoms (each behind a Bias layer, so that Caffe computes their gradients), the layer, and a
loss that weighs each element of its tops by random numbers. Caffe runs it with random parameters, `moka compare` on
the same numbers. Cases of layer types this Caffe does not have are left out. Prints a line a case: the largest
difference over the largest value, of blobs and of gradients. Exit 1 if a case differs by more than 1e-4 or 1e-3.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

from case import Normal
from plain_layers import activations, convolutions, normalizations, poolings, shapes
from trained_layers import detection, losses, products, recurrences

GROUPS = (activations, convolutions, poolings, normalizations, shapes, products, recurrences, losses, detection)
BLOB_TOLERANCE, GRADIENT_TOLERANCE = 1e-4, 1e-3


def all_cases():
    for group in GROUPS:
        yield from group()


def dims(shape):
    return " ".join(f"dim: {d}" for d in shape)


def input_layer(name, shape):
    return f'layer {{ name: "in_{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims(shape)} }} }} }}\n'


def bottoms_text(case):
    """Input layers; a bottom with a gradient gets a Bias with a parameter of its own shape."""
    text = ""
    for name, values in case.inputs.items():
        if not values.has_gradient:
            text += input_layer(name, values.shape)
            continue
        text += input_layer(name + "_in", values.shape)
        text += (
            f'layer {{ name: "bias_{name}" type: "Bias" bottom: "{name}_in" top: "{name}" '
            f"bias_param {{ axis: 0 num_axes: -1 }} }}\n"
        )
    return text


def layer_text(case):
    if "layer {" in case.text:
        return case.text
    bottoms = " ".join(f'bottom: "{name}"' for name in case.inputs)
    tops = " ".join(f'top: "{name}"' for name in case.tops)
    return f'layer {{ name: "tested" {bottoms} {tops} {case.text} }}\n'


def loss_text(case, shapes):
    """The sum of top * weights, for each top that has a gradient."""
    if case.is_loss or not any(v.has_gradient for v in case.inputs.values()):
        return ""
    text = ""
    for name in case.weighed:
        if not shapes[name]:
            text += (
                f'layer {{ name: "sum_{name}" type: "Power" bottom: "{name}" top: "loss_{name}" '
                f"power_param {{ scale: 1.5 }} loss_weight: 1 }}\n"
            )
            continue
        text += input_layer("weight_" + name, shapes[name])
        text += (
            f'layer {{ name: "weigh_{name}" type: "Eltwise" bottom: "{name}" bottom: "weight_{name}" '
            f'top: "weighed_{name}" eltwise_param {{ operation: PROD }} }}\n'
            f'layer {{ name: "sum_{name}" type: "Reduction" bottom: "weighed_{name}" top: "loss_{name}" '
            f"loss_weight: 1 }}\n"
        )
    return text


def build(caffe, path, text, phase):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return caffe.Net(path, caffe.TRAIN if phase == "TRAIN" else caffe.TEST)


def run_caffe(case, folder):
    """Writes net.prototxt and blobs.npz. Runs in a process of its own: a failed check of Caffe ends it."""
    import caffe
    import numpy as np

    caffe.set_mode_cpu()
    path = os.path.join(folder, "net.prototxt")
    text = bottoms_text(case) + layer_text(case)
    shapes = {n: tuple(b.data.shape) for n, b in build(caffe, path, text, case.phase).blobs.items()}
    net = build(caffe, path, text + loss_text(case, shapes), case.phase)
    rng = np.random.RandomState(7)
    for name, layer in zip(net._layer_names, net.layers):
        for k, blob in enumerate(layer.blobs):
            if not name.startswith("bias_"):
                blob.data[...] = case.parameter(layer.type, k, blob.data.shape, rng)
    arrays = {
        f"param/{name}/{k}": blob.data.copy()
        for name, layer in zip(net._layer_names, net.layers)
        for k, blob in enumerate(layer.blobs)
    }
    for name, blob in net.blobs.items():
        if name in net.inputs:
            values = case.inputs.get(name) or case.inputs.get(name.removesuffix("_in")) or Normal(*blob.data.shape)
            blob.data[...] = values.make(rng)
    net.forward()
    has_loss = any(net._blob_loss_weights)
    if has_loss:
        net.backward()
    for name, blob in net.blobs.items():
        arrays[f"blob/{name}"] = blob.data.copy()
        if has_loss:
            arrays[f"blobdiff/{name}"] = blob.diff.copy()
    if has_loss:
        for name, layer in zip(net._layer_names, net.layers):
            for k, blob in enumerate(layer.blobs):
                arrays[f"paramdiff/{name}/{k}"] = blob.diff.copy()
    np.savez(os.path.join(folder, "blobs.npz"), **arrays)
    with open(os.path.join(folder, "has_loss"), "w", encoding="utf-8") as file:
        file.write("1" if has_loss else "")


def in_child(case, folder):
    """True if Caffe ran the case."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            log = os.open(os.path.join(folder, "caffe.log"), os.O_CREAT | os.O_WRONLY)
            os.dup2(log, 2)
            run_caffe(case, folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def first_error(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    return next((line for line in lines if line.startswith(("F", "error"))), lines[-1] if lines else "no message")


def compare(moka, case, folder):
    """One row of the result."""
    with open(os.path.join(folder, "has_loss"), encoding="utf-8") as file:
        gradients = ["--gradients"] if file.read() else []
    done = subprocess.run(
        [
            moka,
            "compare",
            os.path.join(folder, "net.prototxt"),
            os.path.join(folder, "blobs.npz"),
            "--phase",
            case.phase,
            "--quiet",
            *gradients,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    row = {"blob": None, "gradient": None}
    with open(os.path.join(folder, "moka.log"), "w", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    for line in done.stdout.splitlines():
        found = re.match(r"(equal|differs) +(.*?)  +(.*?)  +(?:relative ([^ ,]+).*|(.*))$", line)
        if not found:
            continue
        kind = "gradient" if found.group(3).startswith("gradient") else "blob"
        if found.group(4) is None:
            row["problem"] = f"{found.group(3)}: {found.group(5)}"
            continue
        row[kind] = max(row[kind] or 0.0, float(found.group(4)))
    if done.returncode not in (0, 22):
        row["problem"] = (done.stderr.splitlines() or [f"exit {done.returncode}"])[0]
    return row


def differs(row):
    return "problem" in row or (row["blob"] or 0) > BLOB_TOLERANCE or (row["gradient"] or 0) > GRADIENT_TOLERANCE


def result(row):
    if "not run" in row:
        return "not run"
    if not differs(row):
        return "equal"
    return "known" if "known" in row else "differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moka")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--keep", help="write the nets and arrays here")
    parser.add_argument("--out", help="result as JSON")
    arguments = parser.parse_args()
    os.environ.setdefault("GLOG_minloglevel", "2")
    import caffe

    known = set(caffe.layer_type_list())
    is_candidate = "-rc" in caffe.__version__
    rows = {}
    for case in all_cases():
        if arguments.only not in case.name or not case.types <= known or (case.needs_release and is_candidate):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = temporary
            if arguments.keep:
                folder = os.path.join(arguments.keep, re.sub(r"\W+", "_", case.name))
                os.makedirs(folder, exist_ok=True)
            if in_child(case, folder):
                row = compare(arguments.moka, case, folder)
            else:
                row = {
                    "blob": None,
                    "gradient": None,
                    "not run": "Caffe: " + first_error(os.path.join(folder, "caffe.log")),
                }
        if case.known and differs(row):
            row["known"] = case.known
        row["result"] = result(row)
        rows[case.name] = row
        numbers = "".join(f" {k} {row[k]:.1e}" for k in ("blob", "gradient") if row[k] is not None)
        notes = " ".join(row[key] for key in ("known", "problem", "not run") if key in row)
        print(f"{row['result']:8} {case.name:40}{numbers} {notes}", flush=True)
    count = collections.Counter(row["result"] for row in rows.values())
    gradients = sum(row["gradient"] is not None for row in rows.values())
    print(f"{len(rows)} cases, {gradients} with gradients: " + ", ".join(f"{n} {what}" for what, n in count.items()))
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump({"what": "largest difference over the largest value", "cases": rows}, file, indent=1)
            file.write("\n")
    return 1 if count["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())

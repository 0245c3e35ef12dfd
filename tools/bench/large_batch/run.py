#!/usr/bin/env python3
"""Plain SGD and LARS at large batches on MNIST, for a fixed number of epochs, beside SGD at batch 64.

Usage: run.py MOKA FOLDER OUT.json     FOLDER has data/train_all and data/test (docs/large_batch.md says how)

Rates are tuned with seed 1 on 54,000 of the training images, by the accuracy on the other 6,000; the chosen ones then
train three times (seeds 1 to 3) on the same 54,000 and are tested once on the test images. SGD at a large batch has a
linear warm-up over the first epoch and its best of several rates from far below the linear rule's; LARS has the same
warm-up, decay, momentum and plain rate, and its best of several coefficients. Both spare biases decay. OUT.json is
written after each run; runs that it has already are not repeated.
"""

import json
import pathlib
import subprocess
import sys
import time

EPOCHS = 5
SAMPLES = 54000
SEEDS = (1, 2, 3)
NET = pathlib.Path(__file__).resolve().parent / "net.prototxt"
# batch -> what is tried of each kind: SGD's base_lr, LARS's lars_eta (at base_lr 0.4)
TRIED = {
    64: {"SGD": (0.05, 0.1)},
    2048: {"SGD": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8), "LARS": (0.1, 0.2, 0.4)},
    4096: {"SGD": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8), "LARS": (0.1, 0.2, 0.4)},
}
LARS_RATE = 0.4
IMAGES = {"val": 6000, "test": 10000}
KEYS = ("kind", "batch", "value", "seed", "on")


def solver(kind, batch, value):
    iterations = round(EPOCHS * SAMPLES / batch)
    warmup = 0 if batch == 64 else round(SAMPLES / batch)
    fields = {"net": str(NET), "test_iter": 0, "test_interval": iterations, "test_initialization": False,
              "type": kind, "base_lr": value if kind == "SGD" else LARS_RATE, "lr_policy": "poly", "power": 2,
              "momentum": 0.9, "weight_decay": 0.0005, "decay_skip_bias_and_norm": True, "warmup_iter": warmup,
              "max_iter": iterations}
    if kind == "LARS":
        fields["lars_eta"] = value
    return fields


def train(moka, folder, kind, batch, value, seed, test):
    fields = solver(kind, batch, value) | {"random_seed": seed, "test_iter": IMAGES[test] // 1000}
    path = folder / "solver.prototxt"
    path.write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in fields.items()), encoding="utf-8")
    runs = folder / "runs"
    start = time.time()
    command = [moka, "train", str(path), "--threads", "1", "--device", "cpu", "--quiet", "--runs", str(runs), "--run",
               f"{kind}_{batch}_{value}_{seed}_{test}", f"layer[train].data_param.batch_size={batch}",
               f'layer[test].data_param.source="data/{test}"']
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    accuracy = None
    (metrics,) = runs.glob(f"{command[command.index('--run') + 1]}-*/metrics.jsonl")
    for line in metrics.read_text(encoding="utf-8").splitlines():
        accuracy = json.loads(line).get("accuracy", accuracy)
    if accuracy is None and "diverged" not in outcome.stderr and outcome.returncode != 0:
        sys.exit(outcome.stderr)
    row = dict(zip(KEYS, (kind, batch, value, seed, test))) | {
        "accuracy": accuracy, "iterations": fields["max_iter"], "seconds": round(time.time() - start, 1)}
    print(row, flush=True)
    return row


def mean(values):
    return sum(values) / len(values)


def main():
    moka, folder, out = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    if not (folder / "data/train").exists():
        subprocess.run([moka, "data", "split", "data/train_all", "--parts", "train=0.9,val=0.1", "--out", "data"],
                       cwd=folder, check=True)
    done = json.loads(pathlib.Path(out).read_text(encoding="utf-8")) if pathlib.Path(out).exists() else {}
    known = {tuple(row[k] for k in KEYS): row for row in done.get("tuning", []) + done.get("final", [])}
    result = {"epochs": EPOCHS, "tuning": [], "final": [], "summary": []}

    def once(*what):
        return known.get(what) or train(moka, folder, *what)

    def save():
        pathlib.Path(out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    chosen = []
    for batch, kinds in TRIED.items():
        for kind, values in kinds.items():
            rows = []
            for value in values:
                rows.append(once(kind, batch, value, SEEDS[0], "val"))
                result["tuning"].append(rows[-1])
                save()
            best = max(rows, key=lambda row: row["accuracy"] or 0)
            chosen.append((kind, batch, best["value"]))
    for seed in SEEDS:
        for kind, batch, value in chosen:
            result["final"].append(once(kind, batch, value, seed, "test"))
            rows = [[r["accuracy"] or 0 for r in result["final"] if (r["kind"], r["batch"]) == c[:2]] for c in chosen]
            result["summary"] = [{"kind": c[0], "batch": c[1], "value": c[2], "seeds": len(r), "mean": mean(r),
                                  "least": min(r), "most": max(r)} for c, r in zip(chosen, rows) if r]
            save()


if __name__ == "__main__":
    main()

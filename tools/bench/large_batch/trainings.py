"""One training of the study: its solver, its run, and the row that is kept of it.

A training is known by everything that decides its result (`settings`); its run lies in a folder named after them until
the row is written. A run that was cut goes on from its newest checkpoint, or is trained anew where it has none.
"""

import ctypes
import dataclasses
import datetime
import functools
import hashlib
import json
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "models"
FINISHED, DIVERGED, STOPPED = 0, 20, 75  # Moka's exit codes


@dataclasses.dataclass(frozen=True)
class Task:
    """A net over a data set; the first two layers of the net read the training and the test data."""
    name: str
    net: pathlib.Path
    data: str                 # folder of FOLDER/data with both parts
    test: str = "test"        # the part for the last tests
    part: int = 64            # pictures that a normalisation sees together; the batch is a multiple
    epochs: float = 4
    images: int = 45000       # of the part that is trained on, for the plan
    rate: float = 4800        # pictures a second of a plan: two cores, an AMD EPYC with AVX2
    chance: float = 0.1
    by_class: bool = True     # the held-out tenth has each class


ALEXNET = Task("AlexNet-BN", HERE / "alexnet_bn.prototxt", "cifar10-jpeg")
RESNET20 = Task("ResNet-20", MODELS / "cifar10_resnet20/train_val.prototxt", "cifar10-jpeg", epochs=3, rate=1000)
CLOTHING = Task("clothing ResNet", MODELS / "clothing_resnet/train_val.prototxt", "clothing", test="validation",
                part=32, epochs=20, images=1508, rate=600)
MNIST = Task("strided LeNet", HERE / "mnist.prototxt", "mnist", epochs=5, images=54000, rate=36000, by_class=False)
SOLVER = {"type": "SGD", "lr_policy": "poly", "power": 2, "momentum": 0.9, "weight_decay": 0.0005,
          "decay_skip_bias_and_norm": True}


@dataclasses.dataclass(frozen=True)
class Training:
    task: Task
    arm: str
    batch: int
    fields: tuple             # of the solver, pairs
    seed: int
    on: str                   # "val": the held-out tenth; "test"; "none": no test
    stages: tuple = ()
    overrides: tuple = ()
    warmup: float = 0.5       # epochs
    iterations: int = 0       # 0: as the task's epochs say
    ranks: int = 1
    part: int = 0             # 0: the task's
    epochs: float = 0         # 0: the task's

    def settings(self):
        kept = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "task"}
        kept |= {"fields": dict(self.fields), "solver": SOLVER, "net": checksum(self.task.net), "task": self.task.name, "data": self.task.data,
                 "epochs": self.epochs or self.task.epochs, "part": self.part or self.task.part}
        return json.loads(json.dumps(kept))

    def key(self):
        """The same for arms of several questions that train alike under other names."""
        decides = {name: value for name, value in self.settings().items() if name != "arm"}
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]

    def name(self):
        return re.sub(r"[^A-Za-z0-9]+", "_", self.arm).strip("_") + "_" + self.key()

    def length(self, images):
        return self.iterations or max(2, round((self.epochs or self.task.epochs) * images / self.batch))

    def images(self):
        return self.length(self.task.images) * self.batch


@functools.cache
def checksum(net):
    return hashlib.sha256(pathlib.Path(net).read_bytes()).hexdigest()[:12]


def entries(database):
    return json.loads((database / "moka.json").read_text(encoding="utf-8"))["entries"]


def batch_of_tests(records):
    """The largest batch of at most 1,000 that takes each record once."""
    return max(n for n in range(1, min(records, 1000) + 1) if records % n == 0)


LIBC = ctypes.CDLL(None)


def ends_with_its_parent():
    LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: a training whose study is killed stops, too


class Lab:
    """Where trainings run: the program, the data, the runs, and when to stop."""

    def __init__(self, moka, folder, runs, limit=None, threads=1, keep=False):
        self.moka, self.folder, self.runs, self.threads, self.keep = moka, folder, runs, threads, keep
        self.deadline = time.monotonic() + limit if limit else None
        self.is_stopped = threading.Event()
        self.lock = threading.Lock()
        self.children = set()

    def left(self):
        return self.deadline - time.monotonic() if self.deadline else None

    def stops(self):
        return self.is_stopped.is_set() or (self.deadline is not None and self.left() < 1)

    def stop(self, *_):
        self.is_stopped.set()
        for child in list(self.children):
            child.terminate()

    def told(self, *words):
        return subprocess.run([self.moka, *words], capture_output=True, text=True, check=True).stdout

    def machine(self):
        facts, version = json.loads(self.told("device", "--json")), self.told("version")
        return {k: facts[k] for k in ("cpu", "isa", "cores", "threads", "memory_bytes", "onednn")} | {
            "version": version.splitlines()[0], "threads_of_a_training": self.threads}

    def split(self, task):
        """The training set's nine tenths and the held-out tenth."""
        parts = self.folder / "data" / task.data / "large_batch"
        with self.lock:
            if not (parts / "val/moka.json").exists() or not (parts / "train/moka.json").exists():
                by_class = ["--by-class"] if task.by_class else []
                subprocess.run([self.moka, "data", "split", str(parts.parent / "train"), "--parts", "train=0.9,val=0.1",
                                "--out", str(parts), *by_class, "--quiet"], check=True)
        return parts

    def command(self, training):
        """The solver's fields and the overrides of the net."""
        task, parts = training.task, self.split(training.task)
        iterations = training.length(entries(parts / "train"))
        part = min(training.part or task.part, training.batch)
        fields = SOLVER | dict(training.fields) | {
            "net": str(task.net), "max_iter": iterations, "random_seed": training.seed,
            "iter_size": training.batch // (part * training.ranks), "display": max(1, iterations // 100),
            "warmup_iter": round(training.warmup * iterations / (training.epochs or task.epochs)),
            "snapshot": max(1, iterations // 4)}
        overrides = [f'layer[0].data_param.source="{parts / "train"}"',
                     f"layer[0].data_param.batch_size={part * training.ranks}"]
        if training.on != "none":
            test = parts / "val" if training.on == "val" else self.folder / "data" / task.data / task.test
            of_tests = batch_of_tests(entries(test))
            fields |= {"test_iter": 1 if training.iterations else entries(test) // of_tests,
                       "test_interval": iterations, "test_initialization": False}
            overrides += [f'layer[1].data_param.source="{test}"', f"layer[1].data_param.batch_size={of_tests}"]
        return fields, overrides + list(training.overrides)

    def train(self, training):
        """The row of a training; None where it was stopped before its end."""
        fields, overrides = self.command(training)
        name = training.name()
        self.runs.mkdir(parents=True, exist_ok=True)
        earlier = sorted(self.runs.glob(f"{name}-[0-9]*"))
        flags = ["--threads", str(self.threads), "--device", "cpu", "--quiet"]
        if self.deadline:
            flags += ["--max-time", f"{max(1, int(self.left()))}s"]
        begin = time.time()
        code, said = None, ""
        if earlier:
            code, said = self.run(["train", "--resume", str(earlier[-1]), *flags])
            if code not in (FINISHED, DIVERGED, STOPPED) and not self.stops():
                code = None
        if code is None:
            for run in earlier:
                shutil.rmtree(run)
            solver = self.runs / f"{name}.prototxt"
            lines = [f"{k}: {v if k == 'solver_data_type' else json.dumps(v)}\n" for k, v in fields.items()]
            solver.write_text("".join(lines), encoding="utf-8")
            ranks = ["--ranks", str(training.ranks)] if training.ranks > 1 else []
            stages = ["--stage", ",".join(training.stages)] if training.stages else []
            code, said = self.run(["train", str(solver), "--runs", str(self.runs), "--run", name, *ranks, *stages,
                                   *flags, *overrides])
        if code == STOPPED or self.stops() and code not in (FINISHED, DIVERGED):
            return None
        if code not in (FINISHED, DIVERGED):
            raise RuntimeError(f"{training.arm}: moka ended with {code}:\n{said[-3000:]}")
        (run,) = sorted(self.runs.glob(f"{name}-[0-9]*"))
        return row_of(training, run, fields, code, time.time() - begin)

    def run(self, words):
        with self.lock:
            if self.is_stopped.is_set():
                return STOPPED, ""
            child = subprocess.Popen([self.moka, *words], cwd=self.folder, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                                     preexec_fn=ends_with_its_parent)
            self.children.add(child)
        if self.is_stopped.is_set():  # the signal came between the question above and here
            child.terminate()
        said = child.communicate()[0]
        self.children.discard(child)
        return child.returncode, said

    def forget(self, key):
        """The run of a training whose row is written."""
        for path in [] if self.keep else self.runs.glob(f"*_{key}*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def earlier_seconds(run, lines):
    """What sessions before the last one took, from their starts to their last lines."""
    sessions = json.loads((run / "run.json").read_text(encoding="utf-8")).get("sessions", [])
    starts = [datetime.datetime.fromisoformat(s["start"].replace("Z", "+00:00")).timestamp() for s in sessions]
    return sum(max([line["time"] for line in lines if begin <= line.get("time", 0) < end], default=begin) - begin
               for begin, end in zip(starts, starts[1:]))


def records_of(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # a kill cut it
            continue


def row_of(training, run, fields, code, seconds):
    lines = list(records_of(run / "metrics.jsonl"))
    tests = [line for line in lines if line.get("split", "").startswith("test") and line["iter"] == fields["max_iter"]]
    losses = {line["iter"]: line["loss"] for line in lines if line.get("split") == "train" and "loss" in line}
    scales = [line["loss_scale"] for line in lines if "loss_scale" in line]
    done = max([line["iter"] for line in lines], default=0) if code == DIVERGED else fields["max_iter"]
    row = {"key": training.key(), "settings": training.settings(), "solver": {k: fields[k] for k in sorted(fields)
                                                                              if k != "net"},
           "state": "finished" if code == FINISHED else "diverged",
           "accuracy": tests[-1]["accuracy"] if tests and code == FINISHED else None,
           "test_loss": tests[-1]["loss"] if tests and code == FINISHED else None,
           "iterations": fields["max_iter"], "images": done * training.batch,
           "seconds": round(seconds + earlier_seconds(run, lines), 1),
           "losses": thinned([[i, round(losses[i], 7)] for i in sorted(losses)], 20)}
    if scales:
        row["loss_scale"] = scales[-1]
    if "spread" in training.stages:
        row["spread"] = thinned(spread_of(run / "log.txt"), 50)
    return row


def thinned(rows, most):
    """Every n-th of the rows and the last, so that about `most` are left."""
    step = -(-len(rows) // most)
    return [row for i, row in enumerate(rows) if i % step == 0 or i == len(rows) - 1] if rows else []


def spread_of(log):
    """Rows [iteration, pool5's mean, deviation, mean of the largest hundredth, the same of what fc6 is given]."""
    rows, found = {}, {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        output = re.search(r"Train net output #\d+: ((?:pool5|fed)_\w+) = (\S+)", line)
        if output:
            found[output[1]] = float(output[2])
        iteration = re.search(r"Iteration (\d+), lr =", line)  # it ends an iteration's lines
        if iteration and len(found) == 6:
            row = [int(iteration[1])]
            for blob in ("pool5", "fed"):
                mean = found[f"{blob}_mean"]
                row += [mean, round(max(0.0, found[f"{blob}_square"] - mean * mean) ** 0.5, 6), found[f"{blob}_top"]]
            rows[row[0]] = row
            found = {}
    return [[round(value, 5) for value in rows[i]] for i in sorted(rows)]

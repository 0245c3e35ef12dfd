"""Steps parity and training: whole nets on the GPU beside the CPU, and trainings to an accuracy."""

import concurrent.futures
import json
import math

from steps import data_sets
from steps.session import PRECISIONS, StepError, metrics, train

# Largest |gpu - cpu| / |cpu| of the losses of six steps from the same weights on the same batches, by precision. The CPU
# computes float32. Rounding: 2^-24 a sum of float32, 2^-9 a value of bfloat16, 2^-12 of float16; steps carry it on.
PARITY = {"float32": 2e-3, "tf32": 1e-2, "bfloat16": 5e-2, "float16": 2e-2}
INFERENCE = 1e-3  # |gpu - cpu| of a test's loss and accuracy, float32, relative or absolute

# Trainings: solver, data, overrides, the least accuracy, and how far half types may stay behind float32.
LENET = ("models/lenet/solver.prototxt", "digits",
         ["max_iter=2000", "test_interval=2000", "test_initialization=false", "base_lr=0.05"], 0.985, 0.005)
# A part of CIFAR-10: 15,000 pictures for 12 epochs, a goal the recipe leaves behind well before its end.
RESNET20 = ("models/cifar10_resnet20/solver_12epoch.prototxt", "pictures",
            ["max_iter=1404", "warmup_iter=117", "test_iter=[20]", "test_interval=1404"], 0.60, 0.04)
REHEARSED = ("models/lenet/solver.prototxt", "digits",
             ["layer[0].data_param.batch_size=8", "layer[1].data_param.batch_size=20", "max_iter=24", "test_interval=24",
              "test_initialization=false", "test_iter=[3]", "base_lr=0.02"], 0.05, 1)  # it runs: more would take minutes


def side_by_side(body, precisions):
    """None of them is timed."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(body, precisions))


def databases(session, kind):
    return data_sets.digits(session)[:2] if kind == "digits" else data_sets.pictures(session)


def first_losses(session, name, words):
    folder = train(session, name, [*words, "max_iter=6", "display=1", "average_loss=1", "random_seed=7",
                                   "test_interval=1000", "test_initialization=false"])
    lines = metrics(folder, "train")
    if len(lines) < 6:
        raise StepError(f"{len(lines)} lines in metrics.jsonl, six were wanted")
    return folder, [line["loss"] for line in lines]


def difference(ours, theirs):
    """The largest relative difference; infinite where a loss is not finite, which metrics.jsonl writes as null."""
    if any(value is None or not math.isfinite(value) for value in [*ours, *theirs]):
        return math.inf
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs))


def parity(session):
    """The first losses of trainings, and a test, on both devices."""
    nets = [("lenet", "digits", PRECISIONS), ("cifar10_quick", "pictures", ["float32", "tf32"]),
            ("cifar10_resnet20", "pictures", PRECISIONS)]
    for net, kind, precisions in nets[:1] if session.is_rehearsal else nets:
        try:
            words = [f"models/{net}", *data_sets.sources(*databases(session, kind))]
            if session.is_rehearsal:
                words.append("layer[0].data_param.batch_size=8")
            run, cpu = first_losses(session, f"{net}-cpu", [*words, "--device=cpu"])
        except StepError as error:
            session.add("parity", net, str(error), "", False)
            continue

        def compare(precision, net=net, words=words, cpu=cpu):
            what = f"{net} {precision}, six steps against the CPU"
            try:
                flags = [f"--device={session.device}", f"--precision={precision}"]
                _, gpu = first_losses(session, f"{net}-{precision}", [*words, *flags])
                gap = difference(gpu, cpu)
                session.facts.setdefault("parity", {})[f"{net} {precision}"] = {"cpu": cpu, "gpu": gpu}
                session.add("parity", what, f"{gap:.2e} relative", f"<= {PARITY[precision]:g}", gap <= PARITY[precision])
            except StepError as error:
                session.add("parity", what, str(error), "", False)

        side_by_side(compare, precisions)
        inference(session, net, run)


def inference(session, net, run):
    """moka test of the CPU's checkpoint on both devices."""
    try:
        both = [numbers(json.loads(session.run_moka("test", str(run), f"--device={device}", "--iterations", "4", "--json",
                                                    "--quiet")))
                for device in (session.device, "cpu")]
        if not both[0] or both[0].keys() != both[1].keys():
            raise StepError(f"the tests print {sorted(both[0])} and {sorted(both[1])}")
        gap = max(abs(value - both[1][key]) / max(1, abs(both[1][key])) for key, value in both[0].items())
        session.add("parity", f"{net} float32, moka test", f"{gap:.2e}", f"<= {INFERENCE:g}", gap <= INFERENCE)
    except (StepError, ValueError) as error:
        session.add("parity", f"{net} float32, moka test", str(error), "", False)


def numbers(json_value, name=""):
    """The losses and accuracies of a JSON, by their path."""
    if isinstance(json_value, dict):
        return {k: v for key, value in json_value.items() for k, v in numbers(value, f"{name}/{key}").items()}
    is_wanted = any(word in name for word in ("loss", "accuracy")) and isinstance(json_value, (int, float))
    return {name: float(json_value)} if is_wanted else {}


def training(session):
    """LeNet and ResNet-20 to an accuracy in every precision."""
    for solver, kind, overrides, least, behind in [REHEARSED] if session.is_rehearsal else [LENET, RESNET20]:
        net, reached = solver.split("/")[1], {}
        words = [solver, *data_sets.sources(*databases(session, kind)), *overrides, f"--device={session.device}"]

        def reach(precision, net=net, words=words, reached=reached):
            try:
                folder = train(session, f"{net}-train-{precision}", [*words, f"--precision={precision}"])
                accuracy = [value for line in metrics(folder, "test") for key, value in line.items()
                            if "accuracy" in key and value is not None]
                reached[precision] = accuracy[-1] if accuracy else "no test accuracy in metrics.jsonl"
            except StepError as error:
                reached[precision] = str(error)

        side_by_side(reach, PRECISIONS[:2] if session.is_rehearsal else PRECISIONS)
        for precision, value in sorted(reached.items(), key=lambda item: PRECISIONS.index(item[0])):
            full = reached["float32"]
            bound = max(least, full - behind) if isinstance(full, float) and precision != "float32" else least
            is_number = isinstance(value, float)
            session.add("training", f"{net} {precision}", f"{value:.4f} test accuracy" if is_number else value,
                        f">= {bound:.4f}", is_number and value >= bound)
        session.facts.setdefault("accuracy", {})[net] = {k: v for k, v in reached.items() if isinstance(v, float)}

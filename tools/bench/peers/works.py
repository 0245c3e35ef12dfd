"""What tools/bench/compare measures: the networks, their peers' ways to run them, and the ratios asked for."""

import os

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
TUNED = {"LD_PRELOAD": JEMALLOC, "MALLOC_CONF": "thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1"}
SEQ2SEQ = {"items": 1280, "unit": "target tokens/s", "moka": ["solver.momentum=0", "solver.weight_decay=0"]}

DCGAN = {"items": 64, "moka": ["--then", "tools/bench/nets/dcgan/discriminator.prototxt", "solver.type=Adam",
                               "solver.base_lr=0.0002", "solver.momentum=0.5", "solver.weight_decay=0"]}

# Net, mode, batch, the ratio to the best peer to be reached, and what is special; own: the ratio to Moka's OWN.
ROWS = [
    ("resnet50", "train", 32, 1.55, {}),
    ("resnet50", "train", 16, 1.45, {}),
    ("resnet50", "infer", 32, 1.35, {}),
    ("resnet50", "infer", 1, 1.15, {}),
    ("vgg16", "train", 16, 1.8, {}),
    ("vgg16", "infer", 16, 1.8, {}),
    ("alexnet_bn", "train", 64, 1.15, {}),
    ("alexnet_bn", "infer", 32, 1.2, {}),
    ("alexnet", "train", 64, 1.45, {}),
    ("cifar10_resnet20", "train", 128, 1.45, {}),
    ("cifar10_resnet20", "infer", 128, 1.4, {}),
    ("dcgan", "train", 64, 1.3, DCGAN),
    ("unet", "train", 4, 1.8, {}),
    ("unet", "infer", 4, 1.6, {}),
    ("seq2seq", "train", 64, 1.2, SEQ2SEQ),
    ("seq2seq", "infer", 64, 1.1, SEQ2SEQ),
    ("lenet", "train", 64, 4.0, {"beside": "caffe"}),
    ("alexnet", "train", 32, 2.2, {"beside": "caffe"}),
    ("googlenet", "train", 16, 2.2, {"beside": "caffe"}),
    ("resnet50", "train", 8, 2.2, {"beside": "caffe"}),
    ("resnet50", "train", 32, 2.0, {"beside": "bfloat16", "own": 2.5}),
    ("resnet50", "train", 16, 2.0, {"beside": "bfloat16", "own": 2.5}),
    ("resnet50", "infer", 32, 1.5, {"beside": "bfloat16", "own": 3.0}),
    ("resnet50", "infer", 1, 1.3, {"beside": "bfloat16"}),
    ("vgg16", "train", 16, 1.8, {"beside": "bfloat16"}),
    ("alexnet_bn", "train", 64, 1.8, {"beside": "bfloat16"}),
    ("cifar10_resnet20", "train", 128, 2.0, {"beside": "bfloat16"}),
    ("cifar10_resnet20", "infer", 128, 1.5, {"beside": "bfloat16"}),
    ("dcgan", "train", 64, 1.8, {**DCGAN, "beside": "bfloat16"}),
    ("unet", "train", 4, 1.8, {"beside": "bfloat16"}),
    ("seq2seq", "train", 64, 1.5, {**SEQ2SEQ, "beside": "bfloat16"}),
    ("seq2seq", "infer", 64, 1.5, {**SEQ2SEQ, "beside": "bfloat16"}),
    ("resnet50", "infer", 32, 1.5, {"beside": "int8", "own": 1.3}),
    ("resnet50", "infer", 1, 1.5, {"beside": "int8", "own": 1.3}),
]

# By what products multiply: the contender of Moka's own that takes part, and its words.
OWN = {"bfloat16": ("moka float32", []), "int8": ("moka bfloat16", ["--precision", "bfloat16"])}

# What to_target.py trains: model and solver, the program, its data below data/peers by the flags that take them, the
# recipe's words, and how the data are made. Eager in channels_last is the fastest way of training on CPUs that was
# measured for these nets (docs/performance.md).
CIFAR = ({"--train": "cifar10_jpeg_train.tar.gz", "--test": "cifar10_jpeg_test.tar.gz"},
         "link the two archives that tools/data/get cifar10-jpeg imports")
BCCD = ({"--data": "bccd_trainval.tar"}, "link the archive that tools/data/get bccd reads")
CLOTHING = ({"--train": "clothing/train", "--validation": "clothing/validation"},
            "moka data export data/clothing/train writes one, data/clothing/validation the other")
MULTI30K = ({"--data": "multi30k"}, "link data/multi30k, which tools/data/get multi30k makes")
MNIST = "put the four files there that tools/data/get mnist imports"
FAST_MNIST = ["--lr", "0.4", "--warmup-start-lr", "0.01", "--warmup", "375", "--iterations", "1876",
              "--test-interval", "469"]
FAST_MULTI30K = ["--epochs", "1.5", "--lr", "0.004", "--min-lr", "0.0001", "--warmup", "60", "--ema-decay", "0.995",
                 "--test-interval", "85"]
HE = ["--lr", "0.1", "--warmup", "0", "--weight-decay", "1e-4", "--iterations", "64000", "--steps", "32000,48000"]
TARGETS = {
    "babi_memn2n/solver": ("babi_torch.py", {"--data": "babi_en.tar.gz"}, [],
                           "link the archive that tools/data/get babi reads"),
    "bccd_ssd/solver": ("ssd_torch.py", BCCD[0], [], BCCD[1]),
    "bccd_ssd/solver_fast": ("ssd_torch.py", BCCD[0], ["--iterations", "384", "--warmup", "50", "--test-interval", "64"],
                             BCCD[1]),
    "lenet/solver": ("mnist_torch.py", {"--data": "mnist"}, [], MNIST),
    "cifar10_fast/solver": ("fast_torch.py", CIFAR[0], [], CIFAR[1]),
    "mnist_fast/solver": ("fast_torch.py", {"--digits": "mnist"}, FAST_MNIST, MNIST),
    "cifar10_resnet20/solver": ("cifar_torch.py", CIFAR[0], HE, CIFAR[1]),
    "cifar10_resnet20/solver_12epoch": ("cifar_torch.py", CIFAR[0], [], CIFAR[1]),
    "cifar10_resnet56/solver": ("cifar_torch.py", CIFAR[0], ["--blocks", "9", *HE], CIFAR[1]),
    "clothing_resnet/solver": ("clothing_torch.py", CLOTHING[0], [], CLOTHING[1]),
    "clothing_resnet/solver_fast": ("clothing_torch.py", CLOTHING[0], ["--workers", "1", "--ema-decay", "0.995"], CLOTHING[1]),
    "multi30k_attention/solver": ("translate_torch.py", MULTI30K[0], [], MULTI30K[1]),
    "multi30k_attention/solver_fast": ("translate_torch.py", MULTI30K[0], FAST_MULTI30K, MULTI30K[1]),
}


def find(net, mode, batch, beside=None):
    """The table's row, or one made up for a work that is not in it."""
    rows = [row for row in ROWS if row[:2] == (net, mode) and row[4].get("beside") in (None, beside)]
    rows.sort(key=lambda row: row[4].get("beside") != beside)
    for row in rows:
        if batch in (None, row[2]):
            required = row[3] if row[4].get("beside") == beside else None
            return (net, mode, row[2], required, {**row[4], "beside": beside})
    special = SEQ2SEQ if net == "seq2seq" else {}
    return (net, mode, batch or 32, None, {**special, "beside": beside})


def torch_variants(net, mode, factors=None):
    """Name: words for torch_bench.py, whether the allocator is tuned."""
    if factors == "int8":  # nets of convolutions, whose integers only compiling joins
        return {} if net == "seq2seq" else {f"torch {layout} compile": (["--layout", layout, "--way", "compile"], True)
                                            for layout in ("nchw", "cl")}
    if net == "seq2seq":
        ways = ["eager", "sparse", "compile"] if mode == "train" else ["eager", "compile"]
        return {f"torch {way}": (["--way", way], True) for way in ways}
    variants = {"torch default": ([], False)}
    for layout in ("nchw", "cl"):
        ways = ["eager", "compile"] + (["jit"] if mode == "infer" else [])
        for way in ways:
            variants[f"torch {layout} {way}"] = (["--layout", layout, "--way", way], True)
    return variants


def exported_variants(factors=None):
    """Name: the runtime and further words for exported_bench.py."""
    if factors == "int8":
        return {f"onnxruntime {kind}": ["onnxruntime", "--activations", kind] for kind in ("uint8", "int8")}
    return {} if factors else {runtime: [runtime] for runtime in ("onnxruntime", "opencv", "ncnn")}


def environment(threads, tuned):
    values = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
              "MKL_NUM_THREADS": str(threads)}
    if tuned and os.path.exists(JEMALLOC):
        values.update(TUNED)
    return values

"""The commands that a model is taken through, and how its net is made small enough for them."""

import dataclasses
import json
import pathlib
import re

from . import made_data

VERBS = ("train", "resume", "test", "infer", "generate", "time", "bench", "quantise", "convert", "model", "data")

# Pictures of nets that are too large here at their own size; the net must permit others.
SMALL = {
    "deeplab50": ["layer[*].transform_param.crop_size=64", "layer[1].record_data_param.height=64",
                  "layer[1].record_data_param.width=64"],
    "faster_rcnn_r50_fpn": ["layer[*].record_data_param.canvas_height=256",
                            "layer[*].record_data_param.canvas_width=256",
                            "layer[*].transform_param.resize_short=160"],
    "fcn8s": ["layer[*].record_data_param.height=64", "layer[*].record_data_param.width=64"],
    "isbi_unet": ["layer[0].transform_param.crop_size=64"],
    "nuclei_mask_rcnn": ["layer[0].transform_param.crop_size=128", "layer[1].record_data_param.canvas_height=320",
                         "layer[1].record_data_param.canvas_width=320"],
    "unet": ["layer[*].record_data_param.height=316", "layer[*].record_data_param.width=316"],
}
SMALL["mask_rcnn_r50_fpn"] = SMALL["faster_rcnn_r50_fpn"]

# Nets whose frozen statistics come from another model's training.
STARTS_FROM = {"faster_rcnn_r50_fpn": "resnet50_v15", "mask_rcnn_r50_fpn": "resnet50_v15"}

# Nets that say themselves how large each map is, and take one picture a rank.
ONE_PICTURE = {"segnet"}

# What a rank of a net of 140 million weights may take: a step, a test net and a checkpoint hold eight copies of them.
MEMORY_GIB = {"vgg16": 4.6, "vgg19": 4.6}

# Nets that diverge at their recipe's rate in three iterations of a few made-up pictures.
SLOWER = {"vgg16", "vgg19"}

# What is read from files of texts and numbers has no colour.
COLOURLESS = {"auto_mpg", "wine_quality", "babi", "multi30k", "multi30k-english"}


WITHOUT_DATA = "none"  # a working folder that has no data/


class Model:
    """A folder of the zoo."""

    def __init__(self, folder):
        self.folder, self.name = str(folder), folder.name
        self.net = pathlib.Path(folder, "train_val.prototxt").read_text(encoding="utf-8")
        card = pathlib.Path(folder, "model.prototxt").read_text(encoding="utf-8")
        self.task = re.search(r"^task: (\w+)", card, re.MULTILINE).group(1)

        self.solver = pathlib.Path(folder, "solver.prototxt").read_text(encoding="utf-8")
        expected = json.loads(pathlib.Path(folder, "expected.json").read_text(encoding="utf-8"))
        self.macs = expected["macs"]
        deploy = pathlib.Path(folder, "deploy.prototxt")
        self.has_deploy = deploy.exists()

    def has_pictures(self):
        return not any(source.split("/")[1] in COLOURLESS for source in made_data.sources(self.net))

    def kind(self):
        """Of the pictures that the net is made for."""
        return "grey" if "data/mnist/" in self.net else "colour"

    def overrides(self, batch):
        """Smaller pictures and batches, those that a generator draws its noise for with them."""
        changes = [*SMALL.get(self.name, []), f"layer[*].data_param.batch_size={batch}"]
        if "random_noise_param" in self.net:
            changes.append(f"layer[*].random_noise_param.shape.dim[0]={batch}")
        return changes


    def overrides_of_inference(self, batch):
        """The same for the net that `time` and `bench` take for inference."""
        if self.has_deploy:
            return [f"layer[*].input_param.shape[0].dim[0]={batch}"]
        return self.overrides(batch)


@dataclasses.dataclass
class Step:
    name: str
    kind: str
    words: list
    ranks: int = 1
    holds: bool = False

    def done(self, holds):
        self.holds = holds


def is_whole(options):
    """Whether nothing is left out of the sweep."""
    everything = ([1, 2, 3], list(made_data.KINDS), list(VERBS))
    return options.largest_mmac is None and (options.ranks, options.kinds, options.verbs) == everything


def trainings(model, options):
    """(kind, ranks): every kind of pictures by the fewest ranks, and one kind by each other number of ranks."""
    if not model.has_pictures():
        return [("colour", ranks) for ranks in options.ranks]
    few, more = options.ranks[0], options.ranks[1:]
    return [(kind, few) for kind in options.kinds] + [
        (model.kind() if model.kind() in options.kinds else options.kinds[0], ranks) for ranks in more]


def start_of(model, maker, kind):
    """The words that give the model what its training starts from, and the step that makes it, if there is one."""
    if model.name not in STARTS_FROM:
        return [], None
    first = Model(pathlib.Path(model.folder).parent / STARTS_FROM[model.name])
    maker(kind).make(first.net)
    run = f"start-{first.name}"
    return ["--weights", f"{run}-0001@last"], Step(f"train {first.name}", kind, [
        "train", first.folder, *first.overrides(2), "max_iter=1", "test_iter=[1]", "--run", run])


def steps_of(model, maker, options):
    """Yields the steps; each must be done before the next is asked for."""
    if "bench" in options.verbs:
        yield from without_data(model, maker)
    started = {}  # by kind: whether there is a run to start from
    for kind, ranks in trainings(model, options):
        maker(kind).make(model.net)
        batch = ranks if model.name in ONE_PICTURE else max(2, ranks)
        run = f"{model.name}-{ranks}-{kind}"
        start, first = start_of(model, maker, kind)
        if first and kind not in started and "train" in options.verbs:
            yield first
            started[kind] = first.holds
        if not started.get(kind, True):
            start = []
        few = ["sample_grid.count=2"] if "sample_grid" in model.solver else []
        few += ["warmup_iter=1"] if "policy_after_warmup" in model.solver else []
        rate = ["base_lr=0.001"] if model.name in SLOWER else []
        train = Step(f"train ranks={ranks}", kind, [
            "train", model.folder, *model.overrides(batch), *few, *rate, "max_iter=2", "test_iter=[2]", "test_interval=2",
            "snapshot=2", "display=1", "--run", run, "--ranks", str(ranks),
            *start], ranks)
        if "train" in options.verbs:
            yield train
            if train.holds and "resume" in options.verbs:
                yield Step(f"resume ranks={ranks}", kind, ["train", f"--resume=runs/{run}-0001", "max_iter=3"],
                           ranks)
        if ranks == options.ranks[0] and kind == (model.kind() if model.has_pictures() else "colour"):
            yield from after_training(model, maker(kind), kind, f"runs/{run}-0001" if train.holds else None, options)


def without_data(model, maker):
    """What can be said of a net whose data are not there."""
    maker(WITHOUT_DATA)
    for mode in ("train", "infer"):
        yield Step(f"bench {mode} dry", WITHOUT_DATA, ["bench", "model", model.folder, f"--{mode}", "--dry-run"])


def after_training(model, maker, kind, run, options):
    """What is done with a net, and with a run of it unless `run` is None."""
    def wanted(verb):
        return verb in options.verbs

    batch = 1 if model.name in ONE_PICTURE else 2
    changes = model.overrides(batch)
    if run and wanted("test"):
        yield Step("test", kind, ["test", run])
    if run and wanted("infer"):
        yield Step("infer", kind, ["infer", run, *maker.inputs(model)])
    if run and wanted("generate"):
        yield Step("generate", kind, ["generate", run, "--count", "3", "--out", f"{model.name}.png"])
    if run and wanted("quantise"):
        ranges = f"{model.name}.int8.json"
        quantised = Step("quantise", kind, ["quantise", run, "--batches", "2", "--iterations", "1", "--out", ranges])
        yield quantised
        if quantised.holds:
            yield Step("test int8", kind, ["test", run, "--int8", ranges, "--iterations", "1"])
            yield Step("infer int8", kind, ["infer", run, *maker.inputs(model), "--int8", ranges])
    if wanted("time"):
        for phase, few in (("TRAIN", changes), ("TEST", model.overrides_of_inference(batch))):
            yield Step(f"time {phase}", kind, ["time", model.folder, *few, "--phase", phase, "--iterations", "1",
                                               "--warmup", "0"])
    if wanted("bench"):
        for mode, few in (("train", changes), ("infer", model.overrides_of_inference(batch))):
            yield Step(f"bench {mode}", kind, ["bench", "model", model.folder, *few, f"--{mode}", "--iterations", "1",
                                               "--warmup", "0"])
        yield Step("bench data", kind, ["bench", "data", model.folder, "--iterations", "2", "--warmup", "0"])
    if run and wanted("convert"):
        yield from conversions(model, kind, run)
    if wanted("model"):
        yield Step("model show", kind, ["model", "show", model.folder])
        yield Step("model draw", kind, ["model", "draw", model.folder, f"{model.name}.dot"])
        yield Step("model expand", kind, ["model", "expand", model.folder, f"{model.name}.prototxt"])
    if wanted("data"):
        yield Step("data preview", kind, ["data", "preview", model.folder, "--out", f"{model.name}_preview.png",
                                          "--records", "2", "--epochs", "2"])


def conversions(model, kind, run):
    """The run's weights in every format, each tested in the run's net."""
    for form in ("safetensors", "caffemodel", "caffemodel.h5"):
        to = Step(f"convert {form}", kind, ["model", "convert", f"{run}@last", f"{model.name}.{form}"])
        yield to
        if to.holds:
            yield Step(f"test {form}", kind, ["test", run, "--weights", f"{model.name}.{form}", "--iterations", "1"])
    yield Step("convert solverstate", kind, ["model", "convert", f"{run}@last", f"{model.name}.solverstate"])

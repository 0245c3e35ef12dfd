"""The questions of the study: what trains for each, what is compared, and what is still to be trained.

An arm is one way of training: a task, a batch, fields of the solver. Its tuned field takes each of `values` on the
held-out tenth with seed 1; where the best lies at an end of them, the next value beyond it is tried, up to `beyond`
times. Then the best trains with every seed and is tested once on the test part.
"""

import dataclasses

from trainings import ALEXNET, CLOTHING, MNIST, RESNET20, Task, Training

TUNING_SEED = 1


@dataclasses.dataclass(frozen=True)
class Arm:
    name: str
    task: Task
    batch: int
    values: tuple = ()        # of the tuned field, ascending; empty: `source` has the value
    field: str = "base_lr"
    fields: tuple = ()        # of the solver, pairs
    source: tuple = ()        # (name of an arm, factor): its tuned value times the factor
    beyond: int = 4
    factor: float = 2         # from a value at the end to the next
    mark: str = ""            # the arm it is compared with
    series: str = ""          # the line or colour in the figure
    warmup: float = 0.5
    stages: tuple = ()
    overrides: tuple = ()
    epochs: float = 0

    def training(self, value, seed, on):
        return Training(self.task, self.name, self.batch, self.fields + ((self.field, value),), seed, on,
                        stages=self.stages, overrides=self.overrides, warmup=self.warmup, epochs=self.epochs)


@dataclasses.dataclass(frozen=True)
class Question:
    name: str
    letter: str
    asks: str
    arms: tuple = ()
    seeds: int = 3
    figure: str = "dots"      # or "curves": accuracy over the batch; "spread": dots, and pool5 over iterations

    def arm(self, name):
        return next(arm for arm in self.arms if arm.name == name)


class Progress:
    """What is known of a question's arms from the rows that there are."""

    def __init__(self, question, rows, seeds, tiny=False):
        self.question, self.rows, self.seeds, self.tiny = question, rows, seeds, tiny

    def training(self, arm, value, seed, on):
        training = arm.training(value, seed, on)
        if self.tiny:
            training = dataclasses.replace(training, batch=min(arm.batch, 2 * arm.task.part), iterations=2)
        return training

    def row(self, arm, value, seed, on):
        return self.rows.get(self.training(arm, value, seed, on).key())

    def tried(self, arm):
        """The values of an arm that are to be tried, and whether more may follow."""
        values = list(arm.values)
        if len(values) == 1 or self.tiny:
            return values[:1], False
        for _ in range(arm.beyond):
            best = self.best(arm, values)
            if best is None:
                return values, True
            if best == values[0]:
                values.insert(0, float(f"{values[0] / arm.factor:.6g}"))
            elif best == values[-1]:
                values.append(float(f"{values[-1] * arm.factor:.6g}"))
            else:
                break
        return values, False

    def best(self, arm, values):
        if len(values) == 1:
            return values[0]
        rows = [self.row(arm, value, TUNING_SEED, "val") for value in values]
        if None in rows:
            return None
        return max(zip(values, rows), key=lambda pair: pair[1]["accuracy"] or 0)[0]

    def chosen(self, arm):
        """The value that an arm is tested with; None: not known yet."""
        if arm.source:
            value = self.chosen(self.question.arm(arm.source[0]))
            return None if value is None else float(f"{value * arm.source[1]:.6g}")
        values, grows = self.tried(arm)
        return None if grows else self.best(arm, values)

    def wanted(self):
        """Trainings whose rows are missing and that are known to be needed; tests of the first seed come first."""
        tuning, final = [], []
        for arm in self.question.arms:
            values = self.tried(arm)[0] if arm.values else []
            if len(values) > 1:
                tuning += [self.training(arm, value, TUNING_SEED, "val") for value in values]
            value = self.chosen(arm)
            if value is not None:
                final += [self.training(arm, value, seed, "test") for seed in range(1, self.seeds + 1)]
        final.sort(key=lambda training: training.seed)
        missing = {t.key(): t for t in tuning + final if t.key() not in self.rows}
        return list(missing.values())

    def planned(self):
        """All trainings without a value beyond the ends, and how many such values there may be more."""
        trainings, more = [], 0
        for arm in self.question.arms:
            values = [1.0] if self.tiny or not arm.values else arm.values
            if len(values) > 1:
                trainings += [self.training(arm, value, TUNING_SEED, "val") for value in values]
                more += arm.beyond
            trainings += [self.training(arm, values[0], seed, "test") for seed in range(1, self.seeds + 1)]
        return trainings, more


def rounded(value):
    return float(f"{value:.2g}")


def by_root(batch, at_64):
    """A rate that grows with the square root of the batch."""
    return rounded(at_64 * (batch / 64) ** 0.5)


def sgd(task, batch, name="", **more):
    """SGD whose rate is tuned."""
    first = by_root(batch, 0.025)
    return Arm(name or f"SGD, {batch:,}", task, batch, tuple(rounded(first * k) for k in (1, 2, 4)),
               **{"series": "SGD"} | more)


def lars(task, batch, name="", kind="LARS", fields=(), **more):
    """LARS whose coefficient is tuned at a fixed rate, which parameters without a layer's rate take."""
    return Arm(name or f"LARS, {batch:,}", task, batch, **{
        "values": (0.03, 0.06, 0.12), "field": "lars_eta", "series": "LARS",
        "fields": (("type", kind), ("base_lr", by_root(batch, 0.05))) + fields} | more)


CLOTHING_FIELDS = (("weight_decay", 0.002),)


def decay():
    arms = []
    for make, batch, label, fields in ((sgd, 256, "SGD, 256", ()), (lars, 2048, "LARS, 2,048", ()),
                                       (sgd, 256, "SGD, 256, decay 0.005", (("weight_decay", 0.005),))):
        one = make(ALEXNET, batch, f"{label}: all", series="decay on all")
        one = dataclasses.replace(one, fields=one.fields + fields)
        arms += [dataclasses.replace(one, fields=one.fields + (("decay_skip_bias_and_norm", False),)),
                 dataclasses.replace(one, name=f"{label}: weights alone", series="decay on weights alone",
                                     mark=one.name)]
    return Question("decay", "a", "Decay on weights alone or on all parameters", tuple(arms), seeds=5)


def pool5():
    arms = []
    for make, kind, batch in ((sgd, "SGD", 2048), (lars, "LARS", 2048), (lars, "LARS", 8192)):
        without = f"{kind}, {batch:,}: none"
        arms += [make(ALEXNET, batch, without, series="none after pool5", stages=("spread",)),
                 make(ALEXNET, batch, f"{kind}, {batch:,}: normalised", series="normalised after pool5",
                      stages=("bn5", "spread"), mark=without)]
    return Question("pool5", "b", "A normalisation after pool5", tuple(arms), figure="spread")


def float16():
    full = lars(ALEXNET, 1024, "float32", series="float32", epochs=3)
    halves = [Arm(f"float16, {masters} masters, {scaled} loss scaling", dataclasses.replace(ALEXNET, rate=1200), 1024,
                  field="lars_eta", source=(full.name, 1), mark=full.name, series=f"{masters} masters", epochs=3,
                  fields=full.fields + (("precision", "float16"), ("loss_scale", scale)) + kept)
              for masters, kept in (("without", (("solver_data_type", "FLOAT16"),)), ("with", ()))
              for scaled, scale in (("no", 1), ("with", 0))]
    return Question("float16", "c", "LARS in float16", (full, *halves))


def rates():
    """Rates of larger batches from the tuned one of 256, and tuned ones."""
    base = sgd(ALEXNET, 256, "tuned, 256", series="tuned")
    arms = [base]
    for batch in (1024, 4096):
        growth = batch / 256
        arms += [sgd(ALEXNET, batch, f"tuned, {batch:,}", series="tuned", mark=base.name)]
        arms += [Arm(f"{rule}, {batch:,}", ALEXNET, batch, source=(base.name, factor), series=rule, mark=arms[-1].name)
                 for rule, factor in (("linear", growth), ("square root", growth ** 0.5))]
    return Question("rates", "d", "Linear, square-root and tuned rates of SGD", tuple(arms), figure="curves")


def warmup():
    arms = []
    for make, kind, batch in ((sgd, "SGD", 1024), (lars, "LARS", 2048)):
        one = make(ALEXNET, batch, f"{kind}, {batch:,}: 0.5 epochs")
        arms += [one]
        arms += [dataclasses.replace(one, name=f"{kind}, {batch:,}{label}: {epochs} epoch{'s' if epochs != 1 else ''}",
                                     values=(), warmup=epochs, source=(one.name, factor), mark=one.name)
                 for factor, label, lengths in ((1, "", (0, 1, 2)), (2, ", twice the value", (0, 0.5, 1)))
                 for epochs in lengths]
    return Question("warmup", "d", "Lengths of the warm-up", tuple(arms))


def forms():
    batch = 2048
    plain = lars(ALEXNET, batch, "LARS")
    layers = tuple(pair for pair in plain.fields if pair[0] != "type")
    arms = [plain] + [dataclasses.replace(plain, name=name, field=field, values=values, series=name, mark=plain.name,
                                          fields=layers + fields)
                      for name, field, values, fields in (
                          ("LARC, scale", "larc_eta", (0.3, 0.6, 1.2), (("larc", True), ("larc_policy", "scale"))),
                          ("LARC, clip", "larc_eta", (0.15, 0.3, 0.6), (("larc", True), ("larc_policy", "clip"))),
                          ("local_lr_auto", "local_gw_ratio", (0.03, 0.06, 0.12), (("local_lr_auto", True),)))]
    arms += [Arm("LAMB", ALEXNET, batch, (0.005, 0.01, 0.02), series="LAMB", mark=plain.name,
                 fields=(("type", "LAMB"), ("weight_decay", 0.01), ("delta", 1e-6))),
             sgd(ALEXNET, batch, "SGD", mark=plain.name)]
    return Question("forms", "d", "Forms of layers' rates at 2,048", tuple(arms))


def gamma():
    """ResNet-20's scales start at 1 as its text has it, the clothing net's at 0: such arms share rows with `limit_...`."""
    arms = []
    for make, kind, batch in ((sgd, "SGD", 1024), (lars, "LARS", 1024)):
        one = make(RESNET20, batch, f"ResNet-20, {kind}, {batch:,}: 1", series="gamma 1")
        arms += [one, dataclasses.replace(one, name=f"ResNet-20, {kind}, {batch:,}: 0", series="gamma 0", mark=one.name,
                                          overrides=("layer[res*_conv2_scale].scale_param.filler.value=0",))]
    one = sgd(CLOTHING, 128, "clothing, SGD, 128: 1", series="gamma 1", fields=CLOTHING_FIELDS,
              overrides=("layer[res*_conv2_scale].scale_param.filler.value=1",))
    arms += [one, dataclasses.replace(one, name="clothing, SGD, 128: 0", series="gamma 0", mark=one.name, overrides=())]
    return Question("gamma", "e", "Gamma 0 at the end of residual branches", tuple(arms))


def smoothing():
    """The clothing net smooths as its text has it, so that arm shares its rows with `limit_clothing`."""
    none, smoothed = (f"layer[loss].loss_param.label_smoothing={value}" for value in (0, 0.1))
    arms = []
    for one, overrides in ((sgd(ALEXNET, 256, "SGD, 256: none"), (smoothed,)),
                           (lars(ALEXNET, 2048, "LARS, 2,048: none"), (smoothed,)),
                           (sgd(CLOTHING, 32, "clothing, SGD, 32: none", fields=CLOTHING_FIELDS, overrides=(none,)), ())):
        arms += [dataclasses.replace(one, series="none"),
                 dataclasses.replace(one, name=one.name.replace("none", "0.1"), series="smoothing 0.1", mark=one.name,
                                     overrides=overrides)]
    return Question("smoothing", "f", "Labels smoothed by 0.1", tuple(arms), seeds=5)


def limit():
    mark = "SGD, 64"
    arms = [make(ALEXNET, batch, mark="" if make is sgd and batch == 64 else mark)
            for batch in (64, 512, 2048, 4096, 8192) for make in (sgd, lars)]
    return Question("limit", "g", "Where accuracy first falls: AlexNet-BN", tuple(arms), figure="curves")


def limit_resnet20():
    """Both ways at 1,024 are those of `gamma` whose scales start at 1: their rows are taken from there."""
    mark = "SGD, 128"
    arms = [sgd(RESNET20, 128)] + [make(RESNET20, batch, mark=mark) for batch in (1024, 4096) for make in (sgd, lars)]
    return Question("limit_resnet20", "g", "Where accuracy first falls: ResNet-20", tuple(arms), figure="curves")


def limit_clothing():
    mark = "SGD, 32"
    arms = [dataclasses.replace(arm, fields=arm.fields + CLOTHING_FIELDS)
            for batch in (32, 128, 512) for make in (sgd, lars)
            for arm in [make(CLOTHING, batch, mark="" if make is sgd and batch == 32 else mark)]]
    return Question("limit_clothing", "g", "Where accuracy first falls: clothing", tuple(arms), seeds=5,
                    figure="curves")


def mnist():
    """The first study: a net without normalisation, no value beyond the ends, LARS at one rate."""
    task = dataclasses.replace(MNIST, part=1 << 20)
    arms = [Arm("SGD, 64", task, 64, (0.05, 0.1), beyond=0, warmup=0, series="SGD")]
    for batch in (2048, 4096):
        arms += [Arm(f"SGD, {batch:,}", task, batch, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8), beyond=0, mark="SGD, 64",
                     series="SGD", warmup=1),
                 Arm(f"LARS, {batch:,}", task, batch, (0.1, 0.2, 0.4), "lars_eta", beyond=0, mark="SGD, 64",
                     series="LARS", warmup=1, fields=(("type", "LARS"), ("base_lr", 0.4)))]
    return Question("mnist", "", "SGD and LARS on MNIST", tuple(arms), figure="curves")


QUESTIONS = {make.__name__: make() for make in (decay, pool5, float16, rates, warmup, forms, gamma, smoothing, limit,
                                                limit_resnet20, limit_clothing, mnist)}


def named(word):
    """The questions of a name or a letter."""
    found = [q for q in QUESTIONS.values() if word in (q.name, q.letter)]
    if not found:
        raise SystemExit(f"no question {word!r}; there are agreement, "
                         + ", ".join(f"{q.name} ({q.letter})" if q.letter else q.name for q in QUESTIONS.values()))
    return found

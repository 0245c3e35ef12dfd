"""What the sweep expects to be refused: combinations that make no sense, each with a part of its error.

A row that nothing meets is a failure of the whole sweep, so that none outlives its reason.
"""

import dataclasses
import fnmatch


@dataclasses.dataclass
class Refusal:
    models: str  # a pattern of names, or several with |
    steps: str   # the same
    kinds: str
    text: str    # a part of the error
    met: bool = dataclasses.field(default=False, compare=False)


def matches(patterns, name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split("|"))


NO_PICTURES = "auto_mpg|wine_quality|babi_*|word2vec|multi30k_*"

EXPECTED = [
    Refusal("*", "generate", "*", "is no generator"),
    Refusal(NO_PICTURES, "data preview", "*", "are no pictures of 1 or 3 channels"),
    # Deconvolutions and inner products alone.
    Refusal(NO_PICTURES + "|mnist_autoencoder|*gan*", "quantise", "*", "has no convolutions to run on 8-bit integers"),
    Refusal("*gan*", "train ranks=[23]", "*", "training by several ranks does not work with turn"),
    Refusal("*", "convert solverstate", "*", "Caffe has no solver of type"),
    # Colour in a net of 784 outputs.
    Refusal("mnist_autoencoder", "train*", "colour|mixed", "must be as many as the inputs"),
]


def is_expected(row):
    for refusal in EXPECTED:
        if (matches(refusal.models, row.model) and matches(refusal.steps, row.step) and
                matches(refusal.kinds, row.kind) and refusal.text in row.err):
            refusal.met = True
            return True
    return False

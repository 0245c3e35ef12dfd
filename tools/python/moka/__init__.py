"""Moka from Python.

    net = moka.Net("deploy.prototxt", moka.TEST, weights="trained.caffemodel")
    net.blobs["data"].data[...] = images
    probabilities = net.forward()["prob"]

    result = moka.train("solver.prototxt", max_iter=1000)

`import moka.caffe as caffe` is pycaffe's interface to the same nets and solvers.
"""

import os as _os
from numbers import Real as _Real

from ._errors import Error
from ._team import bounded_spin as _bounded_spin

try:
    with _bounded_spin():
        from ._moka import __version__, layer_type_list, set_log_level, set_random_seed
except ModuleNotFoundError as error:
    if error.name != __name__ + "._moka":
        raise
    import sys
    raise ImportError(
        "moka's compiled module is not there for Python {}.{}: in Moka's source tree run `tools/build release "
        "moka_python`, then PYTHONPATH=build/release/python; or `pip install --no-build-isolation ./tools/python`"
        .format(*sys.version_info)) from None

from ._moka import train as _train
from .caffe import (AdaDeltaSolver, AdaGradSolver, AdamSolver, Layer, Net, NesterovSolver, RMSPropSolver, SGDSolver,
                    get_solver)
from .caffe.io import Transformer
from .caffe.net_spec import NetSpec, layers, params, to_proto
from .caffe.pycaffe import TEST, TRAIN, Blob, Solver

__all__ = [
    "AdaDeltaSolver", "AdaGradSolver", "AdamSolver", "Blob", "Error", "Layer", "Net", "NesterovSolver", "NetSpec",
    "RMSPropSolver", "SGDSolver", "Solver", "TEST", "TRAIN", "Transformer", "get_solver", "layer_type_list", "layers",
    "params", "set_log_level", "set_random_seed", "to_proto", "train",
]


def _text(value):
    """A value as an override writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if getattr(value, "ndim", 0):  # an array
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    # 3.0 is an integer for fields that take one; floats beyond are none that a text of digits would keep short.
    if isinstance(value, _Real) and abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return str(value)


def _texts(words):
    """A list of words, or of paths; one of them alone is a list of one."""
    return [str(word) for word in ([words] if isinstance(words, (str, _os.PathLike)) else words)]


def train(solver_file, overrides=(), weights=(), save=None, **fields):
    """Trains with the compiled trainer, the one of `moka train`, and returns how it went.

    fields     fields of the solver that replace the file's: max_iter=1000, base_lr=0.01
    overrides  changes to the net, as on the command line: "layer[ip1].inner_product_param.num_output=64", or a list
    weights    a file of first weights, or a list
    save       a .safetensors or .caffemodel file for the trained weights

    The result is a dict: end, iteration, loss, best, best_iteration, best_metric and tests, the last means of each test
    net by output.
    """
    solver_overrides = ["{}={}".format(name, _text(value)) for name, value in fields.items()]
    return _train(solver_file, solver_overrides, _texts(overrides), _texts(weights), save)

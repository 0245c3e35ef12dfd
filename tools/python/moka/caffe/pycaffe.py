"""Nets and solvers with pycaffe's methods.

The methods are put on the C++ class Net itself, so that nets a solver made have them too.
"""

import os
import time
import warnings
from collections import OrderedDict
from itertools import zip_longest

import numpy as np

from .._moka import Blob, Layer, Net, Solver, __version__, layer_type_list, log, set_random_seed
from .._moka import refuse_gpu as _refuse_gpu
from .._moka import set_log_level as _set_log_level
from .._moka import solver_type as _solver_type
from .io import refuse_masked

TRAIN = 0
TEST = 1


# ---- Net ----

def _kept(name, make):
    """A property that is made once for each net."""
    def get(self):
        if name not in self.__dict__:
            self.__dict__[name] = make(self)
        return self.__dict__[name]
    return property(get)


def _names_by_layer(ids):
    """Layer name -> names of its blobs, in the net's order."""
    def make(net):
        names = net._blob_names
        return OrderedDict((layer, [names[k] for k in ids(net, i)]) for i, layer in enumerate(net._layer_names))
    return make


def _params(net):
    return OrderedDict((name, layer.blobs) for name, layer in zip(net._layer_names, net.layers) if len(layer.blobs))


def _layer_index(net, name):
    names = list(net._layer_names)
    if name not in names:
        raise ValueError("the net has no layer {!r}; its layers are {}".format(name, ", ".join(names)))
    return names.index(name)


def _real(name, array):
    """The array, if it holds real numbers: what numpy would read from strings or cut off is refused."""
    refuse_masked(repr(name), array)
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError("{!r} holds {}, expected real numbers".format(name, array.dtype))
    return array


def _without_ones(shape):
    """The dimensions other than 1, in order: arrays of equal ones hold the same values in the same order."""
    return tuple(n for n in shape if n != 1)


def _fill(net, arrays, expected, attribute, what):
    """Writes arrays into blobs: exactly the expected ones, all of them or none, each of the blob's shape but for 1s."""
    if set(arrays) != set(expected):
        raise Exception("{} do not match: given {}, the net has {}".format(what, sorted(arrays), sorted(expected)))
    arrays = {name: _real(name, array) for name, array in arrays.items()}
    for name, array in arrays.items():
        shape = tuple(net.blobs[name].shape)
        if _without_ones(array.shape) != _without_ones(shape):
            raise ValueError("{!r} has the shape {} and the blob {}: reshape the array, or the blob and the net".format(
                name, array.shape, shape))
    for name, array in arrays.items():
        blob = getattr(net.blobs[name], attribute)
        blob[...] = array.reshape(blob.shape)


def _forward(self, blobs=None, start=None, end=None, **kwargs):
    """Runs layers start to end (all of them by default) and returns {blob name: values}.

    kwargs give the values of every input; `blobs` names blobs to return beside the net's outputs, or beside the tops
    of layer `end`.
    """
    first = 0 if start is None else _layer_index(self, start)
    last = len(self._layer_names) - 1 if end is None else _layer_index(self, end)
    wanted = (self.outputs if end is None else self.top_names[end]) + list(blobs or [])
    if kwargs:
        _fill(self, kwargs, self.inputs, "data", "Input blob arguments and net inputs")
    self._forward(first, last)
    return {name: self.blobs[name].data for name in dict.fromkeys(wanted)}


def _tell_zeros(net, given, asked, layers):
    """Warns of gradients that are given and read by no layer, and of those asked for that none makes."""
    made = {net._blob_names[k] for i in layers for k in net._gradient_ids(i)}
    # The last layer to write a blob is the first to read its gradient.
    writer = {net._blob_names[k]: i for i in sorted(layers) if net._bottom_ids(i) for k in net._top_ids(i)}
    # All outputs have to be given: zeros for an accuracy, say, say nothing.
    unread = [name for name in given if np.any(given[name]) and name in writer and not net._visits(writer[name])]
    seeds = {net._blob_names[k] for k in net._top_ids(max(layers, default=0))} | set(net.outputs)
    unmade = [name for name in asked if name not in made and name not in seeds]
    if unread:
        warnings.warn("backward: no layer reads the gradient of {}, as nothing before it is trained by a loss: "
                      "force_backward: true in the net makes gradients of all".format(", ".join(unread)), stacklevel=3)
    elif unmade:
        warnings.warn("backward: no layer makes the gradient of {}, which stays as it is (zeros at first): "
                      "force_backward: true in the net makes it".format(", ".join(unmade)), stacklevel=3)


def _backward(self, diffs=None, start=None, end=None, **kwargs):
    """Runs the backward pass from layer start down to end and returns {blob name: gradient}.

    kwargs give the gradients of every output; `diffs` names blobs to return beside the net's inputs, or beside the
    bottoms of layer `end`.
    """
    first = len(self._layer_names) - 1 if start is None else _layer_index(self, start)
    last = 0 if end is None else _layer_index(self, end)
    wanted = (self.inputs if end is None else self.bottom_names[end]) + list(diffs or [])
    if kwargs:
        _fill(self, kwargs, self.outputs, "diff", "Top diff arguments and net outputs")
    if kwargs or diffs:
        _tell_zeros(self, kwargs, wanted if kwargs else list(diffs), range(last, first + 1))
    self._backward(first, last)
    return {name: self.blobs[name].diff for name in dict.fromkeys(wanted)}


def _batches(self, arrays):
    """Cuts arrays into batches of the net's size; the last one is filled up with zeros."""
    for name, array in arrays.items():
        refuse_masked(repr(name), array)
    count = _row_count(arrays)
    size = next(iter(self.blobs.values())).shape[0]
    for begin in range(0, count, size):
        batch = {name: np.asarray(array[begin:begin + size]) for name, array in arrays.items()}
        missing = size - min(size, count - begin)
        if missing:
            batch = {name: np.concatenate([part, np.zeros((missing,) + part.shape[1:], part.dtype)])
                     for name, part in batch.items()}
        yield batch


def _joined(parts, count):
    """Lists of batches as arrays, without the rows that only fill up."""
    return {name: np.concatenate(batches)[:count] if batches else np.asarray(batches)
            for name, batches in parts.items()}


def _row_count(arrays):
    """The rows that all arrays have. ValueError if they differ, or if there is no array to count them."""
    counts = {name: len(array) for name, array in arrays.items()}
    if not counts:
        raise ValueError("no array is given, so there is nothing to cut into batches: forward() runs one batch")
    if len(set(counts.values())) > 1:
        raise ValueError("the arrays differ in their rows: {}".format(
            ", ".join("{!r} has {}".format(name, count) for name, count in counts.items())))
    return next(iter(counts.values()))


def _forward_all(self, blobs=None, **kwargs):
    """forward() in batches over inputs of any length; returns {blob name: values of all}."""
    count = _row_count(kwargs)
    parts = {name: [] for name in dict.fromkeys(self.outputs + list(blobs or []))}
    for batch in self._batch(kwargs):
        for name, values in self.forward(blobs=blobs, **batch).items():
            parts[name].append(np.atleast_1d(values.copy()))
    return _joined(parts, count)


def _forward_backward_all(self, blobs=None, diffs=None, **kwargs):
    """forward() and backward() in batches; returns ({blob name: values}, {blob name: gradient})."""
    count = _row_count(kwargs)
    values = {name: [] for name in dict.fromkeys(self.outputs + list(blobs or []))}
    gradients = {name: [] for name in dict.fromkeys(self.inputs + list(diffs or []))}
    inputs = {name: kwargs[name] for name in self.inputs if name in kwargs}
    outputs = {name: kwargs[name] for name in self.outputs if name in kwargs}
    forward = self._batch(inputs) if inputs else iter(())
    backward = self._batch(outputs) if outputs else iter(())
    for forward_batch, backward_batch in zip_longest(forward, backward, fillvalue={}):
        for name, array in self.forward(blobs=blobs, **forward_batch).items():
            values[name].append(np.atleast_1d(array.copy()))
        for name, array in self.backward(diffs=diffs, **backward_batch).items():
            gradients[name].append(np.atleast_1d(array.copy()))
    return _joined(values, count), _joined(gradients, count)


def _set_input_arrays(self, data, labels):
    """Gives the samples of a net whose first layer is MemoryData: data [n,C,H,W] and labels [n], float32."""
    refuse_masked("data", data)
    refuse_masked("labels", labels)
    return self._set_input_arrays(data, np.ascontiguousarray(labels.reshape(labels.shape[0], -1)))


Net.blobs = _kept("_blobs_dict", lambda net: OrderedDict(zip(net._blob_names, net._blobs)))
Net.blob_loss_weights = property(lambda net: OrderedDict(zip(net._blob_names, net._blob_loss_weights)))
Net.layer_dict = _kept("_layer_dict_", lambda net: OrderedDict(zip(net._layer_names, net.layers)))
Net.params = _kept("_params_dict", _params)
Net.inputs = _kept("_input_list", lambda net: [net._blob_names[i] for i in net._inputs])
Net.outputs = _kept("_output_list", lambda net: [net._blob_names[i] for i in net._outputs])
Net.top_names = _kept("_top_names", _names_by_layer(lambda net, i: net._top_ids(i)))
Net.bottom_names = _kept("_bottom_names", _names_by_layer(lambda net, i: net._bottom_ids(i)))
Net.forward = _forward
Net.backward = _backward
Net.forward_all = _forward_all
Net.forward_backward_all = _forward_backward_all
Net.set_input_arrays = _set_input_arrays
Net._batch = _batches


# ---- solvers ----

class _TypedSolver(Solver):
    """A solver of one type, whatever the file says."""

    _type = ""

    def __init__(self, solver_file):
        Solver.__init__(self, solver_file, self._type)


class SGDSolver(_TypedSolver):
    """SGD with momentum."""

    _type = "SGD"


class NesterovSolver(SGDSolver):
    """Nesterov's accelerated gradient."""

    _type = "Nesterov"


class AdaGradSolver(SGDSolver):
    """AdaGrad."""

    _type = "AdaGrad"


class RMSPropSolver(SGDSolver):
    """RMSProp."""

    _type = "RMSProp"


class AdaDeltaSolver(SGDSolver):
    """AdaDelta."""

    _type = "AdaDelta"


class AdamSolver(SGDSolver):
    """Adam."""

    _type = "Adam"


_SOLVERS = {solver._type: solver for solver in (SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver, AdaDeltaSolver,
                                                AdamSolver)}


def get_solver(solver_file):
    """The solver of the type that the file names."""
    kind = _SOLVERS.get(_solver_type(solver_file))
    return kind(solver_file) if kind else Solver(solver_file)


# ---- the process ----

def init_log(level=0, stderr=True):
    """Messages below the level (0: information, 1: warnings, 2: errors) are not shown."""
    _set_log_level(level)


def set_mode_cpu():
    """Nets run on the CPU: the default."""


def _want_gpu():
    # Scripts that ask for a GPU without a choice can be run as they are on a machine that has none.
    if os.environ.get("MOKA_GPU_CALLS") == "cpu":
        log("set_mode_gpu and set_device are passed over (MOKA_GPU_CALLS=cpu): the nets run on the CPU")
        return
    _refuse_gpu()


def set_mode_gpu():
    """Raises moka.Error: these nets run on the CPU only. With MOKA_GPU_CALLS=cpu in the environment it does nothing."""
    _want_gpu()


def set_device(device):
    """Raises moka.Error, as set_mode_gpu does: there is no GPU to choose."""
    _want_gpu()


_parallel = {"count": 1, "rank": 0, "multiprocess": False}


def solver_count():
    """How many solvers train together: 1, but for what set_solver_count said."""
    return _parallel["count"]


def set_solver_count(count):
    """More than one solver would need NCCL."""
    if count != 1:
        raise NotImplementedError("moka.caffe trains with one solver; several ranks train with `moka launch`")


def solver_rank():
    """Which of the solvers this process is."""
    return _parallel["rank"]


def set_solver_rank(rank):
    """Only rank 0 is there."""
    if rank != 0:
        raise NotImplementedError("moka.caffe trains with one solver, of rank 0")


def set_multiprocess(multiprocess):
    """Remembered; with one solver it changes nothing."""
    _parallel["multiprocess"] = bool(multiprocess)


def has_nccl():
    """Whether solvers can be joined by NCCL: never here."""
    return False


class NCCL:
    """Not offered: raises NotImplementedError."""

    def __init__(self, *args):
        raise NotImplementedError("moka.caffe has no NCCL; several ranks train with `moka launch`")

    @staticmethod
    def new_uid():
        """Not offered either."""
        raise NotImplementedError("moka.caffe has no NCCL; several ranks train with `moka launch`")


class Timer:
    """Wall time between start() and stop()."""

    def __init__(self):
        self._begin = time.perf_counter()
        self._seconds = 0.0

    def start(self):
        """Begins."""
        self._begin = time.perf_counter()

    def stop(self):
        """Ends."""
        self._seconds = time.perf_counter() - self._begin

    @property
    def ms(self):
        """Milliseconds between the two."""
        return self._seconds * 1000

"""pycaffe's interface: public pycaffe scripts run with `import moka.caffe as caffe`."""

from . import io
from .classifier import Classifier
from .detector import Detector
from .net_spec import NetSpec, layers, params, to_proto
from .pycaffe import (NCCL, TEST, TRAIN, AdaDeltaSolver, AdaGradSolver, AdamSolver, Layer, Net, NesterovSolver,
                      RMSPropSolver, SGDSolver, Timer, __version__, get_solver, has_nccl, init_log, layer_type_list, log,
                      set_device, set_mode_cpu, set_mode_gpu, set_multiprocess, set_random_seed, set_solver_count,
                      set_solver_rank, solver_count, solver_rank)


def __getattr__(name):
    # caffe.proto without an import of its own, as pycaffe has it; only then is Python's protobuf needed.
    if name == "proto":
        import importlib
        return importlib.import_module(".proto", __name__)
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))

"""The messages of caffe.proto (NetParameter, SolverParameter, Datum, ...) under Caffe's module name."""

try:
    import google.protobuf as _protobuf  # noqa: F401
except ImportError as error:
    raise ImportError("moka.caffe.proto needs Python's protobuf: install python3-protobuf, or `pip install protobuf`"
                      ) from error

from moka.proto import common_pb2 as _common
from moka.proto import forks_pb2 as _forks
from moka.proto import moka_pb2 as _moka

for _module in (_common, _forks, _moka):
    for _name, _value in vars(_module).items():
        if not _name.startswith("_"):
            globals()[_name] = _value

DESCRIPTOR = _moka.DESCRIPTOR

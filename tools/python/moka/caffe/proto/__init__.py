"""caffe.proto: see caffe_pb2."""


def __getattr__(name):
    if name == "caffe_pb2":
        import importlib
        return importlib.import_module(".caffe_pb2", __name__)
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))

"""The cases that ONNX itself tests its engines with, as models for `moka import`: each op with values that go in and those
that must come out. Further inputs are weights in one form of a case, as in files of trained nets."""

import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

OPSETS = range(11, 23)  # those that Moka reads
# Where ONNX's values are not those of its engines: ONNX Runtime and PyTorch take whole sizes for align_corners.
DIFFER = {"test_resize_downsample_scales_linear_align_corners"}
FOUR_DIGITS = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}  # of the values that must come out


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def is_half(model):
    halves = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    types = {port.type.tensor_type.elem_type for port in (*model.graph.input, *model.graph.output)}
    casts = {attribute.i for node in model.graph.node for attribute in node.attribute if node.op_type == "Cast"}
    return bool((types | casts) & set(halves))


def with_weights(model, values):
    """The model whose inputs behind the first are constants of the file."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for port, value in list(zip(model.graph.input, values))[1:]:
        tensor = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), port.name)
        tensor.name = port.name
        made.graph.initializer.append(tensor)
    del made.graph.input[1:]
    return made


def cases():
    """Name, model, values in and out by name, and what the values may differ by, of their largest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        if case.model is None or not case.data_sets or case.name in DIFFER:
            continue
        given, wanted = case.data_sets[0]
        try:
            made = {port.name: array(value) for port, value in zip(case.model.graph.output, wanted)}
            first = {port.name: array(value) for port, value in zip(case.model.graph.input, given)}
            made = {name: np.ascontiguousarray(value, np.float32) for name, value in made.items()}
            first = {name: np.ascontiguousarray(value, np.float32) for name, value in first.items()}
        except (ValueError, TypeError):
            continue  # sequences, words
        most = 1e-2 if is_half(case.model) else 1e-3 if case.name in FOUR_DIGITS else 1e-5
        opset = next((one.version for one in case.model.opset_import if one.domain == ""), 0)
        if opset in OPSETS:
            yield case.name, case.model, first | made, most
        if len(given) > 1 and len(given) == len(case.model.graph.input):
            # Of later opsets, too: most ops of theirs only take more types than they did.
            model = with_weights(case.model, given)
            for one in model.opset_import:
                one.version = min(one.version, OPSETS[-1]) if one.domain == "" else one.version
            model.ir_version = min(model.ir_version, 10)
            name = model.graph.input[0].name
            yield f"{case.name}, with weights", model, {name: first[name]} | made, most

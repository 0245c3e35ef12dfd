"""Small ONNX models for tests: graphs of every op that `moka import` reads, with their inputs, and files that it must
refuse."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DRAW = np.random.default_rng(3)


def floats(*shape, low=-0.5, high=0.5):
    return DRAW.uniform(low, high, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def node(op, inputs, outputs="y", **attributes):
    return helper.make_node(op, inputs.split(" "), outputs.split(" "), **attributes)


def model(nodes, inputs, outputs=("y",), constants=None, opset=17, ir=8, types=None, metadata=None):
    """A model of these nodes. `inputs`: name to shape; `types`: of inputs that are no floats."""
    types = types or {}
    given = [helper.make_tensor_value_info(name, types.get(name, FLOAT), shape) for name, shape in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    held = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    made_model = helper.make_model(helper.make_graph(nodes, "graph", given, made, held),
                                   opset_imports=[helper.make_opsetid("", opset)], ir_version=ir, producer_name="test")
    for key, value in (metadata or {}).items():
        entry = made_model.metadata_props.add()
        entry.key, entry.value = key, value
    return made_model


IMAGE = ("N", 4, 9, 7)


def unary(op, low=-2.0, **attributes):
    return model([node(op, "x", **attributes)], {"x": IMAGE}), {"low": low}


def binary(op, shape=IMAGE, constant=None, swapped=False, **attributes):
    """Of two inputs, or of an input and a constant."""
    if constant is None:
        return model([node(op, "x b", **attributes)], {"x": IMAGE, "b": shape}), {"low": 0.1}
    return model([node(op, "b x" if swapped else "x b", **attributes)], {"x": IMAGE}, constants={"b": constant}), {"low": 0.1}


def window(op, shape=(4, 9, 7), opset=17, **attributes):
    return model([node(op, "x", **attributes)], {"x": ("N", *shape)}, opset=opset), {}


def convolution(op, weight, bias=None, shape=(4, 9, 7), **attributes):
    held = {"w": weight} | ({} if bias is None else {"b": bias})
    return model([node(op, " ".join(["x", *held]), **attributes)], {"x": ("N", *shape)}, constants=held), {}


def moved(op, *lists, shape=(4, 6, 5), opset=17, outputs="y", **attributes):
    """An op whose further inputs are lists of whole numbers."""
    held = {f"l{i}": ints(*values) for i, values in enumerate(lists)}
    names = outputs.split(" ")
    return model([node(op, " ".join(["x", *held]), outputs, **attributes)], {"x": ("N", *shape)}, names, held, opset), {}


def resized(mode, place, scales=None, sizes=None, **attributes):
    held, names = {}, "x   "
    if scales:
        held, names = {"s": np.array([1, 1, *scales], np.float32)}, "x  s"
    if sizes:
        held, names = {"s": np.array([1, 4, *sizes], np.int64)}, "x   s"
    batch = "N" if scales else 1
    return model([node("Resize", names, mode=mode, coordinate_transformation_mode=place, **attributes)],
                 {"x": (batch, 4, 9, 7)}, constants=held), {}


def chain():
    """A Reshape whose shape is computed from the input's, as PyTorch writes it."""
    nodes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "batch", axis=0),
             node("Unsqueeze", "batch axis", "first"), node("Concat", "first rest", "wanted", axis=0),
             node("Reshape", "x wanted", "y")]
    return model(nodes, {"x": ("N", 4, 6, 5)}, constants={"zero": np.array(0, np.int64), "axis": ints(0), "rest": ints(2, -1)}), {}


def class_token():
    """A constant that is repeated for each image and put in front of the others."""
    nodes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "batch"), node("Concat", "batch rest", "wanted", axis=0),
             node("Expand", "token wanted", "tokens"), node("Concat", "tokens x", "y", axis=1)]
    return model(nodes, {"x": ("N", 3, 5)}, constants={"zero": ints(0), "rest": ints(1, 5), "token": floats(1, 1, 5)}), {}


def gelu(divides):
    first = node("Div", "x c", "a") if divides else node("Mul", "x c", "a")
    root = np.array(2 ** 0.5 if divides else 0.5 ** 0.5, np.float32)
    nodes = [first, node("Erf", "a", "b"), node("Add", "b one", "d"), node("Mul", "x d", "e"), node("Mul", "e half", "y")]
    return model(nodes, {"x": IMAGE}, constants={"c": root, "one": np.float32([1]), "half": np.float32([0.5])}), {"low": -2}


def layer_norm_steps():
    nodes = [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Pow", "d two", "q"),
             node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v eps", "e"), node("Sqrt", "e", "s"),
             node("Div", "d s", "n"), node("Mul", "n g", "h"), node("Add", "h b", "y")]
    held = {"two": np.float32(2), "eps": np.float32(1e-5), "g": floats(7), "b": floats(7)}
    return model(nodes, {"x": IMAGE}, constants=held, opset=13), {}


def recurrence(op, direction="forward", first=True, states=False, lengths=None, outputs="y h c", biased=True):
    """Four steps of two sequences, or with `first` of any number of them, which then come one after another."""
    gates, ways, steps, values, units = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if direction == "bidirectional" else 1, 4, 3, 5
    held = {"w": floats(ways, gates * units, values), "r": floats(ways, gates * units, units)}
    if biased:
        held["b"] = floats(ways, 2 * gates * units)
    if lengths:
        held["n"] = np.array(lengths, np.int32)
    names = outputs.split(" ")[:3 if op == "LSTM" else 2]
    given = {"x": ("N", steps, values) if first else (steps, 2, values)}
    inputs = ["t" if first else "x", "w", "r", "b" if biased else "", "n" if lengths else ""]
    if states:
        given |= {state: (ways, 2, units) for state in ("h0", "c0")[:2 if op == "LSTM" else 1]}
        inputs += list(given)[1:]
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2])] if first else []
    fields = {"linear_before_reset": 1} if op == "GRU" else {}
    nodes.append(node(op, " ".join(inputs).rstrip(" "), " ".join(names), hidden_size=units, direction=direction, **fields))
    return model(nodes, given, [name for name in names if name], held), {}


def graphs():
    """name: (model, {"low": least value of inputs, "whole": inputs of whole numbers below a number})."""
    made = {f"unary {op}": unary(op) for op in (
        "Relu", "Sigmoid", "Tanh", "Abs", "Softplus", "Exp", "HardSwish", "Neg", "Floor", "Ceil", "Sign", "Erf", "Softsign",
        "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Identity", "Dropout", "Reciprocal")}
    made |= {f"unary {op}": unary(op, low=0.1) for op in ("Log", "Sqrt")}
    made["mish"] = model([node("Mish", "x")], {"x": IMAGE}, opset=18), {"low": -2}
    made["gelu op"] = model([node("Gelu", "x")], {"x": IMAGE}, opset=20), {"low": -2}
    made["gelu tanh"] = model([node("Gelu", "x", approximate="tanh")], {"x": IMAGE}, opset=20), {"low": -2}
    made |= {"gelu by Div": gelu(True), "gelu by Mul": gelu(False), "layer norm by steps": layer_norm_steps()}
    made["swish"] = model([node("Sigmoid", "x", "s"), node("Mul", "x s")], {"x": IMAGE}), {"low": -2}
    made["swish with beta"] = model([node("Mul", "x c", "a"), node("Sigmoid", "a", "s"), node("Mul", "s x")], {"x": IMAGE},
                                    constants={"c": np.float32(1.5)}), {"low": -2}
    for low, high in ((0, 6), (-0.3, 0.4), (0, None), (None, 0.25), (-1, None)):
        held = {name: np.float32(value) for name, value in (("low", low), ("high", high)) if value is not None}
        names = f"x {'low' if low is not None else ''} {'high' if high is not None else ''}".rstrip(" ")
        made[f"clip {low} {high}"] = model([node("Clip", names)], {"x": IMAGE}, constants=held), {"low": -8}
    for shape in ((4, 1, 1), (1,), (1, 1, 7)):
        made[f"prelu {shape}"] = model([node("PRelu", "x s")], {"x": IMAGE}, constants={"s": floats(*shape)}), {}
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"):
        made[f"{op} of blobs"] = binary(op)
        made[f"{op} of channels"] = binary(op, ("N", 4, 1, 1))
        for shape in ((), (1,), (4, 1, 1), (1, 4, 1, 1), (9, 7), (7,), (1, 4, 9, 7), (9, 1), (4, 1, 7)):
            made[f"{op} with {shape}"] = binary(op, constant=floats(*shape, low=0.2, high=1.5))
        made[f"{op} with more axes"] = model([node(op, "x c")], {"x": ("N", 7)}, constants={"c": floats(1, 1, 7, low=0.2, high=1.5)}), {"low": 0.1}
        made[f"{op} of a number"] = binary(op, constant=np.float32(0.7), swapped=True)
        made[f"{op} of a constant"] = binary(op, constant=floats(4, 1, 1, low=0.2, high=1), swapped=True)
    for op in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"):
        made[op] = model([node(op, "x b", "c"), node("Cast", "c", to=FLOAT)], {"x": IMAGE}, constants={"b": np.float32(0.1)}), {}
    truths = [node("Less", "x b", "c"), node("Greater", "x d", "e"), node("Or", "c e", "f"), node("Not", "f", "g")]
    made["where"] = model([*truths, node("Where", "g x z")], {"x": IMAGE},
                          constants={"b": np.float32(-0.2), "d": np.float32(0.2), "z": np.float32(9)}), {}
    made |= {f"{op} of three": (model([node(op, "x b c")], {"x": IMAGE, "b": IMAGE, "c": IMAGE}), {}) for op in ("Sum", "Mean", "Max")}

    made["conv"] = convolution("Conv", floats(6, 4, 3, 3), floats(6), pads=[1, 1, 1, 1])
    made["conv without bias"] = convolution("Conv", floats(6, 2, 3, 2), group=2, strides=[2, 1], dilations=[1, 2])
    made["conv of sides"] = convolution("Conv", floats(6, 4, 3, 3), floats(6), pads=[0, 1, 2, 0])
    made |= {f"conv {pad}": convolution("Conv", floats(6, 4, 3, 4), floats(6), auto_pad=pad, strides=[2, 2])
             for pad in ("SAME_UPPER", "SAME_LOWER", "VALID")}
    made["conv of a line"] = convolution("Conv", floats(6, 4, 3), floats(6), (4, 9), pads=[2, 1])
    made["conv of a volume"] = convolution("Conv", floats(6, 4, 3, 2, 2), floats(6), (4, 5, 6, 7), pads=[1, 0, 0, 1, 0, 1])
    made["transposed"] = convolution("ConvTranspose", floats(4, 6, 4, 4), floats(6), strides=[2, 2], pads=[1, 1, 1, 1])
    made["transposed in groups"] = convolution("ConvTranspose", floats(4, 3, 3, 3), floats(6), group=2, strides=[2, 2],
                                               pads=[1, 1, 1, 1], output_padding=[1, 1])
    made["conv and add"] = model([node("Conv", "x w", "a"), node("Add", "a b")], {"x": IMAGE},
                                 constants={"w": floats(6, 4, 3, 3), "b": floats(6, 1, 1)}), {}
    made["pad and conv"] = model([node("Pad", "x p", "a"), node("Conv", "a w")], {"x": IMAGE},
                                 constants={"w": floats(6, 4, 3, 3), "p": ints(0, 0, 1, 0, 0, 0, 0, 2)}), {}

    for kernel, stride, pads in (((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 3), (2, 2), (1, 1, 1, 1)), ((3, 2), (2, 1), (0, 0, 0, 0)),
                                 ((3, 3), (2, 2), (0, 0, 1, 1)), ((3, 3), (2, 2), (0, 1, 1, 0))):
        for ceil in (0, 1):
            fields = {"kernel_shape": kernel, "strides": stride, "pads": pads, "ceil_mode": ceil}
            made[f"max pool {kernel} {stride} {pads} {ceil}"] = window("MaxPool", **fields)
            if pads[:2] == pads[2:]:
                made[f"mean {kernel} {stride} {pads} {ceil}"] = window("AveragePool", count_include_pad=0, **fields)
            if pads == (0, 0, 0, 0) or ceil == 0:
                made[f"mean with pads {kernel} {stride} {pads} {ceil}"] = window("AveragePool", count_include_pad=1, **fields)
    made["dilated pool"] = window("MaxPool", kernel_shape=[2, 2], dilations=[2, 2], strides=[1, 1])
    made |= {op: window(op) for op in ("GlobalAveragePool", "GlobalMaxPool")}
    made["pool of a line"] = window("MaxPool", (4, 9), kernel_shape=[3], strides=[2])

    made["gemm"] = model([node("Gemm", "x w b", transB=1)], {"x": ("N", 6)}, constants={"w": floats(5, 6), "b": floats(5)}), {}
    made["gemm turned"] = model([node("Gemm", "x w b", alpha=0.5, beta=2.0)], {"x": ("N", 6)},
                                constants={"w": floats(6, 5), "b": floats(1, 5)}), {}
    made["gemm without bias"] = model([node("Gemm", "x w", transB=1)], {"x": ("N", 6)}, constants={"w": floats(5, 6)}), {}
    made["flatten and gemm"] = model([node("Flatten", "x", "f"), node("Gemm", "f w b", transB=1)], {"x": ("N", 2, 3)},
                                     constants={"w": floats(5, 6), "b": floats(5)}), {}
    made["matmul"] = model([node("MatMul", "x w")], {"x": ("N", 3, 6)}, constants={"w": floats(6, 5)}), {}
    made["matmul and add"] = model([node("MatMul", "x w", "a"), node("Add", "b a")], {"x": ("N", 3, 6)},
                                   constants={"w": floats(6, 5), "b": floats(5)}), {}
    made["matmul of values"] = model([node("MatMul", "x b")], {"x": ("N", 2, 3, 6), "b": ("N", 2, 6, 4)}), {}
    made["matmul spread"] = model([node("MatMul", "x b")], {"x": (2, 2, 3, 6), "b": (2, 1, 6, 4)}), {}

    made |= {f"einsum {equation}": (model([node("Einsum", "x b", equation=equation)], {"x": left, "b": right}), {})
             for equation, left, right in (("bid,bjd->bij", ("N", 3, 5), ("N", 4, 5)), ("bhij, bjhd -> bihd", ("N", 2, 3, 4), ("N", 4, 2, 5)))}
    held = {"a": floats(3, 4), "w": floats(4, 5), "i": ints(2, 0, 1)}
    made["constants are multiplied"] = model([node("MatMul", "a w", "p"), node("Gather", "p i", "q"), node("Add", "x q")],
                                             {"x": ("N", 3, 5)}, constants=held), {}

    statistics = {"s": floats(4, low=0.5, high=1), "b": floats(4), "m": floats(4), "v": floats(4, low=0.5, high=1)}
    made["batch norm"] = model([node("BatchNormalization", "x s b m v", epsilon=1e-3)], {"x": IMAGE}, constants=statistics), {}
    made["layer norm"] = model([node("LayerNormalization", "x s b", epsilon=1e-6)], {"x": IMAGE},
                               constants={"s": floats(7), "b": floats(7)}), {}
    made["layer norm of planes"] = model([node("LayerNormalization", "x s b", axis=2)], {"x": IMAGE},
                                         constants={"s": floats(9, 7), "b": floats(9, 7)}), {}
    made["instance norm"] = model([node("InstanceNormalization", "x s b")], {"x": IMAGE},
                                  constants={"s": floats(4), "b": floats(4)}), {}
    made["lrn"] = window("LRN", size=3, alpha=0.5, beta=0.75, bias=2.0)
    for opset in (11, 13):
        made |= {f"softmax {axis} {opset}": window("Softmax", axis=axis, opset=opset) for axis in (1, 2, -1)}
    made["log softmax"] = window("LogSoftmax", axis=1)

    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        for axes in ((2, 3), (1,), (1, 3), (-1,)):
            for keep in (0, 1):
                opset = 13 if op == "ReduceSum" else 11
                held = {"a": ints(*axes)} if opset == 13 else {}
                fields = {} if opset == 13 else {"axes": axes}
                made[f"{op} {axes} {keep}"] = model([node(op, " ".join(["x", *held]), keepdims=keep, **fields)], {"x": IMAGE},
                                                    constants=held, opset=opset), {}
    made["mean of given axes, none otherwise"] = model([node("ReduceMean", "x a", noop_with_empty_axes=1)], {"x": IMAGE},
                                                       constants={"a": ints(2, 3)}, opset=18), {}
    made["mean of 18"] = model([node("ReduceMean", "x a")], {"x": IMAGE}, constants={"a": ints(2, 3)}, opset=18), {}

    made |= {"reshape chain": chain(), "class token": class_token()}
    made["reshape"] = moved("Reshape", (0, 2, -1))
    made["reshape of the batch"] = moved("Reshape", (-1, 5))
    made["flatten 2"] = moved("Flatten", axis=2)
    made["squeeze"] = moved("Squeeze", (2,), shape=(4, 1, 5))
    made["unsqueeze"] = moved("Unsqueeze", (1, 4))
    made["transpose"] = moved("Transpose", perm=[0, 3, 1, 2])
    made["transpose all"] = moved("Transpose", perm=[2, 0, 3, 1])
    made["slice"] = moved("Slice", (1, -3), (3, 9), (1, 3))
    made["slice by steps"] = moved("Slice", (1,), (6,), (2,), (2,))
    made["slice by three"] = moved("Slice", (1,), (6,), (2,), (3,))
    made["slice back"] = moved("Slice", (-1,), (-9,), (3,), (-1,))
    made["slice back by two"] = moved("Slice", (-1,), (-9,), (1,), (-2,))
    made["split"] = moved("Split", (1, 3), axis=1, outputs="y z")
    made["split evenly"] = moved("Split", axis=2, outputs="y z")
    made["concat"] = model([node("Concat", "x b", axis=1)], {"x": IMAGE, "b": ("N", 2, 9, 7)}), {}
    made["concat with constants"] = model([node("Concat", "b x c", axis=2)], {"x": (1, 3, 5)},
                                          constants={"b": floats(1, 3, 2), "c": floats(1, 3, 1)}), {}
    made |= {f"gather {axis}": (model([node("Gather", "x i", axis=axis)], {"x": IMAGE}, constants={"i": ints(*rows)}), {})
             for axis, rows in ((1, (2, 1, 0)), (2, (3, 4, 5)), (3, (-1, 0)))}
    made["gather one"] = model([node("Gather", "x i", axis=1)], {"x": IMAGE}, constants={"i": np.array(0, np.int64)}), {}
    made["embed"] = model([node("Gather", "t x")], {"x": ("N", 3)}, constants={"t": floats(11, 5)}, types={"x": INT64}), {"whole": 11}
    made["pad"] = moved("Pad", (0, 1, 0, 2, 0, 0, 1, 0))
    made["pad away"] = moved("Pad", (0, -1, 0, 2, 0, 0, -1, 0))
    made["tile"] = moved("Tile", (1, 2, 1, 3))
    made["expand"] = moved("Expand", (1, 4, 6, 5), shape=(4, 1, 5))
    made["depth to space"] = window("DepthToSpace", (8, 3, 2), blocksize=2)
    made["pixel shuffle"] = window("DepthToSpace", (8, 3, 2), blocksize=2, mode="CRD")
    made["space to depth"] = window("SpaceToDepth", (2, 4, 6), blocksize=2)
    for op in ("LSTM", "GRU", "RNN"):
        for way in ("forward", "reverse", "bidirectional"):
            made[f"{op} {way}"] = recurrence(op, way)
            made[f"{op} {way} of two"] = recurrence(op, way, first=False)
            made[f"{op} {way} from states"] = recurrence(op, way, first=False, states=True)
            made[f"{op} {way} of lengths"] = recurrence(op, way, first=False, lengths=[4, 2])
        made[f"{op} alone"] = recurrence(op, outputs="y", first=False, biased=False)
        made[f"{op} at its end"] = recurrence(op, "bidirectional", outputs=" h")
    made["arg max"] = model([node("ArgMax", "x", "i", axis=1), node("Cast", "i", to=FLOAT)], {"x": IMAGE}), {}
    for op in ("ArgMax", "ArgMin"):  # Floor leaves four values
        for last in (0, 1):
            made[f"{op} of equals, {'last' if last else 'first'}"] = model(
                [node("Floor", "x", "f"), node(op, "f", "i", axis=-1, select_last_index=last), node("Cast", "i", to=FLOAT)],
                {"x": IMAGE}), {}
    made["resize nearest"] = resized("nearest", "asymmetric", (2.0, 3.0), nearest_mode="floor")
    made["resize nearest, half pixels"] = resized("nearest", "half_pixel", (2.0, 3.0))
    made["resize to a size"] = resized("nearest", "half_pixel", sizes=(5, 20))
    made |= {f"resize {place}": resized("linear", place, sizes=(13, 5))
             for place in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")}
    return made


def feeds(made, batch, low=-0.5, whole=None):
    """Values for the inputs of a model."""
    draw = np.random.default_rng(1)
    values = {}
    for value in made.graph.input:
        shape = [batch if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if whole:
            values[value.name] = draw.integers(0, whole, shape)
        else:
            values[value.name] = draw.uniform(low, 2 if low < 0 else 1, shape).astype(np.float32)
    return values

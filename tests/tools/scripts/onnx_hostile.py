"""Damaged, hostile and odd ONNX files: name to (what is written beside the model, its bytes, words that the refusal
must have)."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_graphs import FLOAT, INT64, convolution, floats, ints, model, node


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def conv():
    return convolution("Conv", floats(6, 4, 3, 3), floats(6))[0]


def raw(**changes):
    """A model whose weight is changed."""
    made = conv()
    weight = made.graph.initializer[0]
    for name, value in changes.items():
        if isinstance(value, (list, tuple)):
            del getattr(weight, name)[:]
            getattr(weight, name).extend(value)
        else:
            setattr(weight, name, value)
    return made


def external(location, offset=None, length=None, size=6 * 4 * 3 * 3 * 4):
    made = conv()
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            entry = weight.external_data.add()
            entry.key, entry.value = key, str(value)
    return made


def shaped(dims, inputs=None):
    """A Reshape to any shape."""
    return model([node("Reshape", "x s")], inputs or {"x": (2, 6)}, constants={"s": ints(*dims)})


def grown(count):
    """Constants that double with each node."""
    nodes = [node("Concat", f"c{i} c{i}", f"c{i + 1}", axis=0) for i in range(count)]
    return model([*nodes, node("Add", f"x c{count}")], {"x": ("N", 4)}, constants={"c0": floats(1024, 4)})


def attribute(op, inputs="x", shape=("N", 4, 9, 7), constants=None, opset=17, **fields):
    return model([node(op, inputs, **fields)], {"x": shape}, constants=constants, opset=opset)


def wrong_type():
    made = attribute("MaxPool", kernel_shape=[2, 2])
    changed = made.graph.node[0].attribute[0]
    changed.type, changed.f = onnx.AttributeProto.FLOAT, 2.0
    return made


def subgraph(depth):
    inner = helper.make_graph([node("Identity", "x")], "inner", [], [helper.make_tensor_value_info("y", FLOAT, None)])
    for _ in range(depth):
        one = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([one], "outer", [], [helper.make_tensor_value_info("y", FLOAT, None)])
    return inner


def nested(depth):
    made = model([node("Identity", "x")], {"x": ("N", 4)})
    made.graph.node.append(helper.make_node("If", ["c"], ["z"], name="choice", then_branch=subgraph(depth)))
    made.graph.output[0].name = "z"
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, [1]))
    return made


def deep_bytes(depth):
    """Graphs in attributes in graphs, by hand."""
    payload = b""
    for _ in range(depth):
        payload = field(1, field(5, field(6, payload)))
    return b"\x08\x08" + field(7, payload)


def ports(**changes):
    made = model([node("Relu", "x")], {"x": ("N", 4)})
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def input_of(dims, kind=FLOAT):
    made = model([node("Relu", "x")], {"x": ("N", 4)})
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", kind, dims))
    return made


def with_nodes(*nodes, **more):
    return model(list(nodes), {"x": ("N", 4)}, **more)


def opsets(*versions):
    made = with_nodes(node("Relu", "x"))
    del made.opset_import[:]
    made.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in versions)
    return made


def changed(function):
    made = conv()
    function(made)
    return made


def duplicate_initializer(made):
    made.graph.initializer.append(made.graph.initializer[0])


def duplicate_attribute(made):
    made.graph.node[0].attribute.extend([helper.make_attribute("group", 1), helper.make_attribute("group", 2)])


def files():
    whole = conv().SerializeToString()
    made = {}

    def add(name, content, *words, beside=None):
        content = content if isinstance(content, bytes) else content.SerializeToString()
        made[name] = (beside or {}, content, words)

    add("empty", b"", "empty")
    add("text", b"name: \"net\"\n", "ONNX")
    add("zeros", bytes(4096), "zero bytes")
    add("zip", b"PK\x03\x04" + bytes(100), "zip")
    add("html", b"<!DOCTYPE html><html></html>", "HTML")
    add("lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "LFS")
    add("caffemodel", b"\x0a\x03net\xa2\x06\x04\x0a\x02ip", "caffemodel")
    add("png", b"\x89PNG\r\n\x1a\n" + bytes(64), "image")
    for at in (1, 2, 5, 20, len(whole) // 4, len(whole) // 2, len(whole) - 1):
        add(f"cut at {at}", whole[:at])
    for at in range(10, len(whole), max(1, len(whole) // 12)):
        add(f"byte {at} turned", whole[:at] + bytes([whole[at] ^ 0x7F]) + whole[at + 1:] + b"\xff")
    add("zero tail", whole + bytes(4096))
    add("repeated graphs", b"\x08\x08" + field(7, b"") * 2_000_000)
    add("many nodes", b"\x08\x08" + field(7, field(1, b"") * 2_000_000))
    add("many dims", b"\x08\x08" + field(7, field(5, b"\x08\x01" * 3_000_000)) + b"\x42\x02\x10\x11", "no name")
    add("a length beyond the file", b"\x08\x08\x3a\xff\xff\xff\xff\x0f")
    add("a varint without an end", b"\x08" + b"\xff" * 20)
    add("graphs in graphs", deep_bytes(5000))
    add("no graph", b"\x08\x08\x42\x02\x10\x11", "graph")
    add("no opset", opsets(), "opset")
    add("another domain", opsets(("com.example", 1)), "opset")
    add("opset 7", opsets(("", 7)), "opset 7")
    add("opset 99", opsets(("", 99)), "opset 99")
    add("two opsets", opsets(("", 11), ("ai.onnx", 13)), "two versions")
    add("format 1", ports(ir_version=1), "version 1")

    add("a negative dimension", raw(dims=[6, -4, 3, 3]), "dimension of -4")
    add("huge dimensions", raw(dims=[2 ** 40, 2 ** 40]), "2^63")
    add("a huge dimension", raw(dims=[2 ** 40]), "wants")
    add("too many axes", raw(dims=[1] * 5000), "dimensions")
    add("too few bytes", raw(raw_data=b"\0" * 100), "100 bytes")
    add("too many bytes", raw(raw_data=b"\0" * 5000), "5000 bytes")
    add("no bytes", raw(raw_data=b""), "0 bytes")
    add("of strings", raw(data_type=TensorProto.STRING), "string")
    add("of complex numbers", raw(data_type=TensorProto.COMPLEX64), "complex64")
    add("of type 77", raw(data_type=77), "type 77")
    add("of no type", raw(data_type=0), "no type")
    add("of whole numbers", raw(data_type=TensorProto.INT32), "whole numbers")
    add("values in two places", raw(float_data=[1.0] * 216), "two places")
    add("listed values too few", changed(lambda m: (m.graph.initializer[0].ClearField("raw_data"),
                                                     m.graph.initializer[0].float_data.extend([1.0] * 7))), "lists 7")
    add("a weight of other axes", raw(dims=[6, 36]), "axes")
    add("a weight of other channels", raw(dims=[8, 3, 3, 3]), "weights")
    add("a weight of NaN dims", raw(dims=[0, 4, 3, 3], raw_data=b""))
    add("a part of a tensor", changed(lambda m: setattr(m.graph.initializer[0].segment, "begin", 1)), "part")
    add("sparse tensors", changed(lambda m: m.graph.sparse_initializer.add()), "sparse")

    add("beside: missing", external("w.bin"), "w.bin")
    add("beside: parent", external("../w.bin"), "leads out")
    add("beside: inner parent", external("a/../../w.bin"), "leads out")
    add("beside: absolute", external("/etc/passwd"), "beside the model")
    add("beside: no name", external(""), "no name")
    add("beside: a folder", external("folder/"), "no name")
    add("beside: a folder's name", external("folder"), beside={"folder/x": b""})
    add("beside: nothing said", external(None), "no name")
    add("beside: a link", external("link.bin"), "leads out", beside={"link.bin": "/etc/hostname"})
    add("beside: a link's folder", external("link/passwd"), "leads out", beside={"link": "/etc"})
    add("beside: cut", external("w.bin"), "the file has", beside={"w.bin": bytes(100)})
    add("beside: offset behind", external("w.bin", offset=10 ** 12), "the file has", beside={"w.bin": bytes(5000)})
    add("beside: offset below 0", external("w.bin", offset=-4), "no number", beside={"w.bin": bytes(5000)})
    add("beside: offset of words", external("w.bin", offset="four"), "no number", beside={"w.bin": bytes(5000)})
    add("beside: length of another shape", external("w.bin", length=10), "10 bytes", beside={"w.bin": bytes(5000)})
    add("beside: huge", changed_to_huge(), "the file has", beside={"w.bin": bytes(5000)})
    add("beside: a device", external("null"), beside={"null": "/dev/zero"})

    add("a circle", with_nodes(node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")), "circle")
    add("a node of itself", with_nodes(node("Add", "x y", "y")), "circle")
    add("a value from nowhere", with_nodes(node("Add", "x nothing")), "nothing makes")
    add("an output from nowhere", with_nodes(node("Relu", "x", "z")), "nothing makes")
    add("a value made twice", with_nodes(node("Relu", "x", "a"), node("Abs", "x", "a"), node("Relu", "a")), "twice")
    add("an input made again", with_nodes(node("Relu", "x", "x"), node("Relu", "x")), "twice")
    add("two initializers of a name", changed(duplicate_initializer), "twice")
    add("an attribute twice", changed(duplicate_attribute), "twice")
    add("a node without an op", with_nodes(node("", "x")), "no op")
    add("no output", changed(lambda m: m.graph.ClearField("output")), "no output")
    add("an output twice", changed(lambda m: m.graph.output.append(m.graph.output[0])), "twice")
    add("a graph of nothing", changed(lambda m: m.graph.ClearField("node")), "nothing makes")
    add("functions of its own", changed(lambda m: m.functions.add(name="Own", domain="own")), "functions")
    add("a sequence as input", changed(lambda m: m.graph.input[0].type.CopyFrom(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [1])))), "no tensor")

    add("an input below 0", input_of([-5, 4]), "dimension of -5")
    add("an input of 0", input_of([0, 4]), "dimension of 0")
    add("a huge input", input_of([1, 2 ** 62]))
    add("an open width", input_of(["N", "width"]), "open")
    add("an input without a shape", input_of(None), "no shape")
    add("an input of strings", input_of(["N", 4], TensorProto.STRING), "string")
    add("an input of many axes", input_of([1] * 20), "dimensions")
    add("whole numbers that are added", model([node("Add", "x x")], {"x": ("N", 4)}, types={"x": INT64}), "whole numbers")

    add("a stretched shape", shaped([5, 5]), "elements")
    add("two open dimensions", shaped([-1, -1]), "open")
    add("a shape below -1", shaped([-7, 3]), "-7")
    add("a shape of 2^40", shaped([2 ** 40, 2 ** 40]))
    add("a shape that is computed", model([node("Reshape", "x s")], {"x": (2, 6), "s": (2,)}, types={"s": INT64}), "computed")
    add("constants that grow", grown(40), "memory")
    add("a constant of 2^50", model([node("ConstantOfShape", "s", "c"), node("Add", "x c")], {"x": ("N", 4)},
                                    constants={"s": ints(2 ** 25, 2 ** 25)}), "memory")
    add("a constant below 0", model([node("ConstantOfShape", "s", "c"), node("Add", "x c")], {"x": ("N", 4)},
                                    constants={"s": ints(-3)}), "-3")
    add("a range of 2^60", model([node("Range", "a b c", "r"), node("Cast", "r", "f", to=FLOAT), node("Add", "x f")],
                                 {"x": ("N", 4)}, constants={"a": np.array(0), "b": np.array(2 ** 60), "c": np.array(1)}))
    add("an expansion of 2^50", model([node("Expand", "x s")], {"x": (1, 4)}, constants={"s": ints(2 ** 50, 1)}))
    add("a tile of 2^40", attribute("Tile", "x t", constants={"t": ints(1, 2 ** 40, 1, 1)}), "repeats")
    add("a pad of 2^40", attribute("Pad", "x p", constants={"p": ints(0, 2 ** 40, 0, 0, 0, 0, 0, 0)}), "pad")
    add("a pad of everything", attribute("Pad", "x p", constants={"p": ints(0, 0, -9, 0, 0, 0, 0, 0)}), "away")
    add("a division of 0", model([node("Div", "a b", "c"), node("Reshape", "x c")], {"x": ("N", 4)},
                                 constants={"a": ints(4), "b": ints(0)}), "divides by 0")
    add("kernels of 0", attribute("MaxPool", kernel_shape=[0, 0]), "kernel_shape")
    add("kernels of 2^40", attribute("MaxPool", kernel_shape=[2 ** 40, 1]), "kernel_shape")
    add("strides of 0", attribute("MaxPool", kernel_shape=[2, 2], strides=[0, 0]), "strides")
    add("pads of -1", attribute("MaxPool", kernel_shape=[2, 2], pads=[-1, 0, 0, 0]), "pads")
    add("a kernel of one axis", attribute("MaxPool", kernel_shape=[2]), "axes")
    add("a kernel that is larger", attribute("MaxPool", kernel_shape=[50, 50]))
    add("an attribute of another type", wrong_type(), "another type")
    add("an attribute of no op", attribute("SpaceToDepth", blocksize=1, mode="CRD"), '"mode" is not known')
    add("an attribute misspelt", attribute("MaxPool", kernel_shape=[2, 2], strids=[2, 2]), '"strids" is not known')
    add("parts of another number", attribute("Split", axis=1, num_outputs=2), "num_outputs is 2")
    add("an output without elements", model([node("Shape", "x", start=2, end=1)], {"x": (1, 4, 3)}), "without elements")
    add("an axis of 9", attribute("Softmax", axis=9), "axis 9")
    add("an axis of -9", attribute("Concat", axis=-9), "axis -9")
    add("a perm of one axis", attribute("Transpose", perm=[0, 0, 1, 2]), "perm")
    add("a perm of two axes", attribute("Transpose", perm=[1, 0]), "perm")
    add("groups of 0", changed(lambda m: m.graph.node[0].attribute.append(helper.make_attribute("group", 0))), "groups")
    add("groups of 3", changed(lambda m: m.graph.node[0].attribute.append(helper.make_attribute("group", 3))))
    add("no inputs", with_nodes(helper.make_node("Add", [], ["y"])), "no input 0")
    add("no weight", with_nodes(node("Conv", "x")), "no input 1")
    add("an index outside", attribute("Gather", "x i", constants={"i": ints(99)}), "outside")
    add("parts that do not fill", attribute("Split", "x l", constants={"l": ints(1, 1)}, axis=1), "parts")
    add("a constant that is narrower", model([node("Concat", "c x", axis=1)], {"x": (1, 3, 21)}, constants={"c": floats(1, 1, 5)}),
        "differ")
    add("a resize of 2^40", attribute("Resize", "x   s", constants={"s": ints(1, 4, 2 ** 40, 7)}))
    add("a resize by infinity", attribute("Resize", "x  s", constants={"s": np.float32([1, 1, np.inf, 1])}))
    add("a bound of NaN", attribute("Clip", "x b", constants={"b": np.float32(np.nan)}), "no number")
    add("names of control characters", with_nodes(helper.make_node("Nonsense", ["x"], ["y"], name="\x1b[31m\n")), "Nonsense")
    add("branches", nested(3), "If")
    add("many branches", nested(12), "If")
    add("8-bit by computed steps", model([node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z")],
                                         {"x": ("N", 4)}), "DynamicQuantizeLinear", "has no form")
    for name, second, zero, words in (("of two scales", "t", np.uint8(0), "another scale or zero point"),
                                      ("of 32 bits", "s", np.int32(0), "another type than int8 and uint8"),
                                      ("of a scale of 0", "n", np.uint8(0), "its scale is 0"),
                                      ("without a number", "u", np.uint8(0), "its scale is nan")):
        held = {"s": np.float32(0.1), "t": np.float32(0.2), "n": np.float32(0), "u": np.float32(np.nan), "z": np.array(zero)}
        first = "s" if second == "t" else second
        add(f"8-bit {name}", model([node("QuantizeLinear", f"x {first} z", "q"), node("DequantizeLinear", f"q {second} z")],
                                   {"x": ("N", 4)}, constants=held), "uantizeLinear", words)
    add("8-bit of weights beside their axis", model([node("DequantizeLinear", "w v", "d", axis=1), node("Conv", "x d")],
                                                    {"x": ("N", 4, 5, 5)}, constants={"v": floats(3), "w": np.zeros((6, 4, 1, 1), np.int8)}),
        "DequantizeLinear", "3 scales for 4 places")
    for name, fields, words in (("that is clipped", {"clip": 1.0}, "clip"), ("of sequences in a row", {"layout": 1}, "layout 1"),
                                ("of other activations", {"activations": ["Relu", "Tanh", "Tanh"]}, "activations are not"),
                                ("that goes nowhere", {"direction": "sideways"}, 'direction is "sideways"'),
                                ("of another size", {"hidden_size": 6}, "hidden_size is 6"),
                                ("of other units", {"direction": "bidirectional"}, "do not go with its input")):
        held = {"w": floats(1, 20, 3), "r": floats(1, 20, 5)}
        add(f"LSTM {name}", model([node("LSTM", "x w r", **({"hidden_size": 5} | fields))], {"x": (4, 2, 3)}, constants=held), "LSTM", words)
    held = {"w": floats(1, 15, 3), "r": floats(1, 15, 5)}
    add("GRU of the older form", model([node("GRU", "x w r", hidden_size=5)], {"x": (4, 2, 3)}, constants=held), "linear_before_reset 0")
    add("RNN of ReLUs", model([node("RNN", "x w r", hidden_size=5, activations=["Relu"])], {"x": (4, 2, 3)},
                              constants={"w": floats(1, 5, 3), "r": floats(1, 5, 5)}), "its activations are not tanh")
    add("LSTM with peepholes", model([node("LSTM", "x w r     p", hidden_size=5)], {"x": (4, 2, 3)},
                                     constants={"w": floats(1, 20, 3), "r": floats(1, 20, 5), "p": floats(1, 15)}), "peepholes")
    add("several ops", with_nodes(node("TopK", "x k", "v i"), node("NonZero", "x", "n"), node("Loop", "v x"),
                                  constants={"k": ints(1)}), "TopK", "Loop")
    return made


def changed_to_huge():
    made = external("w.bin")
    del made.graph.initializer[0].dims[:]
    made.graph.initializer[0].dims.extend([2 ** 30, 4, 3, 3])
    return made

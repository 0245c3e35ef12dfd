"""Nets drawn by Graphviz. get_dot makes the text and needs nothing; the other functions need Graphviz's `dot`, and
get_pydot_graph needs pydot."""

import subprocess

from .proto import caffe_pb2

LAYER_STYLE_DEFAULT = {"shape": "record", "fillcolor": "#6495ED", "style": "filled"}
NEURON_LAYER_STYLE = {"shape": "record", "fillcolor": "#90EE90", "style": "filled"}
BLOB_STYLE = {"shape": "octagon", "fillcolor": "#E0E0E0", "style": "filled"}
_COLORS = {"Convolution": "#FF5050", "Deconvolution": "#FF5050", "Pooling": "#FF9900", "InnerProduct": "#CC33FF"}


def choose_color_by_layertype(layertype):
    """The fill of a layer's node."""
    return _COLORS.get(layertype, "#6495ED")


def get_pooling_types_dict():
    """Number -> name of the pooling methods."""
    return {value.number: name for name, value in caffe_pb2.PoolingParameter.PoolMethod.DESCRIPTOR.values_by_name.items()}


def get_edge_label(layer):
    """What is written on the edges to a layer's tops."""
    if layer.type == "Data":
        return "Batch " + str(layer.data_param.batch_size)
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return '""'


def get_layer_lr_mult(layer):
    """(lr_mult of the weights, lr_mult of the biases)."""
    if layer.type not in ("Convolution", "Deconvolution", "InnerProduct"):
        raise ValueError("{} layers do not have a learning rate multiplier".format(layer.type))
    rates = [param.lr_mult for param in layer.param]
    return tuple((rates + [1.0, 1.0])[:2])


def _window_text(layer, separator):
    """Kernel, stride and pad of a layer with a sliding window."""
    fields = layer.pooling_param if layer.type == "Pooling" else layer.convolution_param
    values = tuple(list(field)[0] if len(field) else default for field, default in
                   ((fields.kernel_size, 1), (fields.stride, 1), (fields.pad, 0)))
    return separator.join(text % value for text, value in zip(("kernel size: %d", "stride: %d", "pad: %d"), values))


def get_layer_label(layer, rankdir, display_lrm=False):
    """The text of a layer's node: name, type and what matters of its fields."""
    # Words stand beside each other where width is free, below each other where height is.
    separator = " " if rankdir in ("TB", "BT") else r"\n"
    kind = layer.type
    if kind == "Pooling":
        kind += " " + get_pooling_types_dict()[layer.pooling_param.pool]
    parts = [layer.name, "({})".format(kind)]
    if layer.type in ("Convolution", "Deconvolution", "Pooling"):
        parts.append(_window_text(layer, separator))
    if display_lrm and layer.type in ("Convolution", "Deconvolution", "InnerProduct"):
        rates = get_layer_lr_mult(layer)
        if any(rates):
            parts.append("lr mult: %.1f, %.1f" % rates)
    return '"{}"'.format(separator.join(parts))


def _in_phase(layer, phase):
    if phase is None:
        return True
    if len(layer.include) and len(layer.exclude):
        raise ValueError("layer {} has both include and exclude specified.".format(layer.name))
    if len(layer.include):
        return any(rule.phase == phase for rule in layer.include)
    return all(rule.phase != phase for rule in layer.exclude)


def _nodes_and_edges(net, rankdir, label_edges, phase, display_lrm):
    """({name: (label, style)}, [(from, to, label)])."""
    nodes, edges = {}, []
    for layer in net.layer:
        if not _in_phase(layer, phase):
            continue
        node = "{}_{}".format(layer.name, layer.type)
        in_place = len(layer.bottom) == 1 and list(layer.bottom) == list(layer.top)
        style = NEURON_LAYER_STYLE if in_place else dict(LAYER_STYLE_DEFAULT,
                                                         fillcolor=choose_color_by_layertype(layer.type))
        nodes[node] = (get_layer_label(layer, rankdir, display_lrm), style)
        for blob in layer.bottom:
            nodes[blob + "_blob"] = (blob, BLOB_STYLE)
            edges.append((blob + "_blob", node, '""'))
        for blob in layer.top:
            nodes.setdefault(blob + "_blob", (blob, {}))
            edges.append((node, blob + "_blob", get_edge_label(layer) if label_edges else '""'))
    return nodes, edges


def _quoted(text):
    return text if text.startswith('"') else '"{}"'.format(text)


def get_dot(caffe_net, rankdir="LR", label_edges=True, phase=None, display_lrm=False):
    """The net as Graphviz's source."""
    nodes, edges = _nodes_and_edges(caffe_net, rankdir, label_edges, phase, display_lrm)
    lines = ["digraph {} {{".format(_quoted(caffe_net.name or "Net")), "rankdir={};".format(rankdir)]
    for name, (label, style) in nodes.items():
        fields = "".join(", {}={}".format(key, _quoted(value)) for key, value in style.items())
        lines.append("{} [label={}{}];".format(_quoted(name), _quoted(label), fields))
    for source, target, label in edges:
        lines.append("{} -> {} [label={}];".format(_quoted(source), _quoted(target), _quoted(label)))
    return "\n".join(lines + ["}"]) + "\n"


def get_pydot_graph(caffe_net, rankdir, label_edges=True, phase=None, display_lrm=False):
    """The net as a graph of pydot (or pydotplus)."""
    try:
        import pydotplus as pydot
    except ImportError:
        import pydot
    graph = pydot.Dot(caffe_net.name or "Net", graph_type="digraph", rankdir=rankdir)
    nodes, edges = _nodes_and_edges(caffe_net, rankdir, label_edges, phase, display_lrm)
    made = {name: pydot.Node(label, **style) for name, (label, style) in nodes.items()}
    for node in made.values():
        graph.add_node(node)
    for source, target, label in edges:
        graph.add_edge(pydot.Edge(made[source], made[target], label=label))
    return graph


def draw_net(caffe_net, rankdir, ext="png", phase=None, display_lrm=False):
    """The picture's bytes in a format Graphviz writes; "raw", "dot" and "gv" give the source itself."""
    source = get_dot(caffe_net, rankdir, phase=phase, display_lrm=display_lrm).encode()
    if ext in ("raw", "dot", "gv"):
        return source
    try:
        return subprocess.run(["dot", "-T" + ext], input=source, stdout=subprocess.PIPE, check=True).stdout
    except FileNotFoundError:
        raise RuntimeError("drawing as {} needs Graphviz's `dot`; write a .dot file, or use `moka model draw`".format(ext)
                           ) from None


def draw_net_to_file(caffe_net, filename, rankdir="LR", phase=None, display_lrm=False):
    """Writes the picture in the format of the file's extension."""
    picture = draw_net(caffe_net, rankdir, filename[filename.rfind(".") + 1:], phase, display_lrm)
    with open(filename, "wb") as file:
        file.write(picture)

"""Reads prototxt files for the goldens: a second opinion, in Python, of what moka's own reader does.

messages()            the classes protoc makes from proto/moka.proto, built in a temporary folder
read_net(path)        a NetParameter with its blocks expanded
filter_net(net, ...)  the layers that a phase, level and stages admit, by Caffe's include/exclude rules
"""

import functools
import importlib
import os
import re
import subprocess
import sys
import tempfile

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.cache
def messages():
    """The Python module of proto/moka.proto; needs protoc and a matching protobuf package."""
    folder = tempfile.mkdtemp(prefix="moka_proto_")
    files = [os.path.join("proto", name) for name in ("common.proto", "forks.proto", "moka.proto")]
    subprocess.run(["protoc", "-I", ROOT, "--python_out", folder, *files], check=True, cwd=ROOT)
    sys.path.insert(0, folder)
    return importlib.import_module("proto.moka_pb2")


def parse_net(text):
    return expand_blocks(text_format.Parse(text, messages().NetParameter()))


def read_net(path):
    with open(path, encoding="utf-8") as file:
        return parse_net(file.read())


def _substitute(text, values):
    def value(match):
        if match.group(1) not in values:
            raise ValueError(f"unknown ${{{match.group(1)}}} in '{text}'")
        return values[match.group(1)]

    return re.sub(r"\$\{([^}]*)\}", value, text)


def _is_repeated(field):
    """Protobuf 7 has `is_repeated` and no `label` any more, Debian's has the reverse."""
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def _substitute_all(message, values):
    """Replaces ${x} in every string field of a message and of its parts."""
    for field, content in message.ListFields():
        repeated = _is_repeated(field)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in content if repeated else [content]:
                _substitute_all(part, values)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if repeated:
                for i, text in enumerate(content):
                    content[i] = _substitute(text, values)
            else:
                setattr(message, field.name, _substitute(content, values))


def _typed(field, text):
    kinds = FieldDescriptor
    if field.type == kinds.TYPE_BOOL:
        return {"true": True, "false": False}[text]
    if field.type == kinds.TYPE_ENUM:
        return field.enum_type.values_by_name[text].number
    if field.type in (kinds.TYPE_FLOAT, kinds.TYPE_DOUBLE):
        return float(text)
    return text if field.type == kinds.TYPE_STRING else int(text)


def _set_path(message, path, text):
    """Gives the field at "a.b.c" the value; a repeated field then holds this value alone."""
    *parents, last = path.split(".")
    for name in parents:
        message = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[last]
    if _is_repeated(field):
        del getattr(message, last)[:]
        getattr(message, last).append(_typed(field, text))
    else:
        setattr(message, last, _typed(field, text))


def _instantiate(block, use):
    """The layers of one use of a block; they may themselves be uses."""
    values = {param.name: param.default for param in block.param if param.HasField("default")}
    for assignment in use.block_param.set:
        name, text = assignment.split("=", 1)
        values[name] = text
    missing = [param.name for param in block.param if param.name not in values]
    if missing:
        raise ValueError(f"layer '{use.name}': block '{block.name}' needs {missing}")
    places = {"name": use.name}
    for word, blobs in (("bottom", use.bottom), ("top", use.top)):
        places.update({f"{word}{i}": blob for i, blob in enumerate(blobs)})
        if blobs:
            places[word] = blobs[0]
    layers = []
    for written in block.layer:
        layer = messages().LayerParameter()
        layer.CopyFrom(written)
        for param in block.param:
            for target in param.to:
                if target.startswith(written.name + "."):
                    _set_path(layer, target[len(written.name) + 1:], values[param.name])
        _substitute_all(layer, {**values, **places})
        layer.include.extend(use.include)
        layer.exclude.extend(use.exclude)
        layers.append(layer)
    return layers


def expand_blocks(net):
    """The same net with every layer of type "Block" replaced by its block's layers."""
    blocks = {block.name: block for block in net.block}

    def expand(layers):
        for layer in layers:
            if layer.type == "Block":
                yield from expand(_instantiate(blocks[layer.block_param.block], layer))
            else:
                yield layer

    expanded = list(expand(net.layer))
    del net.layer[:]
    del net.block[:]
    net.layer.extend(expanded)
    return net


def _meets(rule, phase, level, stages):
    return ((not rule.HasField("phase") or rule.phase == phase)
            and (not rule.HasField("min_level") or level >= rule.min_level)
            and (not rule.HasField("max_level") or level <= rule.max_level)
            and all(stage in stages for stage in rule.stage)
            and not any(stage in stages for stage in rule.not_stage))


def filter_net(net, phase, level=0, stages=()):
    """The layers present in a phase (messages().TRAIN or TEST), a level and a set of stages."""
    def present(layer):
        if layer.include:
            return any(_meets(rule, phase, level, stages) for rule in layer.include)
        return not any(_meets(rule, phase, level, stages) for rule in layer.exclude)

    return [layer for layer in net.layer if present(layer)]

"""Nets written in Python.

    n = NetSpec()
    n.data, n.label = layers.Data(source="mnist", backend=params.Data.LMDB, batch_size=64, ntop=2)
    n.ip = layers.InnerProduct(n.data, num_output=10, weight_filler=dict(type="xavier"))
    n.loss = layers.SoftmaxWithLoss(n.ip, n.label)
    print(n.to_proto())

Attributes name layers and tops; a call's keywords are fields of the layer's own parameter message, or of the layer.
"""

import difflib
from collections import Counter, OrderedDict


def _messages():
    from .proto import caffe_pb2
    return caffe_pb2


_fields = {}


def _param_field(type_name):
    """The field of LayerParameter with the parameters of a layer type, found by its message: "PoolingParameter"."""
    if not _fields:
        for field in _messages().LayerParameter.DESCRIPTOR.fields:
            if field.name.endswith("_param") and field.message_type is not None:
                _fields.setdefault(field.message_type.name[:-len("Parameter")], field.name)
    return _fields.get(type_name)


def _no_field(name, *messages):
    """The sentence on a field that none of the messages has, with the nearest one."""
    near = difflib.get_close_matches(name, [field for message in messages for field in message.fields_by_name], 1)
    return "{} has no field \"{}\"{}".format(" or ".join(message.name for message in messages), name,
                                             ", did you mean \"{}\"?".format(near[0]) if near else "")


def assign_proto(proto, name, val):
    """Sets a field: dicts become messages, lists repeated fields; one value for a repeated field becomes a list."""
    if name not in proto.DESCRIPTOR.fields_by_name:
        raise AttributeError(_no_field(name, proto.DESCRIPTOR))
    is_repeated = hasattr(getattr(proto, name), "extend")
    if is_repeated and not isinstance(val, (list, tuple)):
        val = [val]
    if is_repeated:
        field = getattr(proto, name)
        for item in val:
            if isinstance(item, dict):
                element = field.add()
                for key, value in item.items():
                    assign_proto(element, key, value)
            elif hasattr(field, "add"):
                field.add().CopyFrom(item)
            else:
                field.append(item)
    elif isinstance(val, dict):
        message = getattr(proto, name)
        message.SetInParent()
        for key, value in val.items():
            assign_proto(message, key, value)
    elif hasattr(getattr(proto, name), "CopyFrom"):
        getattr(proto, name).CopyFrom(val)
    else:
        setattr(proto, name, val)


def _net_of(layers):
    net = _messages().NetParameter()
    net.layer.extend(layers.values())
    return net


def to_proto(*tops):
    """A NetParameter with every layer that the tops need; names are made from types: "Convolution1"."""
    layers = OrderedDict()
    autonames = Counter()
    for top in tops:
        top.fn._to_proto(layers, {}, autonames)
    return _net_of(layers)


class Top:
    """One blob that a layer makes."""

    def __init__(self, fn, n):
        self.fn = fn
        self.n = n

    def to_proto(self):
        """A NetParameter with every layer that this top needs."""
        return to_proto(self)

    def _to_proto(self, layers, names, autonames):
        return self.fn._to_proto(layers, names, autonames)


class Function:
    """A layer: its type, the tops it reads, its fields."""

    def __init__(self, type_name, inputs, params):
        self.type_name = type_name
        for index, top in enumerate(inputs):
            if not isinstance(top, Top):
                raise TypeError("{} input {} is not a Top (type is {})".format(type_name, index, type(top)))
        self.inputs = inputs
        self.params = params
        self.ntop = params.pop("ntop", 1)
        self.in_place = params.pop("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def _auto_name(self, autonames):
        autonames[self.type_name] += 1
        return self.type_name + str(autonames[self.type_name])

    def _top_name(self, top, names, autonames):
        if top not in names:
            names[top] = self._auto_name(autonames)
        return names[top]

    def _name(self, names, autonames):
        if self not in names:
            names[self] = (self._top_name(self.tops[0], names, autonames) if self.ntop > 0
                           else self._auto_name(autonames))
        return names[self]

    def _to_proto(self, layers, names, autonames):
        if self in layers:
            return
        bottoms = []
        for top in self.inputs:
            top._to_proto(layers, names, autonames)
            bottoms.append(layers[top.fn].top[top.n])
        layer = _messages().LayerParameter()
        layer.type = self.type_name
        layer.bottom.extend(bottoms)
        layer.top.extend(bottoms if self.in_place else [self._top_name(top, names, autonames) for top in self.tops])
        layer.name = self._name(names, autonames)
        own = _param_field(self.type_name)
        own_fields = getattr(layer, own).DESCRIPTOR.fields_by_name if own else {}
        for key, value in self.params.items():
            # "convolution_param=dict(...)" and "param=[...]" are the layer's; other fields its parameters' first.
            if not key.endswith("param") and key in own_fields:
                assign_proto(getattr(layer, own), key, value)
            elif key in layer.DESCRIPTOR.fields_by_name:
                assign_proto(layer, key, value)
            else:
                messages = [getattr(layer, own).DESCRIPTOR] if own else []
                raise AttributeError("layer \"{}\": {}".format(
                    layer.name, _no_field(key, *messages, layer.DESCRIPTOR)))
        layers[self] = layer


class NetSpec:
    """A net: each attribute that is set is a top of that name, and the layer that makes it has the name too."""

    def __init__(self):
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name, value):
        if isinstance(value, tuple):
            raise TypeError("{} is set to {} tops of one layer; each wants a name: n.a, n.b = layers.TYPE(...)".format(
                name, len(value)))
        if not isinstance(value, (Top, Function)):
            raise TypeError("{} is set to {!r}, expected a layer's top".format(name, value))
        self.tops[name] = value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.tops[name]

    def __setitem__(self, key, value):
        self.__setattr__(key, value)

    def __getitem__(self, item):
        return self.__getattr__(item)

    def to_proto(self):
        """A NetParameter with the layers of all tops that were set."""
        names = {top: name for name, top in self.tops.items()}
        autonames = Counter()
        layers = OrderedDict()
        for top in self.tops.values():
            top._to_proto(layers, names, autonames)
        return _net_of(layers)


class Layers:
    """layers.TYPE(bottoms..., field=value..., ntop=1, in_place=False) adds a layer and returns its top or tops."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def layer(*args, **kwargs):
            fn = Function(name, args, kwargs)
            if fn.ntop == 0:
                return fn
            return fn.tops[0] if fn.ntop == 1 else fn.tops
        return layer


class Parameters:
    """params.Pooling.MAX is the number of a value of an enum of PoolingParameter."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        message = name + "Parameter"

        class Values:
            """The enums of one message."""

            def __getattr__(self, value):
                return getattr(getattr(_messages(), message), value)
        return Values()


layers = Layers()
params = Parameters()

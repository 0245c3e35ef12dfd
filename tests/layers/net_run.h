// Nets from text, their errors, and their values by the interpreter: what the tests of layer types share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "layers/net/net.h"

namespace moka {

// The net of a prototxt text called "net.prototxt". data_types gives float32 [4,3,8,8] images and [4] labels.
BuiltNet BuildText(std::string_view text, Phase phase = TRAIN, const std::vector<std::string>& stages = {});

// what() of every error BuildText throws, one a line; "built" if it throws none.
std::string ErrorsOf(std::string_view text, Phase phase = TRAIN);

// An Input layer's text with one top.
std::string InputText(std::string_view top, const std::vector<int64_t>& shape);

// The id of a graph input or state by name. Requires: it is there.
ValueId IdOf(const Graph& graph, std::string_view name);

// Values of inputs and states by name.
using Feeds = std::map<std::string, std::vector<double>>;

// Values of `wanted`; inputs and states not in `feeds` are zero.
std::vector<RefTensor> Evaluate(const Graph& graph, const Feeds& feeds, const std::vector<ValueId>& wanted);

// The values of one top.
std::vector<double> TopValues(const BuiltNet& net, const Feeds& feeds, const std::string& top);

// Ops of a layer's nodes, in order, joined by spaces.
std::string OpsOf(const BuiltNet& net, std::string_view layer);

}  // namespace moka

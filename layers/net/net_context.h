// The state of BuildNet that layers reach through LayerBuilder. Private to layers/net/net.cpp and
// layers/net/layer_builder.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/net/layer.h"
#include "layers/net/net.h"

namespace moka {

struct LayerBuilder::Context {
  // The first use of a blob, and which multipliers some use has written down.
  struct Owner {
    size_t blob = 0;  // index in net.blobs
    bool is_named = false;
    bool has_lr_mult = false;
    bool has_decay_mult = false;
  };

  BuiltNet& net;
  NetOptions options;  // in the state that the net's own and the given one make together
  std::map<std::string, Owner, std::less<>> owners;     // by store key
  std::map<std::string, const LayerParameter*> layers;  // by name, those built so far
  std::map<ValueId, ValueId> current;                   // state -> its value after the layers so far
  std::set<std::string, std::less<>> inputs;            // names of data tops
  std::set<std::string, std::less<>> kept;              // names of kept states
  std::set<ValueId> padded;                             // values that may have rows of padding
  ValueId random_key = kNoId;
  std::vector<std::string> unused;  // a sentence for each field of sharing that has no effect

  // State of the layer being built.
  std::vector<ValueId> tops;
  std::vector<double> loss_weights;  // defaults, one a top
  size_t first_blob = 0;             // its blobs are net.blobs from here on

  // Whether the value depends on data, or (first > 0) on data with so many items along their first axis.
  bool ReadsData(ValueId value, int64_t first = 0) const;

  Context(BuiltNet& built, NetOptions given) : net(built), options(std::move(given)) {
    options.state = built.param.state();
  }
};

// Errors: kConfig unless every dimension is at least 1 and the bytes stay below kMaxValueBytes; `what` starts the text.
void CheckValueType(std::string_view what, const TensorType& type);

}  // namespace moka

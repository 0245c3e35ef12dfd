// A NetParameter becomes a graph: filters by phase and rules, checks names and wiring, calls each layer's builder,
// joins the losses.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "layers/net/layer.h"
#include "proto/moka.pb.h"

namespace moka {

struct NetOptions {
  NetState state;        // phase, level, stages
  DataTypes data_types;  // asked once for each data layer
  // The tops of Python layers that are not built in are inputs, and a missing file on whose contents no shape depends
  // (an infogain matrix, a tree of classes) is a warning: for nets that are looked at, not trained.
  bool feeds_python_data = false;
  // Shapes of tops of data layers by name, in place of what the layer itself or data_types says: for nets that are
  // looked at without their data.
  std::map<std::string, Shape> top_shapes = {};
  // Ranks that train this net on a part of each batch and whose losses' mean is the loss of all: sums over a batch are
  // multiplied by them, and what a sum is divided by is counted over all ranks where the step can ask them.
  int64_t ranks = 1;
  bool asks_ranks = false;
  // Whether fields that change nothing are told: not where the same net is built again on other shapes.
  bool tells_fields = true;
};

// A net as layers made it: forward only.
struct BuiltNet {
  BuiltNet(NetParameter filtered, Graph empty) : param(std::move(filtered)), graph(std::move(empty)) {}

  NetParameter param;  // filtered
  Graph graph;
  ValueId loss = kNoId;         // scalar total; kNoId if the net has no loss
  std::vector<NetBlob> blobs;   // in layer order; shared ones appear once per use
  std::vector<KeptState> kept;  // graph states that are no blobs
  std::vector<DataLayer> data;
  // Blob name -> value after the last layer that wrote it.
  std::map<std::string, ValueId> tops;
  // Tops nobody consumes, in Caffe's order of printing, with their loss weights (0: not a loss).
  struct Output {
    std::string name;
    ValueId value;
    double loss_weight;
  };
  std::vector<Output> outputs;
  // Every named top in layer order as "layer:top" (in-place tops appear again): what goldens and debug output name.
  std::vector<std::pair<std::string, ValueId>> trace;
  // Layers that several ranks compute otherwise than one does on the whole batch, and why; empty for one rank.
  std::vector<std::pair<std::string, std::string>> unequal;
};

// Errors: kConfig with file:line:column: unknown layer type (nearest named), unknown bottom (nearest named), duplicate
// top, wrong number of bottoms or tops, shape errors with the chain of shapes; several are reported in one ErrorList.
// Nothing is allocated for tensors.
BuiltNet BuildNet(const NetParameter& net, const NetOptions& options);

// How far a net builds: what a search for the shapes of its data's tops goes by.
struct NetAttempt {
  struct Failure {
    int layer;         // in the filtered net
    std::string text;  // of the error, without its place
  };

  bool builds = false;
  // Whether all mistakes were found while layers with known bottoms were built, so that other shapes might mend them:
  // unknown types, fields and bottoms are not of that kind.
  bool may_fit = true;
  std::vector<Failure> failures;       // in layer order
  std::vector<bool> is_built;          // a layer each
  std::map<std::string, Shape> blobs;  // those that could be built, after the last layer that wrote them
  std::vector<DataLayer> data;         // with the types of their tops
};

// As BuildNet, but mistakes are no errors. Errors: kConfig for a net without layers.
NetAttempt AttemptNet(const NetParameter& net, const NetOptions& options);

// Limits against hostile nets.
constexpr int kMaxLayers = 100000;
constexpr int64_t kMaxValueBytes = int64_t{1} << 46;

}  // namespace moka

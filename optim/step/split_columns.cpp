// Rewrites the net: an InnerProduct of K outputs becomes one of this rank's part, and the loss behind it exchanges
// maxima and sums instead of scores (An et al., Partial FC, arXiv 2203.15565).
#include "optim/step/split_columns.h"

#include <algorithm>

#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/net/layer.h"
#include "layers/ops/ranks/rank_parts.h"
#include "optim/strategies/strategy.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// The split that is asked for a layer: into how many parts, on how many nodes, and who asks.
struct SplitWish {
  int64_t parts = 1;
  int64_t nodes = 0;
  bool is_own = false;  // the layer's own, not of a range of layers
};

Error WrongRange(const NetParameter& net, const std::string& layer) {
  std::vector<std::string> names;
  for (const LayerParameter& one : net.layer()) names.push_back(one.name());
  return Error(ErrorKind::kConfig, PlaceOf(net, "multinode"),
               StrCat("model_parallel names layer \"", Printable(layer), "\", which the net does not have"),
               DidYouMean(layer, names));
}

// Returns what each layer asks for, in the net's order.
std::vector<SplitWish> WishesOf(const NetParameter& net) {
  std::vector<SplitWish> wishes(static_cast<size_t>(net.layer_size()));
  const auto place = [&](const std::string& name) {
    const auto it = std::ranges::find(net.layer(), name, &LayerParameter::name);
    if (it == net.layer().end()) throw WrongRange(net, name);
    return it - net.layer().begin();
  };
  for (const MnModelParallelParameter& range : net.multinode().model_parallel()) {
    for (auto i = place(range.layer_from()); i <= place(range.layer_to()); ++i) {
      wishes[static_cast<size_t>(i)] = {range.model_parts(), range.num_nodes(), false};
    }
  }
  for (size_t i = 0; i < wishes.size(); ++i) {
    const LayerParameter& layer = net.layer(static_cast<int>(i));
    if (!layer.has_multinode()) continue;
    wishes[i] = {layer.multinode().model_parts(), layer.multinode().num_nodes(), true};
  }
  return wishes;
}

void CheckWish(const LayerParameter& layer, const SplitWish& wish, int64_t ranks) {
  const bool is_all = wish.parts == 0 || wish.parts == ranks;
  const bool is_on_all = wish.nodes == 0 || wish.nodes == ranks;
  if (is_all && is_on_all) return;
  throw ErrorAt(layer, is_all ? "multinode.num_nodes" : "multinode.model_parts",
                StrCat("layer \"", layer.name(),
                       "\": ", is_all ? StrCat("parts on ", wish.nodes, " nodes") : StrCat(wish.parts, " parts"),
                       ", and there are ", ranks, " ranks"),
                StrCat("model_parts is 1 (every rank has the whole layer), or 0 or ", ranks,
                       " (its outputs are split among all ranks); num_nodes is 0 or ", ranks));
}

[[noreturn]] void RefuseSplit(const LayerParameter& layer, const std::string& text) {
  throw ErrorAt(layer, layer.has_multinode() ? "multinode.model_parts" : "",
                StrCat("layer \"", layer.name(), "\": ", text), "leave out multinode, or let model_parts be 1");
}

void CheckSplit(const LayerParameter& layer, int64_t ranks) {
  const InnerProductParameter& p = layer.inner_product_param();
  if (!TraitsOf(layer).is_product) {
    RefuseSplit(layer, StrCat("the outputs of InnerProduct can be split among ranks, those of ", layer.type(), " not"));
  }
  if (p.transpose() || p.normalize() || layer.bottom_size() > 1) {
    RefuseSplit(layer, "a layer whose outputs are split among ranks has no transpose, normalize or second bottom");
  }
  if (int64_t{p.num_output()} < ranks) {
    RefuseSplit(layer, StrCat(p.num_output(), " outputs are fewer than ", ranks, " ranks"));
  }
}

void Replace(BuiltNet& net, ValueId from, ValueId to) {
  net.graph.ReplaceUses(from, to);
  for (BuiltNet::Output& output : net.outputs) output.value = output.value == from ? to : output.value;
  for (auto& [name, value] : net.tops) value = value == from ? to : value;
  for (auto& [name, value] : net.trace) value = value == from ? to : value;
  if (net.loss == from) net.loss = to;
}

SplitBlob SplitOne(BuiltNet& net, NetBlob& blob, int64_t rank, int64_t ranks) {
  const int64_t rows = blob.shape[0];
  const int64_t own = PartBegin(rows, ranks, rank + 1) - PartBegin(rows, ranks, rank);
  SplitBlob split{.whole = blob, .part = StrCat(blob.name, "@part"), .part_shape = blob.shape.With(0, own)};
  net.graph.SetName(blob.state, split.part);
  net.graph.SetType(blob.state, {DType::kFloat32, split.part_shape, {}});
  blob.name = split.part;
  blob.shape = split.part_shape;
  return split;
}

// The softmax loss that alone reads a value [n,K], its classes along axis 1; kNoId if something else does.
NodeId LossOf(const BuiltNet& net, ValueId scores) {
  const std::vector<std::vector<NodeId>> uses = net.graph.Uses();
  const std::vector<NodeId>& readers = uses[static_cast<size_t>(scores)];
  const auto is_read = [&](ValueId value) {
    return !uses[static_cast<size_t>(value)].empty() ||
           std::ranges::find(net.outputs, value, &BuiltNet::Output::value) != net.outputs.end();
  };
  if (readers.size() != 1 || std::ranges::find(net.outputs, scores, &BuiltNet::Output::value) != net.outputs.end()) {
    return kNoId;
  }
  const Node& loss = net.graph.node(readers.front());
  const bool is_loss = loss.op->name == "softmax_loss" && loss.inputs[0] == scores && !is_read(loss.outputs[2]);
  const int64_t axis = is_loss ? loss.attributes.Int("axis") : 0;
  return axis == 1 || axis == -1 ? loss.id : kNoId;
}

// The loss of scores that stay split; `part` are the rows of all ranks.
void SplitLoss(BuiltNet& net, NodeId id, ValueId part, int64_t columns, Attributes attributes) {
  const Node node = net.graph.node(id);  // a copy: nodes are added
  const GraphBuilder b(net.graph, node.origin);
  const int64_t key = RankKey(StrCat(node.origin.layer, "/@split"));
  const ValueId label = node.inputs[1];
  attributes.Set("key", key + 1);
  const ValueId labels = b.Add1("gather_rows", {b.Reshape(label, {b.shape(label).Count(), 1})}, attributes);
  attributes.Set("key", key);
  attributes.Set("columns", columns);
  attributes.Set("has_ignore", node.attributes.Bool("has_ignore"));
  attributes.Set("ignore_label", node.attributes.Int("ignore_label"));
  const std::vector<ValueId> sums = b.Add("split_softmax_loss", {part, labels}, attributes);
  for (size_t i = 0; i < sums.size(); ++i) Replace(net, node.outputs[i], sums[i]);
  net.graph.RemoveNode(id);
}

void SplitLayer(BuiltNet& net, const LayerParameter& layer, int64_t rank, int64_t ranks,
                std::vector<SplitBlob>& splits) {
  CheckSplit(layer, ranks);
  NodeId product = kNoId;
  for (NetBlob& blob : net.blobs) {
    if (blob.layer != layer.name()) continue;
    const std::vector<NodeId> readers = net.graph.Uses()[static_cast<size_t>(blob.state)];
    const bool is_shared =
        std::ranges::count(net.blobs, blob.name, &NetBlob::name) > 1 || blob.shared || readers.size() != 1;
    if (is_shared)
      RefuseSplit(layer, StrCat("parameter ", blob.index, " is shared with another layer, so it cannot be split"));
    product = readers.front();
    splits.push_back(SplitOne(net, blob, rank, ranks));
  }
  const Node node = net.graph.node(product);  // a copy: nodes are added
  Require(node.op->name == "matmul", "an InnerProduct multiplies with its weight");
  const int64_t columns = net.graph.shape(node.outputs[0])[1];
  const GraphBuilder b(net.graph, node.origin);
  const int64_t key = RankKey(layer.name());
  Attributes attributes = {{"key", key}, {"rank", rank}, {"ranks", ranks}};
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = b.Add1("gather_rows", {inputs[0]}, attributes);
  const ValueId part = b.Add1("matmul", inputs, node.attributes);
  if (const NodeId loss = LossOf(net, node.outputs[0]); loss != kNoId) {
    SplitLoss(net, loss, part, columns, attributes);
    Replace(net, node.outputs[0], part);
  } else {
    attributes.Set("key", key + 1);
    attributes.Set("columns", columns);
    Replace(net, node.outputs[0], b.Add1("exchange_columns", {part}, attributes));
  }
  net.graph.RemoveNode(node.id);
}

}  // namespace

std::vector<SplitBlob> SplitColumns(BuiltNet& net, int64_t rank, int64_t ranks) {
  std::vector<SplitBlob> splits;
  const std::vector<SplitWish> wishes = WishesOf(net.param);
  for (size_t i = 0; ranks > 1 && i < wishes.size(); ++i) {
    const LayerParameter& layer = net.param.layer(static_cast<int>(i));
    const bool has_blobs = std::ranges::find(net.blobs, layer.name(), &NetBlob::layer) != net.blobs.end();
    if (wishes[i].parts == 1 || (!wishes[i].is_own && !has_blobs)) continue;
    CheckWish(layer, wishes[i], ranks);
    SplitLayer(net, layer, rank, ranks, splits);
  }
  return splits;
}

void RefuseSplitInPipeline(const NetParameter& net) {
  const std::vector<SplitWish> wishes = WishesOf(net);
  const auto it = std::ranges::find_if(wishes, [](const SplitWish& wish) { return wish.parts != 1; });
  if (it == wishes.end()) return;
  RefuseSplit(net.layer(static_cast<int>(it - wishes.begin())),
              "its outputs cannot be split in a pipeline (pipeline_stage)");
}

void RefuseBesideSplit(const SolverParameter& solver) {
  const auto refuse = [&](bool is_given, std::string_view field) {
    if (!is_given) return;
    throw Error(ErrorKind::kConfig, PlaceOf(solver, field),
                StrCat(field, " does not work with layers whose outputs are split among ranks (multinode)"),
                "leave one of them out");
  };
  refuse(StrategyOf(solver) != StrategyKind::kSynchronous, "distributed.strategy");
  refuse(solver.distributed().shard_updates(), "distributed.shard_updates");
  refuse(solver.distributed().compression().method() != "none", "distributed.compression");
  refuse(solver.iter_size() > 1, "iter_size");
  refuse(solver.ema_decay() > 0, "ema_decay");
  refuse(solver.noise_scale_interval() > 0, "noise_scale_interval");  // no rank has a gradient of its own of a part
  // Groups of weights that ranks have parts of.
  refuse(solver.breadth_decay() != 0, "breadth_decay");
  refuse(solver.kernel_shape_decay() != 0, "kernel_shape_decay");
  refuse(solver.block_group_decay() != 0, "block_group_decay");
}

std::vector<float> PartOf(const SplitBlob& blob, int64_t rank, int64_t ranks, std::span<const float> whole) {
  const int64_t rows = blob.whole.shape[0];
  const int64_t row = blob.whole.shape.Count() / rows;
  const auto begin = whole.begin() + PartBegin(rows, ranks, rank) * row;
  return {begin, begin + blob.part_shape.Count()};
}

const SplitBlob* FindPart(std::span<const SplitBlob> splits, std::string_view part) {
  const auto it = std::ranges::find(splits, part, &SplitBlob::part);
  return it == splits.end() ? nullptr : &*it;
}

void SetParts(std::span<const SplitBlob> splits, const Communicator& world, ParameterStore& store) {
  for (const SplitBlob& split : splits) {
    if (!store.Has(split.part)) store.Add(split.part, split.part_shape);
    store.Set(split.part, PartOf(split, world.rank(), world.size(), store.Values(split.whole.name)));
  }
}

std::vector<float> WholeOf(Communicator& world, std::span<const float> part) {
  const std::string own(reinterpret_cast<const char*>(part.data()), part.size_bytes());
  std::vector<float> whole;
  const std::vector<std::string> all = world.AllGather(own);
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string& bytes = all[static_cast<size_t>(rank)];
    const size_t at = whole.size();
    whole.resize(at + bytes.size() / sizeof(float));
    TakeValues(world, rank, bytes, std::span(whole).subspan(at));
  }
  return whole;
}

}  // namespace moka

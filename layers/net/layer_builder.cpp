// The calls that layers make to the net being built: blobs and their sharing, data tops, losses, errors.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "layers/net/loss_gradient.h"
#include "layers/net/net_context.h"
#include "layers/ops/ranks/rank_parts.h"
#include "proto/nets/filler.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// " (at net.prototxt:12:3)", or nothing when the place is unknown.
std::string AtPlace(const LayerParameter* layer) {
  const SourcePlace place = layer == nullptr ? SourcePlace{} : PlaceOf(*layer);
  return place.line == 0 ? std::string() : StrCat(" (at ", place.ToString(), ")");
}

// Two layers that share a multiplier must not give it two values; a layer that gives none takes the other's.
void ShareMultiplier(const LayerBuilder& l, std::string_view field, std::string_view owner, bool has, double value,
                     bool& owner_has, double& owner_value) {
  if (!has) return;
  if (owner_has && owner_value != value) {
    const size_t dot = field.rfind('.');
    l.Fail(field, StrCat(field.substr(dot + 1), " is ", value, " but the shared parameter has ", owner_value,
                         " in layer \"", owner, "\""));
  }
  owner_has = true;
  owner_value = value;
}

// Whether this use of a parameter gives it no gradient: said so, or (Caffe before October 2015, which let uses of a
// shared parameter differ in lr_mult) a later use whose lr_mult is 0 where the first one's, which counts, is not.
bool IsHeld(const ParamSpec& spec) { return spec.has_param_propagate_down() && !spec.param_propagate_down(); }
bool IsHeldLater(const ParamSpec& spec, bool owner_has, double owner_lr_mult) {
  return spec.has_lr_mult() && spec.lr_mult() == 0 && owner_has && owner_lr_mult != 0;
}

// Whether the field itself stands in the text, and not only what it lies in.
bool IsWritten(const LayerParameter& layer, std::string_view field) {
  const size_t dot = field.rfind('.');
  if (dot == std::string_view::npos) return false;
  const SourcePlace own = PlaceOf(layer, field);
  const SourcePlace around = PlaceOf(layer, field.substr(0, dot));
  return std::pair(own.line, own.column) != std::pair(around.line, around.column);
}

ValueId Held(const GraphBuilder& b, ValueId value, bool is_held) {
  return is_held ? b.Add1("stop_gradient", {value}) : value;
}

// A layer's use of a blob, as its fields say it.
struct BlobUse {
  ParamSpec spec;
  std::string field;              // the place of spec
  std::string_view filler_field;  // the filler's place
};

void CheckDecay(const LayerBuilder& l, const BlobUse& use) {
  l.Check(use.spec.decay_proto().empty(), StrCat(use.field, ".decay_proto"), "decay_proto is not part of Moka");
  const std::string& kind = use.spec.regularization_type();
  l.Check(kind.empty() || kind == "L1" || kind == "L2", StrCat(use.field, ".regularization_type"),
          StrCat("unknown regularization_type \"", kind, "\"; known are L1, L2"));
}

// Makes the state of a parameter that no layer so far has, and returns it.
ValueId AddFirstUse(const LayerBuilder& l, LayerBuilder::Context& context, const BlobUse& use, NetBlob blob) {
  const auto& [spec, field, filler_field] = use;
  l.Check(
      !context.kept.contains(blob.name), field,
      StrCat("the parameter's name \"", blob.name, "\" is also the name of a layer's kept state; take another name"));
  try {
    CheckFiller(blob.filler, blob.shape);
  } catch (const Error& error) {
    l.Fail(filler_field, error.text(), error.hint());
  }
  const bool is_statistic = blob.role == ParameterRole::kStatistic;
  blob.state = context.net.graph.AddState(blob.name, {DType::kFloat32, blob.shape, {}});
  blob.lr_mult = is_statistic ? 0 : static_cast<double>(spec.lr_mult());
  blob.decay_mult = is_statistic ? 0 : static_cast<double>(spec.decay_mult());
  l.Check(std::isfinite(blob.lr_mult), StrCat(field, ".lr_mult"), "lr_mult must be a finite number");
  l.Check(std::isfinite(blob.decay_mult), StrCat(field, ".decay_mult"), "decay_mult must be a finite number");
  context.owners[blob.name] = {context.net.blobs.size(), !spec.name().empty(), spec.has_lr_mult(),
                               spec.has_decay_mult()};
  context.net.blobs.push_back(std::move(blob));
  return context.net.blobs.back().state;
}

// Throws unless a later use of a parameter fits what the first one made: name, shape and role. Where its filler differs
// from the first one's, which counts, it adds a sentence to the context's that says so.
void CheckSharing(const LayerBuilder& l, LayerBuilder::Context& context, const LayerBuilder::Context::Owner& owner,
                  const NetBlob& first, const BlobUse& use, const NetBlob& blob) {
  const auto& [spec, field, filler_field] = use;
  const std::string where = StrCat("layer \"", first.layer, "\"", AtPlace(context.layers[first.layer]));
  l.Check(!spec.name().empty() && owner.is_named, field,
          StrCat("the parameter's name \"", blob.name, "\" is also how a parameter of ", where,
                 " is known; take another name"));
  const bool permissive = spec.share_mode() == ParamSpec::PERMISSIVE;
  const bool fits = permissive ? first.shape.Count() == blob.shape.Count() : first.shape == blob.shape;
  l.Check(fits, field,
          StrCat("shares the parameter \"", blob.name, "\" of ", where, ", whose shape is ", first.shape.ToString(),
                 " while this layer needs ", blob.shape.ToString(),
                 permissive ? " (share_mode PERMISSIVE: the counts must be equal)" : ""));
  l.Check((first.role == ParameterRole::kStatistic) == (blob.role == ParameterRole::kStatistic), field,
          StrCat("shares the parameter \"", blob.name, "\" of ", where, ", but one of them is a running statistic"));
  if (!IsWritten(l.param(), filler_field) || blob.filler.SerializeAsString() == first.filler.SerializeAsString())
    return;
  context.unused.push_back(StrCat(PlaceOf(l.param(), filler_field).ToString(), ": layer \"", l.param().name(),
                                  "\": ", filler_field, " is not used: the parameter \"", blob.name, "\" is filled as ",
                                  where, " says"));
}

// The multipliers of the first use and of a later one become one. Returns whether the later use gives no gradient.
bool ShareMultipliers(const LayerBuilder& l, const BlobUse& use, ParameterRole role,
                      LayerBuilder::Context::Owner& owner, NetBlob& first) {
  const ParamSpec& spec = use.spec;
  if (role == ParameterRole::kStatistic) return false;
  const bool is_held_later = IsHeldLater(spec, owner.has_lr_mult, first.lr_mult);
  ShareMultiplier(l, StrCat(use.field, ".lr_mult"), first.layer, spec.has_lr_mult() && !is_held_later,
                  static_cast<double>(spec.lr_mult()), owner.has_lr_mult, first.lr_mult);
  ShareMultiplier(l, StrCat(use.field, ".decay_mult"), first.layer, spec.has_decay_mult(),
                  static_cast<double>(spec.decay_mult()), owner.has_decay_mult, first.decay_mult);
  return is_held_later || IsHeld(spec);
}

}  // namespace

void CheckValueType(std::string_view what, const TensorType& type) {
  for (const int64_t dim : type.shape.dims()) {
    if (dim >= 1) continue;
    throw Error(ErrorKind::kConfig,
                StrCat(what, " would have the shape ", type.shape.ToString(), "; every dimension must be at least 1"));
  }
  const int64_t bytes = type.Bytes();
  if (bytes < kMaxValueBytes) return;
  throw Error(ErrorKind::kConfig, StrCat(what, " would have the shape ", type.shape.ToString(), ", ", BytesText(bytes),
                                         "; the limit is ", BytesText(kMaxValueBytes)));
}

bool LayerBuilder::Context::ReadsData(ValueId value, int64_t first) const {
  const Graph& graph = net.graph;
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    const Value& known = graph.value(at);
    if (known.producer != kNoId) {
      const std::vector<ValueId>& from = graph.node(known.producer).inputs;
      open.insert(open.end(), from.begin(), from.end());
    } else if (inputs.contains(known.name)) {
      const Shape& shape = graph.shape(at);
      if (first == 0 || (shape.rank() > 0 && shape[0] == first)) return true;
    }
  }
  return false;
}

LayerBuilder::LayerBuilder(Context& context, const LayerParameter& param, std::vector<ValueId> bottoms)
    : context_(context),
      param_(param),
      bottoms_(std::move(bottoms)),
      b_(context.net.graph, NodeOrigin{.layer = param.name(), .place = PlaceOf(param), .pass = {}}) {}

int LayerBuilder::top_count() const { return static_cast<int>(context_.tops.size()); }

// A layer in Python is found by the name of its class too.
bool LayerBuilder::NetHas(std::string_view type) const {
  return std::ranges::any_of(context_.net.param.layer(), [&](const LayerParameter& layer) {
    return layer.type() == type || (layer.type() == "Python" && layer.python_param().layer() == type);
  });
}

void LayerBuilder::MarkPadded(ValueId value) {
  Require(TraitsOf(param_).marks_padding, "MarkPadded: the layer's row has the trait marks_padding");
  context_.padded.insert(value);
}

bool LayerBuilder::IsPadded(ValueId value) const {
  return !context_.padded.empty() && DependsOn(context_.net.graph, value, context_.padded);
}

void LayerBuilder::SetTop(int i, ValueId value) { context_.tops[static_cast<size_t>(i)] = value; }

void LayerBuilder::SetLoss(int i, double default_weight) {
  context_.loss_weights[static_cast<size_t>(i)] = default_weight;
}

void LayerBuilder::Fail(std::string_view field, const std::string& text, std::string hint) const {
  throw ErrorAt(param_, field, Printable(StrCat("layer \"", param_.name(), "\": ", text)), std::move(hint));
}

ValueId LayerBuilder::AddBlob(int index, const Shape& shape, const FillerParameter& filler, ParameterRole role,
                              std::string_view filler_field) {
  const BlobUse use{.spec = index < param_.param_size() ? param_.param(index) : ParamSpec(),
                    .field = StrCat("param[", index, "]"),
                    .filler_field = filler_field};
  const ParamSpec& spec = use.spec;
  const bool is_named = !spec.name().empty();
  std::string key = is_named ? spec.name() : StrCat(param_.name(), "/", index);
  // Caffe keeps the names of parameters and of data apart; the graph does not.
  if (context_.inputs.contains(key)) key = StrCat("@", key);
  CheckValueType(StrCat("parameter ", index, " of layer \"", param_.name(), "\""), {DType::kFloat32, shape, {}});

  CheckDecay(*this, use);

  NetBlob blob{.name = key, .layer = param_.name(), .index = index, .shape = shape, .filler = filler, .role = role};
  if (spec.has_share_mode() && !is_named) {
    context_.unused.push_back(StrCat(PlaceOf(param_, use.field).ToString(), ": layer \"", param_.name(),
                                     "\": share_mode has no effect on a parameter without a name: nothing shares it"));
  }
  const auto found = context_.owners.find(key);
  if (found == context_.owners.end()) {
    const bool is_held = role != ParameterRole::kStatistic && IsHeld(spec);
    return Held(b_, AddFirstUse(*this, context_, use, std::move(blob)), is_held);
  }
  Context::Owner& owner = found->second;
  NetBlob& first = context_.net.blobs[owner.blob];
  CheckSharing(*this, context_, owner, first, use, blob);
  const bool is_held = ShareMultipliers(*this, use, role, owner, first);
  blob.state = first.state;
  blob.shared = true;
  const ValueId state = first.state;
  context_.net.blobs.push_back(std::move(blob));
  const auto current = context_.current.find(state);
  return Held(b_, b_.Reshape(current == context_.current.end() ? state : current->second, shape), is_held);
}

void LayerBuilder::Assign(int index, ValueId value) {
  const auto blob = std::find_if(context_.net.blobs.begin() + static_cast<std::ptrdiff_t>(context_.first_blob),
                                 context_.net.blobs.end(), [&](const NetBlob& b) { return b.index == index; });
  Require(blob != context_.net.blobs.end(), "Assign: the layer has added the blob");
  Graph& graph = context_.net.graph;
  value = b_.Reshape(value, graph.shape(blob->state));
  const auto current = context_.current.find(blob->state);
  if (current == context_.current.end()) {
    graph.Assign(blob->state, value);
  } else {
    for (Assignment& assignment : graph.assignments()) {
      if (assignment.state == blob->state) assignment.value = value;
    }
  }
  context_.current[blob->state] = value;
}

ValueId LayerBuilder::AddKept(std::string_view name, const Shape& shape) {
  std::string key = StrCat(param_.name(), "/@", name);
  const TensorType type{DType::kFloat32, shape, {}};
  CheckValueType(StrCat("the state \"", key, "\""), type);
  Check(!context_.inputs.contains(key) && !context_.owners.contains(key), "name",
        StrCat("the layer's kept state would be \"", key, "\", which is already the name of a parameter or data blob"));
  Check(context_.kept.insert(key).second, "name", StrCat("another layer already keeps a state \"", key, "\""));
  const ValueId state = context_.net.graph.AddState(key, type);
  context_.net.kept.push_back({std::move(key), shape, state});
  return state;
}

ValueId LayerBuilder::RandomKey() {
  if (context_.random_key == kNoId) {
    context_.random_key = context_.net.graph.AddInput("random_key", {DType::kInt64, Shape{}, {}});
  }
  return context_.random_key;
}

bool LayerBuilder::FeedsPythonData() const { return context_.options.feeds_python_data; }

int64_t LayerBuilder::ranks() const { return context_.options.ranks; }

ValueId LayerBuilder::MeanOverRanks(ValueId count, std::string_view use) const {
  const ValueId own = b_.Add1("stop_gradient", {count});
  if (ranks() == 1) return own;
  if (!context_.options.asks_ranks) {
    NoteUnequal(
        "divides by what each rank's own part of a batch has, as ranks cannot ask each other in the middle of a "
        "step with iter_size, this strategy or these devices");
    return own;
  }
  return b_.Add1("mean_over_ranks", {own}, {{"key", RankKey(StrCat(param_.name(), "/@", use))}, {"ranks", ranks()}});
}

void LayerBuilder::NoteUnequal(std::string why) const {
  if (ranks() > 1) context_.net.unequal.emplace_back(param_.name(), std::move(why));
}

bool LayerBuilder::ReadsData(ValueId value) const { return context_.ReadsData(value); }

bool LayerBuilder::IsBatch(ValueId value) const {
  const Shape shape = b_.shape(value);
  return shape.rank() > 0 && context_.ReadsData(value, shape[0]);
}

std::vector<TensorType> LayerBuilder::AskDataTypes() const {
  if (!context_.options.data_types)
    Fail("type", StrCat("no data source can be opened for type ", param_.type(), " here"));
  std::vector<TensorType> types = context_.options.data_types(param_);
  Require(types.size() == static_cast<size_t>(top_count()), "data_types gives a type for each top");
  return types;
}

void LayerBuilder::AddData(const std::vector<TensorType>& types) {
  Require(types.size() == static_cast<size_t>(top_count()), "AddData is given a type for each top");
  DataLayer data{.param = param_, .tops = {}, .types = types};
  for (int i = 0; i < top_count(); ++i) {
    const std::string& name = param_.top(i);
    TensorType& type = data.types[static_cast<size_t>(i)];
    const auto given = context_.options.top_shapes.find(name);
    if (given != context_.options.top_shapes.end()) type.shape = given->second;
    Check(name != "random_key", StrCat("top[", i, "]"), "the name \"random_key\" is Moka's own; take another");
    Check(!context_.owners.contains(name), StrCat("top[", i, "]"),
          StrCat("the top's name \"", name, "\" is also the name of a parameter; take another name"));
    Check(!context_.kept.contains(name), StrCat("top[", i, "]"),
          StrCat("the top's name \"", name, "\" is also the name of a layer's kept state; take another name"));
    CheckValueType(StrCat("top \"", name, "\""), type);
    context_.inputs.insert(name);
    SetTop(i, context_.net.graph.AddInput(name, type));
    data.tops.push_back(name);
  }
  context_.net.data.push_back(std::move(data));
}

}  // namespace moka

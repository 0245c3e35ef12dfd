// Builds the layer again with the field left out or changed and compares the graphs: a field that changes none of them
// is moot. So no table of conditions has to be kept in step with the layers.
#include "layers/net/moot_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/quiet_scope.h"
#include "core/text.h"
#include "graph/graph.h"
#include "layers/net/field_sentences.h"
#include "layers/net/field_variants.h"
#include "layers/net/given_fields.h"
#include "layers/net/layer.h"
#include "layers/net/net.h"
#include "layers/net/unread_fields.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Path = std::vector<const Field*>;  // from the layer down

// Fields that a graph does not show: what is read before the layer is built or by what evaluates its tops, a file that
// is written, what is compared with the bottoms alone; roundings and offsets that are felt at some sizes only; and a
// switch that fillers beside it imply.
bool IsReadElsewhere(const Message& message, const Field& field) {
  static const std::set<std::pair<std::string, std::string>, std::less<>> kFields = {
      {"BatchNormParameter", "scale_bias"},  {"BatchNormParameter", "sync_ranks"},
      {"CTCLossParameter", "alphabet_size"}, {"CTCLossParameter", "time_step"},
      {"CocoEvaluateParameter", "height"},   {"CocoEvaluateParameter", "max_detections"},
      {"CocoEvaluateParameter", "width"},    {"CropParameter", "offset"},
      {"HDF5OutputParameter", "file_name"},  {"MaskParameter", "max_detections"},
      {"PoolingParameter", "ceil_mode"},     {"PoolingParameter", "round_mode"},
  };
  return kFields.contains({message.GetDescriptor()->name(), field.name()});
}

// The graph that a layer becomes in TRAIN and in TEST; nothing where it does not build.
struct Built {
  std::optional<std::string> train;
  std::optional<std::string> test;
  friend bool operator==(const Built&, const Built&) = default;
};

std::string TextOf(const BuiltNet& net) {
  std::string text = ToText(net.graph);
  for (const NetBlob& blob : net.blobs) {
    text += StrCat(blob.name, blob.shape.ToString(), blob.filler.ShortDebugString(), blob.lr_mult, " ",
                   static_cast<int>(blob.role), "\n");
  }
  for (const BuiltNet::Output& output : net.outputs) text += StrCat(output.name, " ", output.loss_weight, "\n");
  return text;
}

// A layer alone, on inputs of given shapes.
class Bench {
 public:
  Bench(const LayerParameter& layer, std::span<const Shape> bottoms) : layer_(layer) {
    layer_.clear_origin();
    layer_.clear_include();
    layer_.clear_exclude();
    layer_.clear_loss_weight();  // which needs weights before it
    LayerParameter& input = *net_.add_layer();
    input.set_name("(bottoms)");
    input.set_type("Input");
    std::set<std::string> names;
    for (int i = 0; i < layer.bottom_size(); ++i) {
      if (!names.insert(layer.bottom(i)).second) continue;
      input.add_top(layer.bottom(i));
      BlobShape& shape = *input.mutable_input_param()->add_shape();
      for (const int64_t dim : bottoms[static_cast<size_t>(i)].dims()) shape.add_dim(dim);
    }
    net_.add_layer();
  }

  const LayerParameter& layer() const { return layer_; }

  Built Build(const LayerParameter& layer) { return {BuildIn(layer, TRAIN), BuildIn(layer, TEST)}; }

 private:
  std::optional<std::string> BuildIn(const LayerParameter& layer, Phase phase) {
    *net_.mutable_layer(1) = layer;
    net_.mutable_layer(0)->set_phase(phase);
    net_.mutable_layer(1)->set_phase(phase);
    NetOptions options;
    options.state.set_phase(phase);
    const QuietScope quiet;
    try {
      return TextOf(BuildNet(net_, options));
    } catch (const std::exception&) {  // whatever a made-up value leads to is no fault of the net
      return std::nullopt;
    }
  }

  LayerParameter layer_;
  NetParameter net_;
};

Message& Below(LayerParameter& layer, const Path& path) {
  Message* message = &layer;
  for (const Field* field : path) message = message->GetReflection()->MutableMessage(message, field);
  return *message;
}

std::string NameOf(const Path& path, const Field& field) {
  std::string name;
  for (const Field* each : path) name += StrCat(each->name(), ".");
  return name + std::string(field.name());
}

struct Leaf {
  Path path;
  const Field* field;
};

// The values of a field as text; a list of one value over and over is that value once, as layers take it for each axis.
std::vector<std::string> ValuesOf(const Message& message, const Field& field) {
  const int count = field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) : 1;
  std::vector<std::string> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    google::protobuf::TextFormat::PrintFieldValueToString(message, &field, field.is_repeated() ? i : -1,
                                                          &values[static_cast<size_t>(i)]);
  }
  const bool is_one = !values.empty() && std::ranges::count(values, values.front()) == count;
  if (is_one) values.resize(1);
  return values;
}

// Lists have no default in the schema; those of windows have one where they are read.
std::vector<std::string> DefaultsOf(const Message& message, const Field& field) {
  const std::string& name = field.name();
  if (field.is_repeated() && field.cpp_type() == Field::CPPTYPE_UINT32) {
    if (name == "pad" || name == "pad_3d") return {"0"};
    if (name == "stride" || name == "stride_3d" || name == "dilation") return {"1"};
  }
  const std::unique_ptr<Message> unset(message.New());
  return ValuesOf(*unset, field);
}

// Returns the fields that say something other than their defaults, and those without a default of their own, as layers
// ask whether it is there.
std::vector<const Field*> SpokenFields(const Message& message) {
  std::vector<const Field*> spoken = GivenFields(message);
  std::erase_if(spoken, [&](const Field* field) {
    return field->is_repeated() && field->message_type() == nullptr &&
           ValuesOf(message, *field) == DefaultsOf(message, *field);
  });
  std::vector<const Field*> present;
  message.GetReflection()->ListFields(message, &present);
  for (const Field* field : present) {
    const bool is_known = field->is_repeated() || std::ranges::find(spoken, field) != spoken.end();
    if (!is_known && field->message_type() == nullptr && !field->has_default_value()) spoken.push_back(field);
  }
  return spoken;
}

void CollectLeaves(const Message& message, const std::string& type, Path& path, std::vector<Leaf>& leaves) {
  for (const Field* field : SpokenFields(message)) {
    const std::string at = path.empty() ? std::string() : NameOf({path.begin(), path.end() - 1}, *path.back());
    if (IsNeverRead(type, at, message, *field)) continue;
    const bool is_filler = field->message_type() == FillerParameter::descriptor();
    if (field->message_type() == nullptr || is_filler) {
      if (!IsReadElsewhere(message, *field) && !(is_filler && field->is_repeated())) leaves.push_back({path, field});
      continue;
    }
    if (field->is_repeated()) continue;
    path.push_back(field);
    CollectLeaves(message.GetReflection()->GetMessage(message, field), type, path, leaves);
    path.pop_back();
  }
}

// The fields of the layer's own messages that say something other than their defaults.
std::vector<Leaf> LeavesOf(const LayerParameter& layer) {
  std::vector<Leaf> leaves;
  const LayerDef* def = FindLayer(layer.type());
  if (def == nullptr) return leaves;
  for (const Field* field : GivenFields(layer)) {
    if (field->is_repeated() || std::ranges::find(def->params, field->name()) == def->params.end()) continue;
    Path path = {field};
    CollectLeaves(layer.GetReflection()->GetMessage(layer, field), layer.type(), path, leaves);
  }
  return leaves;
}

std::string ValueText(const Message& message, const Field& field) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &text);
  return text;
}

bool IsSwitch(const Field& field) {
  return !field.is_repeated() && (field.cpp_type() == Field::CPPTYPE_BOOL || field.cpp_type() == Field::CPPTYPE_ENUM);
}

// Whether the layer is the same with every value of the field that it takes.
bool IsMoot(Bench& bench, const LayerParameter& layer, const Leaf& leaf) {
  const Built plain = bench.Build(layer);
  if (!plain.train && !plain.test) return false;
  LayerParameter changed = layer;
  Message& message = Below(changed, leaf.path);
  const std::unique_ptr<Message> own(message.New());
  own->CopyFrom(message);
  // Where the layer does not build without it, the field is read, whatever else is refused.
  if (!leaf.field->is_required()) {
    message.GetReflection()->ClearField(&message, leaf.field);
    if (!(bench.Build(changed) == plain)) return false;
  }
  bool is_taken = false;
  const std::string given = own->SerializePartialAsString();
  const bool has_values = leaf.field->message_type() == nullptr;
  const auto says_the_same = [&](const Message& variant) {
    const std::vector<std::string> values = ValuesOf(variant, *leaf.field);
    return values == DefaultsOf(*own, *leaf.field) || values == ValuesOf(*own, *leaf.field);
  };
  for (const std::unique_ptr<Message>& variant : FieldVariants(*own, *leaf.field)) {
    if (variant->SerializePartialAsString() == given) continue;
    message.CopyFrom(*variant);
    const Built other = bench.Build(changed);
    if (!other.train && !other.test) continue;
    if (!(other == plain)) return false;
    // That the default, or the same value once more, does as well says little where no third value is taken.
    is_taken = is_taken || !has_values || IsSwitch(*leaf.field) || !says_the_same(*variant);
  }
  return is_taken;
}

// Returns what keeps the field from being read: a switch that is set, or one beside it that is not.
std::string WhyMoot(Bench& bench, const LayerParameter& layer, const Leaf& leaf, std::span<const Leaf> leaves) {
  for (const Leaf& other : leaves) {
    if (!IsSwitch(*other.field) || (other.field == leaf.field && other.path == leaf.path)) continue;
    LayerParameter changed = layer;
    Message& message = Below(changed, other.path);
    const std::string value = ValueText(message, *other.field);
    message.GetReflection()->ClearField(&message, other.field);
    if (!IsMoot(bench, changed, leaf)) {
      return StrCat("changes nothing while ", NameOf(other.path, *other.field), " is ", value);
    }
  }
  const Path top = {leaf.path.front()};
  for (const Path& path : {leaf.path, top}) {
    LayerParameter plain = layer;
    const Message& message = Below(plain, path);
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const Field& field = *message.GetDescriptor()->field(i);
      if (field.cpp_type() != Field::CPPTYPE_BOOL || field.is_repeated()) continue;
      LayerParameter changed = layer;
      Message& other = Below(changed, path);
      const bool value = !message.GetReflection()->GetBool(message, &field);
      other.GetReflection()->SetBool(&other, &field, value);
      const Built built = bench.Build(changed);
      if ((!built.train && !built.test) || IsMoot(bench, changed, leaf)) continue;
      return StrCat("changes nothing without ", NameOf(path, field), ": ", value ? "true" : "false");
    }
  }
  const std::string bottoms = layer.bottom_size() > 1 ? StrCat(layer.bottom_size(), " bottoms and ") : "";
  return StrCat("changes nothing beside the layer's ", bottoms, "other fields");
}

// The same layer on maps that are a little larger, which other roundings and offsets take otherwise.
std::vector<Shape> Larger(std::span<const Shape> shapes) {
  std::vector<Shape> larger;
  for (const Shape& shape : shapes) {
    Ints dims = DimsOf(shape);
    for (size_t i = 2; i < dims.size(); ++i) ++dims[i];
    larger.emplace_back(dims);
  }
  return larger;
}

// Says of a number whether it is 0, 1 or below 0, where fields beside it come to nothing at times: a ratio, a factor.
std::string KindOfNumber(const std::string& value) {
  if (value == "0" || value == "1") return value;
  return value.starts_with("-") ? "-" : "";
}

// The layer without its names and sizes, with the ranks of its bottoms: what decides which fields are read.
std::string KindOf(const LayerParameter& layer, std::span<const Shape> bottoms) {
  std::string kind = layer.type();
  for (const Leaf& leaf : LeavesOf(layer)) {
    LayerParameter copy = layer;
    kind += StrCat(" ", NameOf(leaf.path, *leaf.field));
    if (leaf.field->is_repeated() || leaf.field->message_type() != nullptr) continue;
    const std::string value = ValueText(Below(copy, leaf.path), *leaf.field);
    kind += StrCat("=", IsSwitch(*leaf.field) ? value : KindOfNumber(value));
  }
  for (const Shape& shape : bottoms) kind += StrCat(" ", shape.rank());
  return StrCat(kind, " ", layer.top_size());
}

}  // namespace

std::vector<MootField> MootFieldsOf(const LayerParameter& layer, std::span<const Shape> bottoms,
                                    const std::set<std::string>* only) {
  std::vector<MootField> moot;
  const std::vector<Leaf> leaves = LeavesOf(layer);
  if (layer.bottom_size() == 0 || leaves.empty()) return moot;
  Bench bench(layer, bottoms);
  Bench larger(layer, Larger(bottoms));
  for (const Leaf& leaf : leaves) {
    if (only != nullptr && !only->contains(NameOf(leaf.path, *leaf.field))) continue;
    if (!IsMoot(bench, bench.layer(), leaf)) continue;
    const Built built = larger.Build(larger.layer());
    if ((built.train || built.test) && !IsMoot(larger, larger.layer(), leaf)) continue;
    moot.push_back({NameOf(leaf.path, *leaf.field), WhyMoot(bench, bench.layer(), leaf, leaves)});
  }
  return moot;
}

std::vector<std::string> MootNetFields(std::span<const ShapedLayer> layers) {
  Sentences sentences;
  std::map<std::string, std::set<std::string>> moot_in_first;  // paths, by the kind
  for (const ShapedLayer& each : layers) {
    const auto [known, is_new] = moot_in_first.try_emplace(KindOf(*each.layer, each.bottoms));
    if (!is_new && known->second.empty()) continue;
    // Numbers decide at times, so that what is told of one layer is looked at in the others of its kind.
    for (const MootField& field : MootFieldsOf(*each.layer, each.bottoms, is_new ? nullptr : &known->second)) {
      if (is_new) known->second.insert(field.path);
      sentences.Add(*each.layer, field.path, field.why);
    }
  }
  return sentences.Take();
}

}  // namespace moka

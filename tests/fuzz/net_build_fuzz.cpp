// Any bytes as recipe of a net: layers of every type with fields of every kind, from small to hostile, go through the
// net builder and shape inference. What is built and small enough is verified and computed once by the references.
#include <array>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/text.h"
#include "graph/interpreter.h"
#include "layers/net/catalog.h"
#include "layers/net/layer.h"
#include "layers/net/net.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The recipe; past its end it says 0.
class Recipe {
 public:
  explicit Recipe(std::string_view bytes) : bytes_(bytes) {}
  size_t Below(size_t n) { return n == 0 ? 0 : Next() % n; }
  bool OneIn(size_t n) { return Below(n) == n - 1; }

  template <class T, size_t N>
  T Of(const std::array<T, N>& choices) {
    return choices[Below(N)];
  }

 private:
  size_t Next() { return at_ < bytes_.size() ? static_cast<uint8_t>(bytes_[at_++]) : 0U; }

  std::string_view bytes_;
  size_t at_ = 0;
};

constexpr std::array<int64_t, 20> kIntegers = {
    1, 2, 3, 0, 4, 1, 2, 5, 7, 8, -1, 1, 2, 3, 16, -2, 1000, 1'000'000'000, INT32_MAX, INT64_MAX};
constexpr std::array<double, 10> kNumbers = {1,    0.5,  0,     2,     -1,
                                             1e-5, 1e38, -1e38, 1e-45, std::numeric_limits<double>::quiet_NaN()};
constexpr std::array<const char*, 8> kStrings = {"constant", "xavier", "gaussian", "msra", "bilinear", "a", "b", ""};

void SetOne(Message& message, const FieldDescriptor& field, Recipe& recipe, int depth);

void FillMessage(Message& message, Recipe& recipe, int depth) {
  const auto& descriptor = *message.GetDescriptor();
  if (descriptor.field_count() == 0) return;
  for (size_t left = recipe.Below(7); left > 0; --left) {
    const auto index = recipe.Below(static_cast<size_t>(descriptor.field_count()));
    const FieldDescriptor& field = *descriptor.field(static_cast<int>(index));
    const size_t times = field.is_repeated() ? 1 + recipe.Below(3) : 1;
    for (size_t i = 0; i < times; ++i) SetOne(message, field, recipe, depth);
  }
}

template <class T>
void SetNumber(Message& message, const FieldDescriptor& field, T value,
               void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
               void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  (message.GetReflection()->*(field.is_repeated() ? add : set))(&message, &field, value);
}

void SetOne(Message& message, const FieldDescriptor& field, Recipe& recipe, int depth) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return SetNumber(message, field, static_cast<int32_t>(recipe.Of(kIntegers)), &Reflection::SetInt32,
                       &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return SetNumber(message, field, recipe.Of(kIntegers), &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return SetNumber(message, field, static_cast<uint32_t>(recipe.Of(kIntegers)), &Reflection::SetUInt32,
                       &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetNumber(message, field, static_cast<uint64_t>(recipe.Of(kIntegers)), &Reflection::SetUInt64,
                       &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return SetNumber(message, field, static_cast<float>(recipe.Of(kNumbers)), &Reflection::SetFloat,
                       &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SetNumber(message, field, recipe.Of(kNumbers), &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return SetNumber(message, field, recipe.Below(2) == 0, &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto& type = *field.enum_type();
      const auto* value = type.value(static_cast<int>(recipe.Below(static_cast<size_t>(type.value_count()))));
      return SetNumber(message, field, value, &Reflection::SetEnum, &Reflection::AddEnum);
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = recipe.Of(kStrings);
      if (field.is_repeated()) return reflection.AddString(&message, &field, text);
      return reflection.SetString(&message, &field, text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      if (depth == 0) return;
      Message& inner =
          field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field);
      return FillMessage(inner, recipe, depth - 1);
    }
  }
}

// "InnerProduct" -> inner_product_param; null for layers without a message of their own.
const FieldDescriptor* ParamOf(std::string_view type) {
  static const std::map<std::string, const FieldDescriptor*> params = [] {
    std::map<std::string, const FieldDescriptor*> found;
    const auto& layer = *LayerParameter::descriptor();
    for (int i = 0; i < layer.field_count(); ++i) {
      std::string name = layer.field(i)->name();
      if (!name.ends_with("_param")) continue;
      name.resize(name.size() - 6);
      std::erase(name, '_');
      found.emplace(name, layer.field(i));
    }
    return found;
  }();
  const auto it = params.find(AsciiLower(type));
  return it == params.end() ? nullptr : it->second;
}

void AddInputs(NetParameter& net, Recipe& recipe) {
  for (const char* name : {"a", "b"}) {
    LayerParameter& layer = *net.add_layer();
    layer.set_name(name);
    layer.set_type("Input");
    layer.add_top(name);
    BlobShape& shape = *layer.mutable_input_param()->add_shape();
    const size_t rank = recipe.OneIn(4) ? recipe.Below(9) : 4;
    for (size_t i = 0; i < rank; ++i) {
      shape.add_dim(recipe.OneIn(16) ? recipe.Of(kIntegers) : static_cast<int64_t>(1 + recipe.Below(6)));
    }
  }
}

NetParameter NetOf(std::string_view bytes) {
  Recipe recipe(bytes);
  NetParameter net;
  AddInputs(net, recipe);
  std::vector<std::string> tops = {"a", "b"};
  const std::vector<LayerDef>& types = AllLayers();
  const size_t count = 1 + recipe.Below(6);
  for (size_t i = 0; i < count; ++i) {
    const LayerDef& def = types[recipe.Below(types.size())];
    LayerParameter& layer = *net.add_layer();
    layer.set_type(def.type);
    layer.set_name(StrCat("layer", i));
    const size_t more = def.max_bottoms < 0 ? recipe.Below(3) : recipe.Below(2);
    for (size_t k = 0; k < static_cast<size_t>(def.min_bottoms) + more; ++k) {
      layer.add_bottom(tops[tops.size() - 1 - recipe.Below(tops.size())]);
    }
    const size_t made = static_cast<size_t>(def.min_tops) + (recipe.OneIn(4) ? recipe.Below(3) : 0);
    for (size_t k = 0; k < made; ++k) {
      const bool in_place = k == 0 && layer.bottom_size() > 0 && recipe.OneIn(4);
      layer.add_top(in_place ? layer.bottom(0) : StrCat("t", i, "_", k));
    }
    if (const FieldDescriptor* param = ParamOf(def.type)) {
      FillMessage(*layer.GetReflection()->MutableMessage(&layer, param), recipe, 2);
    }
    if (recipe.OneIn(8)) FillMessage(layer, recipe, 1);
    for (const std::string& top : layer.top()) tops.push_back(top);
  }
  return net;
}

// One pass of the whole graph over zeros, where that is a matter of microseconds.
void ComputeIfSmall(const BuiltNet& net) {
  constexpr int64_t kMostValues = 1 << 12;
  constexpr int64_t kMostOperations = 1 << 15;
  const Graph& graph = net.graph;
  int64_t values = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.shape(id).Count() > kMostValues) return;
    values += graph.shape(id).Count();
  }
  int64_t operations = 0;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (node.op->flops == nullptr) continue;
    const int64_t flops = node.op->flops(node.attributes, graph.InputTypes(node), graph.OutputTypes(node));
    if (flops > kMostOperations) return;
    operations += flops;
  }
  if (values > kMostValues || operations > kMostOperations) return;
  std::map<ValueId, RefTensor> fed;
  std::vector<ValueId> wanted;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::kResult) {
      if (value.producer != kNoId) wanted.push_back(id);
    } else {
      fed[id] = {value.type, std::vector<double>(static_cast<size_t>(value.type.shape.Count()), 0.0)};
    }
  }
  const std::vector<RefTensor> results = Interpret(graph, fed, wanted);
  for (const RefTensor& result : results) {
    Require(static_cast<int64_t>(result.values.size()) == result.type.shape.Count(), "values fill their shape");
  }
}

}  // namespace

FuzzTarget NetBuildFuzz() {
  return {"net_build", [](std::string_view bytes) {
            NetOptions options;
            options.state.set_phase(bytes.size() % 2 == 0 ? TRAIN : TEST);
            options.data_types = [](const LayerParameter& layer) {
              std::vector<TensorType> types{{DType::kFloat32, {2, 3, 6, 6}, {}}, {DType::kFloat32, {2}, {}}};
              types.resize(static_cast<size_t>(layer.top_size()), types.front());
              return types;
            };
            const BuiltNet net = BuildNet(NetOf(bytes), options);
            Verify(net.graph, "building");
            ComputeIfSmall(net);
          }};
}

}  // namespace moka

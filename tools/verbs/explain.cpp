// moka explain: the manual of layers and ops, from the catalogue and the schema.
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include "core/error.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/catalog.h"
#include "layers/layer.h"
#include "proto/moka.pb.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

std::string TypeText(const google::protobuf::FieldDescriptor& field) {
  const std::string type = field.enum_type() != nullptr      ? std::string(field.enum_type()->name())
                           : field.message_type() != nullptr ? std::string(field.message_type()->name())
                                                             : std::string(field.type_name());
  return field.is_repeated() ? "repeated " + type : type;
}

// The parameter message of a layer type: ConvolutionParameter for Convolution.
const google::protobuf::Descriptor* ParameterOf(const std::string& type) {
  return google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName("moka." + type + "Parameter");
}

void PrintFields(const google::protobuf::Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    std::string fallback;
    if (field.has_default_value()) {
      if (field.enum_type() != nullptr) fallback = field.default_value_enum()->name();
      if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT)
        fallback = ToText(static_cast<double>(field.default_value_float()));
      if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL)
        fallback = field.default_value_bool() ? "true" : "false";
      if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT32)
        fallback = std::to_string(field.default_value_int32());
      if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32)
        fallback = std::to_string(field.default_value_uint32());
      if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING)
        fallback = "\"" + field.default_value_string() + "\"";
    }
    fmt::print("  {:<22} {}{}\n", std::string(field.name()), TypeText(field), fallback.empty() ? "" : " = " + fallback);
  }
}

void ExplainLayer(const std::string& name) {
  const LayerDef* layer = FindLayer(name);
  if (layer == nullptr) {
    std::vector<std::string> types;
    for (const LayerDef& each : AllLayers()) types.push_back(each.type);
    throw Error(ErrorKind::kUsage, {}, StrCat("no layer type \"", Printable(name), "\""), DidYouMean(name, types));
  }
  const auto range = [](int low, int high) {
    return high < 0      ? fmt::format("{} or more", low)
           : low == high ? fmt::format("{}", low)
                         : fmt::format("{} to {}", low, high);
  };
  fmt::print("{}\n  {}\n  bottoms: {}; tops: {}\n", layer->type, layer->doc,
             range(layer->min_bottoms, layer->max_bottoms), range(layer->min_tops, layer->max_tops));
  if (const auto* message = ParameterOf(layer->type)) {
    fmt::print("fields of its parameter message:\n");
    PrintFields(*message);
  }
}

void ExplainOp(const std::string& name) {
  const Catalog& catalog = StandardCatalog();
  const OpDef* op = catalog.FindOp(name);
  if (op == nullptr) {
    std::vector<std::string> names;
    for (const OpDef& each : catalog.ops()) names.push_back(each.name);
    throw Error(ErrorKind::kUsage, {}, StrCat("no op \"", Printable(name), "\""), DidYouMean(name, names));
  }
  fmt::print("{}\n  {}\n", op->name, op->doc);
  for (const AttributeSpec& attribute : op->attributes) {
    fmt::print("  {:<16} {}{}\n", attribute.name, attribute.doc,
               attribute.fallback ? " (default " + ToText(*attribute.fallback) + ")" : "");
  }
  std::vector<std::string> kernels;
  for (const KernelDef* kernel : catalog.KernelsOf(name, DeviceKind::kCpu)) kernels.push_back(kernel->name);
  fmt::print("  CPU kernels: {}{}\n", kernels.empty() ? "" : Join(kernels, ", ") + ", ", "reference");
}

int Run(const Arguments& arguments) {
  const std::string kind = arguments.positionals.empty() ? "" : arguments.positionals[0];
  const std::string name = arguments.positionals.size() > 1 ? arguments.positionals[1] : "";
  if (kind != "layer" && kind != "op") {
    throw Error(ErrorKind::kUsage, {},
                StrCat("moka explain wants \"layer\" or \"op\", found \"", Printable(kind), "\""),
                DidYouMean(kind, {"layer", "op"}));
  }
  if (!name.empty()) {
    kind == "layer" ? ExplainLayer(name) : ExplainOp(name);
    return 0;
  }
  if (kind == "layer") {
    for (const LayerDef& layer : AllLayers())
      fmt::print("{:<26} {}\n", layer.type, layer.doc.substr(0, layer.doc.find(". ")));
  } else {
    for (const OpDef& op : StandardCatalog().ops())
      fmt::print("{:<32} {}\n", op.name, op.doc.substr(0, op.doc.find(". ")));
  }
  return 0;
}

}  // namespace

Verb ExplainVerb() {
  Verb verb;
  verb.name = "explain";
  verb.summary = "what a layer or op does: fields, defaults, kernels";
  verb.usage = "layer|op [NAME]";
  verb.examples = {"moka explain layer Convolution", "moka explain op pointwise", "moka explain layer"};
  verb.run = Run;
  return verb;
}

}  // namespace moka

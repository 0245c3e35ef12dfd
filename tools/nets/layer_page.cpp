// Every number on a page is from a run of the layer's own example, so that pages cannot go stale.
#include "tools/nets/layer_page.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <set>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/manual_page.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "proto/text/schema.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::string TypeText(const FieldDescriptor& field) {
  std::string type = field.enum_type() != nullptr      ? "one of"
                     : field.message_type() != nullptr ? field.message_type()->name()
                                                       : field.type_name();
  for (int i = 0; field.enum_type() != nullptr && i < field.enum_type()->value_count(); ++i) {
    type += StrCat(i == 0 ? " " : ", ", field.enum_type()->value(i)->name());
  }
  return field.is_repeated() ? StrCat("list of ", type) : type;
}

// A cell of a Markdown table.
std::string Cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return text;
}

std::string FieldTable(const std::string& title, const Descriptor& message) {
  std::string text = StrCat("### ", title, "\n\n");
  const std::string comment = CommentOf(message);
  if (!comment.empty()) text += comment + "\n\n";
  text += "| field | type | default | meaning |\n|---|---|---|---|\n";
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.name(), Cell(TypeText(field)), Cell(DefaultOf(field)),
                        Cell(CommentOf(field)));
  }
  return text + "\n";
}

// The tables of the layer's parameter messages; messages inside them follow once each.
std::string FieldTables(const LayerDef& layer) {
  std::string text;
  std::set<const Descriptor*> inner;
  for (const std::string& param : layer.params) {
    const FieldDescriptor* field = LayerParameter::descriptor()->FindFieldByName(param);
    Require(field != nullptr && field->message_type() != nullptr,
            StrCat("layer ", layer.type, " names fields of LayerParameter"));
    text += FieldTable(StrCat("`", param, "`"), *field->message_type());
    for (int i = 0; i < field->message_type()->field_count(); ++i) {
      const Descriptor* message = field->message_type()->field(i)->message_type();
      if (message != nullptr) inner.insert(message);
    }
  }
  std::set<std::string> names;
  for (const Descriptor* message : inner) names.insert(StrCat("`", message->name(), "`"));
  if (!names.empty()) {
    const std::vector<std::string> list(names.begin(), names.end());
    text += StrCat("Messages inside: ", Join(list, ", "), " (their fields stand in `proto/`).\n\n");
  }
  return text.empty() ? std::string("None of its own.\n\n") : text;
}

std::string CountText(int low, int high) {
  if (high < 0) return fmt::format("{} or more", low);
  return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
}

// "`conv:conv` [2,4,6,6]" for every top of the example's layers of the type, and their parameters.
std::string ExampleShapes(const LayerDef& layer) {
  const NetParameter net = NetFromText(ManualPageOf(layer.type).example, StrCat("example of ", layer.type));
  NetOptions options;
  options.state.set_phase(net.state().has_phase() ? net.state().phase() : TRAIN);
  options.data_types = GuessDataTypes();
  const BuiltNet built = BuildNet(net, options);
  std::set<std::string> own;
  for (const LayerParameter& param : built.param.layer()) {
    if (param.type() == layer.type) own.insert(param.name());
  }
  std::string text;
  for (const auto& [name, value] : built.trace) {
    if (!own.contains(name.substr(0, name.rfind(':')))) continue;
    text += StrCat("- top `", name.substr(name.rfind(':') + 1), "` ", built.graph.shape(value).ToString(), "\n");
  }
  for (const NetBlob& blob : built.blobs) {
    if (own.contains(blob.layer)) text += StrCat("- parameter ", blob.index, " ", blob.shape.ToString(), "\n");
  }
  return text;
}

}  // namespace

std::string LayerPageText(const LayerDef& layer) {
  const ManualPage& page = ManualPageOf(layer.type);
  const std::string list = layer.page_list == nullptr ? "" : layer.page_list();
  std::string text = StrCat("# ", layer.type, "\n\n", page.doc, list, "\n\n");
  text += fmt::format("Bottoms: {}. Tops: {}.\n\n", CountText(layer.min_bottoms, layer.max_bottoms),
                      layer.equal_counts ? "as many" : CountText(layer.min_tops, layer.max_tops));
  text += StrCat("## Formula\n\n", page.formula, "\n\n## Gradient\n\n", page.gradient, "\n\n");
  text += StrCat("## Fields\n\n", FieldTables(layer));
  text += StrCat("## Example\n\n```\n", Trim(page.example), "\n```\n\n", ExampleShapes(layer), "\n");
  return text + StrCat("## Source\n\n", page.source, "\n");
}

std::string LayerIndexText() {
  std::string text = "# Layers\n\nMade by `moka explain layer --write`.\n\n";
  for (const LayerDef& layer : AllLayers()) {
    text += fmt::format("- [{0}]({0}.md): {1}\n", layer.type, FirstSentence(ManualPageOf(layer.type)));
  }
  return text;
}

}  // namespace moka

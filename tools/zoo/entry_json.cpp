// Entries as JSON: what scripts, and tools/zoo/report, read.
#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "tools/nets/zoo_weights.h"
#include "tools/zoo/tables.h"

namespace moka {
namespace {

using ZooJson = nlohmann::ordered_json;

ZooJson RowOf(const ZooRow& row) {
  const ModelCard& card = row.entry.card;
  ZooJson json = {
      {"name", row.entry.name},
      {"title", card.title()},
      {"folder", row.entry.folder.string()},
      {"task", TaskName(card.task())},
      {"status", Describe(StatusOf(card))},
      {"parameters", row.expected ? row.expected->parameters : card.parameters()},
      {"statistics", row.expected ? row.expected->statistics : card.statistics()},
      {"macs", row.expected ? row.expected->macs : card.macs()},
      {"memory", nullptr},
      {"solver", card.recipe(0).solver()},
      {"override", std::vector<std::string>(card.recipe(0).override().begin(), card.recipe(0).override().end())},
      {"metric", nullptr}};
  if (row.expected && row.expected->memory)
    json["memory"] = {{"batch", row.expected->memory->batch}, {"bytes", row.expected->memory->bytes}};
  if (const MetricSummary metric = SummaryOf(card.recipe(0)); metric.count > 0) {
    json["metric"] = {{"name", card.recipe(0).metric()}, {"mean", metric.mean},
                      {"spread", metric.spread},         {"seeds", metric.count},
                      {"unit", card.recipe(0).unit()},   {"text", MetricText(card.recipe(0))}};
  }
  json["weights"] = nullptr;
  if (const ZooWeights* own = OwnWeightsOf(card); own != nullptr) {
    json["weights"] = {
        {"file", (row.entry.folder / own->file()).string()}, {"dtype", own->dtype()}, {"bytes", own->bytes()}};
    if (own->has_metric()) json["weights"]["metric"] = {{"name", own->metric()}, {"value", own->value()}};
  }
  // Shapes that data layers cannot say without their data: what `moka bench model --shape` wants.
  ZooJson shapes = ZooJson::object();
  for (const ZooTop& top : card.check().top()) {
    if (top.dim_size() > 0) shapes[top.name()] = std::vector<int64_t>(top.dim().begin(), top.dim().end());
  }
  json["shapes"] = std::move(shapes);
  return json;
}

}  // namespace

std::string RowJson(const ZooRow& row) { return RowOf(row).dump(-1, ' ', false, ZooJson::error_handler_t::replace); }

std::string InfoJson(const ZooRow& row) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  (void)google::protobuf::util::MessageToJsonString(row.entry.card, &text, options);
  ZooJson json = RowOf(row);
  json["card"] = ZooJson::parse(text);
  return json.dump(2, ' ', false, ZooJson::error_handler_t::replace);
}

}  // namespace moka

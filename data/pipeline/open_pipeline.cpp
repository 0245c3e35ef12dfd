// Opens a data layer by its type's row, and checks what all of them have in common before.
#include "data/pipeline/open_pipeline.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <optional>

#include "core/text.h"
#include "data/augment/augment_fields.h"
#include "data/data_layers.h"
#include "proto/text/places.h"
#include "proto/text/text_slips.h"

namespace moka {
namespace {

// A layer is opened for one phase only; its include rules may name the other.
void CheckPhase(const LayerParameter& layer, Phase phase) {
  const auto matches = [&](const NetStateRule& rule) { return !rule.has_phase() || rule.phase() == phase; };
  const bool included = layer.include().empty() || std::any_of(layer.include().begin(), layer.include().end(), matches);
  if (included) return;
  throw ErrorAt(
      layer, "include",
      StrCat("layer \"", layer.name(), "\" is not part of the ", Phase_Name(phase), " phase, for which it was opened"));
}

// The layer's "..._param.source", where what is missing is that.
std::optional<std::pair<std::string, std::string>> MissingSource(const LayerParameter& layer, const Error& error) {
  if (error.kind() != ErrorKind::kNoInput) return std::nullopt;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    const auto* source = field->message_type()->FindFieldByName("source");
    if (source == nullptr || source->is_repeated() || source->type() != source->TYPE_STRING) continue;
    const google::protobuf::Message& param = layer.GetReflection()->GetMessage(layer, field);
    const std::string path = param.GetReflection()->GetString(param, source);
    if (!path.empty() && error.text().find(path) != std::string::npos)
      return std::pair(StrCat(field->name(), ".source"), path);
  }
  return std::nullopt;
}

}  // namespace

bool ReadsRecords(std::string_view type) {
  const DataLayerRow* row = FindDataLayer(type);
  return row != nullptr && row->has_records;
}

bool IsPipelineLayer(std::string_view type) { return FindDataLayer(type) != nullptr; }

std::unique_ptr<Pipeline> OpenPipeline(const LayerParameter& layer, const PipelineOptions& options) {
  CheckPhase(layer, options.phase);
  const DataLayerRow* row = FindDataLayer(layer.type());
  if (row == nullptr) {
    std::vector<std::string> types;
    for (const DataLayerRow& known : AllDataLayers()) types.push_back(known.type);
    throw ErrorAt(layer, "type",
                  StrCat("layer \"", layer.name(), "\": type \"", layer.type(), "\" is not a data layer"),
                  DidYouMean(layer.type(), types));
  }
  try {
    CheckAugment(layer);
    return row->open(layer, options);
  } catch (Error& e) {
    if (!e.place().file.empty()) throw;
    const auto source = MissingSource(layer, e);
    if (!source) {
      e.SetPlace(PlaceOf(layer));
      throw;
    }
    const std::string hint = PathHint(source->second);
    Error placed(e.kind(), PlaceOf(layer, source->first), e.text(), hint.empty() ? e.hint() : hint);
    for (const std::string& note : e.notes()) placed.AddNote(note);
    throw placed;
  }
}

}  // namespace moka

// Opens a data layer by its type's row, and checks what all of them have in common before.
#include "data/pipeline/open_pipeline.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
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

// A path that a layer names in a field of one of its messages ("data_param.source", "transform_param.mean_file").
struct NamedPath {
  std::string field;
  std::string path;
};

// Whether a text has a path as a word of its own, or as the beginning of a longer path.
bool NamesPath(std::string_view text, std::string_view path) {
  constexpr std::string_view kBefore = " \"'(/";
  constexpr std::string_view kBehind = " \"'),:;/";
  for (size_t at = text.find(path); at != std::string_view::npos; at = text.find(path, at + 1)) {
    const size_t end = at + path.size();
    const bool begins = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
    if (begins && (end == text.size() || kBehind.find(text[end]) != std::string_view::npos)) return true;
  }
  return false;
}

// The longest that the text speaks of.
std::optional<NamedPath> NamedPathIn(const LayerParameter& layer, const std::string& sentence) {
  std::optional<NamedPath> longest;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    const google::protobuf::Message& param = layer.GetReflection()->GetMessage(layer, field);
    std::vector<const google::protobuf::FieldDescriptor*> given;
    param.GetReflection()->ListFields(param, &given);
    for (const auto* text : given) {
      if (text->is_repeated() || text->type() != text->TYPE_STRING) continue;
      const std::string path = param.GetReflection()->GetString(param, text);
      if (path.size() > (longest ? longest->path.size() : 0) && NamesPath(sentence, path))
        longest = NamedPath{StrCat(field->name(), ".", text->name()), path};
    }
  }
  return longest;
}

// Where the end of a path leads from the net's own folder, as of a folder that was moved with its data; empty: nowhere.
std::string MovedHint(const std::string& net_file, const std::filesystem::path& path) {
  std::error_code ignored;
  for (auto first = path.begin(); first != path.end() && std::next(first) != path.end(); ++first) {
    std::filesystem::path end;
    for (auto step = first; step != path.end(); ++step) end /= *step;
    if (end.is_absolute()) continue;
    const std::filesystem::path beside = std::filesystem::path(net_file).parent_path() / end;
    if (std::filesystem::exists(beside, ignored))
      return StrCat(Printable(beside.string()), " is there: if it was moved, write that path");
  }
  return {};
}

// Says what to do about what is not there: the error's own help, or what the path itself tells.
std::string MissingHint(const LayerParameter& layer, const NamedPath& named, const Error& error) {
  if (error.kind() != ErrorKind::kNoInput) return error.hint();
  std::string hint = PathHint(named.path);
  if (hint.empty()) hint = MovedHint(PlaceOf(layer).file, named.path);
  return hint.empty() ? error.hint() : hint;
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
    const std::optional<SourcePlace> place = PlaceNamedIn(layer, e.text());
    const std::optional<NamedPath> named = place ? std::nullopt : NamedPathIn(layer, e.text());
    if (!named) {
      e.SetPlace(place.value_or(PlaceOf(layer)));
      throw;
    }
    Error placed(e.kind(), PlaceOf(layer, named->field), e.text(), MissingHint(layer, *named, e));
    for (const std::string& note : e.notes()) placed.AddNote(note);
    throw placed;
  }
}

}  // namespace moka

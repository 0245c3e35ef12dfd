// The report as one JSON object: sources with their counts, and all findings with all of their examples.
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "data/check/check.h"
#include "data/check/source_summary.h"

namespace moka {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson CountsOf(const std::vector<std::pair<std::string, int64_t>>& counts) {
  OrderedJson json = OrderedJson::array();
  for (const auto& [name, count] : counts) json.push_back({{"name", name}, {"count", count}});
  return json;
}

OrderedJson RangeOf(const SideRange& range) {
  return {{"least", range.least}, {"median", range.median}, {"most", range.most}};
}

OrderedJson SourceOf(const SourceLook& look) {
  const SourceSummary summary = SummaryOf(look);
  OrderedJson json = {{"source", look.source()},
                      {"pictures", summary.pictures},
                      {"bad", summary.bad},
                      {"bytes", summary.bytes},
                      {"width", RangeOf(summary.width)},
                      {"height", RangeOf(summary.height)},
                      {"distinct_sizes", summary.distinct_sizes},
                      {"sizes", CountsOf(summary.sizes)},
                      {"formats", summary.formats},
                      {"channels", summary.channels}};
  json["orientations"] = OrderedJson::object();
  for (const auto& [tag, count] : summary.orientations) json["orientations"][std::to_string(tag)] = count;
  json["classes"] = CountsOf(NamedCounts(look.labels(), LabelNames(look)));
  json["boxes"] = CountsOf(NamedCounts(look.boxes(), BoxNames(look)));
  json["mask_pixels"] = CountsOf(NamedCounts(look.mask_pixels(), MaskNames(look)));
  json["targets"] = OrderedJson::array();
  for (size_t i = 0; i < look.targets().size(); ++i) {
    const bool is_named = static_cast<int>(i) < look.schema().target_size();
    json["targets"].push_back({{"name", is_named ? look.schema().target(static_cast<int>(i)) : std::string()},
                               {"least", look.targets()[i].least},
                               {"most", look.targets()[i].most}});
  }
  return json;
}

OrderedJson FindingOf(const Finding& finding, const CheckReport& report) {
  OrderedJson json = {
      {"kind", finding.kind}, {"severity", NameOf(finding.severity)}, {"title", finding.title}, {"help", finding.help}};
  json["examples"] = OrderedJson::array();
  for (const FindingExample& example : finding.examples) {
    OrderedJson pictures = OrderedJson::array();
    for (const PictureRef& picture : example.pictures) {
      pictures.push_back(report.looks[picture.source]->PlaceOf(picture.index));
    }
    json["examples"].push_back({{"text", example.text}, {"pictures", pictures}});
  }
  return json;
}

}  // namespace

std::string CheckJson(const CheckReport& report) {
  OrderedJson json = {{"can_train", report.exit_code == 0},
                      {"exit_code", report.exit_code},
                      {"errors", report.Count(Severity::kError)},
                      {"warnings", report.Count(Severity::kWarning)}};
  json["sources"] = OrderedJson::array();
  for (const auto& look : report.looks) json["sources"].push_back(SourceOf(*look));
  json["findings"] = OrderedJson::array();
  for (const Finding& finding : report.findings) json["findings"].push_back(FindingOf(finding, report));
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace moka

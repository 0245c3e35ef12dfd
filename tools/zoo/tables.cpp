// Cells are rounded for people; all numbers come from cards and expected.json and none is typed.
#include "tools/zoo/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "tools/nets/zoo_weights.h"

namespace moka {
namespace {

std::string WithCommas(int64_t number) {
  std::string digits = std::to_string(number);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

// "25.6 M", "431 K", "12".
std::string ShortCount(int64_t number) {
  const auto value = static_cast<double>(number);
  if (number >= 1000000000) return fmt::format("{:.3g} G", value * 1e-9);
  if (number >= 1000000) return fmt::format("{:.3g} M", value * 1e-6);
  if (number >= 1000) return fmt::format("{:.3g} K", value * 1e-3);
  return std::to_string(number);
}

std::string ValueText(double value, const std::string& unit) {
  if (unit == "%") return fmt::format("{:.2f} %", 100 * value);
  return fmt::format("{:.5g}{}{}", value, unit.empty() ? "" : " ", unit);
}

// "42 s", "12.5 min", "3.2 h".
std::string WallText(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  return seconds < 7200 ? fmt::format("{:.3g} min", seconds / 60) : fmt::format("{:.3g} h", seconds / 3600);
}

// A cell: no line breaks or bars, which would end it.
std::string TableCell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::string safe;
  for (const char c : text) safe += c == '|' ? std::string("\\|") : std::string(1, c);
  return safe.empty() ? "–" : safe;
}

std::string TableLine(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += StrCat(" ", TableCell(cell), " |");
  return line + "\n";
}

std::string TableHead(const std::vector<std::string>& names) {
  std::string line = "|";
  for (size_t i = 0; i < names.size(); ++i) line += "---|";
  return TableLine(names) + line + "\n";
}

std::string WholeCount(const std::optional<Expected>& expected, int64_t Expected::*field, int64_t of_card) {
  const int64_t number = expected ? (*expected).*field : of_card;
  return number > 0 ? WithCommas(number) : "";
}

std::string CommandOf(const ZooEntry& entry, const ZooRecipe& recipe) {
  std::string command = StrCat("moka train --solver=models/", entry.name, "/", recipe.solver());
  for (const std::string& text : recipe.override()) command += StrCat(" ", text);
  return command;
}

std::string DataText(const ZooData& data) {
  std::vector<std::string> parts = {data.name()};
  if (data.split_size() > 0) parts.push_back(Join({data.split().begin(), data.split().end()}, "; "));
  if (data.has_source()) parts.push_back(data.source());
  if (data.has_licence()) parts.push_back(StrCat("licence: ", data.licence()));
  if (data.has_checksum()) parts.push_back(StrCat("checksum ", data.checksum()));
  return Join(parts, "; ");
}

std::string Preprocessing(const ZooEntry& entry) {
  std::vector<std::string> parts;
  const RecipeNets recipe = ReadRecipe(entry, entry.card.recipe(0));
  if (!recipe.nets.tests.empty()) parts.push_back(PreprocessingOf(recipe.nets.tests[0]));
  if (entry.card.has_preprocessing()) parts.push_back(entry.card.preprocessing());
  std::erase(parts, "");
  return Join(parts, "; ");
}

std::string MemoryText(const std::optional<Expected>& expected) {
  if (!expected || !expected->memory) return "";
  return StrCat(BytesText(expected->memory->bytes), " planned for a training step of batch ", expected->memory->batch);
}

// "accuracy 99.33 % on 10,000 samples of MNIST, by solver.prototxt".
std::string WeightsMetricText(const ZooEntry& entry, const ZooWeights& file) {
  std::string unit;
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    if (recipe.solver() == file.solver() && recipe.metric() == file.metric()) unit = recipe.unit();
  }
  return StrCat(file.metric(), " ", ValueText(file.value(), unit), " on ",
                file.has_samples() ? StrCat(WithCommas(file.samples()), " samples of ") : "", file.data(), ", by ",
                file.solver());
}

// "trained here, with weights".
std::string StatusText(const ModelCard& card) {
  return StrCat(Describe(StatusOf(card)), OwnWeightsOf(card) == nullptr ? "" : ", with weights");
}

std::string FactTable(const ZooRow& row) {
  const ModelCard& card = row.entry.card;
  std::string table =
      TableHead({card.title().empty() ? row.entry.name : card.title(), std::string(TaskName(card.task()))});
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table += TableLine({std::string(name), value});
  };
  add("status", StatusText(card));
  add("parameters", WholeCount(row.expected, &Expected::parameters, card.parameters()));
  if (row.expected && row.expected->deployed_parameters != row.expected->parameters)
    add("deployed parameters", WithCommas(row.expected->deployed_parameters));
  add("running statistics", WholeCount(row.expected, &Expected::statistics, card.statistics()));
  add("multiply-adds a sample", WholeCount(row.expected, &Expected::macs, card.macs()));
  add("memory", MemoryText(row.expected));
  if (row.expected) add("input", row.expected->input);
  add("preprocessing", Preprocessing(row.entry));
  if (card.has_classes()) add("classes", WithCommas(card.classes()));
  for (const ZooData& data : card.data()) add("data", DataText(data));
  add("source", card.paper());
  add("licence", card.licence());
  add("provenance", card.provenance());
  for (const ZooWeights& file : card.weights()) {
    add("weights", StrCat(file.file(), file.has_format() ? StrCat(", ", file.format()) : "",
                          file.has_dtype() ? StrCat(", ", file.dtype()) : "",
                          file.has_bytes() ? StrCat(", ", WithCommas(file.bytes()), " bytes") : "",
                          file.has_sha256() ? StrCat(", SHA-256 ", file.sha256()) : "",
                          file.has_source() ? StrCat(", ", file.source()) : ""));
    if (file.has_metric()) add("their metric", WeightsMetricText(row.entry, file));
  }
  return table;
}

std::string ResultNote(const ZooResult& result) {
  std::vector<std::string> parts;
  if (result.has_epochs()) parts.push_back(fmt::format("{:g} epochs", result.epochs()));
  if (result.has_wall_s()) parts.push_back(WallText(result.wall_s()));
  if (result.has_samples_per_s()) parts.push_back(fmt::format("{:.4g} samples/s", result.samples_per_s()));
  if (result.has_machine()) parts.push_back(result.machine());
  if (result.has_threads()) parts.push_back(StrCat(result.threads(), result.threads() == 1 ? " thread" : " threads"));
  parts.push_back(result.precision());
  if (result.has_version()) parts.push_back(StrCat("commit ", result.version()));
  if (result.has_note()) parts.push_back(result.note());
  if (result.has_log()) parts.push_back(StrCat("log ", result.log()));
  return Join(parts, "; ");
}

std::string RecipeTable(const ZooEntry& entry) {
  std::string table = TableHead({"recipe", "command", "metric at the end", "seeds"});
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    std::vector<std::string> seeds;
    for (const ZooResult& result : recipe.result()) seeds.push_back(std::to_string(result.seed()));
    table += TableLine(
        {recipe.summary().empty() ? recipe.solver() : recipe.summary(), StrCat("`", CommandOf(entry, recipe), "`"),
         recipe.result_size() == 0 ? "recipe only, not run here" : MetricText(recipe), Join(seeds, ", ")});
  }
  return table;
}

std::string ResultTable(const ZooEntry& entry) {
  std::string table;
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    for (const ZooResult& result : recipe.result()) {
      table += TableLine({recipe.solver(), "Moka", std::to_string(result.seed()),
                          ValueText(result.value(), recipe.unit()), ResultNote(result)});
    }
    for (const ZooPeer& peer : recipe.peer()) {
      for (int i = 0; i < peer.value_size(); ++i) {
        table += TableLine({recipe.solver(), peer.engine(), i < peer.seed_size() ? std::to_string(peer.seed(i)) : "",
                            ValueText(peer.value(i), recipe.unit()), peer.log()});
      }
    }
  }
  return table.empty() ? "" : StrCat("\n", TableHead({"solver", "engine", "seed", "result", "how"}), table);
}

std::string PublishedTable(const ModelCard& card) {
  std::string table;
  for (const ZooPublished& each : card.published())
    table += TableLine({each.metric(), ValueText(each.value(), each.unit()), each.source()});
  return table.empty() ? "" : StrCat("\n", TableHead({"published", "value", "source"}), table);
}

std::string DeviationTable(const ModelCard& card) {
  std::string table;
  for (const std::string& each : card.deviation()) table += TableLine({each});
  return table.empty() ? "" : StrCat("\n", TableHead({"differences from the source"}), table);
}

}  // namespace

MetricSummary SummaryOf(const ZooRecipe& recipe) {
  MetricSummary summary;
  summary.count = recipe.result_size();
  for (const ZooResult& result : recipe.result()) summary.mean += result.value() / summary.count;
  for (const ZooResult& result : recipe.result()) {
    const double off = result.value() - summary.mean;
    if (summary.count > 1) summary.spread += off * off / (summary.count - 1);
  }
  summary.spread = std::sqrt(summary.spread);
  return summary;
}

std::string MetricText(const ZooRecipe& recipe) {
  const MetricSummary summary = SummaryOf(recipe);
  if (summary.count == 0) return "";
  if (summary.count == 1) return StrCat(recipe.metric(), " ", ValueText(summary.mean, recipe.unit()), " (1 seed)");
  const std::string seeds = StrCat(" (", summary.count, " seeds)");
  if (recipe.unit() == "%")
    return fmt::format("{} {:.2f} ± {:.2f} %{}", recipe.metric(), 100 * summary.mean, 100 * summary.spread, seeds);
  return fmt::format("{} {:.5g} ± {:.2g}{}{}{}", recipe.metric(), summary.mean, summary.spread,
                     recipe.unit().empty() ? "" : " ", recipe.unit(), seeds);
}

std::string PreprocessingOf(const NetParameter& test) {
  for (const LayerParameter& layer : test.layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    const TransformationParameter& t = layer.transform_param();
    std::vector<std::string> parts;
    if (t.force_gray()) parts.emplace_back("grey");
    if (t.mean_value_size() == 3) parts.emplace_back(t.bgr2rgb() || t.cvt_bgr2rgb() ? "R,G,B" : "B,G,R");
    const auto list = [&](const google::protobuf::RepeatedField<float>& values) {
      std::vector<std::string> texts;
      for (const float value : values) texts.push_back(fmt::format("{:g}", value));
      return Join(texts, ", ");
    };
    if (t.mean_value_size() > 0) parts.push_back(StrCat("minus ", list(t.mean_value())));
    if (t.has_mean_file()) parts.push_back(StrCat("minus the mean image ", t.mean_file()));
    if (t.std_value_size() > 0) parts.push_back(StrCat("divided by ", list(t.std_value())));
    if (t.has_scale() && t.scale() != 1) parts.push_back(fmt::format("times {:g}", t.scale()));
    if (t.resize_param_size() > 0)
      parts.push_back(fmt::format("resized to {}x{}", t.resize_param(0).height(), t.resize_param(0).width()));
    if (t.crop_size() > 0) parts.push_back(fmt::format("centre crop {0}x{0}", t.crop_size()));
    return Join(parts, "; ");
  }
  return "";
}

std::string EntryTable(const ZooRow& row) {
  return StrCat("\n", FactTable(row), "\n", RecipeTable(row.entry), ResultTable(row.entry),
                PublishedTable(row.entry.card), DeviationTable(row.entry.card), "\n");
}

std::string ZooTable(const std::vector<ZooRow>& rows) {
  std::string table = "\n" + TableHead({"model", "task", "parameters", "multiply-adds", "memory", "result", "status"});
  for (const ZooRow& row : rows) {
    const ModelCard& card = row.entry.card;
    table += TableLine({StrCat("[", card.title().empty() ? row.entry.name : card.title(), "](", row.entry.name, ")"),
                        std::string(TaskName(card.task())),
                        WholeCount(row.expected, &Expected::parameters, card.parameters()),
                        ShortCount(row.expected ? row.expected->macs : card.macs()),
                        row.expected && row.expected->memory
                            ? StrCat(BytesText(row.expected->memory->bytes), " at batch ", row.expected->memory->batch)
                            : "",
                        MetricText(card.recipe(0)), StatusText(card)});
  }
  return table + "\n";
}

std::string ListText(const std::vector<ZooRow>& rows) {
  std::string text = fmt::format("{:<24} {:<22} {:>12} {:>10}  {:<26} {}\n", "model", "task", "parameters", "MACs",
                                 "status", "result");
  for (const ZooRow& row : rows) {
    const ModelCard& card = row.entry.card;
    const std::string metric = MetricText(card.recipe(0));
    text += fmt::format("{:<24} {:<22} {:>12} {:>10}  {:<26} {}\n", row.entry.name, TaskName(card.task()),
                        WholeCount(row.expected, &Expected::parameters, card.parameters()),
                        ShortCount(row.expected ? row.expected->macs : card.macs()), StatusText(card),
                        metric.empty() ? "-" : metric);
  }
  return text;
}

std::string InfoText(const ZooRow& row) {
  std::string text = EntryTable(row).substr(1);
  for (const ZooData& data : row.entry.card.data()) {
    if (data.command_size() == 0) continue;
    text += StrCat("databases of ", data.name(), ":\n");
    for (const std::string& command : data.command()) text += StrCat("  ", command, "\n");
  }
  return text + StrCat("files: ", row.entry.folder.string(), "\n");
}

std::string WithTable(const std::string& text, const std::string& table, const std::string& file) {
  const size_t begin = text.find(kTableBegin);
  const size_t end = text.find(kTableEnd);
  const bool is_once = begin != std::string::npos && end != std::string::npos && begin < end &&
                       text.find(kTableBegin, begin + 1) == std::string::npos &&
                       text.find(kTableEnd, end + 1) == std::string::npos;
  if (!is_once) {
    throw Error(ErrorKind::kBadData, {}, StrCat(file, ": no place for the table"),
                StrCat("put a line ", kTableBegin, " and one ", kTableEnd, " where it is to stand"));
  }
  return StrCat(text.substr(0, begin), kTableBegin, "\n", table, text.substr(end));
}

}  // namespace moka

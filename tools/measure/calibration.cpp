// Magnitudes go into histograms whose range grows by doubling; the limit with the least squared error over clipping and
// rounding is taken.
#include "tools/measure/calibration.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/checkpoint/trained_weights.h"

namespace moka {
namespace {

// The outputs that such a program has beside the net's own begin so: "@int8/LAYER/x", "/y" and "/w".
constexpr std::string_view kRangePrefix = "@int8/";

// Returns a checksum of a layer's first blob, whose bits a conversion of the file keeps; none for a layer that the net
// has not.
std::optional<uint64_t> WeightsChecksum(const std::string& layer, const std::vector<NetBlob>& blobs,
                                        const ParameterStore& store) {
  const auto found =
      std::ranges::find_if(blobs, [&](const NetBlob& blob) { return blob.layer == layer && blob.index == 0; });
  if (found == blobs.end()) return std::nullopt;
  const std::vector<float> values = store.Values(found->name);
  return StableHash({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

// Errors: kConfig unless the ranges are of these weights.
void CheckMeasured(const Quantization& quantization, const std::vector<NetBlob>& blobs, const ParameterStore& store) {
  const std::string hint = "moka quantise measures them for these weights";
  const std::string file = Printable(quantization.file);
  std::vector<std::string> strangers;
  bool is_noted = true;
  for (const auto& [layer, ranges] : quantization.convolutions) {
    const std::optional<uint64_t> here = WeightsChecksum(layer, blobs, store);
    if (!here) strangers.push_back(layer);
    is_noted = is_noted && ranges.checksum != 0;
    if (!here || ranges.checksum == 0 || *here == ranges.checksum) continue;
    throw Error(ErrorKind::kConfig, {},
                StrCat(file, ": its ranges were measured with other weights than these, those of layer \"",
                       Printable(layer), "\" are the first"),
                hint);
  }
  if (!strangers.empty() && strangers.size() == quantization.convolutions.size()) {
    throw Error(ErrorKind::kConfig, {},
                StrCat(file, ": its ranges are of another net, which has no layer \"", Printable(strangers[0]), "\""),
                hint);
  }
  for (std::string& name : strangers) name = Printable(name);
  if (!strangers.empty()) LogWarning(StrCat(file, ": the net has no layers ", Join(strangers, ", ")));
  if (!is_noted) LogWarning(StrCat(file, " does not say of which weights its ranges are; ", hint));
}

}  // namespace

void MagnitudeHistogram::Add(std::span<const float> values) {
  double largest = 0;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    largest = std::max(largest, std::abs(static_cast<double>(v)));
    low_ = std::min(low_, static_cast<double>(v));
  }
  if (largest == 0) return;
  if (top_ == 0) {
    top_ = largest;
    counts_.assign(kBins, 0);
  }
  while (top_ < largest) {  // two bins become one
    for (size_t i = 0; i < kBins / 2; ++i) counts_[i] = counts_[2 * i] + counts_[2 * i + 1];
    std::fill(counts_.begin() + kBins / 2, counts_.end(), 0);
    top_ *= 2;
  }
  const double bins_per_unit = static_cast<double>(kBins) / top_;
  for (const float v : values) {
    if (v == 0 || !std::isfinite(v)) continue;  // zeros are exact at any scale
    const auto bin = static_cast<size_t>(std::abs(static_cast<double>(v)) * bins_per_unit);
    ++counts_[std::min(bin, kBins - 1)];
  }
}

double MagnitudeHistogram::BestLimit(int levels) const {
  if (top_ == 0) return 0;
  const double width = top_ / static_cast<double>(kBins);
  const auto center = [&](size_t i) { return (static_cast<double>(i) + 0.5) * width; };
  double best_error = INFINITY;
  double best = top_;
  double inside = 0;  // values below the limit
  // Count, sum and sum of squares of the values beyond the limit.
  double count = 0;
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < kBins; ++i) {
    const auto n = static_cast<double>(counts_[i]);
    count += n;
    sum += n * center(i);
    squares += n * center(i) * center(i);
  }
  for (size_t i = 0; i < kBins; ++i) {
    const auto n = static_cast<double>(counts_[i]);
    inside += n;
    count -= n;
    sum -= n * center(i);
    squares -= n * center(i) * center(i);
    const double limit = static_cast<double>(i + 1) * width;
    const double step = limit / levels;
    const double error = inside * step * step / 12 + squares - 2 * limit * sum + limit * limit * count;
    if (error >= best_error) continue;
    best_error = error;
    best = limit;
  }
  return best;
}

bool Calibration::HasRanges(const Program& program) {
  return std::ranges::any_of(program.OutputNames(),
                             [](const std::string& name) { return name.starts_with(kRangePrefix); });
}

void Calibration::Observe(const Program& program) {
  for (const std::string& name : program.OutputNames()) {
    if (!name.starts_with(kRangePrefix)) continue;
    const std::span<const float> values = program.output(name).as<const float>();
    Ranges& ranges = layers_[name.substr(kRangePrefix.size(), name.size() - kRangePrefix.size() - 2)];
    switch (name.back()) {
      case 'x': ranges.input.Add(values); break;
      case 'y': ranges.output.Add(values); break;
      default: {
        if (!ranges.weights.empty()) break;
        const auto outputs = static_cast<size_t>(program.output(name).shape()[0]);
        const size_t each = values.size() / outputs;
        for (size_t k = 0; k < outputs; ++k) {
          double largest = 0;
          for (const float w : values.subspan(k * each, each)) {
            largest = std::max(largest, std::abs(static_cast<double>(w)));
          }
          ranges.weights.push_back(largest);
        }
      }
    }
  }
}

Quantization Calibration::Finish() const {
  Quantization quantization;
  for (const auto& [layer, ranges] : layers_) {
    ConvolutionRanges& r = quantization.convolutions[layer];
    r.input_low = ranges.input.low();
    r.input_high = ranges.input.BestLimit(255);
    r.output_low = ranges.output.low();
    r.output_high = ranges.output.BestLimit(r.output_low < 0 ? 127 : 255);
    r.weights = ranges.weights;
  }
  return quantization;
}

void NoteWeights(const std::vector<NetBlob>& blobs, const ParameterStore& store, Quantization& quantization) {
  for (auto& [layer, ranges] : quantization.convolutions) {
    ranges.checksum = WeightsChecksum(layer, blobs, store).value_or(0);
  }
}

void LoadWeightsFor(const CompileOptions& compile, const std::string& files, const std::vector<NetBlob>& blobs,
                    ParameterStore& store) {
  LoadTrainedWeights(files, blobs, store);
  if (compile.quantization != nullptr) CheckMeasured(*compile.quantization, blobs, store);
}

Quantization ReadQuantization(const std::filesystem::path& file) {
  const std::string text = ReadFile(file);
  CheckJsonBounds(text, file.string());
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto fail = [&](std::string_view what) {
    throw Error(ErrorKind::kConfig, {}, StrCat(file.string(), ": ", what), "moka quantise writes such files");
  };
  if (!json.is_object() || !json.contains("convolutions") || !json["convolutions"].is_object()) {
    fail("no ranges for 8-bit inference");
  }
  Quantization quantization;
  for (const auto& item : json["convolutions"].items()) {
    const std::string& layer = item.key();
    const auto& entry = item.value();
    const auto numbers = [&](const char* name) -> std::vector<double> {
      if (!entry.is_object() || !entry.contains(name) || !entry[name].is_array()) {
        fail(StrCat("layer \"", Printable(layer), "\" has no list \"", name, "\""));
      }
      std::vector<double> values;
      for (const auto& v : entry[name]) {
        if (!v.is_number() || !std::isfinite(v.get<double>())) {
          fail(StrCat("layer \"", Printable(layer), "\": \"", name, "\" holds what is no number"));
        }
        values.push_back(v.get<double>());
      }
      return values;
    };
    const std::vector<double> input = numbers("input");
    const std::vector<double> output = numbers("output");
    if (input.size() != 2 || output.size() != 2) {
      fail(StrCat("layer \"", Printable(layer), "\": \"input\" and \"output\" are [low, high]"));
    }
    uint64_t checksum = 0;
    if (entry.contains("checksum")) {
      if (!entry["checksum"].is_number_unsigned())
        fail(StrCat("layer \"", Printable(layer), "\": \"checksum\" is no number"));
      checksum = entry["checksum"].get<uint64_t>();
    }
    quantization.convolutions[layer] = {input[0], input[1], output[0], output[1], numbers("weights"), checksum};
  }
  quantization.file = file.string();
  return quantization;
}

void WriteQuantization(const Quantization& quantization, const std::filesystem::path& file) {
  nlohmann::ordered_json json = {{"convolutions", nlohmann::ordered_json::object()}};
  for (const auto& [layer, r] : quantization.convolutions) {
    json["convolutions"][layer] = {
        {"input", {r.input_low, r.input_high}}, {"output", {r.output_low, r.output_high}}, {"weights", r.weights}};
    if (r.checksum != 0) json["convolutions"][layer]["checksum"] = r.checksum;
  }
  WriteFileAtomically(file, json.dump() + "\n");
}

}  // namespace moka

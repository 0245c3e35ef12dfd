// Reads weights by class or by record and builds the alias table that draws them in constant time.
#include "data/pipeline/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/layer_fields.h"
#include "proto/text/places.h"

namespace moka {
namespace {

Error FieldError(const LayerParameter& layer, std::string_view field, std::string_view text, std::string hint = {}) {
  return ErrorAt(layer, StrCat("sampling_param.", field), StrCat("layer \"", layer.name(), "\": ", text),
                 std::move(hint));
}

void CheckSamplingFields(const LayerParameter& layer, const SamplerOptions& sampler) {
  const SamplingParameter& param = layer.sampling_param();
  const bool has_weights = param.class_weight_size() > 0 || param.has_weight_file();
  if (sampler.order != SamplerOptions::Order::kShuffled) {
    throw FieldError(layer, "balance", "sampling_param says how records are drawn, and this layer reads them in order",
                     "set `shuffle: true` in the layer's own parameters, where it has that field");
  }
  if (param.balance() == SamplingParameter::RECORDS) {
    if (param.block() == 0 && param.has_window()) {
      throw FieldError(layer, "window", "window has no effect without block",
                       "set sampling_param.block, the records of a block");
    }
    if (param.window() == 0) throw FieldError(layer, "window", "window is 0, expected at least 1 block");
  } else if (param.block() > 0) {
    throw FieldError(layer, "block", "records are drawn from the whole set when balance is not RECORDS",
                     "keep one of block and balance");
  } else if (sampler.group > 1) {
    throw FieldError(layer, "balance",
                     "records that stay together in pairs or groups are not drawn by class or weight");
  }
  if (param.balance() != SamplingParameter::WEIGHTS && has_weights) {
    throw FieldError(layer, param.has_weight_file() ? "weight_file" : "class_weight",
                     "weights have an effect only with `balance: WEIGHTS`");
  }
  if (param.balance() == SamplingParameter::WEIGHTS && (param.class_weight_size() > 0) == param.has_weight_file()) {
    throw FieldError(layer, "balance", "balance: WEIGHTS needs one of class_weight and weight_file");
  }
}

// The class of each record; classes without records are left out unless `classes` says how many there are.
class Labels {
 public:
  Labels(const LayerParameter& layer, const SampleMaker& maker, bool skips_bad) : layer_(layer) {
    for (int64_t i = 0; i < maker.record_count(); ++i) {
      try {
        const std::optional<int64_t> label = maker.ClassOf(i);
        if (!label) {
          throw FieldError(layer, "balance", StrCat(layer.type(), " has no label that says a record's class"),
                           "give each record its weight in sampling_param.weight_file");
        }
        records_[*label].push_back(static_cast<uint32_t>(i));
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::kConfig) throw;
        if (!skips_bad) throw Error(e.kind(), {}, StrCat(maker.NameOf(i), ": ", e.text()), e.hint());
      }
    }
    if (records_.empty()) throw Error(ErrorKind::kBadData, "no record has a label that can be read");
  }

  RecordsByClass Present() const {
    RecordsByClass classes{.records = {}, .begins = {0}};
    for (const auto& [label, records] : records_) Add(records, classes);
    return classes;
  }

  // Errors: kConfig for labels without a weight, and weights above 0 without records.
  RecordsByClass Weighted(const std::vector<double>& weights) const {
    const auto count = static_cast<int64_t>(weights.size());
    for (const auto& [label, records] : records_) {
      if (label >= 0 && label < count) continue;
      throw FieldError(
          layer_, "class_weight",
          StrCat("class_weight is given ", count, " times, for the labels 0..", count - 1, ", and ", records.size(),
                 records.size() == 1 ? " record has" : " records have", " the label ", label));
    }
    RecordsByClass classes{.records = {}, .begins = {0}};
    for (int64_t label = 0; label < count; ++label) {
      const auto found = records_.find(label);
      if (found == records_.end() && weights[static_cast<size_t>(label)] > 0) {
        throw FieldError(layer_, "class_weight",
                         StrCat("class_weight of the label ", label, " is ", weights[static_cast<size_t>(label)],
                                ", and no record has that label"));
      }
      Add(found == records_.end() ? std::vector<uint32_t>{} : found->second, classes);
    }
    return classes;
  }

 private:
  static void Add(const std::vector<uint32_t>& records, RecordsByClass& classes) {
    classes.records.insert(classes.records.end(), records.begin(), records.end());
    classes.begins.push_back(classes.records.size());
  }

  const LayerParameter& layer_;
  std::map<int64_t, std::vector<uint32_t>> records_;
};

bool IsWeight(double value) { return std::isfinite(value) && value >= 0; }

std::vector<double> ClassWeights(const LayerParameter& layer) {
  std::vector<double> weights;
  double sum = 0;
  for (const float weight : layer.sampling_param().class_weight()) {
    if (!IsWeight(static_cast<double>(weight))) {
      throw FieldError(layer, "class_weight", StrCat("class_weight is ", weight, ", expected 0 or more"));
    }
    weights.push_back(static_cast<double>(weight));
    sum += weights.back();
  }
  if (sum <= 0) throw FieldError(layer, "class_weight", "all weights are 0");
  return weights;
}

std::vector<double> FileWeights(const std::filesystem::path& path, int64_t records) {
  std::vector<double> weights;
  double sum = 0;
  for (const ListLine& line : ReadListLines(path)) {
    const std::string& word = line.words[0];
    double weight = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (line.words.size() != 1 || read.ec != std::errc() || read.ptr != word.data() + word.size() ||
        !IsWeight(weight)) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = path.string(), .line = line.number},
                  StrCat("expected one weight, a number from 0 up, found \"", Printable(Join(line.words, " ")), "\""));
    }
    weights.push_back(weight);
    sum += weight;
  }
  const auto found = static_cast<int64_t>(weights.size());
  if (found != records) {
    throw Error(ErrorKind::kBadData, StrCat(path.string(), ": ", found, " weights, and the data has ", records,
                                            " records; each line is the weight of one record"));
  }
  if (sum <= 0 || !std::isfinite(sum))
    throw Error(ErrorKind::kBadData, StrCat(path.string(), ": the weights' sum is ", sum));
  return weights;
}

}  // namespace

void ReadSampling(const LayerParameter& layer, const PipelineOptions& options, const SampleMaker& maker, bool skips_bad,
                  SamplerOptions& sampler) {
  if (!layer.has_sampling_param()) return;
  CheckSamplingFields(layer, sampler);
  const SamplingParameter& param = layer.sampling_param();
  sampler.block = param.block();
  sampler.window = param.window();
  switch (param.balance()) {
    case SamplingParameter::RECORDS: return;
    case SamplingParameter::CLASSES:
      sampler.draw = DrawClassesEqually(Labels(layer, maker, skips_bad).Present());
      return;
    case SamplingParameter::WEIGHTS:
      if (param.has_weight_file()) {
        sampler.draw = DrawRecordsByWeight(FileWeights(options.base_folder / param.weight_file(), sampler.records));
        return;
      }
      const std::vector<double> weights = ClassWeights(layer);
      sampler.draw = DrawClassesByWeight(Labels(layer, maker, skips_bad).Weighted(weights), weights);
      return;
  }
}

void RefuseSampling(const LayerParameter& layer) {
  if (!layer.has_sampling_param()) return;
  throw ErrorAt(layer, "sampling_param",
                StrCat("layer \"", layer.name(), "\": ", layer.type(), " does not read sampling_param"));
}

}  // namespace moka

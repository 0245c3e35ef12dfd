// Programs for shorter sentences, from the net's text with fewer steps; a batch goes to the shortest that its longest
// sentence fits in, and is copied there.
#include "optim/step/bucket_programs.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/text_pairs.h"
#include "layers/shapes/data_guess.h"
#include "proto/nets/data_fields.h"

namespace moka {
namespace {

using PairFields = TextPairDataParameter;

bool EndsAtLastStep(PairFields::Output output) { return IsOfSource(output) && !IsLength(output); }

// Steps that hold words, of an output [T,N] or lengths [N]. SOURCE_CONT does not tell: its first word has a 0.
int64_t StepsUsed(PairFields::Output output, const Tensor& values) {
  const std::span<const float> all = values.as<const float>();
  if (IsLength(output)) return static_cast<int64_t>(*std::ranges::max_element(all));
  const float filler = output == PairFields::NEXT ? -1.0F : 0.0F;
  const int64_t steps = values.shape()[0];
  const int64_t rows = values.shape()[1];
  const auto is_used = [&](int64_t step) {
    const auto row = all.subspan(static_cast<size_t>(step * rows), static_cast<size_t>(rows));
    return std::ranges::any_of(row, [&](float value) { return value != filler; });
  };
  int64_t used = steps;
  while (used > 0 && !is_used(EndsAtLastStep(output) ? steps - used : used - 1)) --used;
  return used;
}

bool TellsLength(PairFields::Output output) { return output != PairFields::SOURCE_CONT; }

// The text with at most `steps` steps of the layer's source and target.
NetParameter Shortened(NetParameter net, const std::string& layer, uint32_t steps) {
  for (LayerParameter& one : *net.mutable_layer()) {
    if (one.name() != layer || !one.has_text_pair_data_param()) continue;
    PairFields& fields = *one.mutable_text_pair_data_param();
    fields.set_source_length(std::min(fields.source_length(), steps));
    fields.set_target_length(std::min(fields.target_length(), steps));
  }
  return net;
}

// Whether the program reads what tells how long sources are, and the same of targets.
bool TellsLengths(const StepProgram& whole, const DataLayer& layer) {
  const PairFields& fields = layer.param.text_pair_data_param();
  bool has_source = false;
  bool has_target = false;
  for (int i = 0; i < fields.output_size(); ++i) {
    if (!TellsLength(fields.output(i)) || !whole.batch->HasInput(layer.tops[static_cast<size_t>(i)])) continue;
    (IsOfSource(fields.output(i)) ? has_source : has_target) = true;
  }
  return has_source && has_target;
}

// Steps of the longest sentence of the batch.
int64_t LongestOf(const StepProgram& whole) {
  int64_t longest = 0;
  for (const DataLayer& layer : whole.data) {
    const PairFields& fields = layer.param.text_pair_data_param();
    for (int i = 0; i < fields.output_size(); ++i) {
      const std::string& top = layer.tops[static_cast<size_t>(i)];
      if (!TellsLength(fields.output(i)) || !whole.batch->HasInput(top)) continue;
      longest = std::max(longest, StepsUsed(fields.output(i), whole.batch->input(top)));
    }
  }
  return longest;
}

void CopyBatch(const StepProgram& whole, const StepProgram& shorter) {
  for (const DataLayer& layer : shorter.data) {
    for (size_t i = 0; i < layer.tops.size(); ++i) {
      const std::string& top = layer.tops[i];
      if (!shorter.batch->HasInput(top)) continue;
      const Tensor to = shorter.batch->input(top);
      const Tensor from = whole.batch->input(top);
      const auto& fields = layer.param.text_pair_data_param();
      const bool is_last = fields.output_size() > 0 && EndsAtLastStep(fields.output(static_cast<int>(i)));
      const int64_t begin = is_last ? from.type().Bytes() - to.type().Bytes() : 0;
      std::memcpy(to.raw(), static_cast<const std::byte*>(from.raw()) + begin, static_cast<size_t>(to.type().Bytes()));
    }
  }
}

}  // namespace

void BucketPrograms::Add(const NetParameter& param, const StepProgram& whole, bool can_shorten, const Make& make) {
  const auto has_buckets = [](const DataLayer& one) { return one.param.text_pair_data_param().bucket_size() > 0; };
  const auto found = std::ranges::find_if(whole.data, has_buckets);
  if (found == whole.data.end()) return;
  const std::string& name = found->param.name();
  if (!can_shorten || !TellsLengths(whole, *found)) {
    return LogInfo(StrCat("layer \"", name, "\": batches of all lengths run on one program"));
  }
  // The types of the shortened layer follow from its fields, those of the others are as in the whole net.
  const auto types = [&](const LayerParameter& layer) {
    if (layer.name() == name) return GuessTypes(layer).types;
    return std::ranges::find_if(whole.data, [&](const DataLayer& one) { return one.param.name() == layer.name(); })
        ->types;
  };
  const PairFields& fields = found->param.text_pair_data_param();
  for (const uint32_t bound : fields.bucket()) {
    if (bound >= std::max(fields.source_length(), fields.target_length())) break;
    try {
      shorter_.push_back(make(Shortened(param, name, bound), types));
      shorter_.back().steps = bound;
    } catch (Error& e) {
      e.AddNote(
          StrCat("while building the program of sentences up to ", bound, " words, a bucket of layer \"", name, "\""));
      throw;
    }
  }
  LogInfo(StrCat("layer \"", name, "\": batches of its buckets run on ", shorter_.size(), " shorter programs"));
}

StepProgram& BucketPrograms::ProgramOf(StepProgram& whole) {
  if (shorter_.empty()) return whole;
  const int64_t longest = LongestOf(whole);
  for (StepProgram& one : shorter_) {
    if (longest > one.steps) continue;
    CopyBatch(whole, one);
    return one;
  }
  return whole;
}

}  // namespace moka

// Length buckets: where a TextPairData layer brings batches of sentences of nearly one length, each bucket has a
// program of its length. All are made of the same net with other numbers of steps and share the store with its weights,
// slots and states, so a batch gives what the longest program gives (tests/optim/text_training_test.cpp), in the time
// of its own length. A batch comes into the inputs of the whole program, whose steps have room for every sentence; the
// rows that hold words are copied on: a source's last ones, a target's first ones.
#include "optim/step/length_programs.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/shape_guess.h"
#include "data/pipeline/text_pairs.h"

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

}  // namespace

void TrainNet::AddLengths(const NetParameter& param, const CompileOptions& compile, const PipelineOptions& data,
                          ParameterStore& store) {
  const auto has_buckets = [](const DataLayer& one) { return one.param.text_pair_data_param().bucket_size() > 0; };
  const auto found = std::ranges::find_if(data_layers_, has_buckets);
  if (found == data_layers_.end()) return;
  const PairFields& fields = found->param.text_pair_data_param();
  bool has_source = false;
  bool has_target = false;
  for (int i = 0; i < fields.output_size(); ++i) {
    if (!TellsLength(fields.output(i)) || !step_->HasInput(found->tops[static_cast<size_t>(i)])) continue;
    (IsOfSource(fields.output(i)) ? has_source : has_target) = true;
  }
  const bool is_alone =
      world_ == nullptr && !pipeline_ && turn_.name().empty() && solver_.iter_size() == 1 && step_->stream() == nullptr;
  if (!is_alone || !has_source || !has_target) {
    return LogInfo(StrCat("layer \"", found->param.name(), "\": batches of all lengths run on one program"));
  }
  for (const uint32_t bound : fields.bucket()) {
    if (bound >= std::max(fields.source_length(), fields.target_length())) break;
    const Shortened shortened{.whole = this, .layer = found->param.name(), .steps = bound};
    try {
      shorter_.push_back(std::unique_ptr<TrainNet>(
          new TrainNet(param, solver_, data, seed_, compile, store, nullptr, turn_, &shortened)));
    } catch (Error& e) {
      e.AddNote(StrCat("while building the program of sentences up to ", bound, " words, a bucket of layer \"",
                       found->param.name(), "\""));
      throw;
    }
  }
  LogInfo(StrCat("layer \"", found->param.name(), "\": batches of its buckets run on ", shorter_.size(),
                 " shorter programs"));
}

NetParameter TrainNet::Shortened::Net(NetParameter net) const {
  for (LayerParameter& one : *net.mutable_layer()) {
    if (one.name() != layer || !one.has_text_pair_data_param()) continue;
    PairFields& fields = *one.mutable_text_pair_data_param();
    fields.set_source_length(std::min(fields.source_length(), steps));
    fields.set_target_length(std::min(fields.target_length(), steps));
  }
  return net;
}

std::vector<TensorType> TrainNet::Shortened::Types(const LayerParameter& param) const {
  if (param.name() == layer) return GuessTypes(param).types;
  const auto of_whole =
      std::ranges::find_if(whole->data_layers_, [&](const DataLayer& one) { return one.param.name() == param.name(); });
  return of_whole->types;
}

TrainNet& TrainNet::NetOfBatch() {
  if (shorter_.empty()) return *this;
  int64_t source = 0;
  int64_t target = 0;
  for (const DataLayer& layer : data_layers_) {
    const PairFields& fields = layer.param.text_pair_data_param();
    for (int i = 0; i < fields.output_size(); ++i) {
      const std::string& top = layer.tops[static_cast<size_t>(i)];
      if (!TellsLength(fields.output(i)) || !step_->HasInput(top)) continue;
      int64_t& longest = IsOfSource(fields.output(i)) ? source : target;
      longest = std::max(longest, StepsUsed(fields.output(i), step_->input(top)));
    }
  }
  for (const std::unique_ptr<TrainNet>& net : shorter_) {
    if (std::max(source, target) > net->steps_) continue;
    net->TakeBatch(*this);
    return *net;
  }
  return *this;
}

void TrainNet::TakeBatch(const TrainNet& whole) {
  for (const DataLayer& layer : data_layers_) {
    for (size_t i = 0; i < layer.tops.size(); ++i) {
      const std::string& top = layer.tops[i];
      if (!step_->HasInput(top)) continue;
      const Tensor to = step_->input(top);
      const Tensor from = whole.step_->input(top);
      const auto& fields = layer.param.text_pair_data_param();
      const bool is_last = fields.output_size() > 0 && EndsAtLastStep(fields.output(static_cast<int>(i)));
      const int64_t begin = is_last ? from.type().Bytes() - to.type().Bytes() : 0;
      std::memcpy(to.raw(), static_cast<const std::byte*>(from.raw()) + begin, static_cast<size_t>(to.type().Bytes()));
    }
  }
}

}  // namespace moka

// Models as Triton's messages tell of them: those of its fields that say something here.
#include <fmt/format.h>

#include "core/text.h"
#include "core/utf8.h"
#include "tools/serve/grpc/messages.h"

namespace moka {
namespace {

constexpr std::string_view kPlatform = "moka_prototxt";

// Bytes that are no UTF-8, which a message may not hold, become question marks.
std::string Utf8Of(std::string_view text) {
  std::string clean(text);
  for (size_t at = 0; at < clean.size();) {
    const Character character = CharacterAt(clean, at);
    if (character.bytes == 0) clean[at] = '?';
    at += std::max<size_t>(1, character.bytes);
  }
  return clean;
}

template <class Count>
void WriteCount(int64_t count, int64_t ns, Count& message) {
  message.set_count(static_cast<uint64_t>(count));
  message.set_ns(static_cast<uint64_t>(ns));
}

void WriteDuration(const DurationCount& duration, inference::StatisticDuration& message) {
  WriteCount(duration.count, duration.ns, message);
}

template <class Messages>
void WriteTensors(const std::vector<TensorFacts>& tensors, Messages& messages) {
  for (const TensorFacts& tensor : tensors) {
    auto& message = *messages.Add();
    message.set_name(tensor.name);
    message.set_datatype("FP32");
    for (const int64_t side : tensor.shape) message.add_shape(side);
  }
}

template <class Messages>
void WriteSettings(const std::vector<TensorFacts>& tensors, Messages& messages) {
  for (const TensorFacts& tensor : tensors) {
    auto& message = *messages.Add();
    message.set_name(tensor.name);
    message.set_data_type(inference::TYPE_FP32);
    for (size_t i = 1; i < tensor.shape.size(); ++i) message.add_dims(tensor.shape[i]);
  }
}

void WritePolicy(const VersionPolicy& policy, inference::ModelVersionPolicy& message) {
  switch (policy.choice) {
    case VersionPolicy::Choice::kLatest:
      return message.mutable_latest()->set_num_versions(static_cast<uint32_t>(policy.latest));
    case VersionPolicy::Choice::kAll: message.mutable_all(); return;
    case VersionPolicy::Choice::kSpecific:
      message.mutable_specific()->mutable_versions()->Assign(policy.specific.begin(), policy.specific.end());
  }
}

uint64_t Microseconds(std::chrono::microseconds time) { return static_cast<uint64_t>(time.count()); }

void WriteQueue(const QueuePolicy& queue, inference::ModelQueuePolicy& message) {
  message.set_timeout_action(inference::ModelQueuePolicy::REJECT);
  message.set_default_timeout_microseconds(Microseconds(queue.timeout));
  message.set_allow_timeout_override(queue.allows_shorter);
  message.set_max_queue_size(static_cast<uint32_t>(queue.most_waiting));
}

void WriteBatching(const ModelSettings& settings, inference::ModelDynamicBatching& message) {
  for (const int64_t rows : settings.preferred_rows) message.add_preferred_batch_size(static_cast<int32_t>(rows));
  message.set_max_queue_delay_microseconds(Microseconds(settings.most_delay));
  message.set_preserve_ordering(settings.preserves_order);
  message.set_priority_levels(static_cast<uint64_t>(settings.priorities));
  message.set_default_priority_level(static_cast<uint64_t>(settings.usual_priority));
  WriteQueue(settings.queue, *message.mutable_default_queue_policy());
  for (const auto& [priority, queue] : settings.queues)
    WriteQueue(queue, (*message.mutable_priority_queue_policy())[static_cast<uint64_t>(priority)]);
}

}  // namespace

void WriteMetadata(const ModelFacts& facts, inference::ModelMetadataResponse& message) {
  message.set_name(facts.name);
  for (const std::string& version : facts.versions) message.add_versions(version);
  message.set_platform(std::string(kPlatform));
  WriteTensors(facts.inputs, *message.mutable_inputs());
  WriteTensors(facts.outputs, *message.mutable_outputs());
}

void WriteConfig(const ModelFacts& facts, inference::ModelConfig& message) {
  message.set_name(facts.name);
  message.set_platform(std::string(kPlatform));
  WritePolicy(facts.settings.versions, *message.mutable_version_policy());
  message.set_max_batch_size(facts.batches.empty() ? 0 : static_cast<int32_t>(facts.batches.back().rows));
  WriteSettings(facts.inputs, *message.mutable_input());
  WriteSettings(facts.outputs, *message.mutable_output());
  auto& instances = *message.add_instance_group();
  instances.set_count(1);
  instances.set_kind(facts.is_on_gpu ? inference::ModelInstanceGroup::KIND_GPU
                                     : inference::ModelInstanceGroup::KIND_CPU);
  for (const WarmUp& warm_up : facts.settings.warm_ups) {
    auto& one = *message.add_model_warmup();
    one.set_batch_size(static_cast<uint32_t>(warm_up.rows));
    one.set_count(static_cast<uint32_t>(warm_up.runs));
  }
  if (facts.keeps_state) {
    auto& sequences = *message.mutable_sequence_batching();
    sequences.set_max_sequence_idle_microseconds(Microseconds(facts.settings.sequences.idle));
    sequences.mutable_oldest()->set_max_candidate_sequences(static_cast<int32_t>(facts.settings.sequences.most));
  } else {
    WriteBatching(facts.settings, *message.mutable_dynamic_batching());
  }
  (*message.mutable_parameters())["task"].set_string_value(facts.task);
  for (const BatchFacts& batch : facts.batches)
    (*message.mutable_parameters())[StrCat("batch_", batch.rows, "_ms")].set_string_value(fmt::format("{}", batch.ms));
}

void WriteStatistics(const std::vector<ModelStatistics>& models, inference::ModelStatisticsResponse& message) {
  for (const ModelStatistics& model : models) {
    auto& one = *message.add_model_stats();
    const CountedModel& counted = model.counted;
    one.set_name(model.name);
    one.set_version(model.version);
    one.set_last_inference(static_cast<uint64_t>(counted.last_ms));
    one.set_inference_count(static_cast<uint64_t>(counted.rows));
    one.set_execution_count(static_cast<uint64_t>(counted.runs));
    auto& stats = *one.mutable_inference_stats();
    WriteDuration(counted.success, *stats.mutable_success());
    WriteDuration(counted.fail, *stats.mutable_fail());
    WriteDuration(counted.queue, *stats.mutable_queue());
    WriteDuration(counted.input, *stats.mutable_compute_input());
    WriteDuration(counted.infer, *stats.mutable_compute_infer());
    WriteDuration(counted.output, *stats.mutable_compute_output());
    WriteDuration({}, *stats.mutable_cache_hit());
    WriteDuration({}, *stats.mutable_cache_miss());
    for (const auto& [rows, batch] : counted.batches) {
      auto& of_rows = *one.add_batch_stats();
      of_rows.set_batch_size(static_cast<uint64_t>(rows));
      WriteCount(batch.runs, batch.input_ns, *of_rows.mutable_compute_input());
      WriteCount(batch.runs, batch.infer_ns, *of_rows.mutable_compute_infer());
      WriteCount(batch.runs, batch.output_ns, *of_rows.mutable_compute_output());
    }
    auto& memory = *one.add_memory_usage();
    memory.set_type("model");
    memory.set_byte_size(static_cast<uint64_t>(counted.memory_bytes));
  }
}

void WriteRegions(const std::vector<SharedRegion>& regions, inference::SystemSharedMemoryStatusResponse& message) {
  for (const SharedRegion& region : regions) {
    auto& status = (*message.mutable_regions())[region.name];
    status.set_name(region.name);
    status.set_key(region.key);
    status.set_offset(static_cast<uint64_t>(region.offset));
    status.set_byte_size(static_cast<uint64_t>(region.bytes));
  }
}

void WriteIndex(const std::vector<ModelListing>& models, inference::RepositoryIndexResponse& message) {
  for (const ModelListing& model : models) {
    auto& one = *message.add_models();
    one.set_name(model.name);
    one.set_version(model.version);
    one.set_state(model.state);
    one.set_reason(Utf8Of(model.reason));
  }
}

std::string FailureText(const CallFailure& failure) {
  constexpr size_t kMostBytes = 2000;  // a client takes heads of 8 KiB, and a byte may become three
  std::string text = failure.hint.empty() ? failure.text : StrCat(failure.text, "; ", failure.hint);
  if (text.size() > kMostBytes) text = StrCat(text.substr(0, kMostBytes), " ...");
  return Utf8Of(text);
}

}  // namespace moka

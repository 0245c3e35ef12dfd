// Counters of a pipeline's work and of where its time went, counted since it was opened.
#pragma once

#include <cstdint>
#include <string>

namespace moka {

struct PipelineStatistics {
  int64_t batches = 0;
  int64_t samples = 0;
  int64_t bad_records = 0;   // samples whose record was bad and replaced by the next good one
  int64_t wait_micros = 0;   // time that Next() waited for a batch; behind a DevicePrefetch, that the step did
  int64_t copy_micros = 0;   // time that copies to the device took; of a DevicePrefetch
  int64_t total_micros = 0;  // since the first Next()

  // Sums over the workers; 0 for pipelines without any. What is prepared ahead is counted when it is made.
  int64_t threads = 0;       // that take part now
  int64_t most_threads = 0;  // that may
  bool is_tuned = false;     // whether their number follows the need
  int64_t made_samples = 0;
  int64_t read_micros = 0;
  int64_t decode_micros = 0;
  int64_t transform_micros = 0;  // random changes included
  int64_t idle_micros = 0;       // waited for a free batch
  int64_t cached_samples = 0;    // whose picture came from the cache
  int64_t cache_bytes = 0;       // of pictures kept
  bool can_cache = false;        // whether the layer takes data_param.cache_mb

  double samples_per_second() const {
    return total_micros > 0 ? static_cast<double>(samples) * 1e6 / static_cast<double>(total_micros) : 0.0;
  }
  // Part of the time, 0..1, that the consumer waited for input.
  double wait_part() const {
    return total_micros > 0 ? static_cast<double>(wait_micros) / static_cast<double>(total_micros) : 0.0;
  }
  double wait_ms_per_batch() const {
    return batches > 0 ? static_cast<double>(wait_micros) * 1e-3 / static_cast<double>(batches) : 0.0;
  }
  int64_t worker_micros() const { return read_micros + decode_micros + transform_micros + idle_micros; }
  // Returns the counts since `before`, an earlier state of the same pipeline; states (threads, cache) are today's.
  PipelineStatistics Since(const PipelineStatistics& before) const;
};

// One sentence that names the bottleneck and what would help: "the device waited 3.1 % of the time for input: decoding
// takes 82 % of the workers' time; more threads (now 1 of 2) would help". Empty before the first batch.
std::string InputSentence(const PipelineStatistics& statistics);
// Samples a second that each stage alone would make on the threads there are: "read 8120/s, decode 1210/s, ..". Empty
// for pipelines without workers.
std::string StageRates(const PipelineStatistics& statistics);

}  // namespace moka

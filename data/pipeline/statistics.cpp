// Turns counters into one sentence: which stage the workers spent their time in, and whether more of them would have
// helped.
#include "data/pipeline/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "core/text.h"

namespace moka {
namespace {

struct StageTime {
  std::string_view doing;
  std::string_view name;
  int64_t micros = 0;
};

std::array<StageTime, 3> StagesOf(const PipelineStatistics& s) {
  return {StageTime{"reading", "read", s.read_micros}, StageTime{"decoding", "decode", s.decode_micros},
          StageTime{"transforming", "transform", s.transform_micros}};
}

std::string Percent(double part) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), part < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * part);
  return text.data();
}

// Whether the device waited for what the workers could have made in the meantime: all their stages together took a
// small part of their time, and less than half of the wait.
bool LackedCpu(const PipelineStatistics& s) {
  const int64_t busy = s.read_micros + s.decode_micros + s.transform_micros;
  return busy * 10 < s.worker_micros() && (busy + s.copy_micros) * 2 < s.wait_micros;
}

std::string Advice(const PipelineStatistics& s, std::string_view doing) {
  const std::string now = StrCat(" (now ", s.threads, " of ", s.most_threads, ")");
  if (s.threads < s.most_threads) {
    return s.is_tuned ? StrCat("more threads", now, " would help and are being taken")
                      : StrCat("more threads", now, " would help");
  }
  if (doing == "reading") return StrCat("a faster disk, or smaller records, would help; all threads", now, " are used");
  if (doing == "decoding") {
    return StrCat("smaller stored pictures", s.can_cache ? ", or data_param.cache_mb," : "", " would help; all threads",
                  now, " are used");
  }
  return StrCat("fewer or cheaper changes to the pictures would help; all threads", now, " are used");
}

}  // namespace

PipelineStatistics PipelineStatistics::Since(const PipelineStatistics& before) const {
  PipelineStatistics s = *this;
  s.batches -= before.batches;
  s.samples -= before.samples;
  s.bad_records -= before.bad_records;
  s.wait_micros -= before.wait_micros;
  s.copy_micros -= before.copy_micros;
  s.total_micros -= before.total_micros;
  s.made_samples -= before.made_samples;
  s.read_micros -= before.read_micros;
  s.decode_micros -= before.decode_micros;
  s.transform_micros -= before.transform_micros;
  s.idle_micros -= before.idle_micros;
  s.cached_samples -= before.cached_samples;
  return s;
}

std::string InputSentence(const PipelineStatistics& s) {
  if (s.batches == 0) return {};
  const std::string waited = StrCat("the device waited ", Percent(s.wait_part()), " of the time for input");
  const auto all = static_cast<double>(s.worker_micros());
  if (all <= 0) return waited;
  const auto stages = StagesOf(s);
  const StageTime& most = *std::ranges::max_element(stages, {}, &StageTime::micros);
  const std::string takes =
      StrCat(most.doing, " takes ", Percent(static_cast<double>(most.micros) / all), " of the workers' time");
  constexpr double kNoticed = 0.01;
  if (s.wait_part() < kNoticed) {
    return StrCat(waited, ": it keeps up; ", takes, ", waiting for the device ",
                  Percent(static_cast<double>(s.idle_micros) / all), " (", s.threads,
                  s.threads == 1 ? " thread of " : " threads of ", s.most_threads, ")");
  }
  if (LackedCpu(s)) {
    const double busy = 1 - static_cast<double>(s.idle_micros) / all;
    return StrCat(
        waited, ": reading, decoding and transforming take ", Percent(busy),
        " of the workers' time; the workers did not get the CPU: other programs want it, or the cores are too "
        "few (moka device shows those this process may use)");
  }
  return StrCat(waited, ": ", takes, "; ", Advice(s, most.doing));
}

std::string StageRates(const PipelineStatistics& s) {
  constexpr int64_t kNoticed = 1000;  // stages below that part of the work are looks at the clock
  std::string text;
  for (const StageTime& stage : StagesOf(s)) {
    if (stage.micros <= 0 || stage.micros * kNoticed < s.worker_micros() - s.idle_micros) continue;
    const double rate =
        static_cast<double>(s.made_samples * std::max<int64_t>(s.threads, 1)) * 1e6 / static_cast<double>(stage.micros);
    text += StrCat(text.empty() ? "" : ", ", stage.name, " ", std::llround(rate), "/s");
  }
  return text;
}

}  // namespace moka

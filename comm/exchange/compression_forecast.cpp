// Forecasts an iteration with compression from measurements: each method encodes and decodes gradients of normal noise
// on this machine, and the bytes go through the measured cost curves.
#include "comm/exchange/compression_forecast.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "core/rng.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

struct Times {
  double encode_s = 0;
  double decode_s = 0;
};

// Returns the times of one gradient once the warm-up is over: those of the second of two runs, which finds its memory
// mapped.
Times Measure(const GradientCompression& compression, size_t i) {
  const CompressionMethod& method = compression.method();
  const std::unique_ptr<GradientCompressor> compressor = compression.Another(i);
  const int64_t step = compression.options().warmup_iter;
  std::vector<float> gradient(static_cast<size_t>(compression.gradients()[i]->values.shape().Count()));
  RandomStream random(1, i);
  for (float& g : gradient) g = static_cast<float>(random.Normal(0, 1));
  std::vector<std::vector<float>> payloads;
  for (int round = 0; round < method.rounds; ++round) {
    payloads.emplace_back(static_cast<size_t>(compressor->PayloadFloats(round, step)));
  }
  std::vector<float> sum(gradient.size());
  Times times;
  for (int run = 0; run < 2; ++run) {
    const int64_t begin = NowMicros();
    for (size_t round = 0; round < payloads.size(); ++round) {
      compressor->Encode(static_cast<int>(round), step, round == 0 ? gradient : payloads[round - 1], payloads[round]);
    }
    const int64_t middle = NowMicros();
    std::ranges::fill(sum, 0.0F);
    for (int rank = 0; rank < (method.sums ? 1 : compression.ranks()); ++rank) {
      compressor->AddDecoded(step, payloads.back(), sum);
    }
    times = {static_cast<double>(middle - begin) * 1e-6, static_cast<double>(NowMicros() - middle) * 1e-6};
  }
  return times;
}

}  // namespace

CompressionForecast ForecastCompression(Communicator& communicator, const GradientExchange& exchange,
                                        const CostTable& costs, const FusionPlan& plan, Wire wire) {
  const GradientCompression& compression = *exchange.announced().compression();
  const CompressionMethod& method = compression.method();
  const auto ranks = static_cast<double>(communicator.size());
  CompressionForecast forecast{.gradients = static_cast<int64_t>(exchange.announced().all().size()),
                               .compressed = static_cast<int64_t>(compression.gradients().size())};
  std::vector<double> times(2);
  for (size_t i = 0; i < compression.gradients().size(); ++i) {
    const Times one = Measure(compression, i);
    times[0] += one.encode_s;
    times[1] += one.decode_s;
  }
  communicator.Max(times);
  forecast.encode_s = times[0];
  forecast.decode_s = times[1];

  double plain = 0;
  double compressed = 0;
  const auto sum = [&](double bytes, double& sent) {
    if (bytes == 0) return 0.0;
    sent += 2 * (ranks - 1) / ranks * bytes;
    return costs.Cheapest(static_cast<int64_t>(bytes)).seconds;
  };
  for (const Bucket& bucket : plan.buckets) {
    forecast.plain_s += sum(static_cast<double>(bucket.bytes), plain);
    auto rest = static_cast<double>(bucket.bytes);
    std::array<double, 2> payloads{};
    for (int64_t i = bucket.first; i < bucket.first + bucket.count; ++i) {
      CompressedGradient* gradient = exchange.announced().compressed(static_cast<size_t>(i));
      if (gradient == nullptr) continue;
      rest -= static_cast<double>(exchange.announced().all()[static_cast<size_t>(i)].bytes / 4 * BytesOf(wire));
      for (int round = 0; round < method.rounds; ++round) {
        payloads[static_cast<size_t>(round)] +=
            4.0 * static_cast<double>(gradient->compressor->PayloadFloats(round, compression.options().warmup_iter));
      }
    }
    forecast.sent_s += sum(rest, compressed);
    for (const double bytes : payloads) forecast.sent_s += sum(method.sums ? bytes : bytes * ranks / 2, compressed);
  }
  forecast.compressed_s = forecast.encode_s + forecast.sent_s + forecast.decode_s;
  forecast.plain_bytes = static_cast<int64_t>(plain);
  forecast.compressed_bytes = static_cast<int64_t>(compressed);
  return forecast;
}

std::string CompressionForecast::Describe(const std::string& method) const {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "%s: %lld of %lld gradients; a rank sends %.1f KiB in an iteration instead of %.1f; predicted %.3f ms "
                "(encode %.3f, send %.3f, decode %.3f) instead of %.3f",
                method.c_str(), static_cast<long long>(compressed), static_cast<long long>(gradients),
                static_cast<double>(compressed_bytes) / 1024, static_cast<double>(plain_bytes) / 1024,
                compressed_s * 1e3, encode_s * 1e3, sent_s * 1e3, decode_s * 1e3, plain_s * 1e3);
  return text.data();
}

}  // namespace moka

// Compressed gradients as another rank sends them: any bytes of the agreed length may be decoded.
#include <cstring>
#include <memory>
#include <vector>

#include "comm/compression/compressor.h"
#include "core/types.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

struct Decoder {
  std::unique_ptr<GradientCompressor> compressor;
  std::vector<float> payload;
  std::vector<float> sum;
};

constexpr int64_t kRows = 7;
constexpr int64_t kColumns = 45;
constexpr int64_t kStep = 3;

std::vector<Decoder> Decoders() {
  std::vector<Decoder> decoders;
  const Shape shape{kRows, kColumns};
  for (const CompressionMethod& method : CompressionMethods()) {
    if (method.make == nullptr) continue;
    CompressionOptions options;
    options.method = method.name;
    options.density = 0.1;
    Decoder& decoder = decoders.emplace_back();
    decoder.compressor = method.make(options, shape, {.tensor = 1, .rank = 0, .ranks = 2});
    decoder.sum.resize(static_cast<size_t>(shape.Count()), 1.0F);
    // Every round before the last is this rank's own; the last one's payload comes from all.
    for (int round = 0; round < method.rounds; ++round) {
      const std::vector<float> input = round == 0 ? decoder.sum : decoder.payload;
      decoder.payload.assign(static_cast<size_t>(decoder.compressor->PayloadFloats(round, kStep)), 0.0F);
      decoder.compressor->Encode(round, kStep, input, decoder.payload);
    }
  }
  return decoders;
}

}  // namespace

FuzzTarget PayloadFuzz() {
  return {"payload", [](std::string_view bytes) {
            static std::vector<Decoder> decoders = Decoders();
            if (bytes.empty()) return;
            Decoder& decoder = decoders[static_cast<uint8_t>(bytes.front()) % decoders.size()];
            bytes.remove_prefix(1);
            const size_t used = std::min(bytes.size(), decoder.payload.size() * sizeof(float));
            if (used > 0) std::memcpy(decoder.payload.data(), bytes.data(), used);
            decoder.compressor->AddDecoded(kStep, decoder.payload, decoder.sum);
          }};
}

}  // namespace moka

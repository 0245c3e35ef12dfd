// Whether compression pays: what the ranks' communication takes in an iteration with it and without, from the measured
// costs of all-reduces and measured times to encode and decode.
#pragma once

#include <cstdint>
#include <string>

#include "comm/exchange/cost_curve.h"
#include "comm/exchange/fusion_plan.h"
#include "comm/exchange/gradient_exchange.h"
#include "comm/schedule/wire.h"
#include "comm/transport/communicator.h"

namespace moka {

struct CompressionForecast {
  int64_t gradients = 0;
  int64_t compressed = 0;  // of them
  // Seconds of a rank in an iteration: the all-reduces of the plan as they are, and the sum of encode_s, decode_s and
  // sent_s.
  double plain_s = 0;
  double compressed_s = 0;
  double encode_s = 0;
  double decode_s = 0;
  double sent_s = 0;
  // Bytes that a rank sends; an all-reduce sends 2 (P - 1) / P of its message, an all-gather P - 1 parts.
  int64_t plain_bytes = 0;
  int64_t compressed_bytes = 0;

  bool Pays() const { return compressed_s < plain_s; }
  // "dgc: 4 of 10 gradients, 1.6 MiB become 0.03 MiB ...".
  std::string Describe(const std::string& method) const;
};

// All ranks: encodes and decodes numbers of each compressed gradient's size, in compressors of its own; the slowest
// rank counts. An all-gather of parts of b bytes is taken for an all-reduce of P b / 2 bytes, which sends as much.
// Errors: kPeer. Requires: exchange.announced().compression() is not null, the plan is the exchange's.
CompressionForecast ForecastCompression(Communicator& communicator, const GradientExchange& exchange,
                                        const CostTable& costs, const FusionPlan& plan, Wire wire);

}  // namespace moka

// The list of methods, and the check for finite values that they share.
#include <algorithm>
#include <array>

#include "comm/compression/bits.h"
#include "comm/compression/compressor.h"
#include "core/error.h"
#include "core/text.h"
#include "core/vector_clones.h"

namespace moka {

// A product with zero is zero of a finite number only.
MOKA_VECTOR_CLONES bool AllFinite(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) sums[k] += values[i + k] * 0.0F;
  }
  for (; i < values.size(); ++i) sums[0] += values[i] * 0.0F;
  return std::ranges::all_of(sums, [](float sum) { return sum == 0; });
}

std::span<const CompressionMethod> CompressionMethods() {
  static const std::array<CompressionMethod, 5> kTable = {Dgc(), PowerSgd(), Qsgd(), SignSgd(), TernGrad()};
  return kTable;
}

const CompressionMethod& FindCompression(const CompressionOptions& options) {
  const auto it = std::ranges::find(CompressionMethods(), options.method, &CompressionMethod::name);
  if (it == CompressionMethods().end()) {
    std::vector<std::string> known = {"none"};
    for (const CompressionMethod& method : CompressionMethods()) known.emplace_back(method.name);
    const std::string near = DidYouMean(options.method, known);
    throw Error(ErrorKind::kConfig, SourcePlace{},
                StrCat("unknown compression method \"", Printable(options.method), "\""),
                near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
  }
  std::string wrong = it->check(options);
  if (wrong.empty() && options.start_iter < 0) wrong = StrCat("start_iter is ", options.start_iter, ", below 0");
  if (wrong.empty() && options.min_elements < 1) wrong = StrCat("min_elements is ", options.min_elements, ", below 1");
  if (!wrong.empty()) throw Error(ErrorKind::kConfig, SourcePlace{}, StrCat("compression \"", it->name, "\": ", wrong));
  return *it;
}

}  // namespace moka

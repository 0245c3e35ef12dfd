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

namespace {

const CompressionMethod& MethodNamed(const std::string& name) {
  const auto it = std::ranges::find(CompressionMethods(), name, &CompressionMethod::name);
  if (it == CompressionMethods().end()) {
    std::vector<std::string> known = {"none"};
    for (const CompressionMethod& method : CompressionMethods()) known.emplace_back(method.name);
    const std::string near = DidYouMean(name, known);
    throw Error(ErrorKind::kConfig, SourcePlace{}, StrCat("unknown compression method \"", Printable(name), "\""),
                near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
  }
  return *it;
}

}  // namespace

CompressionFault FaultOf(const CompressionOptions& options) {
  CompressionFault fault = MethodNamed(options.method).check(options);
  if (fault.option.empty() && options.start_iter < 0)
    fault = {"start_iter", StrCat("start_iter is ", options.start_iter, ", below 0")};
  if (fault.option.empty() && options.min_elements < 1)
    fault = {"min_elements", StrCat("min_elements is ", options.min_elements, ", below 1")};
  if (!fault.option.empty()) fault.text = StrCat("compression \"", options.method, "\": ", fault.text);
  return fault;
}

const CompressionMethod& FindCompression(const CompressionOptions& options) {
  const CompressionFault fault = FaultOf(options);
  if (!fault.option.empty()) throw Error(ErrorKind::kConfig, SourcePlace{}, fault.text);
  return MethodNamed(options.method);
}

}  // namespace moka

#include "data/sampler.h"

#include "core/error.h"
#include "core/rng.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.records < 1) throw Error(ErrorKind::kBadData, "the data set has no records");
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    throw Error(ErrorKind::kConfig, StrCat("rank ", options.rank, " of ", options.world, " ranks"));
  }
}

SampleId Sampler::At(int64_t n) const {
  const int64_t global = (Size(n) * options_.world + options_.rank + options_.skip).value();
  const auto records = static_cast<uint64_t>(options_.records);
  const uint64_t epoch = static_cast<uint64_t>(global) / records;
  const uint64_t position = static_cast<uint64_t>(global) % records;
  if (options_.order == SamplerOptions::Order::kSequential) return {epoch, position};
  return {epoch, Permutation(records, options_.seed, epoch)(position)};
}

}  // namespace moka

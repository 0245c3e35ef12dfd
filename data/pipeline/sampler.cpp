// A sample's place is arithmetic on its position and a permutation by a Feistel network (core/rng.h): no order is
// stored, so that Seek is free.
#include "data/pipeline/sampler.h"

#include "core/error.h"
#include "core/rng.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.records < 1) throw Error(ErrorKind::kBadData, "the data set has no records");
  const bool has_groups = options.group >= 1 && (options.draw || options.group <= options.records);
  if (!has_groups) {
    throw Error(ErrorKind::kBadData,
                StrCat("groups of ", options.group, " records, and the data set has ", options.records));
  }
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    throw Error(ErrorKind::kConfig, StrCat("rank ", options.rank, " of ", options.world, " ranks"));
  }
  const auto groups = static_cast<uint64_t>(options.records / options.group);
  const auto block = static_cast<uint64_t>((options.block + options.group - 1) / options.group);
  const auto window = static_cast<uint64_t>(options.window);
  if (options.order == SamplerOptions::Order::kShuffled && WindowedOrder::IsWorthwhile(groups, block, window)) {
    windowed_.emplace(groups, block, window, options.seed);
  }
}

SampleId Sampler::At(int64_t n) const {
  const int64_t together = options_.run % options_.group == 0 ? options_.run : options_.group;
  const Size first = (Size(n / together) * options_.world + options_.rank) * together;
  return OfAll((first + n % together).value());
}

SampleId Sampler::OfAll(int64_t n) const {
  const int64_t together = options_.group;
  const auto global = static_cast<uint64_t>((Size(n) + options_.skip / together * together).value());
  if (options_.draw) return options_.draw->At(global, options_.seed);
  const auto records = static_cast<uint64_t>(options_.records);
  if (options_.order == SamplerOptions::Order::kSequential) return {global / records, global % records};
  const auto group = static_cast<uint64_t>(options_.group);
  const uint64_t groups = records / group;
  const uint64_t epoch = global / (groups * group);
  const uint64_t position = global % (groups * group);
  const uint64_t at = position / group;
  const uint64_t drawn = windowed_ ? windowed_->At(epoch, at) : Permutation(groups, options_.seed, epoch)(at);
  return {epoch, drawn * group + position % group};
}

}  // namespace moka

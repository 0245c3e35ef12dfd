// Three draws over two alias tables: classes in equal rounds, classes by weight and records by weight.
#include "data/pipeline/weighted_draw.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

constexpr uint64_t kRoundSeed = 0xC1A5;
constexpr uint64_t kDrawSeed = 0xD2A3;

class ClassRounds final : public RecordDraw {
 public:
  explicit ClassRounds(RecordsByClass classes) : classes_(std::move(classes)) {}
  SampleId At(uint64_t position, uint64_t seed) const override {
    const uint64_t round = position / classes_.classes();
    const uint64_t c = Permutation(classes_.classes(), seed ^ kRoundSeed, round)(position % classes_.classes());
    // A class comes once a round, so this is its round-th sample.
    const uint64_t pass = round / classes_.size(c);
    const uint64_t i = Permutation(classes_.size(c), seed, pass << 32U ^ c)(round % classes_.size(c));
    return {pass, classes_.records[classes_.begins[c] + i]};
  }

 private:
  RecordsByClass classes_;
};

class WeightedClasses final : public RecordDraw {
 public:
  WeightedClasses(RecordsByClass classes, const std::vector<double>& weights)
      : classes_(std::move(classes)), table_(weights) {}
  SampleId At(uint64_t position, uint64_t seed) const override {
    RandomStream random(seed ^ kDrawSeed, position);
    const uint64_t column = random.Below(table_.size());
    const uint64_t c = table_.At(column, random.Uniform());
    return {position, classes_.records[classes_.begins[c] + random.Below(classes_.size(c))]};
  }

 private:
  RecordsByClass classes_;
  AliasTable table_;
};

class WeightedRecords final : public RecordDraw {
 public:
  explicit WeightedRecords(const std::vector<double>& weights) : table_(weights) {}
  SampleId At(uint64_t position, uint64_t seed) const override {
    RandomStream random(seed ^ kDrawSeed, position);
    const uint64_t column = random.Below(table_.size());
    return {position, table_.At(column, random.Uniform())};
  }

 private:
  AliasTable table_;
};

}  // namespace

AliasTable::AliasTable(const std::vector<double>& weights) : share_(weights.size()), alias_(weights.size()) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Require(!weights.empty() && weights.size() <= UINT32_MAX && sum > 0, "AliasTable: weights with a sum above 0");
  // Columns of mean 1: one that is too small is filled up by one that is too large.
  std::vector<uint32_t> small;
  std::vector<uint32_t> large;
  for (size_t i = 0; i < weights.size(); ++i) {
    share_[i] = weights[i] / sum * static_cast<double>(weights.size());
    alias_[i] = static_cast<uint32_t>(i);
    (share_[i] < 1 ? small : large).push_back(static_cast<uint32_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const uint32_t low = small.back();
    const uint32_t high = large.back();
    small.pop_back();
    alias_[low] = high;
    share_[high] -= 1 - share_[low];
    if (share_[high] >= 1) continue;
    large.pop_back();
    small.push_back(high);
  }
  // Columns left over by rounding are full; only a number of weight 0 must never keep any share.
  const auto largest = static_cast<uint32_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  for (const std::vector<uint32_t>* rest : {&small, &large}) {
    for (const uint32_t i : *rest) {
      share_[i] = weights[i] > 0 ? 1 : 0;
      alias_[i] = weights[i] > 0 ? i : largest;
    }
  }
}

std::unique_ptr<const RecordDraw> DrawClassesEqually(RecordsByClass classes) {
  return std::make_unique<ClassRounds>(std::move(classes));
}

std::unique_ptr<const RecordDraw> DrawClassesByWeight(RecordsByClass classes, const std::vector<double>& weights) {
  return std::make_unique<WeightedClasses>(std::move(classes), weights);
}

std::unique_ptr<const RecordDraw> DrawRecordsByWeight(const std::vector<double>& weights) {
  return std::make_unique<WeightedRecords>(weights);
}

}  // namespace moka

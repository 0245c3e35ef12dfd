// Orders that are not a plain shuffle. Those made here draw with replacement: classes in equal shares, or records and
// classes by weight. What comes at a position is a pure function of it and the seed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/transform/transform.h"

namespace moka {

class RecordDraw {
 public:
  RecordDraw() = default;
  RecordDraw(const RecordDraw&) = delete;
  RecordDraw& operator=(const RecordDraw&) = delete;
  virtual ~RecordDraw() = default;
  // A record, and as its epoch a number that differs each time the record comes, so that its random changes do too.
  virtual SampleId At(uint64_t position, uint64_t seed) const = 0;
};

// Numbers 0..n-1 in proportion to weights, each draw in constant time: Walker's alias method by Vose ("A linear
// algorithm for generating random numbers with a given distribution", 1991). 12 bytes a number.
class AliasTable {
 public:
  // Requires: 1 <= n < 2^32 weights, finite and not negative, a sum above 0.
  explicit AliasTable(const std::vector<double>& weights);
  // Returns a number drawn by `column`, uniform below n, and `coin`, uniform in [0,1).
  uint64_t At(uint64_t column, double coin) const { return coin < share_[column] ? column : alias_[column]; }
  uint64_t size() const { return share_.size(); }

 private:
  std::vector<double> share_;    // of its column that a number keeps
  std::vector<uint32_t> alias_;  // whose the rest is
};

// The records of each class in ascending order, in one array.
struct RecordsByClass {
  std::vector<uint32_t> records;
  std::vector<uint64_t> begins;  // one a class and the end
  uint64_t classes() const { return begins.size() - 1; }
  uint64_t size(uint64_t c) const { return begins[c + 1] - begins[c]; }
};

// Any K positions from a multiple of K on hold each of the K classes once, in a random order; a class's records come in
// a new order each time they have all come, so each is used as often as the others of its class. Requires: a class,
// none without records.
std::unique_ptr<const RecordDraw> DrawClassesEqually(RecordsByClass classes);
// A class by its weight, then any record of it. Requires: as AliasTable; classes of a weight above 0 have records.
std::unique_ptr<const RecordDraw> DrawClassesByWeight(RecordsByClass classes, const std::vector<double>& weights);
// Records by weights, one each. Requires: as AliasTable.
std::unique_ptr<const RecordDraw> DrawRecordsByWeight(const std::vector<double>& weights);

}  // namespace moka

// The permutohedral lattice (Adams, Baek, Davis: Fast High-Dimensional Filtering Using the Permutohedral Lattice,
// Eurographics 2010): a Gaussian of standard deviation 1 over points of d dimensions, by splatting values to the d+1
// corners of each point's simplex, blurring along the lattice's d+1 directions and reading the values back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moka {

class Lattice {
 public:
  // points: [count, dimensions], row-major. Requires: finite values of magnitudes below 1e6.
  Lattice(std::span<const double> points, int dimensions);

  // y[c*count+i] of x[c*count+i] for `channels` values a point. With `reverse` the blur's directions run backwards:
  // the transpose of the filter without it.
  void Filter(std::span<const double> x, std::span<double> y, int64_t channels, bool reverse) const;

 private:
  // The lattice's corners by their first d coordinates, in a table with open addresses.
  class Corners {
   public:
    explicit Corners(int dimensions) : d_(dimensions), table_(1 << 12, -1) {}
    int32_t size() const { return static_cast<int32_t>(keys_.size() / static_cast<size_t>(d_)); }
    const int32_t* key(int32_t corner) const { return &keys_[static_cast<size_t>(corner) * static_cast<size_t>(d_)]; }
    int32_t Find(const int32_t* key) const;  // -1: not there
    int32_t FindOrAdd(const int32_t* key);

   private:
    size_t SlotOf(const int32_t* key) const;
    void Grow();

    int d_;
    std::vector<int32_t> keys_;
    std::vector<int32_t> table_;  // corner, or -1
  };

  void Place(const double* point, size_t index, Corners& corners);
  void Connect(const Corners& corners);

  int d_;
  int64_t count_;
  int32_t corner_count_ = 0;
  std::vector<int32_t> corner_;    // [count, d+1]
  std::vector<double> weight_;     // [count, d+1], barycentric
  std::vector<int32_t> neighbor_;  // [d+1, corners, 2]; -1: none
};

}  // namespace moka

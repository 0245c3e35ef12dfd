// Corners of the lattice lie in a hash table; splat, blur along d + 1 directions and slice are linear passes over it.
#include "layers/forks/meanfield/ops/lattice.h"

#include <algorithm>
#include <cmath>

namespace moka {

size_t Lattice::Corners::SlotOf(const int32_t* key) const {
  uint64_t hash = 0;
  for (int i = 0; i < d_; ++i) hash = (hash + static_cast<uint32_t>(key[i])) * 0x9E3779B97F4A7C15ULL;
  size_t slot = (hash ^ (hash >> 32)) & (table_.size() - 1);
  while (table_[slot] >= 0 && !std::equal(key, key + d_, this->key(table_[slot]))) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  return slot;
}

int32_t Lattice::Corners::Find(const int32_t* key) const { return table_[SlotOf(key)]; }

int32_t Lattice::Corners::FindOrAdd(const int32_t* key) {
  const size_t slot = SlotOf(key);
  if (table_[slot] >= 0) return table_[slot];
  const int32_t corner = size();
  table_[slot] = corner;
  keys_.insert(keys_.end(), key, key + d_);
  if (static_cast<size_t>(size()) * 2 > table_.size()) Grow();
  return corner;
}

void Lattice::Corners::Grow() {
  table_.assign(table_.size() * 2, -1);
  for (int32_t corner = 0; corner < size(); ++corner) table_[SlotOf(key(corner))] = corner;
}

Lattice::Lattice(std::span<const double> points, int dimensions)
    : d_(dimensions), count_(static_cast<int64_t>(points.size()) / dimensions) {
  const size_t corners_of_all = static_cast<size_t>(count_) * static_cast<size_t>(d_ + 1);
  corner_.resize(corners_of_all);
  weight_.resize(corners_of_all);
  Corners corners(d_);
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) Place(&points[i * static_cast<size_t>(d_)], i, corners);
  corner_count_ = corners.size();
  Connect(corners);
}

// Finds the simplex around a point: the point is laid into the plane of d+1 coordinates with sum 0 (section 3.1 of the
// paper), rounded to the nearest corner of colour 0, and the order of what is left over names the simplex.
void Lattice::Place(const double* point, size_t index, Corners& corners) {
  const int d = d_;
  const size_t n = static_cast<size_t>(d) + 1;
  std::vector<double> elevated(n);
  std::vector<double> rest(n);
  std::vector<int32_t> base(n);
  std::vector<int> rank(n, 0);
  // The blur's own variance is (d+1)^2 2/3 in this scale.
  const double deviation = std::sqrt(2.0 / 3.0) * (d + 1);
  double sum = 0;
  for (int j = d; j > 0; --j) {
    const double scaled = point[j - 1] * deviation / std::sqrt(static_cast<double>(j) * (j + 1));
    elevated[static_cast<size_t>(j)] = sum - j * scaled;
    sum += scaled;
  }
  elevated[0] = sum;
  int off_plane = 0;
  for (size_t i = 0; i < n; ++i) {
    const double part = elevated[i] / (d + 1);
    const double up = std::ceil(part) * (d + 1);
    const double down = std::floor(part) * (d + 1);
    base[i] = static_cast<int32_t>(up - elevated[i] < elevated[i] - down ? up : down);
    off_plane += base[i] / (d + 1);
  }
  for (size_t i = 0; i < n; ++i) rest[i] = elevated[i] - base[i];
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) ++rank[rest[i] < rest[j] ? i : j];
  }
  for (size_t i = 0; i < n; ++i) {
    rank[i] += off_plane;
    const int turn = rank[i] < 0 ? d + 1 : rank[i] > d ? -(d + 1) : 0;
    rank[i] += turn;
    base[i] += turn;
  }
  std::vector<double> weight(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    const double part = (elevated[i] - base[i]) / (d + 1);
    weight[n - 1 - static_cast<size_t>(rank[i])] += part;
    weight[n - static_cast<size_t>(rank[i])] -= part;
  }
  weight[0] += 1 + weight[n];
  std::vector<int32_t> key(static_cast<size_t>(d));
  for (size_t color = 0; color < n; ++color) {
    const int c = static_cast<int>(color);
    for (size_t i = 0; i < static_cast<size_t>(d); ++i) key[i] = base[i] + (rank[i] <= d - c ? c : c - (d + 1));
    corner_[index * n + color] = corners.FindOrAdd(key.data());
    weight_[index * n + color] = weight[color];
  }
}

void Lattice::Connect(const Corners& corners) {
  neighbor_.resize(static_cast<size_t>(d_ + 1) * static_cast<size_t>(corner_count_) * 2);
  // The coordinate past the key is implied, but direction d writes it.
  std::vector<int32_t> one(static_cast<size_t>(d_ + 1));
  std::vector<int32_t> other(static_cast<size_t>(d_ + 1));
  size_t at = 0;
  for (int direction = 0; direction <= d_; ++direction) {
    for (int32_t corner = 0; corner < corner_count_; ++corner) {
      const int32_t* key = corners.key(corner);
      for (size_t i = 0; i < static_cast<size_t>(d_); ++i) {
        one[i] = key[i] - 1;
        other[i] = key[i] + 1;
      }
      if (direction < d_) {
        one[static_cast<size_t>(direction)] = key[direction] + d_;
        other[static_cast<size_t>(direction)] = key[direction] - d_;
      }
      neighbor_[at++] = corners.Find(one.data());
      neighbor_[at++] = corners.Find(other.data());
    }
  }
}

void Lattice::Filter(std::span<const double> x, std::span<double> y, int64_t channels, bool reverse) const {
  const auto size = static_cast<size_t>(channels);
  const size_t n = static_cast<size_t>(d_) + 1;
  // Row 0 is the corner that is not there.
  std::vector<double> values((static_cast<size_t>(corner_count_) + 1) * size, 0);
  std::vector<double> blurred(values.size(), 0);
  const auto row = [&](std::vector<double>& table, int32_t corner) {
    return &table[static_cast<size_t>(corner + 1) * size];
  };
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) {
    for (size_t k = i * n; k < (i + 1) * n; ++k) {
      double* to = row(values, corner_[k]);
      for (size_t c = 0; c < size; ++c) to[c] += weight_[k] * x[c * static_cast<size_t>(count_) + i];
    }
  }
  for (int step = 0; step <= d_; ++step) {
    const auto direction = static_cast<size_t>(reverse ? d_ - step : step);
    for (int32_t corner = 0; corner < corner_count_; ++corner) {
      const int32_t* pair =
          &neighbor_[(direction * static_cast<size_t>(corner_count_) + static_cast<size_t>(corner)) * 2];
      const double* self = row(values, corner);
      const double* one = row(values, pair[0]);
      const double* other = row(values, pair[1]);
      double* to = row(blurred, corner);
      for (size_t c = 0; c < size; ++c) to[c] = self[c] + 0.5 * (one[c] + other[c]);
    }
    std::swap(values, blurred);
  }
  const double scale = 1 / (1 + std::pow(2.0, -d_));
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) {
    for (size_t c = 0; c < size; ++c) y[c * static_cast<size_t>(count_) + i] = 0;
    for (size_t k = i * n; k < (i + 1) * n; ++k) {
      const double* from = row(values, corner_[k]);
      for (size_t c = 0; c < size; ++c) y[c * static_cast<size_t>(count_) + i] += scale * weight_[k] * from[c];
    }
  }
}

}  // namespace moka

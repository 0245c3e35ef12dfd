// The float32 values of a collective: pieces of memory one behind the other, so that gradients are summed where they
// lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace moka {

class Message {
 public:
  Message() = default;
  explicit Message(std::span<float> values) { Append(values.data(), static_cast<int64_t>(values.size())); }

  void Append(float* values, int64_t count) {
    if (count == 0) return;
    pieces_.push_back({values, end_, end_ + count});
    end_ += count;
  }
  int64_t size() const { return end_; }

  // body(values, count) for the parts of [begin, end) in order.
  template <class Body>
  void ForEach(int64_t begin, int64_t end, Body&& body) const {
    if (begin >= end) return;
    auto piece = std::ranges::upper_bound(pieces_, begin, {}, &Piece::end);
    for (; begin < end; ++piece) {
      const int64_t stop = std::min(end, piece->end);
      body(piece->values + (begin - piece->begin), stop - begin);
      begin = stop;
    }
  }

 private:
  struct Piece {
    float* values;
    int64_t begin;  // elements of the message
    int64_t end;
  };
  std::vector<Piece> pieces_;
  int64_t end_ = 0;
};

}  // namespace moka

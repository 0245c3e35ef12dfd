// Decoded pictures kept in memory, first come, up to a limit: records that are decoded again each epoch are decoded
// once. What is kept stays until the cache goes. Safe for any number of threads, without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "data/image/image.h"

namespace moka {

class PictureCache {
 public:
  struct Kept {
    Image image;
    float label = 0;
  };

  // Requires: limit_bytes >= 0.
  PictureCache(int64_t records, int64_t limit_bytes);
  PictureCache(const PictureCache&) = delete;
  PictureCache& operator=(const PictureCache&) = delete;
  ~PictureCache();

  // Null when it is not kept. Requires: record is below the number of records; so in Offer.
  const Kept* Find(int64_t record) const { return kept_[static_cast<size_t>(record)].load(std::memory_order_acquire); }
  // Keeps a copy if there is room.
  void Offer(int64_t record, const Image& image, float label);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  int64_t limit_bytes_;
  std::atomic<int64_t> bytes_ = 0;  // kept, and being copied
  std::vector<std::atomic<const Kept*>> kept_;
};

}  // namespace moka

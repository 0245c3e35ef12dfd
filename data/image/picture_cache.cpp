// The first pictures offered are kept until the limit and none is thrown out again: over whole epochs every policy of
// replacement has the same rate of hits, and this one costs nothing.
#include "data/image/picture_cache.h"

#include <memory>

namespace moka {

PictureCache::PictureCache(int64_t records, int64_t limit_bytes)
    : limit_bytes_(limit_bytes), kept_(static_cast<size_t>(records)) {}

PictureCache::~PictureCache() {
  for (const std::atomic<const Kept*>& kept : kept_) delete kept.load(std::memory_order_relaxed);
}

void PictureCache::Offer(int64_t record, const Image& image, float label) {
  const auto size = static_cast<int64_t>(image.pixels.size() + sizeof(Kept));
  if (bytes_.load(std::memory_order_relaxed) + size > limit_bytes_) return;
  if (bytes_.fetch_add(size, std::memory_order_relaxed) + size > limit_bytes_) {
    bytes_.fetch_sub(size, std::memory_order_relaxed);
    return;
  }
  auto copy = std::make_unique<const Kept>(Kept{.image = image, .label = label});
  const Kept* expected = nullptr;
  if (kept_[static_cast<size_t>(record)].compare_exchange_strong(expected, copy.get(), std::memory_order_acq_rel)) {
    static_cast<void>(copy.release());  // the table's from now on
  } else {
    bytes_.fetch_sub(size, std::memory_order_relaxed);  // another thread was first
  }
}

}  // namespace moka

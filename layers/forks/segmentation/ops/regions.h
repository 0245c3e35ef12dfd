// Connected regions of an image's pixels, 4 neighbours each, and their growth over what lies between them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace moka {

// The regions of one image, row-major: 0 outside of all regions, else the region's number, from 1 in the order of
// first pixels.
struct Regions {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<int32_t> numbers;
  int32_t count = 0;
};

// Calls f(index) for each of a pixel's up to four neighbours.
template <class F>
void ForRegionNeighbors(int64_t height, int64_t width, int64_t at, F&& f) {
  const int64_t y = at / width;
  const int64_t x = at % width;
  if (y > 0) f(at - width);
  if (x > 0) f(at - 1);
  if (x + 1 < width) f(at + 1);
  if (y + 1 < height) f(at + width);
}

// Fills pixels breadth first from those in `queue`: a neighbour for which free(index) holds takes the pixel's number.
template <class F>
void SpreadRegions(Regions& regions, std::vector<int64_t>& queue, F&& free) {
  for (size_t next = 0; next < queue.size(); ++next) {
    const int64_t at = queue[next];
    ForRegionNeighbors(regions.height, regions.width, at, [&](int64_t other) {
      int32_t& number = regions.numbers[static_cast<size_t>(other)];
      if (number != 0 || !free(other)) return;
      number = regions.numbers[static_cast<size_t>(at)];
      queue.push_back(other);
    });
  }
}

// The regions of the pixels for which inside(index) holds; those of fewer than `least` pixels are left out.
template <class F>
Regions FindRegions(int64_t height, int64_t width, int64_t least, F&& inside) {
  Regions regions{height, width, std::vector<int32_t>(static_cast<size_t>(height * width)), 0};
  constexpr int32_t kLeftOut = -1;
  std::vector<int64_t> queue;
  for (int64_t at = 0; at < height * width; ++at) {
    if (regions.numbers[static_cast<size_t>(at)] != 0 || !inside(at)) continue;
    regions.numbers[static_cast<size_t>(at)] = regions.count + 1;
    queue.assign(1, at);
    SpreadRegions(regions, queue, inside);
    if (static_cast<int64_t>(queue.size()) >= least) {
      ++regions.count;
      continue;
    }
    for (const int64_t pixel : queue) regions.numbers[static_cast<size_t>(pixel)] = kLeftOut;
  }
  for (int32_t& number : regions.numbers) number = number == kLeftOut ? 0 : number;
  return regions;
}

// Each pixel outside joins the region it is fewest steps from (of equal ones the first reached).
inline void GrowRegions(Regions& regions) {
  std::vector<int64_t> queue;
  for (size_t at = 0; at < regions.numbers.size(); ++at) {
    if (regions.numbers[at] != 0) queue.push_back(static_cast<int64_t>(at));
  }
  SpreadRegions(regions, queue, [](int64_t) { return true; });
}

}  // namespace moka

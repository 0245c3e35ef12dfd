// The distinct convolutions of well-known networks, for benchmarks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace moka {

struct BenchLayer {
  const char* name;
  int64_t channels;
  int64_t outputs;
  int64_t side;
  int64_t kernel;
  int64_t stride;
  int count;         // how often the network has it
  int64_t pad = -1;  // -1: half the kernel
  int64_t groups = 1;

  int64_t padding() const { return pad < 0 ? kernel / 2 : pad; }
};

struct BenchNet {
  const char* name;
  const char* title;
  int64_t batch;  // unless another is asked for
  std::span<const BenchLayer> layers;
};

std::span<const BenchNet> BenchNets();

}  // namespace moka

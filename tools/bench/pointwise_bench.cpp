// GB/s of the pointwise and reduce_sum kernels beside a plain copy of the same bytes: what memory allows.
// Run: pointwise_bench [megabytes of one tensor, 64 unless told]. Each number is the best of several runs; the result
// of every case is checked for finite values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/device/tensor.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

constexpr int kRuns = 15;

struct Scenario {
  const char* name;
  const char* op;
  Strings exprs;
  Ints axes;  // reduce_sum
  int full = 1;
  int channel = 0;  // inputs of shape [1,C,1,1]
  int scalars = 0;
  const char* layout = "abcd";
  int64_t channels = 64;
  int64_t side = 56;
};

template <class F>
double BestSeconds(F&& run) {
  double best = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// GB/s of copying `bytes` (read and written once each).
double CopySpeed(int64_t bytes) {
  const Buffer from = Buffer::Allocate(bytes);
  const Buffer to = Buffer::Allocate(bytes);
  const double seconds = BestSeconds([&] {
    ParallelFor(bytes / 4, 1 << 14, [&](int64_t begin, int64_t end, int) {
      const float* x = static_cast<const float*>(static_cast<const void*>(from.data()));
      float* y = static_cast<float*>(static_cast<void*>(to.data()));
      for (int64_t i = begin; i < end; ++i) y[i] = x[i];
    });
  });
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

void Measure(const Scenario& s, int64_t megabytes, double copy) {
  const int64_t plane = s.channels * s.side * s.side;
  const Shape shape{std::max<int64_t>(1, (megabytes << 18) / plane), s.channels, s.side, s.side};
  std::vector<TensorType> types;
  for (int i = 0; i < s.full; ++i) types.push_back({DType::kFloat32, shape, Layout::Parse(s.layout)});
  for (int i = 0; i < s.channel; ++i) types.push_back({DType::kFloat32, Shape{1, s.channels, 1, 1}, {}});
  for (int i = 0; i < s.scalars; ++i) types.push_back({DType::kFloat32, Shape{}, {}});
  const bool is_sum = std::strcmp(s.op, "reduce_sum") == 0;
  Node node;
  if (is_sum) {
    node.attributes = {{"expr", s.exprs[0]}, {"axes", s.axes}};
  } else {
    node.attributes = {{"exprs", s.exprs}};
  }
  const char* op = is_sum ? "reduce_sum" : "pointwise";
  std::vector<TensorType> plain = types;
  for (TensorType& type : plain) type.layout = {};
  std::vector<TensorType> outputs = StandardCatalog().Op(op).infer(node.attributes, plain);
  for (TensorType& type : outputs) {
    if (!is_sum) type.layout = types[0].layout;
  }
  std::vector<OwnedTensor> tensors;
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  int64_t bytes = 0;
  for (const TensorType& type : types) tensors.emplace_back(type);
  for (const TensorType& type : outputs) tensors.emplace_back(type);
  for (size_t i = 0; i < tensors.size(); ++i) {
    (i < types.size() ? in : out).push_back(tensors[i].tensor());
    bytes += tensors[i].type().Bytes();
    for (float& v : tensors[i].as<float>()) v = 0.5F;
  }
  const auto kernel = KernelNamed(op, "moka").make({node, types, outputs});
  const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
  kernel->Bind({in, out, scratch.data()});
  const double speed = 1e-9 * static_cast<double>(bytes) / BestSeconds([&] { kernel->Run(); });
  const bool is_finite = std::isfinite(out[0].as<float>()[0]);
  std::printf("%-34s %-8s %8.2f GB/s %6.0f %% of copy%s\n", s.name, s.layout, speed, 100 * speed / copy,
              is_finite ? "" : "  NOT FINITE");
}

int Main(int64_t megabytes) {
  const double copy = CopySpeed(megabytes << 20);
  std::printf("%d threads, tensors of %lld MiB; copy %.2f GB/s\n", ThreadCount(), static_cast<long long>(megabytes),
              copy);
  const Ints all = {0, 1, 2, 3};
  const Ints channels = {0, 2, 3};
  const Scenario scenarios[] = {
      {"relu", "pointwise", {"max(x0,0)"}, {}},
      {"relu backward", "pointwise", {"gt(x0,0)*x1"}, {}, 2},
      {"add", "pointwise", {"x0+x1"}, {}, 2},
      {"sgd momentum", "pointwise", {"x0-(0.9*x2+x3*(x1+5e-4*x0))", "0.9*x2+x3*(x1+5e-4*x0)"}, {}, 3, 0, 1},
      {"adam",
       "pointwise",
       {"x0-x4*(0.9*x2+0.1*x1)/(sqrt(0.999*x3+0.001*(x1*x1))+1e-8)", "0.9*x2+0.1*x1", "0.999*x3+0.001*(x1*x1)"},
       {},
       4,
       0,
       1},
      {"exp", "pointwise", {"exp(x0)"}, {}},
      {"sigmoid", "pointwise", {"sigmoid(x0)"}, {}},
      {"tanh", "pointwise", {"tanh(x0)"}, {}},
      {"gelu", "pointwise", {"0.5*x0*(1+erf(x0*0.7071067811865476))"}, {}},
      {"pow", "pointwise", {"pow(x0,1.7)"}, {}},
      {"dropout", "pointwise", {"select(lt(rand(x1,5),0.5),0,x0*2)"}, {}, 1, 0, 1},
      {"dropout", "pointwise", {"select(lt(rand(x1,5),0.5),0,x0*2)"}, {}, 1, 0, 1, "aBcd16b"},
      {"channel scale and shift", "pointwise", {"x0*x1+x2"}, {}, 1, 2},
      {"channel scale and shift", "pointwise", {"x0*x1+x2"}, {}, 1, 2, 0, "aBcd16b"},
      {"channel scale and shift", "pointwise", {"x0*x1+x2"}, {}, 1, 2, 0, "acdb"},
      {"channel scale and shift, 7x7", "pointwise", {"x0*x1+x2"}, {}, 1, 2, 0, "abcd", 512, 7},
      {"channel scale and shift, 7x7", "pointwise", {"x0*x1+x2"}, {}, 1, 2, 0, "aBcd16b", 512, 7},
      {"sum of squares", "reduce_sum", {"x0*x0"}, all},
      {"sum of squares", "reduce_sum", {"x0*x0"}, all, 1, 0, 0, "aBcd16b"},
      {"bias gradient", "reduce_sum", {"x0"}, channels},
      {"bias gradient", "reduce_sum", {"x0"}, channels, 1, 0, 0, "aBcd16b"},
      {"bias gradient", "reduce_sum", {"x0"}, channels, 1, 0, 0, "acdb"},
      {"bias gradient, 7x7", "reduce_sum", {"x0"}, channels, 1, 0, 0, "abcd", 512, 7},
      {"scale gradient", "reduce_sum", {"x0*(x1-x2)"}, channels, 2, 1, 0, "aBcd16b"},
      {"planes", "reduce_sum", {"x0"}, {2, 3}},
      {"first axis", "reduce_sum", {"x0"}, {0}},
  };
  for (const Scenario& scenario : scenarios) Measure(scenario, megabytes, copy);
  return 0;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  const int64_t megabytes = argc > 1 ? std::atoll(argv[1]) : 64;
  return moka::Main(std::clamp<int64_t>(megabytes, 1, 4096));
}

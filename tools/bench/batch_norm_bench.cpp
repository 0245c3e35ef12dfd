// GB/s of batch normalisation and its gradient on ResNet-50's shapes, as a training step runs them: memory cold,
// results over dying inputs where the planner puts them. Bytes are what must be moved: each array read or written once.
// Run: batch_norm_bench [batch, 32 unless told]. Each number is the best of several runs; results are checked
// for finite values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/device/tensor.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

constexpr int kRuns = 7;

struct Scenario {
  const char* name;
  bool is_backward;
  bool has_residual;
  int64_t gradients;
};

// Empties the caches.
void Flush(Buffer& buffer) {
  ParallelFor(buffer.bytes() / 64, 1 << 10, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) buffer.data()[64 * i] = static_cast<std::byte>(i);
  });
}

class Case {
 public:
  Case(const Scenario& s, const Shape& shape) {
    const TensorType image{DType::kFloat32, shape, Layout::Parse("aBcd16b")};
    const TensorType channel{DType::kFloat32, Shape{shape[1]}, {}};
    const std::string mask = s.has_residual ? "output" : "input";
    if (s.is_backward) {
      node_.attributes = {
          {"eps", 1e-5}, {"affine", true}, {"mask", mask}, {"gradients", s.gradients}, {"residual", s.has_residual}};
      types_ = {image, channel, channel};
      types_.insert(types_.end(), static_cast<size_t>(s.gradients), image);
      types_.push_back(channel);
      types_.push_back(s.has_residual ? image : channel);
      outputs_ = {image, channel, channel};
      if (s.has_residual) outputs_.push_back(image);
    } else {
      node_.attributes = {{"eps", 1e-5}, {"relu", true}, {"sum", s.has_residual}};
      types_ = {image, channel, channel};
      if (s.has_residual) types_.push_back(image);
      outputs_ = {image, channel, channel};
    }
    for (const TensorType& type : types_) Add(type, in_);
    for (const TensorType& type : outputs_) Add(type, out_);
    if (s.is_backward) {
      out_[0] = in_[0];  // dx over x
      if (s.has_residual) out_.back() = in_[3];
    }
    kernel_ = KernelNamed(s.is_backward ? "batch_norm_backward" : "batch_norm", "moka").make({node_, types_, outputs_});
    scratch_ = Buffer::Allocate(kernel_->scratch_bytes());
    kernel_->Bind({in_, out_, scratch_.data()});
    for (size_t i = 0; i < types_.size(); ++i) bytes_ += types_[i].Bytes();
    for (size_t i = 0; i < outputs_.size(); ++i) bytes_ += outputs_[i].Bytes();
  }

  double Run(Buffer& flushed) {
    std::vector<double> seconds;
    for (int i = 0; i < kRuns; ++i) {
      Flush(flushed);
      const auto start = std::chrono::steady_clock::now();
      kernel_->Run();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return *std::ranges::min_element(seconds);
  }
  int64_t bytes() const { return bytes_; }
  bool IsFinite() const { return std::isfinite(out_[0].as<float>()[0]); }

 private:
  void Add(const TensorType& type, std::vector<Tensor>& to) {
    owned_.emplace_back(type);
    float v = 0.25F;
    for (float& x : owned_.back().as<float>()) x = v = v > 1 ? v - 1.1F : v + 0.37F;
    to.push_back(owned_.back().tensor());
  }

  Node node_;
  std::vector<TensorType> types_;
  std::vector<TensorType> outputs_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> in_;
  std::vector<Tensor> out_;
  std::unique_ptr<Kernel> kernel_;
  Buffer scratch_;
  int64_t bytes_ = 0;
};

int Main(int64_t batch) {
  Buffer flushed = Buffer::Allocate(int64_t{64} << 20);
  const Scenario scenarios[] = {{"forward", false, false, 1},
                                {"forward, residual", false, true, 1},
                                {"backward", true, false, 1},
                                {"backward, residual", true, true, 2}};
  std::printf("%d threads, batch %lld\n", ThreadCount(), static_cast<long long>(batch));
  for (const Scenario& s : scenarios) {
    for (const auto& [channels, side] : {std::pair<int64_t, int64_t>{64, 112},
                                         {256, 56},
                                         {64, 56},
                                         {512, 28},
                                         {128, 28},
                                         {1024, 14},
                                         {256, 14},
                                         {2048, 7},
                                         {512, 7}}) {
      Case c(s, Shape{batch, channels, side, side});
      const double t = c.Run(flushed);
      std::printf("%-20s %5lld x %3lld  %7.2f ms  %6.1f GB/s%s\n", s.name, static_cast<long long>(channels),
                  static_cast<long long>(side), 1e3 * t, 1e-9 * static_cast<double>(c.bytes()) / t,
                  c.IsFinite() ? "" : "  NOT FINITE");
    }
  }
  return 0;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 32;
  return moka::Main(std::clamp<int64_t>(batch, 1, 1024));
}

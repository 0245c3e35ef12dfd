// Choosing by value, label or loss: the indices that a selector keeps, masks of labels, of hard examples and of the
// largest elements, written tables and default boxes. A choice counts what comes before each element, so that all are
// made at once.
#include <cmath>

#include "layers/bound_kernel.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/label_fault.cuh"
#include "layers/cuda/launch.cuh"
#include "layers/cuda/line.cuh"
#include "layers/cuda/refuse.h"
#include "layers/cuda/row.h"
#include "layers/cuda/types.cuh"
#include "layers/ops/labels.h"
#include "layers/ops/ssd/boxes.h"
#include "layers/ops/ssd/ops.h"
#include "layers/ops/top_k_mask.h"

namespace moka {
namespace {

template <class T>
struct FilterEach {
  int64_t count;
  const T* selector;
  T* y;
  __host__ __device__ bool IsKept(int64_t i) const { return cuda::ToWide(selector[i]) != 0; }
  __host__ __device__ void operator()(int64_t i) const {
    int64_t before = 0;
    int64_t total = 0;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t kept = IsKept(j) ? 1 : 0;
      before += j < i ? kept : 0;
      total += kept;
    }
    if (IsKept(i)) y[before] = cuda::Narrow<T>(static_cast<cuda::Wide<T>>(i));
    if (i >= total) y[i] = cuda::Narrow<T>(-1);
  }
};

class FilterIndexKernel final : public BoundKernel {
 public:
  explicit FilterIndexKernel(const KernelQuery& query)
      : dtype_(query.inputs[0].dtype), count_(query.inputs[0].shape.Count()) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), count_, FilterEach<T>{count_, in<T>(0), out<T>(0)});
    });
  }

 private:
  DType dtype_;
  int64_t count_;
};

template <class T>
struct HardExampleEach {
  int64_t count;
  int64_t keep;
  const T* loss;
  const float* group;
  T* y;
  // Larger losses first, NaN last, the earlier of equals.
  __host__ __device__ bool IsBefore(int64_t i, int64_t j) const {
    const auto a = cuda::ToWide(loss[i]);
    const auto b = cuda::ToWide(loss[j]);
    if (isnan(a) || isnan(b)) return isnan(a) ? isnan(b) && i < j : true;
    return a != b ? a > b : i < j;
  }
  __host__ __device__ void operator()(int64_t i) const {
    const float own = group[i];
    int64_t before = 0;
    for (int64_t j = 0; j < count && own >= 0; ++j) {
      const float other = group[j];
      if (other >= 0 && trunc(other) == trunc(own) && IsBefore(j, i)) ++before;
    }
    y[i] = cuda::Narrow<T>(own >= 0 && before < keep ? 1 : 0);
  }
};

class HardExampleMaskKernel final : public BoundKernel {
 public:
  explicit HardExampleMaskKernel(const KernelQuery& query)
      : dtype_(query.inputs[0].dtype),
        count_(query.inputs[0].shape.Count()),
        keep_(query.node.attributes.Int("keep")) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), count_, HardExampleEach<T>{count_, keep_, in<T>(0), in<float>(1), out<T>(0)});
    });
  }

 private:
  DType dtype_;
  int64_t count_;
  int64_t keep_;
};

template <class T>
struct TopKEach {
  cuda::LineMap lines;
  int64_t k;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t line = i / (lines.size * lines.inner) * lines.inner + i % lines.inner;
    const int64_t own = i / lines.inner % lines.size;
    const auto value = cuda::ToWide(x[i]);
    int64_t before = 0;
    for (int64_t c = 0; c < lines.size; ++c) {
      if (IsBefore(cuda::ToWide(x[lines.Offset(line, c)]), c, value, own)) ++before;
    }
    y[i] = cuda::Narrow<T>(before < k ? 1 : 0);
  }
};

class TopKMaskKernel final : public BoundKernel {
 public:
  explicit TopKMaskKernel(const KernelQuery& query)
      : lines_(cuda::LinesOf(query)), dtype_(query.inputs[0].dtype), k_(query.node.attributes.Int("k")) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), lines_.Count() * lines_.size, TopKEach<T>{lines_, k_, in<T>(0), out<T>(0)});
    });
  }

 private:
  cuda::LineMap lines_;
  DType dtype_;
  int64_t k_;
};

struct LabelMaskEach {
  cuda::LineMap lines;
  LabelRule rule;
  const float* label;
  float* y;
  cuda::LabelRecord record;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t line = i / (lines.size * lines.inner) * lines.inner + i % lines.inner;
    const int64_t c = i / lines.inner % lines.size;
    const int64_t wanted = rule.Read(label[line]);
    if (wanted == kWrongLabel && c == 0) record.Report(line, label[line]);
    y[i] = c == wanted ? 1.0F : 0.0F;
  }
};

class LabelMaskKernel final : public BoundKernel {
 public:
  explicit LabelMaskKernel(const KernelQuery& query)
      : lines_(cuda::LinesOf(query.node.attributes, query.outputs[0].shape)),
        rule_{lines_.size, query.node.attributes.Bool("has_ignore"), query.node.attributes.Int("ignore_label")},
        fault_(query.device,
               [rule = rule_](int64_t at, double value) { return WrongNumberText("label", rule, at, value); }) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override { return fault_.Take(); }
  void Run() override {
    cuda::ForEach(stream(), lines_.Count() * lines_.size,
                  LabelMaskEach{lines_, rule_, in<float>(0), out<float>(0), fault_.record()});
  }

 private:
  cuda::LineMap lines_;
  LabelRule rule_;
  cuda::LabelFault fault_;
};

// Values known beforehand, copied from pinned memory, which holds them for as long as the kernel lives.
class ConstantKernel final : public BoundKernel {
 public:
  explicit ConstantKernel(const KernelQuery& query) : values_(AllocatePinned(query.device, query.outputs[0].Bytes())) {}
  float* values() const { return reinterpret_cast<float*>(values_.data()); }
  void Run() override { stream().CopyToDevice(out<std::byte>(0), values_.data(), values_.bytes()); }

 private:
  DeviceBuffer values_;
};

std::unique_ptr<Kernel> MakeTable(const KernelQuery& query) {
  auto kernel = std::make_unique<ConstantKernel>(query);
  float* value = kernel->values();
  for (const double from : query.node.attributes.Get<Doubles>("values")) *value++ = static_cast<float>(from);
  return kernel;
}

std::unique_ptr<Kernel> MakePriorBox(const KernelQuery& query) {
  auto kernel = std::make_unique<ConstantKernel>(query);
  FillPriorBoxes(query.node.attributes, RealsOut(kernel->values()));
  return kernel;
}

KernelDef ConstantRow(const char* op, decltype(KernelDef::make) make) {
  return {.name = "moka", .op = op, .device = DeviceKind::kCuda, .refuse = RefuseUnlessPlain, .make = make};
}

std::string RefuseGroups(const KernelQuery& query) {
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 1); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

std::string RefuseLabels(const KernelQuery& query) {
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 0); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef CudaFilterIndex() { return cuda::OwnRow<FilterIndexKernel>("filter_index", RefuseUnlessPlain); }
KernelDef CudaHardExampleMask() { return cuda::OwnRow<HardExampleMaskKernel>("hard_example_mask", RefuseGroups); }
KernelDef CudaLabelMask() { return cuda::OwnRow<LabelMaskKernel>("label_mask", RefuseLabels); }
KernelDef CudaPriorBox() { return ConstantRow("prior_box", MakePriorBox); }
KernelDef CudaTable() { return ConstantRow("table", MakeTable); }
KernelDef CudaTopKMask() { return cuda::OwnRow<TopKMaskKernel>("top_k_mask", RefuseUnlessPlain); }

}  // namespace moka

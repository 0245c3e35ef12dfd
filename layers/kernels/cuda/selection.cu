// Choosing by value, label or loss: the indices that a selector keeps, masks of labels, of hard examples and of the
// largest elements and written tables. A choice sorts the elements and looks at their places.
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/constant.cuh"
#include "layers/kernels/cuda/label_fault.cuh"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/line.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/sort.cuh"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

// filter_index: what is kept first, in its order.
template <class T>
struct FilterKey {
  const T* selector;
  cuda::SortItem* items;
  __host__ __device__ void operator()(int64_t i) const {
    items[i] = {0, cuda::ToWide(selector[i]) != 0 ? 0U : 1U, static_cast<int32_t>(i)};
  }
};

// Sorted by (dropped, index), kept indices stand first in their order; the places behind them say -1.
template <class T>
struct FilterMark {
  const cuda::SortItem* items;
  T* y;
  __host__ __device__ void operator()(int64_t place) const {
    const cuda::SortItem& item = items[place];
    y[place] = cuda::Narrow<T>(static_cast<cuda::Wide<T>>(item.group == 0 ? item.index : -1));
  }
};

// hard_example_mask: larger losses first, NaN last, group after group.
inline constexpr uint32_t kPadding = ~uint32_t{0};

// Bits of non-negative floats grow with their value, so that the group itself is a key; a negative group is padding.
template <class T>
struct HardExampleKey {
  const T* loss;
  const float* group;
  cuda::SortItem* items;
  __host__ __device__ void operator()(int64_t i) const {
    uint32_t of = kPadding;
    if (group[i] >= 0) {
      const float whole = trunc(group[i]) + 0.0F;  // not -0
      memcpy(&of, &whole, sizeof(of));
    }
    items[i] = {cuda::DescendingKey(cuda::ToWide(loss[i]), cuda::NanPlace::kLast), of, static_cast<int32_t>(i)};
  }
};

// The place inside the group is the distance from the group's first item, found by bisection.
template <class T>
struct HardExampleMark {
  int64_t keep;
  const cuda::SortItem* items;
  T* y;
  __host__ __device__ void operator()(int64_t place) const {
    const cuda::SortItem& item = items[place];
    const int64_t first =
        cuda::PartitionPoint(items, 0, place, [&](const cuda::SortItem& other) { return other.group < item.group; });
    y[item.index] = cuda::Narrow<T>(item.group != kPadding && place - first < keep ? 1 : 0);
  }
};

// top_k_mask: larger values first, NaN before all.
template <class T>
struct TopKKey {
  cuda::LineMap lines;
  const T* x;
  cuda::SortItem* items;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t c = i % lines.size;
    const T value = x[lines.Offset(i / lines.size, c)];
    items[i] = {cuda::DescendingKey(cuda::ToWide(value), cuda::NanPlace::kFirst), 0, static_cast<int32_t>(c)};
  }
};

template <class T>
struct TopKMark {
  cuda::LineMap lines;
  int64_t k;
  const cuda::SortItem* items;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    y[lines.Offset(i / lines.size, items[i].index)] = cuda::Narrow<T>(i % lines.size < k ? 1 : 0);
  }
};

// Keys of elements, sorted line by line, and a mark for each place.
// The sort has a total order (sort.cuh), so ties go to the earlier element, as on the CPU.
class SortingKernel : public BoundKernel {
 public:
  SortingKernel(const KernelQuery& query, const cuda::LineMap& lines) : dtype_(query.inputs[0].dtype), lines_(lines) {}
  int64_t scratch_bytes() const override { return cuda::SortSpace::ScratchBytes(count()); }

 protected:
  DType dtype() const { return dtype_; }
  const cuda::LineMap& lines() const { return lines_; }
  int64_t count() const { return lines_.Count() * lines_.size; }
  cuda::SortItem* items() const { return scratch<cuda::SortItem>(); }
  const cuda::SortItem* Sort() {
    return cuda::SortLines(stream(), lines_.Count(), lines_.size, cuda::SortSpace(items(), count()));
  }

 private:
  DType dtype_;
  cuda::LineMap lines_;
};

class FilterIndexKernel final : public SortingKernel {
 public:
  explicit FilterIndexKernel(const KernelQuery& query) : SortingKernel(query, {1, query.inputs[0].shape.Count(), 1}) {}
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      cuda::ForEach(stream(), count(), FilterKey<T>{in<T>(0), items()});
      cuda::ForEach(stream(), count(), FilterMark<T>{Sort(), out<T>(0)});
    });
  }
};

class HardExampleMaskKernel final : public SortingKernel {
 public:
  explicit HardExampleMaskKernel(const KernelQuery& query)
      : SortingKernel(query, {1, query.inputs[0].shape.Count(), 1}), keep_(query.node.attributes.Int("keep")) {}
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      cuda::ForEach(stream(), count(), HardExampleKey<T>{in<T>(0), in<float>(1), items()});
      cuda::ForEach(stream(), count(), HardExampleMark<T>{keep_, Sort(), out<T>(0)});
    });
  }

 private:
  int64_t keep_;
};

class TopKMaskKernel final : public SortingKernel {
 public:
  explicit TopKMaskKernel(const KernelQuery& query)
      : SortingKernel(query, cuda::LinesOf(query)), k_(query.node.attributes.Int("k")) {}
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      cuda::ForEach(stream(), count(), TopKKey<T>{lines(), in<T>(0), items()});
      cuda::ForEach(stream(), count(), TopKMark<T>{lines(), k_, Sort(), out<T>(0)});
    });
  }

 private:
  int64_t k_;
};

struct LabelMaskEach {
  cuda::LineMap lines;
  LabelRule rule;
  const float* label;
  float* y;
  cuda::LabelRecord record;
  __host__ __device__ void operator()(int64_t i) const {
    // Element i is class c of this line; the thread of class 0 reports for the line.
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

// A table is filled on the host once; a run copies it.
std::unique_ptr<Kernel> MakeTable(const KernelQuery& query) {
  auto kernel = std::make_unique<cuda::ConstantKernel>(query);
  float* value = kernel->values();
  for (const double from : query.node.attributes.Get<Doubles>("values")) *value++ = static_cast<float>(from);
  return kernel;
}

std::string RefuseSorting(const KernelQuery& query) {
  if (query.inputs[0].shape.Count() > std::numeric_limits<int32_t>::max()) return "it numbers places in 32 bits";
  return RefuseUnlessPlain(query);
}

std::string RefuseGroups(const KernelQuery& query) {
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 1); !reason.empty()) return reason;
  return RefuseSorting(query);
}

std::string RefuseLabels(const KernelQuery& query) {
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 0); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef CudaFilterIndex() { return cuda::OwnRow<FilterIndexKernel>("filter_index", RefuseSorting); }
KernelDef CudaHardExampleMask() { return cuda::OwnRow<HardExampleMaskKernel>("hard_example_mask", RefuseGroups); }
KernelDef CudaLabelMask() { return cuda::OwnRow<LabelMaskKernel>("label_mask", RefuseLabels); }
KernelDef CudaTable() { return cuda::ConstantRow("table", MakeTable); }
KernelDef CudaTopKMask() { return cuda::OwnRow<TopKMaskKernel>("top_k_mask", RefuseSorting); }

}  // namespace moka

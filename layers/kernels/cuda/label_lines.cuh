// Lines along the classes' axis with a label each: what the kernels of losses and accuracies share.
#pragma once

#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/label_fault.cuh"
#include "layers/kernels/cuda/line.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/maths/labels.h"

namespace moka::cuda {

// The lines of a node with labels.
struct LabelLines {
  LineMap lines;
  LabelRule rule;
};

// Ops without an ignored label lack its attributes.
inline LabelLines LabelLinesOf(const KernelQuery& query) {
  const Attributes& a = query.node.attributes;
  const LineMap lines = LinesOf(query);
  const bool has_rule = a.Has("has_ignore");
  return {lines, {lines.size, has_rule && a.Bool("has_ignore"), has_rule ? a.Int("ignore_label") : 0}};
}

// A kernel that reads labels (input 1) and finds wrong ones.
class LabelKernel : public BoundKernel {
 public:
  explicit LabelKernel(const KernelQuery& query)
      : labels_(LabelLinesOf(query)),
        dtype_(query.inputs[0].dtype),
        fault_(query.device,
               [rule = labels_.rule](int64_t at, double value) { return WrongLabelText(rule, at, value); }) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override { return fault_.Take(); }

 protected:
  const LineMap& lines() const { return labels_.lines; }
  const LabelRule& rule() const { return labels_.rule; }
  DType dtype() const { return dtype_; }
  LabelRecord record() const { return fault_.record(); }

 private:
  LabelLines labels_;
  DType dtype_;
  LabelFault fault_;
};

// "" or why not: plain, labels in float32.
inline std::string RefuseUnlessLabels(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32At(query, 1); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

// The largest element of a line and where it is: by the order of IsBefore.
template <class W>
struct LineItem {
  W value;
  int64_t index;  // -1: none yet
};

// Whether a comes before b: larger first, NaN last, the larger index first among equals, or the smaller one.
template <class W>
__host__ __device__ bool ComesFirst(const LineItem<W>& a, const LineItem<W>& b, bool smaller_index_first = false) {
  const bool by_index = smaller_index_first ? a.index < b.index : a.index > b.index;
  if (isnan(a.value) || isnan(b.value)) return isnan(a.value) ? isnan(b.value) && by_index : true;
  return a.value != b.value ? a.value > b.value : by_index;
}

}  // namespace moka::cuda

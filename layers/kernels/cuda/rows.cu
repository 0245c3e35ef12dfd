// Rows of a tensor by number and the sums back: reindex, take_rows and embed. Sums are gathered: each row adds the rows
// that came from it in their order.
#include <cmath>
#include <limits>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/label_fault.cuh"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/rows.cuh"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

// A thread an element: neighbouring threads copy neighbouring elements of a row. A wrong number is reported by the
// first of its row's threads alone.
template <class T, class I>
struct TakeEach {
  cuda::RowNumbers<I> numbers;
  int64_t length;  // of a row
  T missing;       // what a row that is not there consists of
  const T* x;
  T* y;
  cuda::LabelRecord record;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t m = i / length;
    const int64_t at = i % length;
    const int64_t row = numbers.At(m);
    if (row == kWrongLabel && at == 0) record.Report(m, static_cast<float>(numbers.values[m]));
    // A row that is not there is zeros, or NaN where a later loss should show the fault.
    y[i] = row < 0 ? missing : x[row * length + at];
  }
};

// Each element of x adds its row's elements of dy in the order of the list, which is sorted: no atomics, the same bits
// in every run.
template <class T>
struct SumEach {
  cuda::RowLists lists;
  int64_t length;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t at = i % length;
    cuda::Wide<T> sum = 0;
    lists.Visit(i / length, [&](int64_t m) { sum += cuda::ToWide(dy[m * length + at]); });
    dx[i] = cuda::Narrow<T>(sum);
  }
};

// The properties in which the three families differ.
struct Family {
  size_t index;  // the inputs' places
  size_t rows;
  bool truncates = false;
  bool is_missing_nan = false;
  bool can_fault = true;
};

Family FamilyOf(const KernelQuery& query) {
  const std::string& op = query.node.op->name;
  if (op.starts_with("embed")) return {.index = 0, .rows = 1, .is_missing_nan = true};
  if (op.starts_with("reindex")) return {.index = 1, .rows = 0};
  return {.index = 1, .rows = 0, .truncates = true, .can_fault = false};
}

LabelRule RuleOf(const KernelQuery& query, int64_t rows) {
  const Attributes& a = query.node.attributes;
  if (!query.node.op->name.starts_with("reindex")) return {.classes = rows};
  return {rows, a.Bool("has_ignore"), a.Int("ignore_label")};
}

std::string TextOf(const Family& family, const LabelRule& rule, int64_t at, double value) {
  return family.is_missing_nan ? WrongRowText(rule.classes, at, value) : WrongNumberText("row", rule, at, value);
}

// One kernel for embed, reindex and take_rows: Family says where they differ.
class TakeKernel final : public BoundKernel {
 public:
  explicit TakeKernel(const KernelQuery& query)
      : family_(FamilyOf(query)),
        rule_(RuleOf(query, query.inputs[family_.rows].shape[0])),
        dtype_(query.outputs[0].dtype),
        index_(query.inputs[family_.index].dtype),
        count_(query.inputs[family_.index].shape.Count()),
        elements_(query.outputs[0].shape.Count()),
        fault_(query.device,
               [family = family_, rule = rule_](int64_t at, double value) { return TextOf(family, rule, at, value); }) {
  }
  bool CanFault() const override { return family_.can_fault; }
  std::string TakeFault() override { return fault_.Take(); }

  void Run() override {
    if (elements_ == 0) return;
    cuda::WithFloat(dtype_, [&]<class T>() {
      const float missing = family_.is_missing_nan ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
      if (index_ == DType::kInt32) {
        Take<T, int32_t>(cuda::Narrow<T>(missing));
      } else {
        Take<T, float>(cuda::Narrow<T>(missing));
      }
    });
  }

 private:
  template <class T, class I>
  void Take(T missing) {
    const cuda::RowNumbers<I> numbers{in<I>(family_.index), count_, rule_, family_.truncates};
    cuda::ForEach(
        stream(), elements_,
        TakeEach<T, I>{numbers, elements_ / count_, missing, in<T>(family_.rows), out<T>(0), fault_.record()});
  }

  Family family_;
  LabelRule rule_;
  DType dtype_;
  DType index_;
  int64_t count_;
  int64_t elements_;
  cuda::LabelFault fault_;
};

// The forward has reported wrong numbers already.
class SumBackKernel final : public BoundKernel {
 public:
  explicit SumBackKernel(const KernelQuery& query)
      : family_(FamilyOf(query)),
        rule_(RuleOf(query, query.outputs[0].shape[0])),
        dtype_(query.outputs[0].dtype),
        index_(query.inputs[family_.index].dtype),
        count_(query.inputs[family_.index].shape.Count()),
        elements_(query.outputs[0].shape.Count()) {}
  int64_t scratch_bytes() const override { return cuda::RowListBytes(rule_.classes, count_); }

  void Run() override {
    if (elements_ == 0) return;
    const cuda::RowLists lists = index_ == DType::kInt32 ? List<int32_t>() : List<float>();
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), elements_, SumEach<T>{lists, elements_ / rule_.classes, in<T>(family_.rows), out<T>(0)});
    });
  }

 private:
  template <class I>
  cuda::RowLists List() {
    return cuda::ListRows(stream(), cuda::RowNumbers<I>{in<I>(family_.index), count_, rule_, family_.truncates},
                          scratch<std::byte>());
  }

  Family family_;
  LabelRule rule_;
  DType dtype_;
  DType index_;
  int64_t count_;
  int64_t elements_;
};

std::string Refuse(const KernelQuery& query) {
  const TensorType& index = query.inputs[FamilyOf(query).index];
  const TensorType& rows = query.inputs[FamilyOf(query).rows];
  if (!IsFloat(rows.dtype)) return StrCat("its rows are of real numbers, not ", rows.ToString());
  if (index.shape.Count() > std::numeric_limits<int32_t>::max()) return "it numbers places in 32 bits";
  if (index.dtype == DType::kInt32 && FamilyOf(query).truncates) return RefuseUnlessPlain(query);
  if (index.dtype != DType::kFloat32) return StrCat("it reads whole numbers from float32, not ", index.ToString());
  return RefuseUnlessPlain(query);
}

template <class K>
KernelDef Row(const char* op) {
  return {.name = "moka",
          .op = op,
          .device = DeviceKind::kCuda,
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<K>(query); }};
}

}  // namespace

KernelDef CudaEmbed() { return Row<TakeKernel>("embed"); }
KernelDef CudaEmbedBackward() { return Row<SumBackKernel>("embed_backward"); }
KernelDef CudaReindex() { return Row<TakeKernel>("reindex"); }
KernelDef CudaReindexBackward() { return Row<SumBackKernel>("reindex_backward"); }
KernelDef CudaTakeRows() { return Row<TakeKernel>("take_rows"); }
KernelDef CudaTakeRowsBackward() { return Row<SumBackKernel>("take_rows_backward"); }

}  // namespace moka

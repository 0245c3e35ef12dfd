// A part is a stretch of one axis of y: of the longest batch axis where it has several products, else of rows or of
// columns, whichever are more. Its operands are the whole's with a shorter axis and an address further on.
#include "layers/kernels/cpu/onednn/product_parts.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/threads/parallel.h"
#include "graph/tracks.h"

namespace moka::onednn {
namespace {

constexpr int64_t kMostParts = 16;
constexpr int64_t kFewestProducts = 4;  // of a batch, to be shared out as they are
// Whole tiles of oneDNN's inner loops for AVX2 and AVX-512.
constexpr int64_t kRows = 48;
constexpr int64_t kColumns = 96;
constexpr int64_t kWork = 1 << 17;  // multiplications that are worth a thread

struct Cut {
  int axis = 0;
  int64_t length = 0;  // of every part but the last
  int64_t parts = 1;
};

Cut CutOf(const ProductOperands& o) {
  const int last = o.y.ndims - 1;
  Cut cut{.axis = 0, .length = 1};
  for (int axis = 1; axis < last - 1; ++axis) {
    if (o.y.dims[axis] > o.y.dims[cut.axis]) cut.axis = axis;
  }
  if (last < 2 || o.y.dims[cut.axis] < kFewestProducts) {
    const bool cuts_rows = o.y.dims[last - 1] > o.y.dims[last];
    cut = {.axis = cuts_rows ? last - 1 : last, .length = cuts_rows ? kRows : kColumns};
  }
  const int64_t all = o.y.dims[cut.axis];
  const int64_t units = (all + cut.length - 1) / cut.length;
  cut.length *= (units + kMostParts - 1) / kMostParts;
  cut.parts = (all + cut.length - 1) / cut.length;
  return cut;
}

int64_t ElementBytes(const Format& format) { return static_cast<int64_t>(dnnl_data_type_size(format.data_type)); }

// Cuts an operand down to a stretch of an axis and returns how many bytes further it begins; an axis of one element is
// the same for all parts.
int64_t Cutting(Format& format, int axis, int64_t begin, int64_t count) {
  if (format.dims[axis] == 1) return 0;
  format.dims[axis] = format.padded_dims[axis] = count;
  return begin * format.strides[axis] * ElementBytes(format);
}

// The tensor some bytes further on.
Tensor Further(const Tensor& tensor, int64_t bytes) {
  return {tensor.type(), static_cast<std::byte*>(tensor.raw()) + bytes};
}

class ProductParts final : public Kernel {
 public:
  explicit ProductParts(const ProductOperands& whole) {
    const Cut cut = CutOf(whole);
    const int last = whole.y.ndims - 1;
    const OneThread alone;
    for (int64_t i = 0; i < cut.parts; ++i) {
      const int64_t begin = i * cut.length;
      const int64_t count = std::min(cut.length, whole.y.dims[cut.axis] - begin);
      ProductOperands o = whole;
      Part& part = parts_.emplace_back();
      if (cut.axis != last) part.inputs[0] = Cutting(o.a, cut.axis, begin, count);
      if (cut.axis != last - 1) part.inputs[1] = Cutting(o.b, cut.axis, begin, count);
      if (o.has_bias && cut.axis == last) part.inputs[2] = Cutting(o.bias, cut.axis, begin, count);
      part.output = Cutting(o.y, cut.axis, begin, count);
      part.kernel = MakeProduct(o);
      part.scratch = scratch_bytes_;
      scratch_bytes_ += (part.kernel->scratch_bytes() + kLine - 1) / kLine * kLine;
    }
    int64_t products = whole.a.dims[last];
    for (int axis = 0; axis <= last; ++axis) products *= whole.y.dims[axis];
    grain_ = std::max<int64_t>(1, kWork * cut.parts / std::max<int64_t>(products, 1));
    implementation_ = parts_[0].kernel->implementation();
  }

  void Bind(const KernelArgs& args) override {
    for (const Part& part : parts_) {
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < args.inputs.size(); ++i) inputs.push_back(Further(args.inputs[i], part.inputs.at(i)));
      const std::array<Tensor, 1> outputs = {Further(args.outputs[0], part.output)};
      part.kernel->Bind({inputs, outputs, args.scratch + part.scratch});
    }
  }

  // A part that runs outside of a team would else find all its threads.
  void Run() override {
    ParallelFor(static_cast<int64_t>(parts_.size()), grain_, [&](int64_t begin, int64_t end, int) {
      const OneThread alone;
      for (int64_t part = begin; part < end; ++part) parts_[static_cast<size_t>(part)].kernel->Run();
    });
  }

  int64_t scratch_bytes() const override { return scratch_bytes_; }
  bool CanFault() const override { return parts_[0].kernel->CanFault(); }
  std::string TakeFault() override {
    std::string fault;
    for (const Part& part : parts_) {
      std::string of_part = part.kernel->TakeFault();
      if (fault.empty()) fault = std::move(of_part);
    }
    return fault;
  }
  std::string_view implementation() const override { return implementation_; }

 private:
  static constexpr int64_t kLine = 64;

  struct Part {
    std::unique_ptr<Kernel> kernel;
    std::array<int64_t, 3> inputs{};  // bytes further on
    int64_t output = 0;
    int64_t scratch = 0;
  };

  std::vector<Part> parts_;
  int64_t scratch_bytes_ = 0;
  int64_t grain_ = 1;
  std::string implementation_;
};

}  // namespace

PrimitiveDesc ProductDesc(const ProductOperands& o) {
  return Product(o.a, o.b, o.has_bias ? MemoryDesc(o.bias) : MemoryDesc(), o.y, {.relu = o.relu});
}

std::unique_ptr<Kernel> MakeProduct(const ProductOperands& o) {
  const PrimitiveDesc desc = ProductDesc(o);
  Require(desc.ok(), "the product was accepted");
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, o.a, Place::kInput, 0},
                                     {DNNL_ARG_WEIGHTS, o.b, Place::kInput, 1},
                                     {DNNL_ARG_DST, o.y, Place::kOutput, 0}};
  if (o.has_bias) arguments.push_back({DNNL_ARG_BIAS, o.bias, Place::kInput, 2});
  auto kernel = std::make_unique<PrimitiveKernel>();
  kernel->Add(desc, std::move(arguments));
  return kernel;
}

std::unique_ptr<Kernel> MakeInProductParts(const ProductOperands& o) { return std::make_unique<ProductParts>(o); }

}  // namespace moka::onednn

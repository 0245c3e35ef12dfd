// A gradient of weights is a sum over images. Moka cuts the images into parts of a number that depends on shapes alone,
// runs oneDNN on each part with one thread and adds the parts in order: the same bits for any number of threads.
#include "layers/kernels/cpu/onednn/image_parts.h"

#include <algorithm>
#include <vector>

#include "core/half_spans.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/tracks.h"
#include "graph/widened_kernel.h"

namespace moka {
namespace {

constexpr int64_t kFewestParts = 4;
constexpr int64_t kMostParts = 16;
// Products that a weight takes part in for one addition of a part to cost a few percent of them.
constexpr int64_t kProductsOfAPart = 400;
constexpr int64_t kGrain = 4096;
constexpr int64_t kRun = 512;  // elements that all parts add while they are in the nearest cache

// Returns the types of a part's images: the same but for their number.
std::vector<TensorType> OfImages(std::span<const TensorType> types, int64_t images) {
  std::vector<TensorType> part(types.begin(), types.end());
  for (TensorType& type : part) type.shape = type.shape.With(0, images);
  return part;
}

KernelQuery PartQuery(const KernelQuery& query, std::span<const TensorType> inputs, std::span<const TensorType> sums) {
  KernelQuery part = query;
  part.inputs = inputs;
  part.outputs = sums;
  return part;
}

bool LiesImageByImage(const TensorType& type) {
  return type.layout.is_plain() || (type.layout.order[0] == 0 && type.layout.BlockOf(0) == 1);
}

// The first part writes into the node's own outputs where they are float32; all others write into scratch and are
// added.
class ImageParts final : public Kernel {
 public:
  ImageParts(const KernelQuery& query, const WholeImages& row)
      : inputs_(query.inputs.begin(), query.inputs.end()), sum_types_(Widened(query.outputs)) {
    const int64_t images = inputs_[0].shape[0];
    const int64_t parts = ImagePartsOf(query);
    // Kernels are made as they will run, with one thread: oneDNN cuts its sums by the number of threads.
    const OneThread alone;
    for (int64_t part = 0; part < parts; ++part) {
      Part& p = parts_.emplace_back();
      p.first = images * part / parts;
      p.inputs = OfImages(inputs_, images * (part + 1) / parts - p.first);
      p.kernel = row.make(PartQuery(query, p.inputs, sum_types_));
      p.scratch = Book(p.kernel->scratch_bytes());
      for (size_t o = 0; o < sum_types_.size(); ++o) {
        const bool is_own = part > 0 || IsHalf(query.outputs[o].dtype);
        p.results.push_back(is_own ? Book(sum_types_[o].Bytes()) : kInOutput);
      }
    }
    implementation_ = parts_[0].kernel->implementation();
  }

  void Bind(const KernelArgs& args) override {
    outputs_.assign(args.outputs.begin(), args.outputs.end());
    scratch_ = args.scratch;
    for (Part& p : parts_) {
      std::vector<Tensor> in;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        auto* const data = static_cast<std::byte*>(args.inputs[i].raw());
        in.emplace_back(p.inputs[i], data + inputs_[i].Bytes() / inputs_[i].shape[0] * p.first);
      }
      std::vector<Tensor> out;
      for (size_t o = 0; o < p.results.size(); ++o) out.emplace_back(sum_types_[o], ResultOf(p, o));
      p.kernel->Bind({in, out, scratch_ + p.scratch});
    }
  }

  // A part that runs outside of a team would else find all its threads.
  void Run() override {
    ParallelFor(static_cast<int64_t>(parts_.size()), 1, [&](int64_t begin, int64_t end, int) {
      const OneThread alone;
      for (int64_t part = begin; part < end; ++part) parts_[static_cast<size_t>(part)].kernel->Run();
    });
    for (size_t o = 0; o < outputs_.size(); ++o) {
      ParallelFor(sum_types_[o].StoredCount(), kGrain, [&](int64_t begin, int64_t end, int) { Add(o, begin, end); });
    }
  }

  int64_t scratch_bytes() const override { return scratch_bytes_; }
  bool CanFault() const override { return parts_[0].kernel->CanFault(); }
  std::string TakeFault() override {
    std::string fault;
    for (Part& p : parts_) {
      std::string of_part = p.kernel->TakeFault();
      if (fault.empty()) fault = std::move(of_part);
    }
    return fault;
  }
  std::string_view implementation() const override { return implementation_; }

 private:
  struct Part {
    int64_t first = 0;
    std::vector<TensorType> inputs;
    std::unique_ptr<Kernel> kernel;
    int64_t scratch = 0;
    std::vector<int64_t> results;  // where they lie in scratch, or kInOutput
  };
  static constexpr int64_t kInOutput = -1;

  float* ResultOf(const Part& part, size_t output) const {
    const int64_t at = part.results[output];
    return static_cast<float*>(at == kInOutput ? outputs_[output].raw() : static_cast<void*>(scratch_ + at));
  }

  int64_t Book(int64_t bytes) {
    constexpr int64_t kLine = 64;
    const int64_t at = scratch_bytes_;
    scratch_bytes_ += (bytes + kLine - 1) / kLine * kLine;
    return at;
  }

  // In stretches that stay in the nearest cache while all parts add to them; each element adds the parts in their
  // order.
  void Add(size_t output, int64_t begin, int64_t end) const {
    float* const sums = ResultOf(parts_[0], output);
    const DType dtype = outputs_[output].type().dtype;
    for (int64_t first = begin; first < end; first += kRun) {
      const int64_t last = std::min(end, first + kRun);
      for (size_t part = 1; part < parts_.size(); ++part) {
        const float* const more = ResultOf(parts_[part], output);
        for (int64_t i = first; i < last; ++i) sums[i] += more[i];
      }
      if (IsHalf(dtype))
        Narrow(dtype, sums + first, last - first, static_cast<uint16_t*>(outputs_[output].raw()) + first);
    }
  }

  std::vector<TensorType> inputs_;
  std::vector<TensorType> sum_types_;  // of the outputs
  std::vector<Part> parts_;
  int64_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  std::vector<Tensor> outputs_;
  std::string implementation_;
};

}  // namespace

// More parts mean more threads but more additions: a part must have enough products for each weight.
int64_t ImagePartsOf(const KernelQuery& query) {
  const TensorType& dy = query.inputs.back();
  const int64_t images = dy.shape[0];
  const int64_t products = images * dy.shape.Count(2, dy.shape.rank());
  return std::clamp<int64_t>(products / kProductsOfAPart, std::min(images, kFewestParts), std::min(images, kMostParts));
}

// The smallest part is asked about: larger ones differ from it in the number of images alone.
std::string RefuseInImageParts(const KernelQuery& query, const WholeImages& row) {
  if (!std::ranges::all_of(query.inputs, LiesImageByImage)) return "its images do not lie one after the other";
  const std::vector<TensorType> sums = Widened(query.outputs);
  for (const TensorType& type : sums) {
    if (type.dtype != DType::kFloat32) return StrCat("sums of images are float32, not ", type.ToString());
  }
  const OneThread alone;
  const int64_t images = query.inputs[0].shape[0];
  const std::vector<TensorType> inputs = OfImages(query.inputs, images / ImagePartsOf(query));
  return row.refuse(PartQuery(query, inputs, sums));
}

std::unique_ptr<Kernel> MakeInImageParts(const KernelQuery& query, const WholeImages& row) {
  return std::make_unique<ImageParts>(query, row);
}

}  // namespace moka

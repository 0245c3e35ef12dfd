// The base of Moka's own kernels: a kernel that remembers its memory, the sentences of refusals, and one view of plain,
// channel-blocked and channels-last tensors. Private to layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/text.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "graph/op.h"

namespace moka {

// Requires: Bind before Run. Pointers have the dtype that refuse let through.
class BoundKernel : public Kernel {
 public:
  void Bind(const KernelArgs& args) override {
    inputs_.assign(args.inputs.begin(), args.inputs.end());
    outputs_.assign(args.outputs.begin(), args.outputs.end());
    scratch_ = args.scratch;
    stream_ = args.stream;
  }

 protected:
  template <class T>
  const T* in(size_t i) const {
    return static_cast<const T*>(inputs_[i].raw());
  }
  template <class T>
  T* out(size_t o) const {
    return static_cast<T*>(outputs_[o].raw());
  }
  template <class T>
  T* scratch(int64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(scratch_ + offset_bytes);
  }
  // Returns the stream of a GPU's kernel.
  Stream& stream() const { return *stream_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }

 private:
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::byte* scratch_ = nullptr;
  Stream* stream_ = nullptr;
};

// "" or why not: every floating tensor must be float32; every tensor plain; every tensor of the first input's rank laid
// out as the first input, the others plain.
std::string RefuseUnlessFloat32(const KernelQuery& query);
std::string RefuseUnlessPlain(const KernelQuery& query);
std::string RefuseUnlessSameLayout(const KernelQuery& query);
// "" or why not: every tensor must be float32 and have elements.
std::string RefuseUnlessFilledFloat32(const KernelQuery& query);

// Channels last for a rank from 3 to 5: "acdb" for images.
Layout ChannelsLast(int rank);
// Whether a tensor of any rank is plain or, an image, channels last.
bool IsPlainOrChannelsLast(const TensorType& type);
// Plain for each.
std::vector<Layout> PlainLayouts(std::span<const TensorType> types);

// Tensors of the first input's rank in its layout, the others plain.
std::optional<LayoutProposal> ProposeFirstLayout(const KernelQuery& query);

// A tensor [N,C,spatial..] in memory as [outer, depth, height, width, inner]: plain (outer = N*C, inner = 1), blocked
// over the channels (outer = N*C/block, inner = block) or over the images (outer = N/block*C), or channels last
// (outer = N, inner = C).
struct PlaneView {
  int64_t outer = 1;
  int64_t depth = 1;
  int64_t height = 1;
  int64_t width = 1;
  int64_t inner = 1;
  int64_t lanes = 1;      // channels (images where these are blocked), without padding
  int64_t neighbors = 1;  // planes in a row with the same block: C where images are blocked, else 1
  int64_t PlaneCount() const { return depth * height * width * inner; }
  // Lanes of plane `outer_index` that are not padding.
  int64_t LanesOf(int64_t outer_index) const;
};
// None for other layouts and ranks outside 3 to 5.
std::optional<PlaneView> ViewPlanes(const TensorType& type);

}  // namespace moka

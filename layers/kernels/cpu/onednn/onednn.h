// oneDNN's primitives as kernels, and Moka's layouts in its terms. What the library itself says is in library.h and
// primitives.h, for both of its majors. Private to layers/kernels/cpu/onednn and its tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "graph/kernel.h"
#include "layers/kernels/cpu/onednn/library.h"
#include "layers/kernels/cpu/onednn/primitives.h"

namespace moka::onednn {

// oneDNN's description of a type; a scalar becomes [1]. Requires: IsKnown(type.dtype).
Format Describe(const TensorType& type);
// The same with the layout left to oneDNN.
Format DescribeAny(const TensorType& type);
bool IsKnown(DType dtype);
dnnl_data_type_t DataType(DType dtype);  // undefined if not known
// Describe(type), but in another layout's terms where both put the elements alike: oneDNN tells [N,C,1,1] in channel
// blocks from the same memory said plainly, and has slow implementations only for a mixture.
Format DescribeAs(const TensorType& type, const Layout& layout);
// The layout oneDNN's convolutions like for data [N,C,spatial..].
Layout FavoriteLayout(const TensorType& data);
// Describe(type) if fixed, otherwise DescribeAny(type).
enum class Choice : uint8_t { kFixed, kAny };
Format Describe(const TensorType& type, Choice choice);
// The layout of a description; none if ours cannot say it (opaque formats, extra data, gaps between elements).
std::optional<Layout> LayoutOf(const Format& format);
std::optional<Layout> LayoutOf(const MemoryDesc& md);

// Where an argument of a primitive lives.
enum class Place : uint8_t { kInput, kOutput, kScratch };
struct Argument {
  int key = 0;  // DNNL_ARG_...
  MemoryDesc md;
  Place place = Place::kInput;
  int64_t at = 0;  // index of the input or output, or offset in scratch
};

// A kernel that executes primitives one after another on fixed memory.
class PrimitiveKernel final : public Kernel {
 public:
  // Reserves scratch that lives through the whole Run; returns its offset.
  int64_t Book(int64_t bytes);
  // Adds a step. Requires: desc.ok().
  void Add(const PrimitiveDesc& desc, std::vector<Argument> arguments);
  // Before the first step, input i is copied to output 0 (unless they are the same memory): what a sum adds to.
  void CopyFirst(int input) { copied_input_ = input; }

  void Bind(const KernelArgs& args) override;
  void Run() override;
  int64_t scratch_bytes() const override;
  bool CanFault() const override { return true; }
  std::string TakeFault() override;
  std::string_view implementation() const override { return implementation_; }

 private:
  struct Step {
    Owned<dnnl_primitive> primitive;
    std::vector<Argument> arguments;
    std::vector<Constant> constants;
    MemoryDesc scratchpad;
    std::vector<Owned<dnnl_memory>> memories;
    std::vector<dnnl_exec_arg_t> exec;
  };

  std::vector<Step> steps_;
  int64_t booked_bytes_ = 0;
  int64_t scratchpad_bytes_ = 0;
  int copied_input_ = -1;
  const std::byte* copy_from_ = nullptr;
  std::byte* copy_to_ = nullptr;
  int64_t copy_bytes_ = 0;
  dnnl_status_t status_ = dnnl_success;
  std::string implementation_;
};

// Reasons shared by all: a dtype oneDNN does not know, an empty tensor. Empty if there is none.
std::string RefuseTypes(const KernelQuery& query);
// Also refuses factors of a product or convolution that oneDNN multiplies slower than conversions to float32 take.
std::string RefuseFactors(const KernelQuery& query);

}  // namespace moka::onednn

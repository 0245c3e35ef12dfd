// Kernels: rows that say on which device and for which node they run, what layouts they want, and make the object that
// owns the primitive. A made kernel is bound once to fixed memory and then only runs: no allocation, no lookup, no
// throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"
#include "core/types.h"

namespace moka {

class Collectives;
struct Node;
class Stream;

// The question that a kernel is asked: the node and the types (with layouts) of its inputs and outputs.
struct KernelQuery {
  const Node& node;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  bool deterministic = true;
  Device device = {};
  bool allows_tf32 = false;            // products of float32 may round their factors to 10 bits (GPUs)
  bool times_plans = false;            // what a library offers for the node may be timed to choose from it (GPUs)
  Collectives* collectives = nullptr;  // of a program whose gradients are summed over ranks; null: there is one rank
};

// Layouts a kernel wants for a node.
struct LayoutProposal {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
};

// The memory a kernel works on, fixed for the life of its program.
struct KernelArgs {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::byte* scratch = nullptr;  // scratch_bytes() of them, 64-byte aligned, private during Run
  Stream* stream = nullptr;      // of the program on a GPU: Run puts work into it and returns; null on the CPU
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Called once, after planning. May allocate.
  virtual void Bind(const KernelArgs& args) = 0;
  virtual void Run() = 0;
  virtual int64_t scratch_bytes() const { return 0; }
  // Returns what went wrong in the data during the last Run ("label 77 at index 3 but there are 10 classes"), once;
  // empty if nothing did. Run itself never throws. Polled only if CanFault().
  virtual bool CanFault() const { return false; }
  virtual std::string TakeFault() { return {}; }
  // The implementation chosen inside ("jit:avx512_core"), for dumps.
  virtual std::string_view implementation() const { return {}; }
  // A library's plain loops, which it has for every shape: hundreds of times slower than anything else.
  bool IsReference() const { return implementation().starts_with("ref"); }
};

struct KernelDef {
  std::string name;  // "onednn", "moka", ...: unique within op and device
  std::string op;
  DeviceKind device = DeviceKind::kCpu;
  // Empty: accepted. Otherwise a sentence saying why not, kept for --explain. The types are final (layouts included).
  std::string (*refuse)(const KernelQuery&) = nullptr;
  // Layouts it would like, given the inputs as they lie now (outputs' layouts in the query are plain). Null: plain
  // everywhere. Called only for queries whose shapes and dtypes it would accept under its own proposal.
  std::optional<LayoutProposal> (*propose)(const KernelQuery&) = nullptr;
  std::unique_ptr<Kernel> (*make)(const KernelQuery&) = nullptr;
  // Among the rows of an op on a device: the smaller is asked first, as it is likely the faster one.
  int turn = 0;
};

}  // namespace moka

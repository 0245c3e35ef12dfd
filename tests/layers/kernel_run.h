// Every op case of the catalogue, and running one kernel on one of them in the memory of any device: what the
// catalogue tests of the CPU and of GPUs are written with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "graph/kernel.h"
#include "tests/layers/op_run.h"

namespace moka {

struct OpSubject {
  const OpDef* op;
  OpCase op_case;
  // "softmax__rows".
  std::string Name() const;
};
std::vector<OpSubject> AllOpSubjects();

// The variant that a kernel is run in: the layouts of its inputs and outputs.
struct Variant {
  std::string name;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
};
// Those that the kernel accepts of the plain layouts and of what it proposes when its inputs are plain, blocked or
// channels last.
std::vector<Variant> VariantsOf(const KernelDef& kernel, const OpGraph& built, Device device = {});

// One kernel bound to memory of its own. On a GPU (rehearsed or not) the work goes through a stream made for it.
class KernelRun {
 public:
  KernelRun(const KernelDef& kernel, const Node& node, const Variant& variant, std::span<const RefTensor> inputs,
            Device device = {});

  // Output o is written over input i. Requires: no Run yet.
  void Overwrite(size_t i, size_t o);

  // Fills the inputs, all bytes of the outputs with 0x7B, and runs once; expects no fault.
  std::vector<RefTensor> Run();
  // The kernel once more over what the last run left.
  std::vector<RefTensor> RunAgain();
  // A run recorded, and launched twice over fresh inputs. Requires: a GPU.
  std::vector<RefTensor> RunRecorded();
  // Runs once and gives what the kernel says went wrong.
  std::string RunForFault();
  std::string_view implementation() const { return kernel_->implementation(); }
  // The outputs as they lie, in the host's memory, after a run.
  std::vector<Tensor> outputs() const;

 private:
  struct Place {
    OwnedTensor host;
    DeviceBuffer device;  // empty on the CPU
  };
  Place MakePlace(const TensorType& type);
  void* Address(const Place& place) const;
  void Bind();
  void CopyIn();
  void Fetch();
  std::vector<RefTensor> CopyOut();

  Variant variant_;
  std::vector<RefTensor> values_;
  std::unique_ptr<Stream> stream_;  // null on the CPU
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<int> overwritten_;  // the input that an output is written over; -1: none
  Buffer scratch_;
  DeviceBuffer device_scratch_;
  std::unique_ptr<Kernel> kernel_;
  bool is_bound_ = false;
};

// Expects outputs within `tolerance` of the largest magnitude of each; integers exactly.
void ExpectClose(const std::vector<RefTensor>& found, const std::vector<RefTensor>& expected, double tolerance);

// Returns the fault of an op's first kernel on a device after a run over these labels, of 3 classes.
std::string FaultOf(std::string_view op, Attributes attributes, std::vector<double> labels, Device device = {});

}  // namespace moka

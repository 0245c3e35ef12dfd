// Lists every (op case, type, layout) that a device's rows accept and runs one, so that catalogue tests of CPU and GPU
// are the same loop.
#include "tests/layers/kernel_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/text.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

bool Accepts(const KernelDef& kernel, const Node& node, const Variant& v, Device device) {
  return kernel.refuse == nullptr || kernel.refuse({node, v.inputs, v.outputs, true, device}).empty();
}

void AddProposal(const KernelDef& kernel, const Node& node, Variant v, Device device, std::vector<Variant>& variants) {
  if (kernel.propose == nullptr) return;
  const std::optional<LayoutProposal> proposal = kernel.propose({node, v.inputs, v.outputs, true, device});
  if (!proposal) return;
  ASSERT_EQ(proposal->inputs.size(), v.inputs.size());
  ASSERT_EQ(proposal->outputs.size(), v.outputs.size());
  // As the layout pass takes them.
  for (size_t i = 0; i < v.inputs.size(); ++i) {
    v.inputs[i].layout = proposal->inputs[i].Simplified(v.inputs[i].shape);
  }
  for (size_t o = 0; o < v.outputs.size(); ++o) {
    v.outputs[o].layout = proposal->outputs[o].Simplified(v.outputs[o].shape);
  }
  v.name = StrCat("proposed from ", v.name);
  variants.push_back(std::move(v));
}

// The largest error relative to the largest magnitude of the expected output.
double WorstError(const RefTensor& found, const RefTensor& expected) {
  double largest = 1e-30;
  for (const double v : expected.values) largest = std::max(largest, std::abs(v));
  double worst = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double error = std::abs(found.values[i] - expected.values[i]) / largest;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace

std::string OpSubject::Name() const { return StrCat(op->name, "__", op_case.name); }

std::vector<OpSubject> AllOpSubjects() {
  std::vector<OpSubject> subjects;
  for (const OpDef& op : StandardCatalog().ops()) {
    if (op.cases == nullptr) continue;
    for (OpCase& c : op.cases()) subjects.push_back({&op, std::move(c)});
  }
  return subjects;
}

std::vector<Variant> VariantsOf(const KernelDef& kernel, const OpGraph& built, Device device) {
  const Node& node = built.graph.node(built.node);
  const Variant plain{"plain", built.graph.InputTypes(node), built.graph.OutputTypes(node)};
  std::vector<Variant> variants = {plain};
  AddProposal(kernel, node, plain, device, variants);
  for (const char* name : {"aBcd16b", "aBcd8b", "acdb"}) {
    Variant v = plain;
    v.name = name;
    for (TensorType& x : v.inputs) {
      if (x.shape.rank() == 4) x.layout = Layout::Parse(name);
    }
    AddProposal(kernel, node, v, device, variants);
  }
  std::erase_if(variants, [&](const Variant& v) { return !Accepts(kernel, node, v, device); });
  return variants;
}

KernelRun::KernelRun(const KernelDef& kernel, const Node& node, const Variant& variant,
                     std::span<const RefTensor> inputs, Device device)
    : variant_(variant), values_(inputs.begin(), inputs.end()), overwritten_(variant.outputs.size(), -1) {
  if (device != Device{}) stream_ = MakeStream(device);
  for (const TensorType& type : variant_.inputs) inputs_.push_back(MakePlace(type));
  for (const TensorType& type : variant_.outputs) outputs_.push_back(MakePlace(type));
  kernel_ = kernel.make({node, variant_.inputs, variant_.outputs, true, device});
}

KernelRun::Place KernelRun::MakePlace(const TensorType& type) {
  return {OwnedTensor(type), stream_ == nullptr ? DeviceBuffer() : stream_->Allocate(type.Bytes())};
}

void* KernelRun::Address(const Place& place) const {
  return stream_ == nullptr ? place.host.tensor().raw() : place.device.data();
}

void KernelRun::Overwrite(size_t i, size_t o) { overwritten_[o] = static_cast<int>(i); }

void KernelRun::Bind() {
  if (std::exchange(is_bound_, true)) return;
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  for (const Place& x : inputs_) in.emplace_back(x.host.tensor().type(), Address(x));
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const int i = overwritten_[o];
    out.emplace_back(variant_.outputs[o], Address(i < 0 ? outputs_[o] : inputs_[static_cast<size_t>(i)]));
  }
  if (stream_ == nullptr) {
    scratch_ = Buffer::Allocate(kernel_->scratch_bytes());
    kernel_->Bind({in, out, scratch_.data()});
  } else {
    // As aligned as a program's scratch may be, and not more.
    constexpr int64_t kScratchAlignment = 64;
    device_scratch_ = stream_->Allocate(kernel_->scratch_bytes() + kScratchAlignment);
    kernel_->Bind({in, out, device_scratch_.data() + kScratchAlignment, stream_.get()});
  }
}

void KernelRun::CopyIn() {
  const auto copy = [&](const Place& place) {
    const Tensor& host = place.host.tensor();
    if (stream_ == nullptr) return;
    stream_->CopyToDevice(place.device.data(), static_cast<const std::byte*>(host.raw()), host.type().Bytes());
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& host = inputs_[i].host.tensor();
    const OwnedTensor filled = ToTensor(values_[i], variant_.inputs[i]);
    std::memcpy(host.raw(), filled.tensor().raw(), static_cast<size_t>(host.type().Bytes()));
    copy(inputs_[i]);
  }
  for (const Place& y : outputs_) {
    std::memset(y.host.tensor().raw(), 0x7B, static_cast<size_t>(y.host.tensor().type().Bytes()));
    copy(y);
  }
}

std::vector<Tensor> KernelRun::outputs() const {
  std::vector<Tensor> tensors;
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const int i = overwritten_[o];
    const Place& place = i < 0 ? outputs_[o] : inputs_[static_cast<size_t>(i)];
    tensors.emplace_back(variant_.outputs[o], place.host.tensor().raw());
  }
  return tensors;
}

// Waits for the work and brings the outputs into the host's memory.
void KernelRun::Fetch() {
  if (stream_ == nullptr) return;
  const std::vector<Tensor> tensors = outputs();
  for (size_t o = 0; o < tensors.size(); ++o) {
    const int i = overwritten_[o];
    const Place& place = i < 0 ? outputs_[o] : inputs_[static_cast<size_t>(i)];
    stream_->CopyToHost(static_cast<std::byte*>(tensors[o].raw()), place.device.data(), tensors[o].type().Bytes());
  }
  stream_->Synchronize();
}

std::vector<RefTensor> KernelRun::CopyOut() {
  Fetch();
  EXPECT_EQ(kernel_->CanFault() ? kernel_->TakeFault() : "", "");
  std::vector<RefTensor> results;
  for (const Tensor& y : outputs()) results.push_back(FromTensor(y));
  return results;
}

std::vector<RefTensor> KernelRun::Run() {
  Bind();
  CopyIn();
  kernel_->Run();
  return CopyOut();
}

std::string KernelRun::RunForFault() {
  Bind();
  CopyIn();
  kernel_->Run();
  Fetch();
  EXPECT_TRUE(kernel_->CanFault());
  std::string fault = kernel_->TakeFault();
  EXPECT_EQ(kernel_->TakeFault(), "") << "a fault is told once";
  return fault;
}

std::vector<RefTensor> KernelRun::RunAgain() {
  kernel_->Run();
  return CopyOut();
}

std::vector<RefTensor> KernelRun::RunRecorded() {
  Bind();
  stream_->BeginRecording();
  kernel_->Run();
  const std::unique_ptr<Recording> recording = stream_->EndRecording();
  CopyIn();
  recording->Launch(*stream_);
  recording->Launch(*stream_);
  return CopyOut();
}

void ExpectClose(const std::vector<RefTensor>& found, const std::vector<RefTensor>& expected, double tolerance) {
  for (size_t o = 0; o < expected.size(); ++o) {
    const double allowed = IsFloat(expected[o].type.dtype) ? tolerance : 0;
    EXPECT_LE(WorstError(found[o], expected[o]), allowed) << "output " << o << " " << expected[o].type.ToString();
  }
}

std::string FaultOf(std::string_view op_name, Attributes attributes, std::vector<double> labels, Device device) {
  const OpDef& op = StandardCatalog().Op(op_name);
  const auto count = static_cast<int64_t>(labels.size());
  const OpCase op_case{.name = "labels",
                       .inputs = {{DType::kFloat32, Shape{count, 3}, {}}, {DType::kFloat32, Shape{count}, {}}},
                       .attributes = std::move(attributes)};
  const OpGraph built = BuildOp(op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  auto inputs = MakeInputs(op_case, built.graph.InputTypes(node));
  inputs[1].values = std::move(labels);
  const KernelDef& kernel = *StandardCatalog().KernelsOf(op_name, device.kind).front();
  const Variant plain{"plain", built.graph.InputTypes(node), built.graph.OutputTypes(node)};
  return KernelRun(kernel, node, plain, inputs, device).RunForFault();
}

}  // namespace moka

// Runs a kernel twice over memory full of rubbish and compares it with the reference; blocks' padding must be zero, and
// the second run the same bits.
#include "tests/layers/kernel_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/text.h"
#include "layers/net/catalog.h"
#include "tests/layers/op_run.h"

namespace moka {
namespace {

const KernelDef& KernelNamed(std::string_view name, std::string_view op) {
  for (const KernelDef* kernel : StandardCatalog().KernelsOf(op, DeviceKind::kCpu)) {
    if (kernel->name == name) return *kernel;
  }
  throw Error(ErrorKind::kInternal, StrCat("no kernel ", name, " for ", op));
}

void SetLayouts(std::vector<TensorType>& types, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size() && i < types.size(); ++i) {
    types[i].layout = names[i].empty() ? Layout{} : Layout::Parse(names[i]);
  }
}

// Returns the largest error relative to the largest magnitude.
double ExpectClose(const RefTensor& found, const RefTensor& expected, double tolerance, size_t output) {
  double largest = 1e-30;
  double worst = 0;
  for (const double v : expected.values) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double error = std::abs(found.values[i] - expected.values[i]) / largest;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  EXPECT_LE(worst, IsFloat(expected.type.dtype) ? tolerance : 0) << "output " << output;
  return worst;
}

std::string Describe(const std::vector<TensorType>& types) {
  std::string s;
  for (const TensorType& type : types) s += type.ToString() + " ";
  return s;
}

struct Setup {
  Setup(std::string_view kernel_name, std::string_view op_name, const OpCase& op_case)
      : kernel(KernelNamed(kernel_name, op_name)),
        op(StandardCatalog().Op(op_name)),
        built(BuildOp(op, op_case, DType::kFloat32)),
        node(built.graph.node(built.node)),
        inputs(built.graph.InputTypes(node)),
        outputs(built.graph.OutputTypes(node)) {}
  const KernelDef& kernel;
  const OpDef& op;
  OpGraph built;
  const Node& node;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
};

Checked Run(Setup& s, const OpCase& op_case) {
  Checked checked{.refusal = s.kernel.refuse({s.node, s.inputs, s.outputs}),
                  .implementation = {},
                  .inputs = s.inputs,
                  .outputs = s.outputs,
                  .worst_error = 0};
  if (!checked.refusal.empty()) return checked;
  SCOPED_TRACE(StrCat(s.kernel.name, " ", s.op.name, s.node.attributes.ToString(), " ", Describe(s.inputs), "-> ",
                      Describe(s.outputs)));
  const auto values = MakeInputs(op_case, s.built.graph.InputTypes(s.node));
  const auto expected = RunReference(s.op, s.node.attributes, values, s.built.graph.OutputTypes(s.node));
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  for (size_t i = 0; i < s.inputs.size(); ++i)
    in.push_back(owned.emplace_back(ToTensor(values[i], s.inputs[i])).tensor());
  for (const TensorType& type : s.outputs) {
    out.push_back(owned.emplace_back(type).tensor());
    std::memset(out.back().raw(), 0x7B, static_cast<size_t>(type.Bytes()));
  }
  const auto kernel = s.kernel.make({s.node, s.inputs, s.outputs});
  const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
  kernel->Bind({in, out, scratch.data()});
  kernel->Run();
  checked.implementation = kernel->implementation();
  SCOPED_TRACE(checked.implementation);
  EXPECT_EQ(kernel->TakeFault(), "");
  std::vector<RefTensor> first;
  for (size_t o = 0; o < out.size(); ++o) {
    first.push_back(FromTensor(out[o]));
    const double error = ExpectClose(first[o], expected[o], op_case.tolerance, o);
    if (IsFloat(s.outputs[o].dtype)) checked.worst_error = std::max(checked.worst_error, error);
    EXPECT_TRUE(!IsFloat(s.outputs[o].dtype) || PaddingIsZero(out[o])) << "output " << o;
  }
  kernel->Run();
  for (size_t o = 0; o < out.size(); ++o) EXPECT_EQ(FromTensor(out[o]).values, first[o].values) << "second run " << o;
  return checked;
}

}  // namespace

Checked CheckKernel(std::string_view kernel, std::string_view op, const OpCase& op_case, const ChosenLayouts& layouts) {
  Setup s(kernel, op, op_case);
  SetLayouts(s.inputs, layouts.inputs);
  SetLayouts(s.outputs, layouts.outputs);
  return Run(s, op_case);
}

Checked CheckProposal(std::string_view kernel, std::string_view op, const OpCase& op_case,
                      const ChosenLayouts& current) {
  Setup s(kernel, op, op_case);
  SetLayouts(s.inputs, current.inputs);
  const auto proposal = s.kernel.propose({s.node, s.inputs, s.outputs});
  if (!proposal)
    return {.refusal = "no proposal", .implementation = "", .inputs = s.inputs, .outputs = s.outputs, .worst_error = 0};
  for (size_t i = 0; i < s.inputs.size(); ++i) s.inputs[i].layout = proposal->inputs[i];
  for (size_t o = 0; o < s.outputs.size(); ++o) s.outputs[o].layout = proposal->outputs[o];
  return Run(s, op_case);
}

std::vector<std::string> LayoutNames(const std::vector<TensorType>& types) {
  std::vector<std::string> names;
  for (const TensorType& type : types) names.push_back(type.layout.Name(type.shape.rank()));
  return names;
}

}  // namespace moka

// Cases of the catalogue under a GPU's types and layouts, run by the generated text itself.
#include "tests/layers/cuda/codegen_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "layers/net/catalog.h"
#include "layers/ops/cases.h"

namespace moka {
namespace {

// The largest error relative to the largest magnitude.
double WorstError(const RefTensor& found, const RefTensor& expected) {
  double largest = 1e-30;
  double worst = 0;
  for (const double v : expected.values) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double error = std::abs(found.values[i] - expected.values[i]) / largest;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

double ToleranceOf(DType dtype, double of_float32) {
  if (dtype == DType::kFloat16) return 0x1p-10;
  return dtype == DType::kBFloat16 ? 0x1p-7 : of_float32;
}

CodegenCase CaseOf(const OpDef& op, const OpCase& op_case, DType dtype) {
  CodegenCase c{.op = &op,
                .op_case = op_case,
                .variant = std::string(NameOf(dtype)),
                .built = std::make_shared<OpGraph>(BuildOp(op, op_case, dtype)),
                .inputs = {},
                .outputs = {}};
  const Node& node = c.built->graph.node(c.built->node);
  c.inputs = c.built->graph.InputTypes(node);
  c.outputs = c.built->graph.OutputTypes(node);
  return c;
}

Shape FullShape(const CodegenCase& c) {
  Shape full = c.outputs[0].shape;
  for (const TensorType& x : c.inputs) {
    if (x.shape.rank() == 4 && (full.rank() != 4 || x.shape.Count() > full.Count())) full = x.shape;
  }
  return full;
}

// Everything of the full shape channels last; false where nothing is of four axes.
bool PutChannelsLast(CodegenCase& c) {
  const Shape full = FullShape(c);
  if (full.rank() != 4) return false;
  bool some = false;
  for (std::vector<TensorType>* types : {&c.inputs, &c.outputs}) {
    for (TensorType& type : *types) {
      if (type.shape != full) continue;
      type.layout = Layout::Parse("acdb");
      some = true;
    }
  }
  c.variant += " channels last";
  return some;
}

// Halves in, float32 out, and the other way round.
void AddMixed(const OpDef& op, const OpCase& op_case, std::vector<CodegenCase>& cases) {
  CodegenCase widened = CaseOf(op, op_case, DType::kFloat16);
  for (TensorType& y : widened.outputs) y.dtype = DType::kFloat32;
  widened.variant = "float16 to float32";
  CodegenCase narrowed = CaseOf(op, op_case, DType::kFloat32);
  for (TensorType& y : narrowed.outputs) y.dtype = DType::kBFloat16;
  narrowed.variant = "float32 to bfloat16";
  cases.push_back(std::move(widened));
  cases.push_back(std::move(narrowed));
}

void AddVariants(const OpDef& op, const OpCase& op_case, std::vector<CodegenCase>& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    cases.push_back(CaseOf(op, op_case, dtype));
    CodegenCase channels_last = CaseOf(op, op_case, dtype);
    if ((dtype == DType::kFloat32 || dtype == DType::kFloat16) && PutChannelsLast(channels_last))
      cases.push_back(std::move(channels_last));
  }
  // A state's mirror: the last output, or one of the inputs, lies otherwise than the rest.
  CodegenCase mirrored = CaseOf(op, op_case, DType::kFloat32);
  if (mirrored.outputs.size() > 1 && mirrored.outputs.back().shape.rank() == 4) {
    mirrored.outputs.back().layout = Layout::Parse("acdb");
    mirrored.inputs.front().layout = Layout::Parse("acdb");
    mirrored.variant = "mirrored";
    cases.push_back(std::move(mirrored));
  }
}

OpCase Pointwise(std::string name, std::string expression, std::vector<TensorType> inputs) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attributes = {{"exprs", Strings{std::move(expression)}}},
          .low = 0.25,
          .high = 2};
}

OpCase Sum(std::string name, std::string expression, Ints axes, std::vector<TensorType> inputs) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attributes = {{"expr", std::move(expression)}, {"axes", std::move(axes)}}};
}

TensorType Of(DType dtype, std::initializer_list<int64_t> dims) { return {dtype, Shape(dims), {}}; }

std::vector<OpCase> MorePointwise() {
  const TensorType x = Float32({2, 8, 4, 4});
  std::vector<OpCase> cases = {
      Pointwise("vectors", "x0*x1+x2", {x, Float32({1, 8, 1, 1}), x}),
      Pointwise("repeated_rows", "x0*x1", {Float32({6, 16}), Float32({1, 16})}),
      Pointwise("every_type", "x0*x1+x2-x3+x4",
                {Float32({4, 24}), Of(DType::kInt64, {4, 24}), Of(DType::kInt32, {4, 24}), Of(DType::kUInt8, {4, 24}),
                 Of(DType::kInt8, {4, 24})}),
      Pointwise("many", "max(x0,1)", {Float32({3001})}),
      Pointwise("comparisons", "lt(x0,x1)+2*le(x0,x1)+4*gt(x0,1)+8*ge(x1,x0)+16*eq(x0,x0)+min(x0,x1)-floor(-x0)",
                {Float32({40}), Float32({40})}),
  };
  cases.push_back({.name = "noise_in_rows",
                   .inputs = {x, Of(DType::kInt64, {})},
                   .attributes = {{"exprs", Strings{"x0*rand(x1,3)"}}},
                   .ranges = {{1, 0, 1e6}}});
  return cases;
}

std::vector<OpCase> MoreSums() {
  return {Sum("long", "x0*x0", {0}, {Float32({30011})}),
          Sum("long_even", "x0", {0, 1}, {Float32({128, 512})}),
          Sum("few_rows", "x0", {1}, {Float32({3, 20000})}),
          Sum("tall", "x0", {0}, {Float32({9000, 24})}),
          Sum("channels", "x0*(x1-x2)", {0, 2, 3},
              {Float32({16, 24, 16, 8}), Float32({16, 24, 16, 8}), Float32({1, 24, 1, 1})}),
          Sum("odd_channels", "x0", {0, 2, 3}, {Float32({9, 5, 16, 7})}),
          Sum("alternating", "x0", {0, 2}, {Float32({8, 4, 16, 12})}),
          Sum("middle_kept", "x0", {1, 3}, {Float32({8, 4, 16, 12})})};
}

}  // namespace

std::string CodegenCase::name() const { return StrCat(op->name, " ", op_case.name, ", ", variant); }

KernelQuery CodegenCase::query() const {
  return {.node = built->graph.node(built->node), .inputs = inputs, .outputs = outputs};
}

void CodegenCase::ExpectReference(const std::vector<RefTensor>& values, const std::vector<Tensor>& found) const {
  SCOPED_TRACE(name());
  std::vector<TensorType> plain = outputs;
  for (TensorType& type : plain) type.layout = {};
  const auto expected = RunReference(*op, built->graph.node(built->node).attributes, values, plain);
  for (size_t o = 0; o < found.size(); ++o) {
    EXPECT_LE(WorstError(FromTensor(found[o]), expected[o]), ToleranceOf(outputs[o].dtype, op_case.tolerance))
        << "output " << o;
  }
}

Memory::Memory(const CodegenCase& subject) : values(subject.Values()) {
  for (size_t i = 0; i < values.size(); ++i) {
    inputs.push_back(owned.emplace_back(ToTensor(values[i], subject.inputs[i])).tensor());
  }
  for (const TensorType& type : subject.outputs) outputs.push_back(owned.emplace_back(type).tensor());
}

std::vector<CodegenCase> CodegenCases() {
  std::vector<CodegenCase> cases;
  const OpDef& pointwise = StandardCatalog().Op("pointwise");
  const OpDef& reduce_sum = StandardCatalog().Op("reduce_sum");
  for (const OpCase& c : pointwise.cases()) AddVariants(pointwise, c, cases);
  for (const OpCase& c : MorePointwise()) {
    AddVariants(pointwise, c, cases);
    AddMixed(pointwise, c, cases);
  }
  for (const OpCase& c : reduce_sum.cases()) AddVariants(reduce_sum, c, cases);
  for (const OpCase& c : MoreSums()) {
    AddVariants(reduce_sum, c, cases);
    AddMixed(reduce_sum, c, cases);
  }
  return cases;
}

std::vector<CodegenCase> GroupCases() {
  std::vector<CodegenCase> cases;
  for (const char* name : {"pointwise_group", "reduce_group"}) {
    const OpDef& group = StandardCatalog().Op(name);
    for (const OpCase& c : group.cases()) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat16}) cases.push_back(CaseOf(group, c, dtype));
    }
  }
  return cases;
}

}  // namespace moka

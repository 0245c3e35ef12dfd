// Every op of the catalogue on every one of its cases: types, reference, kernels, gradient, documentation.
#include "layers/net/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/autodiff.h"
#include "graph/interpreter.h"
#include "layers/net/fork_types.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_run.h"

namespace moka {
namespace {

class OpCases : public testing::TestWithParam<OpSubject> {};

INSTANTIATE_TEST_SUITE_P(Catalog, OpCases, testing::ValuesIn(AllOpSubjects()),
                         [](const auto& subject) { return subject.param.Name(); });

TEST_P(OpCases, ReferenceWritesEveryOutput) {
  const auto& [op, op_case] = GetParam();
  const OpGraph built = BuildOp(*op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  const auto inputs = MakeInputs(op_case, built.graph.InputTypes(node));
  const auto types = built.graph.OutputTypes(node);
  const auto first = RunReference(*op, node.attributes, inputs, types, 0);
  const auto second = RunReference(*op, node.attributes, inputs, types, 1234.5);
  for (size_t k = 0; k < first.size(); ++k) {
    EXPECT_TRUE(types[k].layout.is_plain());
    EXPECT_EQ(first[k].values.size(), static_cast<size_t>(types[k].shape.Count()));
    EXPECT_EQ(first[k].values, second[k].values) << "output " << k;
  }
}

// Kernels ------------------------------------------------------------------------------------------------------------

TEST_P(OpCases, KernelsMatchTheReference) {
  const auto& [op, op_case] = GetParam();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const OpGraph built = BuildOp(*op, op_case, dtype);
    const Node& node = built.graph.node(built.node);
    const auto inputs = MakeInputs(op_case, built.graph.InputTypes(node));
    const auto expected = RunReference(*op, node.attributes, inputs, built.graph.OutputTypes(node));
    for (const KernelDef* kernel : StandardCatalog().KernelsOf(op->name, DeviceKind::kCpu)) {
      for (const Variant& variant : VariantsOf(*kernel, built)) {
        SCOPED_TRACE(StrCat("kernel ", kernel->name, ", ", NameOf(dtype), ", ", variant.name));
        KernelRun run(*kernel, node, variant, inputs);
        const auto found = run.Run();
        ExpectClose(found, expected, op_case.tolerance);
        for (const Tensor& y : run.outputs()) {
          // argmax's padding is nobody's: what follows from it reads elements only.
          const bool is_free = !IsFloat(y.type().dtype);
          EXPECT_TRUE(is_free || PaddingIsZero(y)) << y.type().ToString();
        }
        run.RunAgain();
        for (size_t o = 0; o < found.size(); ++o) {
          EXPECT_EQ(FromTensor(run.outputs()[o]).values, found[o].values) << "a second run differs, output " << o;
        }
      }
    }
  }
}

// Numbers that stand for something (labels, indices) stay float32 where the op lets them: half types hold few of them.
OpGraph BuildHalf(const OpDef& op, const OpCase& op_case, DType half) {
  try {
    return BuildOp(op, op_case, half, WholeInputs::kFloat32);
  } catch (const Error&) {
    return BuildOp(op, op_case, half);
  }
}

// The results of a kernel for float32 between conversions (graph/widened_kernel.h), in the type of `rounded`.
std::vector<RefTensor> Emulated(std::vector<RefTensor> wide, const std::vector<RefTensor>& rounded) {
  for (size_t o = 0; o < wide.size(); ++o) wide[o] = FromTensor(ToTensor(wide[o], rounded[o].type).tensor());
  return wide;
}

std::vector<RefTensor> RefsOf(const std::vector<TensorType>& types) {
  std::vector<RefTensor> refs;
  for (const TensorType& type : types) refs.push_back({type, {}});
  return refs;
}

// Products whose one factor is of a half type and whose other one is float32 may round that, too: of a value below 1 at
// most a quarter of `step`, in each of k summands, up and down.
double OfRoundedFactors(const OpDef& op, const std::vector<TensorType>& types, double step) {
  const auto weights = std::ranges::find_if(types, [](const TensorType& type) { return IsHalf(type.dtype); });
  if (op.precision != Precision::kPrefer16 || weights == types.begin()) return 0;
  return step / 4 * std::sqrt(static_cast<double>(weights->shape[weights->shape.rank() - 1]));
}

// A kernel of half values reads them as they are, computes in float32 and rounds what it stores: it differs from the
// same row between conversions by what its sums' orders do, and where that crosses the middle between two half values
// by one of their steps, 2^-7 of a bfloat16 and 2^-10 of a float16. What is stored on the way (the gradient of a
// residual branch that its norm reads again) counts once more.
TEST_P(OpCases, KernelsOfHalfTypesMatchTheEmulatedOnes) {
  const auto& [op, op_case] = GetParam();
  const OpGraph wide = BuildOp(*op, op_case, DType::kFloat32);
  for (const DType half : {DType::kBFloat16, DType::kFloat16}) {
    const OpGraph built = BuildHalf(*op, op_case, half);
    const Node& node = built.graph.node(built.node);
    const auto types = built.graph.InputTypes(node);
    if (std::ranges::none_of(types, [](const TensorType& type) { return IsHalf(type.dtype); })) continue;
    const auto inputs = MakeInputs(op_case, types);
    const double step = half == DType::kBFloat16 ? 0x1p-7 : 0x1p-10;
    for (const KernelDef* kernel : StandardCatalog().KernelsOf(op->name, DeviceKind::kCpu)) {
      const std::vector<Variant> wide_variants = VariantsOf(*kernel, wide);
      for (const Variant& variant : VariantsOf(*kernel, built)) {
        SCOPED_TRACE(StrCat("kernel ", kernel->name, ", ", NameOf(half), ", ", variant.name));
        KernelRun run(*kernel, node, variant, inputs);
        const auto found = run.Run();
        for (const Tensor& y : run.outputs()) {
          EXPECT_TRUE(!IsFloat(y.type().dtype) || PaddingIsZero(y)) << y.type().ToString();
        }
        // A row for half types alone is held to the reference, of the same rounded inputs.
        if (wide_variants.empty()) {
          const auto rounded = Emulated(inputs, RefsOf(types));
          const auto expected = RunReference(*op, node.attributes, rounded, built.graph.OutputTypes(node));
          ExpectClose(found, expected, std::max(op_case.tolerance, 2 * step));
          continue;
        }
        const auto same = std::ranges::find(wide_variants, variant.name, &Variant::name);
        ASSERT_NE(same, wide_variants.end());
        KernelRun emulation(*kernel, wide.graph.node(wide.node), *same, inputs);
        const double allowed = std::max(op_case.tolerance, 2 * step + OfRoundedFactors(*op, types, step));
        ExpectClose(found, Emulated(emulation.Run(), found), allowed);
      }
    }
  }
}

TEST_P(OpCases, KernelsMayOverwriteWhatTheOpAllows) {
  const auto& [op, op_case] = GetParam();
  if (op->may_overwrite == nullptr) return;
  const OpGraph built = BuildOp(*op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  const auto inputs = MakeInputs(op_case, built.graph.InputTypes(node));
  const auto expected = RunReference(*op, node.attributes, inputs, built.graph.OutputTypes(node));
  for (const KernelDef* kernel : StandardCatalog().KernelsOf(op->name, DeviceKind::kCpu)) {
    for (const Variant& variant : VariantsOf(*kernel, built)) {
      for (size_t pair = 0; pair < variant.inputs.size() * variant.outputs.size(); ++pair) {
        const size_t i = pair / variant.outputs.size();
        const size_t o = pair % variant.outputs.size();
        if (variant.inputs[i] != variant.outputs[o]) continue;
        if (!op->may_overwrite(node.attributes, static_cast<int>(i), static_cast<int>(o))) continue;
        SCOPED_TRACE(StrCat("kernel ", kernel->name, ", ", variant.name, ", output ", o, " over input ", i));
        KernelRun run(*kernel, node, variant, inputs);
        run.Overwrite(i, o);
        ExpectClose(run.Run(), expected, op_case.tolerance);
      }
    }
  }
}

TEST_P(OpCases, SomeKernelTakesIt) {
  const auto& [op, op_case] = GetParam();
  if (op->is_alias) return;
  // An op without any kernel is meant to run by its reference.
  if (StandardCatalog().KernelsOf(op->name, DeviceKind::kCpu).empty()) return;
  const OpGraph built = BuildOp(*op, op_case, DType::kFloat32);
  size_t variants = 0;
  for (const KernelDef* kernel : StandardCatalog().KernelsOf(op->name, DeviceKind::kCpu)) {
    variants += VariantsOf(*kernel, built).size();
  }
  EXPECT_GT(variants, 0U) << "only the reference is left";
}

// oneDNN cuts forward passes, and products of packed operands, by the threads it has, and with the cut goes the order
// of long sums: there results are the same for one number of threads only (docs/reliability.md). Its gradients of
// weights and its products of plain operands are cut by Moka.
bool MayDependOnThreads(const KernelDef& kernel, std::string_view implementation) {
  if (kernel.name != "onednn") return false;
  return kernel.op == "convolution" || (kernel.op == "matmul" && !implementation.starts_with("gemm"));
}

// Expects of a node that must be the same in every run one result for any number of threads, in every layout.
void ExpectOneResult(const OpDef& op, const OpCase& op_case) {
  const OpGraph built = BuildOp(op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  const auto inputs = MakeInputs(op_case, built.graph.InputTypes(node));
  const int threads = ThreadCount();
  for (const KernelDef* kernel : StandardCatalog().KernelsOf(op.name, DeviceKind::kCpu)) {
    for (const Variant& variant : VariantsOf(*kernel, built)) {
      SetThreadCount(1);
      KernelRun run(*kernel, node, variant, inputs);
      const auto alone = run.Run();
      if (MayDependOnThreads(*kernel, run.implementation())) continue;
      for (const int count : {2, 3, 5}) {
        SCOPED_TRACE(StrCat(kernel->name, ", ", variant.name, " layout, ", count, " threads"));
        SetThreadCount(count);
        const auto many = KernelRun(*kernel, node, variant, inputs).Run();
        for (size_t o = 0; o < alone.size(); ++o) EXPECT_TRUE(alone[o].values == many[o].values) << "output " << o;
      }
      SetThreadCount(threads);
    }
  }
}

TEST_P(OpCases, KernelsDoNotDependOnTheThreads) { ExpectOneResult(*GetParam().op, GetParam().op_case); }

OpCase ProductCase(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  Attributes attributes;
  attributes.Set("transpose_a", transpose_a);
  attributes.Set("transpose_b", transpose_b);
  return {"product", {{DType::kFloat32, a, {}}, {DType::kFloat32, b, {}}}, attributes};
}

TEST(Threads, ProductsDoNotDependOnThem) {
  const OpDef& op = StandardCatalog().Op("matmul");
  for (const int64_t rows : {1, 5, 64, 250}) {
    for (const int64_t columns : {10, 100, 500}) {
      SCOPED_TRACE(StrCat(rows, " rows, ", columns, " columns"));
      ExpectOneResult(op, ProductCase({rows, 801}, {columns, 801}, false, true));
      ExpectOneResult(op, ProductCase({67, rows}, {67, columns}, true, false));
      ExpectOneResult(op, ProductCase({7, rows, 65}, {7, 65, columns}, false, false));
      ExpectOneResult(op, ProductCase({2, 3, rows, 65}, {2, 3, 65, columns}, false, false));
    }
  }
}

// Large enough for libraries to share sums among threads.
TEST(Threads, LongSumsDoNotDependOnThem) {
  for (const int64_t images : {1, 3, 19}) {
    for (const int64_t window : {1, 3, 5}) {
      const int64_t pad = window / 2;
      Attributes attributes = ConvolutionCase({1, 1}, {pad, pad}, {pad, pad}, {1, 1}, 1);
      const OpCase data{
          "data",
          {{DType::kFloat32, Shape{images, 20, 14, 14}, {}}, {DType::kFloat32, Shape{48, 20, window, window}, {}}},
          attributes};
      SCOPED_TRACE(StrCat(images, " images, window ", window));
      ExpectOneResult(StandardCatalog().Op("convolution"), data);
      attributes.Set("weight_shape", Ints{48, 20, window, window});
      attributes.Set("bias", true);
      const OpCase weights{
          "weights",
          {{DType::kFloat32, Shape{images, 20, 14, 14}, {}}, {DType::kFloat32, Shape{images, 48, 14, 14}, {}}},
          attributes};
      ExpectOneResult(StandardCatalog().Op("convolution_backward_weights"), weights);
    }
  }
  for (const auto& [k, m, n] :
       std::array<std::array<int64_t, 3>, 4>{{{64, 500, 800}, {3000, 96, 384}, {4000, 10, 24}, {2048, 256, 64}}}) {
    SCOPED_TRACE(StrCat("a product over ", k));
    const OpCase product{
        "product", {{DType::kFloat32, Shape{k, m}, {}}, {DType::kFloat32, Shape{k, n}, {}}}, {{"transpose_a", true}}};
    ExpectOneResult(StandardCatalog().Op("matmul"), product);
    const OpCase plain{"plain", {{DType::kFloat32, Shape{m, k}, {}}, {DType::kFloat32, Shape{k, n}, {}}}, {}};
    ExpectOneResult(StandardCatalog().Op("matmul"), plain);
  }
}

// Labels -------------------------------------------------------------------------------------------------------------

TEST(Labels, OutsideTheClassesAreFaults) {
  const Attributes ignoring{{"has_ignore", true}, {"ignore_label", int64_t{255}}};
  for (const char* op : {"softmax_loss", "accuracy"}) {
    SCOPED_TRACE(op);
    EXPECT_EQ(FaultOf(op, {}, {0, 1, 2, 2}), "");
    EXPECT_EQ(FaultOf(op, {}, {0, 1, 77, -1}), "label 77 at index 2 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {0, -1}), "label -1 at index 1 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {0.5}), "label 0.5 at index 0 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {3}), "label 3 at index 0 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {std::nan("")}), "label nan at index 0 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {1e30}), "label 1e+30 at index 0 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, ignoring, {0, 255, 1}), "");
    EXPECT_EQ(FaultOf(op, ignoring, {0, 254}),
              "label 254 at index 1 is not a class from 0 to 2 nor the ignored label 255");
  }
}

TEST(Labels, ObjectsOutsideTheClassesAreFaults) {
  if (IsWithoutForks()) GTEST_SKIP() << kWithoutForks;
  const OpDef& op = StandardCatalog().Op("picture_regions");
  const OpCase op_case = op.cases().front();
  const OpGraph built = BuildOp(op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  ASSERT_EQ(node.attributes.Int("classes"), 4);
  const Variant plain{"plain", built.graph.InputTypes(node), built.graph.OutputTypes(node)};
  const auto fault_of = [&](double label) {
    auto inputs = MakeInputs(op_case, plain.inputs);
    std::ranges::fill(inputs[1].values, -1.0);
    const std::vector<double> row = {0, label, 1, 0.1, 0.1, 0.9, 0.9, 0};
    std::ranges::copy(row, inputs[1].values.begin() + 8);
    return KernelRun(*StandardCatalog().KernelsOf(op.name, DeviceKind::kCpu).front(), node, plain, inputs)
        .RunForFault();
  };
  EXPECT_EQ(fault_of(3), "");
  for (const double label : {0.0, 4.0}) {
    EXPECT_EQ(fault_of(label), StrCat("the label ", label, " of ground truth row 1 is not a class from 1 to 3"));
  }
}

TEST(Labels, OneLabelCostsAtMost87) {
  const OpDef& op = StandardCatalog().Op("softmax_loss");
  const Attributes attributes{{"axis", int64_t{1}}, {"has_ignore", false}, {"ignore_label", int64_t{0}}};
  const RefTensor x{{DType::kFloat32, Shape{1, 2}, {}}, {1000, 0}};
  const RefTensor label{{DType::kFloat32, Shape{1}, {}}, {1}};
  const std::vector<RefTensor> inputs = {x, label};
  const auto types = op.infer(attributes, std::vector{x.type, label.type});
  EXPECT_NEAR(RunReference(op, attributes, inputs, types)[0].values[0], 87.3365, 1e-4);
}

// Gradients ----------------------------------------------------------------------------------------------------------

// loss = sum over the float outputs of y * (fixed random weights).
class Loss {
 public:
  Loss(const OpDef& op, const OpCase& op_case) : built_(BuildOp(op, op_case, DType::kFloat64)) {
    inputs_ = MakeInputs(op_case, built_.graph.InputTypes(built_.graph.node(built_.node)));
    const GraphBuilder b(built_.graph, {});
    for (size_t k = 0; k < built_.outputs.size(); ++k) {
      const ValueId y = built_.outputs[k];
      if (!IsFloat(b.type(y).dtype)) continue;
      const ValueId weights = built_.graph.AddInput(StrCat("weights", k), b.type(y));
      RefTensor r{b.type(y), std::vector<double>(static_cast<size_t>(b.shape(y).Count()))};
      RandomStream random(7, k);
      for (double& v : r.values) v = random.Uniform(-1, 1);
      weights_[weights] = std::move(r);
      const ValueId part = b.SumAll(b.Pointwise("x0*x1", {y, weights}));
      loss_ = loss_ == kNoId ? part : b.Pointwise("x0+x1", {loss_, part});
    }
  }

  // False when no output is a float.
  bool exists() const { return loss_ != kNoId; }
  const std::vector<RefTensor>& inputs() const { return inputs_; }

  double Value(const std::vector<RefTensor>& inputs) const {
    return Interpret(built_.graph, Fed(inputs), std::vector{loss_})[0].values[0];
  }
  // dLoss/dx of each input; empty values where autodiff says there is no path.
  std::vector<RefTensor> Gradients() const {
    Graph graph = built_.graph;
    std::vector<ValueId> wrt;
    for (const ValueId x : built_.inputs) {
      if (IsFloat(graph.type(x).dtype)) wrt.push_back(x);
    }
    const std::vector<ValueId> dx = Differentiate(graph, loss_, wrt);
    Verify(graph, "autodiff");
    std::vector<RefTensor> gradients(built_.inputs.size());
    for (size_t i = 0; i < wrt.size(); ++i) {
      const auto at = static_cast<size_t>(std::ranges::find(built_.inputs, wrt[i]) - built_.inputs.begin());
      if (dx[i] != kNoId) gradients[at] = Interpret(graph, Fed(inputs_), std::vector{dx[i]})[0];
    }
    return gradients;
  }

 private:
  std::map<ValueId, RefTensor> Fed(const std::vector<RefTensor>& inputs) const {
    std::map<ValueId, RefTensor> fed = weights_;
    for (size_t i = 0; i < inputs.size(); ++i) fed[built_.inputs[i]] = inputs[i];
    return fed;
  }

  OpGraph built_;
  std::vector<RefTensor> inputs_;
  std::map<ValueId, RefTensor> weights_;
  ValueId loss_ = kNoId;
};

// |expected - difference quotient| along a direction of input i, the best of several steps.
double DifferenceError(const Loss& loss, size_t i, const std::vector<double>& direction, double expected) {
  double best = INFINITY;
  for (const double h : {1e-4, 1e-5, 1e-6}) {
    std::array<double, 2> values{};
    for (const int side : {0, 1}) {
      std::vector<RefTensor> inputs = loss.inputs();
      for (size_t j = 0; j < direction.size(); ++j) inputs[i].values[j] += (side == 0 ? h : -h) * direction[j];
      values[static_cast<size_t>(side)] = loss.Value(inputs);
    }
    best = std::min(best, std::abs((values[0] - values[1]) / (2 * h) - expected));
    if (best < 1e-8) break;
  }
  return best;
}

void CheckGradient(const Loss& loss, size_t i, const RefTensor& gradient) {
  const size_t count = loss.inputs()[i].values.size();
  std::vector<double> g = gradient.values;
  if (g.empty()) g.assign(count, 0.0);
  ASSERT_EQ(g.size(), count);
  double largest = 1;
  for (const double v : g) largest = std::max(largest, std::abs(v));
  // Some elements one by one, then all of them at once along a random direction.
  RandomStream random(11, i);
  const size_t samples = std::min<size_t>(count, 24);
  const Permutation order(std::max<uint64_t>(count, 1), 5, i);
  for (size_t s = 0; s < samples; ++s) {
    std::vector<double> direction(count, 0.0);
    const auto j = static_cast<size_t>(order(s));
    direction[j] = 1;
    EXPECT_LE(DifferenceError(loss, i, direction, g[j]) / largest, 1e-6) << "input " << i << ", element " << j;
  }
  std::vector<double> direction(count);
  double along = 0;
  double length = 0;
  for (size_t j = 0; j < count; ++j) {
    direction[j] = random.Below(2) == 0 ? -1 : 1;
    along += direction[j] * g[j];
    length += std::abs(g[j]);
  }
  EXPECT_LE(DifferenceError(loss, i, direction, along) / std::max(1.0, length), 1e-6) << "input " << i;
}

TEST_P(OpCases, GradientMatchesDifferences) {
  const auto& [op, op_case] = GetParam();
  if (op->gradient == nullptr || op_case.inputs.empty()) return;
  const Loss loss(*op, op_case);
  if (!loss.exists()) return;
  const std::vector<RefTensor> gradients = loss.Gradients();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const DType dtype = loss.inputs()[i].type.dtype;
    // Whole numbers are labels; half types cannot hold the steps.
    if (IsWhole(op_case, static_cast<int>(i), dtype)) continue;
    CheckGradient(loss, i, gradients[i]);
  }
}

// Documentation ------------------------------------------------------------------------------------------------------

TEST(Catalog, EveryOpIsDocumentedAndHasCases) {
  for (const OpDef& op : StandardCatalog().ops()) {
    SCOPED_TRACE(op.name);
    EXPECT_GE(op.doc.size(), 10U);
    for (const AttributeSpec& spec : op.attributes) EXPECT_GE(spec.doc.size(), 5U) << spec.name;
    EXPECT_NE(op.infer, nullptr);
    EXPECT_NE(op.reference, nullptr);
    ASSERT_NE(op.cases, nullptr);
    const std::vector<OpCase> cases = op.cases();
    EXPECT_FALSE(cases.empty());
    std::set<std::string> names;
    for (const OpCase& c : cases) EXPECT_TRUE(names.insert(c.name).second) << c.name << " is there twice";
  }
}

TEST(Catalog, AttributesOfEveryCaseAreSpecified) {
  for (const OpDef& op : StandardCatalog().ops()) {
    for (const OpCase& c : op.cases()) {
      for (const auto& entry : c.attributes.values()) {
        const std::string& name = entry.first;
        const bool known = std::ranges::any_of(op.attributes, [&](const AttributeSpec& s) { return s.name == name; });
        EXPECT_TRUE(known) << op.name << " has no attribute " << name;
        EXPECT_NE(c.attributes.ToString().find(StrCat(name, "=", ToText(entry.second))), std::string::npos);
      }
    }
  }
}

TEST(Catalog, KernelNamesAreUniqueWithinAnOp) {
  for (const OpDef& op : StandardCatalog().ops()) {
    std::set<std::string> names;
    for (const KernelDef* kernel : StandardCatalog().KernelsOf(op.name, DeviceKind::kCpu)) {
      EXPECT_TRUE(names.insert(kernel->name).second) << op.name << " " << kernel->name;
      EXPECT_NE(kernel->make, nullptr);
    }
  }
}

}  // namespace
}  // namespace moka

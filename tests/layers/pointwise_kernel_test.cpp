// The tile kernels of pointwise and reduce_sum against the references in double, over random shapes, broadcasts,
// layouts, threads and memory that outputs share with inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "core/device/tensor.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

class Threads {
 public:
  explicit Threads(int count) : before_(ThreadCount()) { SetThreadCount(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { SetThreadCount(before_); }

 private:
  int before_;
};

struct Problem {
  OpDef op;
  KernelDef kernel;
  Attributes attributes;
  std::vector<TensorType> inputs;  // as they lie
  std::vector<RefTensor> values;
  double tolerance = 2e-6;
};

std::vector<TensorType> Plain(std::vector<TensorType> types) {
  for (TensorType& type : types) type.layout = {};
  return types;
}

// As the tensor holds it.
double Rounded(double value, DType dtype) {
  if (dtype == DType::kFloat32) return static_cast<double>(static_cast<float>(value));
  return IsFloat(dtype) ? value : std::floor(value);
}

void FillValues(Problem& p, RandomStream& random, double low, double high) {
  p.values.clear();
  for (const TensorType& type : Plain(p.inputs)) {
    RefTensor values{type, {}};
    for (int64_t i = 0; i < type.shape.Count(); ++i) {
      const double value = IsFloat(type.dtype) ? random.Uniform(low, high) : random.Uniform(0, 200);
      values.values.push_back(Rounded(value, type.dtype));
    }
    p.values.push_back(std::move(values));
  }
}

OwnedTensor Stored(const RefTensor& values, const TensorType& type) {
  OwnedTensor wide({DType::kFloat64, type.shape, {}});
  std::ranges::copy(values.values, wide.as<double>().begin());
  OwnedTensor stored(type);
  CopyTensor(wide.tensor(), stored.tensor());
  return stored;
}

std::vector<double> Read(const Tensor& tensor) {
  OwnedTensor wide({DType::kFloat64, tensor.shape(), {}});
  CopyTensor(tensor, wide.tensor());
  const auto values = wide.as<double>();
  return {values.begin(), values.end()};
}

std::vector<RefTensor> Expected(const Problem& p) {
  std::vector<RefTensor> outputs;
  for (const TensorType& type : p.op.infer(p.attributes, Plain(p.inputs))) {
    outputs.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.Count()))});
  }
  p.op.reference(p.attributes, p.values, outputs);
  return outputs;
}

struct Result {
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::byte>> bytes;  // as stored, padding included
};

// overwrite[o]: the input whose memory output o takes, or -1. last: the last output's layout, if not as proposed.
Result RunKernel(const Problem& p, const std::vector<int>& overwrite, const std::optional<Layout>& last = {}) {
  Node node;
  node.attributes = p.attributes;
  std::vector<TensorType> outputs = p.op.infer(p.attributes, Plain(p.inputs));
  const auto proposal = p.kernel.propose({node, p.inputs, outputs});
  for (size_t o = 0; o < outputs.size(); ++o) outputs[o].layout = proposal->outputs[o];
  if (last) outputs.back().layout = *last;
  std::vector<TensorType> inputs = p.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].layout = proposal->inputs[i];
  const KernelQuery query{node, inputs, outputs};
  EXPECT_EQ(p.kernel.refuse(query), "");
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) owned.push_back(Stored(p.values[i], inputs[i]));
  for (const OwnedTensor& tensor : owned) in.push_back(tensor.tensor());
  std::vector<OwnedTensor> fresh;
  fresh.reserve(outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    fresh.emplace_back(outputs[o]);
    std::memset(fresh[o].tensor().raw(), 0x7B, static_cast<size_t>(outputs[o].Bytes()));
    const int over = o < overwrite.size() ? overwrite[o] : -1;
    out.push_back(over >= 0 ? Tensor(outputs[o], in[static_cast<size_t>(over)].raw()) : fresh[o].tensor());
  }
  const auto kernel = p.kernel.make(query);
  const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
  kernel->Bind({in, out, scratch.data()});
  kernel->Run();
  Result result;
  for (const Tensor& tensor : out) {
    result.values.push_back(Read(tensor));
    const auto* bytes = static_cast<const std::byte*>(tensor.raw());
    result.bytes.emplace_back(bytes, bytes + tensor.type().Bytes());
    // Rewriting the values into a zeroed tensor must give the same bytes: the padding is zero.
    const OwnedTensor again = Stored({tensor.type(), result.values.back()}, tensor.type());
    EXPECT_EQ(std::memcmp(again.tensor().raw(), tensor.raw(), result.bytes.back().size()), 0) << "padding";
  }
  return result;
}

void ExpectNear(const Result& found, const std::vector<RefTensor>& expected, double tolerance) {
  for (size_t o = 0; o < expected.size(); ++o) {
    double largest = 1e-30;
    for (const double v : expected[o].values) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < expected[o].values.size(); ++i) {
      ASSERT_NEAR(found.values[o][i], expected[o].values[i], tolerance * largest) << "output " << o << " at " << i;
    }
  }
}

std::string Describe(const Problem& p) {
  std::string text = p.attributes.ToString();
  for (const TensorType& type : p.inputs) text += " " + type.ToString();
  return text;
}

// Shapes [N,C,H,W] around the sizes where the kernels change their ways.
Shape RandomShape(RandomStream& random) {
  const int64_t channels[] = {1, 3, 8, 10, 16, 17, 32, 40};
  const int64_t sides[] = {1, 2, 5, 7, 16, 17, 31};
  return Shape{static_cast<int64_t>(1 + random.Below(4)), channels[random.Below(8)], sides[random.Below(7)],
               sides[random.Below(7)]};
}

Layout RandomLayout(RandomStream& random) {
  const char* names[] = {"abcd", "aBcd16b", "aBcd8b", "acdb"};
  return Layout::Parse(names[random.Below(4)]);
}

// Full shapes in the layout mostly; other inputs keep some dimensions.
TensorType RandomOperand(RandomStream& random, const Shape& shape, const Layout& layout, DType dtype) {
  if (random.Below(8) == 0) return {dtype, Shape{}, {}};
  if (random.Below(2) == 0) return {dtype, shape, layout};
  const uint64_t kept = random.Below(3) == 0 ? random.Below(16) : 2;  // mostly [1,C,1,1]
  Shape own = shape;
  for (int axis = 0; axis < 4; ++axis) {
    if ((kept >> static_cast<unsigned>(axis) & 1U) == 0) own = own.With(axis, 1);
  }
  return {dtype, own, own == shape ? layout : Layout{}};
}

Problem RandomPointwise(RandomStream& random) {
  Problem p{StandardCatalog().Op("pointwise"), KernelNamed("pointwise", "moka"), {}, {}, {}, 2e-6};
  const Shape shape = RandomShape(random);
  const Layout layout = RandomLayout(random);
  const DType dtype = random.Below(5) == 0 ? DType::kFloat64 : DType::kFloat32;
  p.inputs = {{dtype, shape, layout},
              RandomOperand(random, shape, layout, dtype),
              RandomOperand(random, shape, layout, dtype),
              {DType::kInt64, Shape{}, {}}};
  const std::vector<Strings> programs = {
      {"x0*x1+x2"},
      {"max(x0,0)"},
      {"x0-0.1*(0.9*x1+x2)", "0.9*x1+x2"},
      {"(x0-x1)/sqrt(x2*x2+1)+exp(x1)*tanh(x2)"},
      {"select(lt(rand(x3,11),0.5),x0,0.25*x1)"},
      {"x1", "x0", "x0+x1", "x0+x1"},
      {"2", "x2", "sigmoid(x0)*x3"},
      {"exp(x0)*x1", "log(1+abs(x0*x2))", "erf(x0)-erf(x1)", "x0*x0*x0+rand(x3,0)*x1+floor(4*x2)"},
  };
  p.attributes.Set("exprs", programs[random.Below(programs.size())]);
  FillValues(p, random, -2, 2);
  return p;
}

TEST(PointwiseKernel, MatchesTheReferenceOnRandomProblems) {
  for (uint64_t trial = 0; trial < 100; ++trial) {
    RandomStream random(1, trial);
    const Problem p = RandomPointwise(random);
    SCOPED_TRACE(StrCat("trial ", trial, ": ", Describe(p)));
    const std::vector<RefTensor> expected = Expected(p);
    const Result one = [&] {
      const Threads threads(1);
      return RunKernel(p, {});
    }();
    ExpectNear(one, expected, p.tolerance);
    for (const int count : {2, 3, 4}) {
      const Threads threads(count);
      EXPECT_EQ(RunKernel(p, {}).bytes, one.bytes) << count << " threads";
    }
    if (HasFailure()) return;
  }
}

TEST(PointwiseKernel, OutputsMayTakeTheMemoryOfInputs) {
  for (uint64_t trial = 0; trial < 60; ++trial) {
    RandomStream random(2, trial);
    const Problem p = RandomPointwise(random);
    SCOPED_TRACE(StrCat("trial ", trial, ": ", Describe(p)));
    const std::vector<RefTensor> expected = Expected(p);
    std::vector<int> overwrite(expected.size(), -1);
    for (int i = 0; i < 3; ++i) {
      const auto o = static_cast<size_t>(random.Below(expected.size()));
      if (p.inputs[static_cast<size_t>(i)] == p.inputs[0] && overwrite[o] < 0) overwrite[o] = i;
    }
    EXPECT_EQ(RunKernel(p, overwrite).bytes, RunKernel(p, {}).bytes);
    ExpectNear(RunKernel(p, overwrite), expected, p.tolerance);
    if (HasFailure()) return;
  }
}

TEST(PointwiseKernel, TwoStatesMaySwap) {
  Problem p{
      StandardCatalog().Op("pointwise"), KernelNamed("pointwise", "moka"), {{"exprs", Strings{"x1", "x0"}}}, {}, {}};
  p.inputs = {{DType::kFloat32, Shape{1000}, {}}, {DType::kFloat32, Shape{1000}, {}}};
  RandomStream random(3, 0);
  FillValues(p, random, -1, 1);
  const Result swapped = RunKernel(p, {0, 1});
  EXPECT_EQ(swapped.values[0], p.values[1].values);
  EXPECT_EQ(swapped.values[1], p.values[0].values);
}

TEST(PointwiseKernel, SumsOverAHundredInputsInThePlaceOfAny) {
  std::string sum = "x0";
  for (int i = 1; i < 100; ++i) sum += StrCat("+x", i);
  Problem p{
      StandardCatalog().Op("pointwise"), KernelNamed("pointwise", "moka"), {{"exprs", Strings{"2*x0", sum}}}, {}, {}};
  p.inputs.assign(100, {DType::kFloat32, Shape{700}, {}});
  RandomStream random(11, 0);
  FillValues(p, random, -1, 1);
  const std::vector<RefTensor> expected = Expected(p);
  for (const int place : {0, 50, 62, 63, 64, 99}) ExpectNear(RunKernel(p, {place}), expected, p.tolerance);
}

TEST(PointwiseKernel, UpdatesWeightsInDoublyBlockedLayouts) {
  Problem p{StandardCatalog().Op("pointwise"),
            KernelNamed("pointwise", "moka"),
            {{"exprs", Strings{"x0-x2*(x1+1)"}}},
            {},
            {}};
  for (const char* layout : {"ABcd16b16a", "ABcd8b16a2b", "Abcd16a", "ABcd16a16b"}) {
    const TensorType type{DType::kFloat32, Shape{20, 18, 3, 3}, Layout::Parse(layout)};
    p.inputs = {type, type, {DType::kFloat32, Shape{}, {}}};
    RandomStream random(4, 0);
    FillValues(p, random, -1, 1);
    ExpectNear(RunKernel(p, {0}), Expected(p), p.tolerance);
  }
}

// An update that writes the weights twice: as the forward pass reads them and as their gradient does.
TEST(PointwiseKernel, RepacksAnOutput) {
  struct Pair {
    Shape shape;
    const char* layout;
    const char* other;
  };
  const Pair pairs[] = {
      {{32, 48, 3, 3}, "ABcd16b16a", "ABcd16a16b"}, {{32, 48, 1, 1}, "ABcd16b16a", "BAcd16a16b"},
      {{40, 24, 5, 1}, "ABcd8b8a", "BAcd8a8b"},     {{20, 18, 3, 3}, "ABcd16b16a", "ABcd16a16b"},
      {{64, 3, 7, 7}, "Acdb16a", "Abcd16a"},        {{32, 16, 3, 3}, "ABcd16b16a", "abcd"},
      {{1, 16, 1, 7}, "aBcd16b", "abcd"},           {{80, 64, 4, 4}, "ABcd16b16a", "BAcd16a16b"},
  };
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(StrCat(pair.shape.ToString(), " ", pair.layout, " ", pair.other));
    Problem p{StandardCatalog().Op("pointwise"),
              KernelNamed("pointwise", "moka"),
              {{"exprs", Strings{"x1*0.9+x0", "x1*0.9+x0-x2", "x1*0.9+x0"}}},
              {},
              {}};
    const TensorType type{DType::kFloat32, pair.shape, Layout::Parse(pair.layout)};
    p.inputs = {type, type, {DType::kFloat32, Shape{}, {}}};
    RandomStream random(12, 0);
    FillValues(p, random, -1, 1);
    for (const int count : {1, 3}) {
      const Threads threads(count);
      ExpectNear(RunKernel(p, {0, 1}, Layout::Parse(pair.other)), Expected(p), p.tolerance);
    }
  }
}

TEST(PointwiseKernel, RunsOnEmptyAndOneElementTensors) {
  for (const Shape& shape : {Shape{0, 3}, Shape{}, Shape{1, 1}, Shape{1}}) {
    Problem p{
        StandardCatalog().Op("pointwise"), KernelNamed("pointwise", "moka"), {{"exprs", Strings{"x0*2"}}}, {}, {}};
    p.inputs = {{DType::kFloat32, shape, {}}};
    RandomStream random(5, 0);
    FillValues(p, random, -1, 1);
    ExpectNear(RunKernel(p, {}), Expected(p), 0);
  }
}

TEST(PointwiseKernel, ReadsIntegerInputs) {
  Problem p{
      StandardCatalog().Op("pointwise"), KernelNamed("pointwise", "moka"), {{"exprs", Strings{"x0*x1+x2"}}}, {}, {}};
  p.inputs = {
      {DType::kFloat32, Shape{7, 300}, {}}, {DType::kUInt8, Shape{7, 300}, {}}, {DType::kInt32, Shape{1, 300}, {}}};
  RandomStream random(6, 0);
  FillValues(p, random, -1, 1);
  ExpectNear(RunKernel(p, {}), Expected(p), p.tolerance);
}

TEST(PointwiseKernel, RefusesWhatItCannotRead) {
  Node node;
  node.attributes.Set("exprs", Strings{"x0+x1"});
  const TensorType full{DType::kFloat32, Shape{2, 20, 4, 4}, Layout::Parse("aBcd16b")};
  const TensorType other{DType::kFloat32, full.shape, Layout::Parse("aBcd8b")};
  const TensorType half{DType::kFloat16, full.shape, full.layout};
  const KernelDef kernel = KernelNamed("pointwise", "moka");
  const auto refusal = [&](const TensorType& a, const TensorType& b, const TensorType& y) {
    const TensorType inputs[] = {a, b};
    return kernel.refuse({node, inputs, {&y, 1}});
  };
  EXPECT_EQ(refusal(full, other, full),
            "an input is float32[2,20,4,4]:aBcd8b: needs the plain layout or, at the full shape, aBcd16b");
  EXPECT_EQ(refusal(half, full, half), "");
  const TensorType count{DType::kInt32, full.shape, {}};
  EXPECT_EQ(refusal(full, full, count), "computes floating types, not int32");
  EXPECT_EQ(refusal(full, full, full), "");
  const TensorType eights{DType::kFloat32, Shape{2, 32, 4, 4}, Layout::Parse("aBcd8b")};
  const TensorType sixteens{DType::kFloat32, eights.shape, Layout::Parse("aBcd16b")};
  const TensorType inputs[] = {sixteens, sixteens};
  const TensorType outputs[] = {sixteens, eights};
  EXPECT_EQ(kernel.refuse({node, inputs, outputs}), "the blocks of the outputs' layouts cut each other");
}

Problem RandomReduceSum(RandomStream& random) {
  Problem p{StandardCatalog().Op("reduce_sum"), KernelNamed("reduce_sum", "moka"), {}, {}, {}, 1e-6};
  const Shape shape = RandomShape(random);
  const Layout layout = RandomLayout(random);
  const DType dtype = random.Below(5) == 0 ? DType::kFloat64 : DType::kFloat32;
  p.inputs = {{dtype, shape, layout},
              RandomOperand(random, shape, layout, dtype),
              RandomOperand(random, shape, layout, dtype),
              {DType::kInt64, Shape{}, {}}};
  const std::string programs[] = {"x0", "x0*x0", "x0*(x1-x2)", "exp(x0)+1", "abs(x0)", "x0*rand(x3,3)", "x1", "3"};
  p.attributes.Set("expr", programs[random.Below(8)]);
  const std::vector<Ints> axes = {{0, 1, 2, 3}, {0, 2, 3}, {0, 2, 3}, {2, 3}, {0}, {1}, {3}, {1, 2}, {0, 3}, {}};
  p.attributes.Set("axes", axes[random.Below(axes.size())]);
  FillValues(p, random, 0, 1);
  return p;
}

TEST(ReduceSumKernel, MatchesTheReferenceOnRandomProblems) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    RandomStream random(7, trial);
    const Problem p = RandomReduceSum(random);
    SCOPED_TRACE(StrCat("trial ", trial, ": ", Describe(p)));
    const Result one = [&] {
      const Threads threads(1);
      return RunKernel(p, {});
    }();
    ExpectNear(one, Expected(p), p.tolerance);
    for (const int count : {2, 3, 4}) {
      const Threads threads(count);
      EXPECT_EQ(RunKernel(p, {}).bytes, one.bytes) << count << " threads";
    }
    if (HasFailure()) return;
  }
}

TEST(ReduceSumKernel, SumsLongTensorsInDouble) {
  for (const Shape& shape :
       {Shape{1, 1000000}, Shape{300, 10000}, Shape{10000, 10}, Shape{3, 70000}, Shape{40000, 3}}) {
    for (const Ints& axes : {Ints{0, 1}, Ints{0}, Ints{1}}) {
      Problem p{StandardCatalog().Op("reduce_sum"),
                KernelNamed("reduce_sum", "moka"),
                {{"expr", std::string("x0*x0")}, {"axes", axes}},
                {},
                {},
                1e-7};
      p.inputs = {{DType::kFloat32, shape, {}}};
      RandomStream random(8, 0);
      FillValues(p, random, 0, 1);
      SCOPED_TRACE(Describe(p));
      const Result one = [&] {
        const Threads threads(1);
        return RunKernel(p, {});
      }();
      ExpectNear(one, Expected(p), p.tolerance);
      const Threads threads(3);
      EXPECT_EQ(RunKernel(p, {}).bytes, one.bytes);
    }
  }
}

TEST(ReduceSumKernel, NeverSumsPadding) {
  Problem p{StandardCatalog().Op("reduce_sum"),
            KernelNamed("reduce_sum", "moka"),
            {{"expr", std::string("x0+1")}, {"axes", Ints{0, 1, 2, 3}}},
            {},
            {}};
  p.inputs = {{DType::kFloat32, Shape{2, 5, 3, 3}, Layout::Parse("aBcd16b")}};
  RandomStream random(9, 0);
  FillValues(p, random, 0, 1);
  ExpectNear(RunKernel(p, {}), Expected(p), 1e-6);
  Node node;
  node.attributes = p.attributes;
  const TensorType y{DType::kFloat32, Shape{1, 1, 1, 1}, {}};
  EXPECT_EQ(p.kernel.refuse({node, p.inputs, {&y, 1}}), "would sum the padding of a blocked layout");
}

}  // namespace
}  // namespace moka

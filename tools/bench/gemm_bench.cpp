// GFLOP/s of the matrix products of inner products and recurrent layers, and of the recurrences themselves: every
// kernel row that takes the node as it lies, in turns, medians, with the share of what a core's multiply-adds did in
// the same rounds. Verifies that the rows agree. Usage: gemm_bench [ROUNDS [WORDS]] (only cases whose name begins with
// WORDS)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/device/tensor.h"
#include "core/median.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/net/catalog.h"
#include "tools/measure/peak.h"

namespace moka {
namespace {

struct Case {
  const char* name;
  const char* op;
  std::vector<Shape> inputs;
  Attributes attributes;
  double flops;
  int64_t depth;  // of the sums, for the bound on differences
};

Case Product(const char* name, int64_t m, int64_t k, int64_t n, bool transpose_a, bool transpose_b) {
  return {name,
          "matmul",
          {transpose_a ? Shape{k, m} : Shape{m, k}, transpose_b ? Shape{n, k} : Shape{k, n}},
          {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
          2.0 * static_cast<double>(m * k * n),
          k};
}

Case Lstm(const char* name, bool backward, int64_t steps, int64_t rows, int64_t units) {
  const Shape all{steps, rows, units};
  const Shape state{rows, units};
  const Shape gates{steps, rows, 4 * units};
  const Shape going{steps, rows};
  const Shape weights{4 * units, units};
  Case c{name, backward ? "lstm_backward" : "lstm", {gates, going, state, state, weights}, {}, 0, units};
  if (backward) c.inputs = {all, state, state, gates, all, going, state, weights};
  if (!backward) c.attributes = {{"forget_bias", 0.0}};
  c.flops = 2.0 * static_cast<double>(steps * rows * units * 4 * units);
  return c;
}

Case Gru(const char* name, bool backward, int64_t steps, int64_t rows, int64_t units) {
  const Shape all{steps, rows, units};
  const Shape state{rows, units};
  const Shape gates{steps, rows, 3 * units};
  const Shape going{steps, rows};
  const Shape weights{3 * units, units};
  Case c{name, backward ? "gru_backward" : "gru", {gates, going, state, weights, Shape{units}}, {}, 0, units};
  if (backward) c.inputs = {all, state, gates, all, all, going, state, weights};
  c.flops = 2.0 * static_cast<double>(steps * rows * units * 3 * units);
  return c;
}

std::vector<Case> Cases() {
  return {
      Product("lstm input", 1280, 512, 2048, false, true),
      Product("lstm data", 1280, 2048, 512, false, false),
      Product("lstm weights", 2048, 1280, 512, true, false),
      Lstm("recurrence", false, 20, 64, 512),
      Lstm("recurrence back", true, 20, 64, 512),
      Gru("recurrence gru", false, 20, 64, 512),
      Gru("recurrence gru back", true, 20, 64, 512),
      Product("scores", 1280, 512, 8000, false, true),
      Product("scores data", 1280, 8000, 512, false, false),
      Product("scores weights", 8000, 1280, 512, true, false),
      Product("fc6 weights", 4096, 64, 9216, true, false),
      Product("fc7 weights", 4096, 64, 4096, true, false),
      Product("fc6", 64, 9216, 4096, false, true),
      Product("fc6 data", 64, 4096, 9216, false, false),
      Product("lenet ip1 weights", 500, 64, 800, true, false),
      Product("inner 256", 256, 1024, 1000, false, true),
  };
}

OwnedTensor Random(const Shape& shape, uint64_t stream) {
  OwnedTensor tensor(TensorType{DType::kFloat32, shape, {}});
  RandomStream random(1, stream);
  for (float& v : tensor.as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  return tensor;
}

struct Row {
  const KernelDef* def;
  std::unique_ptr<Kernel> kernel;
  std::vector<OwnedTensor> y;
  Buffer scratch;
  std::vector<double> ms;
};

void Verify(const Case& c, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.y[0].as<float>().size(); ++i) {
      if (std::abs(row.y[0].as<float>()[i] - rows[0].y[0].as<float>()[i]) >
          1e-4 * std::sqrt(static_cast<double>(c.depth))) {
        throw Error(ErrorKind::kInternal, StrCat(c.name, ": the rows do not agree"));
      }
    }
  }
}

void Time(const Case& c, int rounds) {
  Graph graph(StandardCatalog());
  std::vector<OwnedTensor> x;
  std::vector<TensorType> inputs;
  std::vector<Tensor> in;
  std::vector<ValueId> ids;
  for (const Shape& shape : c.inputs) {
    x.push_back(Random(shape, x.size() + 1));
    inputs.push_back(x.back().type());
    ids.push_back(graph.AddInput(StrCat("x", x.size()), x.back().type()));
  }
  for (OwnedTensor& tensor : x) in.push_back(tensor.tensor());
  const Node& node = graph.AddNode(c.op, ids, c.attributes, {});
  const std::vector<TensorType> outputs = graph.OutputTypes(node);
  const KernelQuery query{node, inputs, outputs};
  std::vector<Row> rows;
  for (const KernelDef* def : StandardCatalog().KernelsOf(c.op, DeviceKind::kCpu)) {
    if (!def->refuse(query).empty()) continue;
    rows.push_back({def, def->make(query), {}, {}, {}});
    Row& row = rows.back();
    row.scratch = Buffer::Allocate(row.kernel->scratch_bytes());
    std::vector<Tensor> out;
    for (const TensorType& type : outputs) row.y.emplace_back(type);
    for (OwnedTensor& y : row.y) out.push_back(y.tensor());
    row.kernel->Bind({in, out, row.scratch.data()});
    row.kernel->Run();
  }
  std::vector<double> peaks;
  for (int round = 0; round < rounds; ++round) {
    constexpr int64_t kSteps = 2'400'000;
    peaks.push_back(MeasurePeak(Arithmetic::kFloat32, kSteps, 1));
    for (Row& row : rows) {
      const auto begin = std::chrono::steady_clock::now();
      row.kernel->Run();
      row.ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::printf("%-18s peak %.0f", c.name, Median(peaks));
  for (const Row& row : rows) {
    const double ms = Median(row.ms);
    const double rate = 1e-6 * c.flops / ms;
    std::printf("  %s %.3f ms %.0f GFLOP/s %.0f %%", row.def->name.c_str(), ms, rate, 100 * rate / Median(peaks));
  }
  std::printf("\n");
  Verify(c, rows);
}

}  // namespace
}  // namespace moka

int main(int count, char** arguments) {
  try {
    const std::string_view words = count > 2 ? arguments[2] : "";
    for (const moka::Case& c : moka::Cases()) {
      if (std::string_view(c.name).starts_with(words)) moka::Time(c, count > 1 ? std::atoi(arguments[1]) : 11);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// GFLOP/s of the matrix products of inner products and recurrent layers: every kernel row of matmul that takes the
// shape as it lies, in turns, medians. Verifies that the rows agree.
// Usage: gemm_bench [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/rng.h"
#include "core/tensor.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/catalog.h"

namespace moka {
namespace {

struct Case {
  const char* name;
  int64_t m, k, n;
  bool transpose_a, transpose_b;
};

constexpr Case kCases[] = {
    {"lstm input", 1280, 512, 2048, false, true},   {"lstm data gradient", 1280, 2048, 512, false, false},
    {"lstm weights", 2048, 1280, 512, true, false}, {"scores", 1280, 512, 8000, false, true},
    {"scores data", 1280, 8000, 512, false, false}, {"scores weights", 8000, 1280, 512, true, false},
    {"fc6 weights", 4096, 64, 9216, true, false},   {"fc7 weights", 4096, 64, 4096, true, false},
    {"fc6", 64, 9216, 4096, false, true},           {"fc6 data", 64, 4096, 9216, false, false},
};

OwnedTensor Random(const Shape& shape, uint64_t stream) {
  OwnedTensor tensor(TensorType{DType::kFloat32, shape, {}});
  RandomStream random(1, stream);
  for (float& v : tensor.as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  return tensor;
}

struct Row {
  const KernelDef* def;
  std::unique_ptr<Kernel> kernel;
  OwnedTensor y;
  Buffer scratch;
  std::vector<double> ms;
};

void Time(const Case& c, int rounds) {
  Graph graph(StandardCatalog());
  const OwnedTensor a = Random(c.transpose_a ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1);
  const OwnedTensor b = Random(c.transpose_b ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2);
  const std::vector<TensorType> inputs{a.type(), b.type()};
  const std::vector<ValueId> ids{graph.AddInput("a", a.type()), graph.AddInput("b", b.type())};
  const Node& node = graph.AddNode("matmul", ids, {{"transpose_a", c.transpose_a}, {"transpose_b", c.transpose_b}}, {});
  const std::vector<TensorType> outputs = graph.OutputTypes(node);
  const KernelQuery query{node, inputs, outputs};
  std::vector<Row> rows;
  for (const KernelDef* def : StandardCatalog().KernelsOf("matmul", DeviceKind::kCpu)) {
    if (!def->refuse(query).empty()) continue;
    rows.push_back({def, def->make(query), OwnedTensor(outputs[0]), {}, {}});
    Row& row = rows.back();
    row.scratch = Buffer::Allocate(row.kernel->scratch_bytes());
    const Tensor in[] = {a.tensor(), b.tensor()};
    const Tensor out[] = {row.y.tensor()};
    row.kernel->Bind({in, out, row.scratch.data()});
    row.kernel->Run();
  }
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      const auto begin = std::chrono::steady_clock::now();
      row.kernel->Run();
      row.ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::printf("%-20s %5ld x %5ld x %5ld", c.name, static_cast<long>(c.m), static_cast<long>(c.k),
              static_cast<long>(c.n));
  for (Row& row : rows) {
    std::ranges::sort(row.ms);
    const double ms = row.ms[row.ms.size() / 2];
    std::printf("  %s %.3f ms %.0f GFLOP/s", row.def->name.c_str(), ms,
                2e-6 * static_cast<double>(c.m * c.k * c.n) / ms);
    for (size_t i = 0; i < row.y.as<float>().size(); ++i) {
      if (std::abs(row.y.as<float>()[i] - rows[0].y.as<float>()[i]) > 1e-4 * std::sqrt(static_cast<double>(c.k))) {
        throw Error(ErrorKind::kInternal, StrCat(c.name, ": the rows do not agree"));
      }
    }
  }
  std::printf("\n");
}

}  // namespace
}  // namespace moka

int main(int count, char** arguments) {
  try {
    for (const moka::Case& c : moka::kCases) moka::Time(c, count > 1 ? std::atoi(arguments[1]) : 11);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

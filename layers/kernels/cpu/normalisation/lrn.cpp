// Local response normalisation over plain float32 tensors, forward and backward (formulas in
// layers/ops/normalisation/lrn.cpp). The window's sum is taken in two moves: down a column of rows, then along the row.
// Across channels a row is a channel's plane and there is no second move; within a channel rows are the plane's own and
// both moves have the same length.
#include <algorithm>
#include <cmath>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

struct Plan {
  int64_t columns = 1;  // independent columns of rows
  int64_t rows = 1;     // in a column
  int64_t width = 1;    // elements a row
  int64_t down = 0;     // rows on either side of an element's own
  int64_t along = 0;    // elements on either side
  float factor = 0;     // alpha / elements of the window
  float beta = 0;
  float k = 0;

  int64_t Count() const { return columns * rows * width; }
};

// Across channels a "row" is a channel's plane, so the window runs down the rows; within a channel it runs both ways.
Plan ReadPlan(const Attributes& attributes, const Shape& x) {
  const int64_t half = attributes.Int("size") / 2;
  const int rank = x.rank();
  Plan plan;
  plan.beta = static_cast<float>(attributes.Float("beta"));
  plan.k = static_cast<float>(attributes.Float("k"));
  double elements = static_cast<double>(attributes.Int("size"));
  plan.down = half;
  if (attributes.String("region") == "across") {
    plan.columns = x[0];
    plan.rows = x[1];
    plan.width = x.Count(2, rank);
  } else {
    plan.rows = rank == 4 ? x[2] : 1;
    plan.width = x[rank - 1];
    plan.columns = x[0] * x[1];
    plan.along = half;
    if (rank == 4) elements *= elements;
  }
  plan.factor = static_cast<float>(attributes.Float("alpha") / elements);
  return plan;
}

// s^-beta; 0.75 is every published network's.
float Power(float s, float beta) {
  if (beta == 0.75F) {
    const float root = std::sqrt(s);
    return 1.0F / (root * std::sqrt(root));
  }
  return std::pow(s, -beta);
}

// The backward pass is two passes with a barrier between them, as the second reads the terms of its neighbours.
class LrnKernel final : public BoundKernel {
 public:
  LrnKernel(const Plan& plan, bool backward) : p_(plan), backward_(backward) {}
  // Column sums of every row and, backward, the terms of the second sum.
  int64_t scratch_bytes() const override { return p_.Count() * (backward_ ? 8 : 4); }

  void Run() override {
    auto* sums = scratch<float>();
    if (!backward_) {
      ForRows([&](int64_t column, int64_t row, int64_t at) { Forward(column, row, at, sums + at); });
      return;
    }
    auto* terms = scratch<float>(p_.Count() * 4);
    ForRows([&](int64_t column, int64_t row, int64_t at) { Scale(column, row, at, sums + at, terms + at); });
    ForRows([&](int64_t column, int64_t row, int64_t at) { Subtract(column, row, at, sums + at, terms); });
  }

 private:
  template <class F>
  void ForRows(F&& f) const {
    ParallelFor(p_.columns * p_.rows, 1 + 2048 / std::max<int64_t>(1, p_.width), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) f(r / p_.rows, r % p_.rows, r * p_.width);
    });
  }

  // sums[i] = sum of term(element) over the column of elements around (row, i).
  template <class Term>
  void SumColumns(int64_t column, int64_t row, float* __restrict sums, Term&& term) const {
    std::fill_n(sums, p_.width, 0.0F);
    const int64_t last = std::min(p_.rows - 1, row + p_.down);
    for (int64_t r = std::max<int64_t>(0, row - p_.down); r <= last; ++r) {
      const int64_t at = (column * p_.rows + r) * p_.width;
      for (int64_t i = 0; i < p_.width; ++i) sums[i] += term(at + i);
    }
  }
  // The sum of sums[] around i.
  float SumAlong(const float* sums, int64_t i) const {
    if (p_.along == 0) return sums[i];
    float sum = 0;
    const int64_t last = std::min(p_.width - 1, i + p_.along);
    for (int64_t j = std::max<int64_t>(0, i - p_.along); j <= last; ++j) sum += sums[j];
    return sum;
  }

  void Forward(int64_t column, int64_t row, int64_t at, float* sums) const {
    const float* x = in<float>(0);
    auto* y = out<float>(0);
    SumColumns(column, row, sums, [&](int64_t j) { return x[j] * x[j]; });
    for (int64_t i = 0; i < p_.width; ++i) {
      y[at + i] = x[at + i] * Power(p_.k + p_.factor * SumAlong(sums, i), p_.beta);
    }
  }
  // dx = dy * s^-beta, terms = dy * x * s^(-beta-1).
  void Scale(int64_t column, int64_t row, int64_t at, float* sums, float* terms) const {
    const float* x = in<float>(0);
    const float* dy = in<float>(1);
    auto* dx = out<float>(0);
    SumColumns(column, row, sums, [&](int64_t j) { return x[j] * x[j]; });
    for (int64_t i = 0; i < p_.width; ++i) {
      const float s = p_.k + p_.factor * SumAlong(sums, i);
      dx[at + i] = dy[at + i] * Power(s, p_.beta);
      terms[i] = dx[at + i] * x[at + i] / s;
    }
  }
  // dx -= 2 * factor * beta * x * (sum of terms over the window).
  void Subtract(int64_t column, int64_t row, int64_t at, float* sums, const float* terms) const {
    const float* x = in<float>(0);
    auto* dx = out<float>(0);
    SumColumns(column, row, sums, [&](int64_t j) { return terms[j]; });
    const float factor = 2 * p_.factor * p_.beta;
    for (int64_t i = 0; i < p_.width; ++i) dx[at + i] -= factor * x[at + i] * SumAlong(sums, i);
  }

  Plan p_;
  bool backward_;
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  if (query.node.attributes.String("region") == "within" && query.inputs[0].shape.rank() > 4) {
    return "a region within channels has one or two spatial dimensions";
  }
  return RefuseUnlessPlain(query);
}

template <bool kBackward>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<LrnKernel>(ReadPlan(query.node.attributes, query.inputs[0].shape), kBackward);
}

}  // namespace

KernelDef MokaLrn() { return {.name = "moka", .op = "lrn", .refuse = Refuse, .make = Make<false>, .turn = 1}; }

KernelDef MokaLrnBackward() {
  return {.name = "moka", .op = "lrn_backward", .refuse = Refuse, .make = Make<true>, .turn = 1};
}

}  // namespace moka

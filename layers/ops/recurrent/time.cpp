// Sequences side by side in [T,N,..]: their lengths from marks, and each turned round within its length.
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferLength(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("sequence_length", in, 1, 1);
  const Shape& marks = in[0].shape;
  if (marks.rank() != 2) {
    throw Error(ErrorKind::kConfig, StrCat("sequence_length: the marks must be [T,N], found ", marks.ToString()));
  }
  return {PlainType(DType::kFloat32, {marks[1]})};
}

void ReferenceLength(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& marks = in[0].type.shape;
  for (int64_t n = 0; n < marks[1]; ++n) {
    int64_t t = 1;
    // A mark rounds to 0 where the next sequence, or the padding, begins; the first step's mark says nothing.
    while (t < marks[0] && std::abs(in[0].values[static_cast<size_t>(t * marks[1] + n)] + 0.5) >= 1) ++t;
    out[0].values[static_cast<size_t>(n)] = static_cast<double>(std::min(t, marks[0]));
  }
}

std::vector<TensorType> InferReverse(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("reverse_time", in, 2, 2);
  const Shape& x = in[0].shape;
  if (x.rank() < 2) {
    throw Error(ErrorKind::kConfig, StrCat("reverse_time: x must be [T,N,..], found ", x.ToString()));
  }
  CheckShape("reverse_time", "length", in[1].shape, {x[1]}, "one a sequence");
  return {PlainType(in[0].dtype, x)};
}

void ReferenceReverse(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const bool copies = attributes.Bool("copy_remaining");
  const int64_t inner = x.Count(2, x.rank());
  const auto row = [&](int64_t t, int64_t n) { return (t * x[1] + n) * inner; };
  for (int64_t n = 0; n < x[1]; ++n) {
    const double given = in[1].values[static_cast<size_t>(n)];
    const int64_t length = given >= 1 ? static_cast<int64_t>(std::min(given, static_cast<double>(x[0]))) : 0;
    for (int64_t t = 0; t < x[0]; ++t) {
      const int64_t from = row(t < length ? length - 1 - t : t, n);
      for (int64_t i = 0; i < inner; ++i) {
        const bool is_set = t < length || copies;
        out[0].values[static_cast<size_t>(row(t, n) + i)] = is_set ? in[0].values[static_cast<size_t>(from + i)] : 0;
      }
    }
  }
}

void GradientReverse(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().Add1("reverse_time", {c.dy(0), c.x(1)}, c.attributes()));
}

}  // namespace

OpDef SequenceLengthOp() {
  return {.name = "sequence_length",
          .doc = "marks [T,N] -> length [N]: the steps before the first mark after step 0 that rounds to 0.",
          .attributes = {},
          .infer = InferLength,
          .reference = ReferenceLength,
          .precision = Precision::kKeep32,
          .cases = [] {
            return std::vector<OpCase>{{"marks", {Float32({5, 6})}, {}, 0, 1, {{0, 0, 1}}},
                                       {"one_step", {Float32({1, 2})}, {}, 0, 1, {{0, 0, 1}}}};
          }};
}

OpDef ReverseTimeOp() {
  return {.name = "reverse_time",
          .doc = "(x [T,N,..], length [N]) -> y like x: the first length steps of each sequence turned round.",
          .attributes = {{"copy_remaining", false, "whether the steps after them are copied, else 0"}},
          .infer = InferReverse,
          .reference = ReferenceReverse,
          .gradient = GradientReverse,
          .precision = Precision::kKeep32,
          .cases = [] {
            const std::vector<OpCase::Range> lengths = {{1, 0, 5}};
            const auto copies = [](bool value) { return Attributes{{"copy_remaining", value}}; };
            return std::vector<OpCase>{{"zeros", {Float32({5, 4, 2}), Float32({4})}, copies(false), -1, 1, lengths},
                                       {"copies", {Float32({5, 4}), Float32({4})}, copies(true), -1, 1, lengths}};
          }};
}

}  // namespace moka

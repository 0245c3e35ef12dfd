// Constants that are calculated. Floats are calculated in double and rounded to float32 once; whole numbers wrap as
// ONNX's int64 do, and are divided towards zero.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/size.h"
#include "core/text.h"
#include "proto/onnx.pb.h"
#include "tools/exchange/import/fold.h"

namespace moka {
namespace {

using Tensors = std::vector<OnnxTensor>;

constexpr int64_t kStepsAnElement = 64;  // of a product's sum, as long as an element of the budget

int64_t Wrapped(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

// Places of the operands of each element of the result.
std::vector<std::pair<int64_t, int64_t>> Pairs(const Folded& f, const Ints& dims) {
  const auto places = [&](size_t i) {
    Ints list;
    ForEachPlace(dims, StepsIn(f.x(i).dims, dims.size()), 0, [&](int64_t place) { list.push_back(place); });
    return list;
  };
  const Ints left = places(0);
  const Ints right = places(1);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  pairs.reserve(left.size());
  for (size_t i = 0; i < left.size(); ++i) pairs.emplace_back(left[i], right[i]);
  return pairs;
}

using OfFloats = double (*)(double, double);
using OfInts = int64_t (*)(int64_t, int64_t);

// Two operands of one kind; a comparison gives whole numbers.
Tensors Binary(const Folded& f, OfFloats floats, OfInts ints, bool compares = false) {
  const OnnxTensor& a = f.x(0);
  const OnnxTensor& b = f.x(1);
  if (a.is_whole != b.is_whole || f.in.size() != 2) RefuseFold("its inputs are of different types");
  if (a.is_whole ? ints == nullptr : floats == nullptr) RefuseFold("its inputs are of a type that ONNX does not allow");
  OnnxTensor y{.name = {}, .dims = BroadcastDims(a.dims, b.dims), .is_whole = a.is_whole || compares};
  f.budget.Take(3 * CountOf(y.dims));
  for (const auto& [i, j] : Pairs(f, y.dims)) {
    const auto left = static_cast<size_t>(i);
    const auto right = static_cast<size_t>(j);
    if (a.is_whole) {
      y.ints.push_back(ints(a.ints[left], b.ints[right]));
    } else {
      const double value = floats(a.floats[left], b.floats[right]);
      if (compares) y.ints.push_back(static_cast<int64_t>(value));
      if (!compares) y.floats.push_back(static_cast<float>(value));
    }
  }
  return {std::move(y)};
}

Tensors FoldAdd(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return a + b; }, [](int64_t a, int64_t b) { return Wrapped(Bits(a) + Bits(b)); });
}
Tensors FoldSub(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return a - b; }, [](int64_t a, int64_t b) { return Wrapped(Bits(a) - Bits(b)); });
}
Tensors FoldMul(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return a * b; }, [](int64_t a, int64_t b) { return Wrapped(Bits(a) * Bits(b)); });
}

int64_t Quotient(int64_t a, int64_t b) {
  if (b == 0) RefuseFold("it divides by 0");
  return b == -1 ? Wrapped(-Bits(a)) : a / b;
}

Tensors FoldDiv(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return a / b; }, Quotient);
}

// As Python's, of the sign of the divisor; fmod of floats.
Tensors FoldMod(const Folded& f) {
  if (f.attributes().Int("fmod", 0) != 0) return Binary(f, std::fmod, nullptr);
  return Binary(f, nullptr, [](int64_t a, int64_t b) {
    if (b == 0) RefuseFold("it divides by 0");
    const int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  });
}

Tensors FoldPow(const Folded& f) {
  if (!f.x(0).is_whole && f.x(1).is_whole) {
    OnnxTensor power{.name = {}, .dims = f.x(1).dims};
    for (const int64_t value : f.x(1).ints) power.floats.push_back(static_cast<float>(value));
    Folded floats = f;
    floats.in[1] = &power;
    return Binary(floats, std::pow, nullptr);
  }
  return Binary(f, std::pow, nullptr);
}

Tensors FoldMin(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return std::min(a, b); }, [](int64_t a, int64_t b) { return std::min(a, b); });
}
Tensors FoldMax(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return std::max(a, b); }, [](int64_t a, int64_t b) { return std::max(a, b); });
}

template <class Less>
Tensors Comparison(const Folded& f) {
  return Binary(
      f, [](double a, double b) { return Less()(a, b) ? 1.0 : 0.0; },
      [](int64_t a, int64_t b) -> int64_t { return Less()(a, b) ? 1 : 0; }, true);
}

Tensors FoldAnd(const Folded& f) {
  return Binary(f, nullptr, [](int64_t a, int64_t b) -> int64_t { return a != 0 && b != 0 ? 1 : 0; });
}
Tensors FoldOr(const Folded& f) {
  return Binary(f, nullptr, [](int64_t a, int64_t b) -> int64_t { return a != 0 || b != 0 ? 1 : 0; });
}

using OneFloat = double (*)(double);
using OneInt = int64_t (*)(int64_t);

Tensors Unary(const Folded& f, OneFloat floats, OneInt ints) {
  OnnxTensor y = f.x(0);
  if (y.is_whole ? ints == nullptr : floats == nullptr) RefuseFold("its input is of a type that ONNX does not allow");
  f.budget.Take(CountOf(y.dims));
  for (int64_t& value : y.ints) value = ints(value);
  for (float& value : y.floats) value = static_cast<float>(floats(value));
  return {std::move(y)};
}

Tensors FoldNeg(const Folded& f) {
  return Unary(
      f, [](double x) { return -x; }, [](int64_t x) { return Wrapped(-Bits(x)); });
}
Tensors FoldAbs(const Folded& f) {
  return Unary(
      f, [](double x) { return std::abs(x); }, [](int64_t x) { return x < 0 ? Wrapped(-Bits(x)) : x; });
}
Tensors FoldNot(const Folded& f) {
  return Unary(f, nullptr, [](int64_t x) -> int64_t { return x == 0 ? 1 : 0; });
}
Tensors FoldSqrt(const Folded& f) { return Unary(f, std::sqrt, nullptr); }
Tensors FoldExp(const Folded& f) { return Unary(f, std::exp, nullptr); }
Tensors FoldLog(const Folded& f) { return Unary(f, std::log, nullptr); }
Tensors FoldFloor(const Folded& f) { return Unary(f, std::floor, nullptr); }
Tensors FoldCeil(const Folded& f) { return Unary(f, std::ceil, nullptr); }
Tensors FoldReciprocal(const Folded& f) {
  return Unary(
      f, [](double x) { return 1 / x; }, nullptr);
}
Tensors FoldSigmoid(const Folded& f) {
  return Unary(
      f, [](double x) { return 1 / (1 + std::exp(-x)); }, nullptr);
}
Tensors FoldRelu(const Folded& f) {
  return Unary(
      f, [](double x) { return std::max(x, 0.0); }, nullptr);
}

// Floats as whole numbers are cut towards zero; what has no such number is refused.
int64_t Cut(float value) {
  constexpr double kLimit = 9.2e18;
  const auto wide = static_cast<double>(value);
  if (!(wide > -kLimit && wide < kLimit)) RefuseFold(StrCat("it makes a whole number of ", wide));
  return static_cast<int64_t>(wide);
}

int64_t Narrowed(int64_t value, int type) {
  switch (type) {
    case onnx::TensorProto::INT64: return value;
    case onnx::TensorProto::INT32: return static_cast<int32_t>(value);
    case onnx::TensorProto::BOOL: return value != 0 ? 1 : 0;
    default: RefuseFold(StrCat("it casts a constant to type ", type));
  }
}

Tensors FoldCast(const Folded& f) {
  const auto to = static_cast<int>(f.attributes().Int("to", 0));
  const OnnxTensor& x = f.x(0);
  OnnxTensor y{.name = x.name, .dims = x.dims};
  f.budget.Take(CountOf(y.dims));
  const bool is_float = to == onnx::TensorProto::FLOAT || to == onnx::TensorProto::DOUBLE ||
                        to == onnx::TensorProto::FLOAT16 || to == onnx::TensorProto::BFLOAT16;
  y.is_whole = !is_float;
  if (is_float && !x.is_whole) y.floats = x.floats;
  for (const int64_t value : x.ints) {
    if (is_float) y.floats.push_back(static_cast<float>(value));
    if (!is_float) y.ints.push_back(Narrowed(value, to));
  }
  if (is_float) return {std::move(y)};
  for (const float value : x.floats)
    y.ints.push_back(to == onnx::TensorProto::BOOL ? int64_t{value != 0} : Narrowed(Cut(value), to));
  return {std::move(y)};
}

// The condition picks one of two constants for each element.
Tensors FoldWhere(const Folded& f) {
  const OnnxTensor& c = f.x(0);
  const OnnxTensor& a = f.x(1);
  const OnnxTensor& b = f.x(2);
  if (!c.is_whole || a.is_whole != b.is_whole) RefuseFold("its inputs are of types that ONNX does not allow");
  OnnxTensor y{.name = {}, .dims = BroadcastDims(BroadcastDims(c.dims, a.dims), b.dims), .is_whole = a.is_whole};
  const auto spread = [&](const OnnxTensor& x) {
    return Taken(x, y.dims, StepsIn(x.dims, y.dims.size()), 0, f.budget);
  };
  const OnnxTensor choice = spread(c);
  const OnnxTensor left = spread(a);
  const OnnxTensor right = spread(b);
  for (size_t i = 0; i < choice.ints.size(); ++i) {
    const bool is_left = choice.ints[i] != 0;
    if (y.is_whole) y.ints.push_back(is_left ? left.ints[i] : right.ints[i]);
    if (!y.is_whole) y.floats.push_back(is_left ? left.floats[i] : right.floats[i]);
  }
  return {std::move(y)};
}

Tensors FoldRange(const Folded& f) {
  for (size_t i = 0; i < 3; ++i) {
    if (!f.x(i).is_whole || CountOf(f.x(i).dims) != 1) RefuseFold("its bounds are no whole numbers");
  }
  const int64_t begin = f.x(0).ints[0];
  const int64_t end = f.x(1).ints[0];
  const int64_t step = f.x(2).ints[0];
  if (step == 0) RefuseFold("its step is 0");
  const double count = std::ceil((static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step));
  if (count > 1e9) RefuseFold("it has too many numbers");
  const auto n = static_cast<int64_t>(std::max(0.0, count));
  f.budget.Take(n);
  Ints values;
  for (int64_t i = 0; i < n; ++i) values.push_back(Wrapped(Bits(begin) + Bits(i) * Bits(step)));
  return {WholeTensor({n}, std::move(values))};
}

// The product of whole numbers: a size that is made of dimensions.
Tensors FoldReduceProd(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  const bool is_all = !ListOf(f, 1, "axes") || x.dims.size() == 1;
  if (!x.is_whole || !is_all) RefuseFold("it multiplies constants along some axes");
  int64_t product = 1;
  for (const int64_t value : x.ints) product = Wrapped(Bits(product) * Bits(value));
  const bool keeps = f.attributes().Int("keepdims", 1) != 0;
  return {WholeTensor(keeps ? Ints(x.dims.size(), 1) : Ints{}, {product})};
}

// [..,M,K] times [K,N].
Tensors FoldMatMul(const Folded& f) {
  const OnnxTensor& a = f.x(0);
  const OnnxTensor& b = f.x(1);
  const bool fits = !a.is_whole && !b.is_whole && !a.dims.empty() && b.dims.size() == 2 && a.dims.back() == b.dims[0];
  if (!fits) RefuseFold("its constants are no matrices that go together");
  const int64_t inner = b.dims[0];
  const int64_t columns = b.dims[1];
  OnnxTensor y{.name = {}, .dims = a.dims};
  y.dims.back() = columns;
  const int64_t rows = inner == 0 ? 0 : CountOf(a.dims) / inner;
  f.budget.Take((Size(rows) * columns * std::max<int64_t>(1, inner / kStepsAnElement)).value());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += static_cast<double>(a.floats[static_cast<size_t>(i * inner + k)]) *
               static_cast<double>(b.floats[static_cast<size_t>(k * columns + j)]);
      }
      y.floats.push_back(static_cast<float>(sum));
    }
  }
  return {std::move(y)};
}

constexpr FoldRow kNumbers[] = {{"Add", FoldAdd},
                                {"MatMul", FoldMatMul},
                                {"Sub", FoldSub},
                                {"Mul", FoldMul},
                                {"Div", FoldDiv},
                                {"Mod", FoldMod},
                                {"Pow", FoldPow},
                                {"Min", FoldMin},
                                {"Max", FoldMax},
                                {"Equal", Comparison<std::equal_to<>>},
                                {"Less", Comparison<std::less<>>},
                                {"LessOrEqual", Comparison<std::less_equal<>>},
                                {"Greater", Comparison<std::greater<>>},
                                {"GreaterOrEqual", Comparison<std::greater_equal<>>},
                                {"And", FoldAnd},
                                {"Or", FoldOr},
                                {"Not", FoldNot},
                                {"Neg", FoldNeg},
                                {"Abs", FoldAbs},
                                {"Sqrt", FoldSqrt},
                                {"Exp", FoldExp},
                                {"Log", FoldLog},
                                {"Floor", FoldFloor},
                                {"Ceil", FoldCeil},
                                {"Reciprocal", FoldReciprocal},
                                {"Sigmoid", FoldSigmoid},
                                {"Relu", FoldRelu},
                                {"Cast", FoldCast},
                                {"Where", FoldWhere},
                                {"Range", FoldRange},
                                {"ReduceProd", FoldReduceProd}};

}  // namespace

std::span<const FoldRow> FoldNumbers() { return kNumbers; }

}  // namespace moka

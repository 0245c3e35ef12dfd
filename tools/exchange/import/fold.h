// Nodes of ONNX whose inputs are all constants, computed: shapes that a graph computes for its Reshapes, weights that
// are turned, scalars. Numbers are float32, computed in double, or int64; truth values are int64.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/onnx.pb.h"
#include "tools/exchange/import/node_attributes.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

// A limit of what is computed: a hostile file repeats small constants until memory ends.
class FoldBudget {
 public:
  explicit FoldBudget(int64_t elements) : left_(elements) {}
  // Errors: kConfig when these elements are more than are left.
  void Take(int64_t elements);

 private:
  int64_t left_;
};

// A node that is computed. Inputs that are left out are null.
struct Folded {
  const onnx::NodeProto& node;
  int64_t opset;
  std::vector<const OnnxTensor*> in;
  FoldBudget& budget;

  NodeAttributes attributes() const { return NodeAttributes(node); }
  // Errors: kConfig if there is no such input.
  const OnnxTensor& x(size_t i) const;
  bool Has(size_t i) const { return i < in.size() && in[i] != nullptr; }
};

// An op that can be computed: a row of fold_levels.cpp, fold_moves.cpp or fold_numbers.cpp.
using FoldFunction = std::vector<OnnxTensor> (*)(const Folded&);
struct FoldRow {
  const char* type;
  FoldFunction fold;
};
std::span<const FoldRow> FoldLevels();
std::span<const FoldRow> FoldMoves();
std::span<const FoldRow> FoldNumbers();

// Nothing for an op that is not computed here. Errors: kConfig for what ONNX does not allow.
std::optional<std::vector<OnnxTensor>> Fold(const Folded& node);
// Whether it would be computed, were its inputs constants.
bool IsFolded(const onnx::NodeProto& node);

// Shared by the files of rows, and by the rules of shapes.

// Errors: kConfig with the reason.
[[noreturn]] void RefuseFold(const std::string& why);
int64_t CountOf(const Ints& dims);
// The steps in memory, of elements, along each axis of `dims`. Errors: kBadData for more than 2^63.
Ints StepsOf(const Ints& dims);
// The same of `dims` seen in the `rank` axes of a larger tensor: 0 where it is repeated.
Ints StepsIn(const Ints& dims, size_t rank);
// The shape of which both are parts by broadcasting. Errors: kConfig.
Ints BroadcastDims(const Ints& a, const Ints& b);
// Calls with the place of each element of `dims` in a tensor that has these steps, in row-major order.
void ForEachPlace(const Ints& dims, const Ints& steps, int64_t first, const std::function<void(int64_t)>& call);
// A tensor of the elements of x that lie at these places.
OnnxTensor Taken(const OnnxTensor& x, Ints dims, const Ints& steps, int64_t first, FoldBudget& budget);
OnnxTensor WholeTensor(Ints dims, Ints values);
// 0 <= axis < rank. Errors: kConfig.
int64_t AxisIn(int64_t axis, size_t rank);
// A list of whole numbers that is given as input i from some opset on, as an attribute before; nothing if neither is.
std::optional<Ints> ListOf(const Folded& f, size_t i, std::string_view attribute);

}  // namespace moka

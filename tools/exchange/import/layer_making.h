// Layers that many rows make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/exchange/import/onnx_import_op.h"

namespace moka {

LayerParameter LayerOf(const char* type);
// y = the text over x0, x1, .. (layers/types/maths/formula.md).
LayerParameter FormulaOf(const std::string& text);
// The fewest digits that give the float, in brackets if it is negative, as formulas have numbers. Errors: kConfig for
// what is no number.
std::string NumberText(float value);

// Gives the blob other dimensions. Errors: kConfig if they hold another number of elements.
std::string Reshaped(ImportNode& node, const std::string& blob, const Ints& dims);
// Permutes its axes: axis i of the result is axis perm[i].
std::string Permuted(ImportNode& node, const std::string& blob, const Ints& perm);
// The same as the node's output.
void GiveReshaped(ImportNode& node, const std::string& blob, const Ints& dims);
void GivePermuted(ImportNode& node, const std::string& blob, const Ints& perm);
// The blob is the node's output.
void GiveBlob(ImportNode& node, const std::string& blob, int output = 0);

// A scalar constant's value; nothing for any other value. Errors: kConfig for a whole number that no float is.
std::optional<float> ScalarOf(const OnnxConstant& constant);
// Input i as a list of whole numbers, from opset `since` on, or the attribute before; nothing if neither is there.
// Errors: kConfig for a list that is computed.
std::optional<Ints> ListAt(const ImportNode& node, int i, std::string_view attribute);

// Where a constant lies in a blob: x's axes [axis, axis + count) as Scale and Bias have them.
struct OperandAxes {
  int axis = 0;
  int count = 0;
  Shape shape;
};
// Nothing for a constant that is repeated in another way.
std::optional<OperandAxes> OperandAxesOf(const Ints& x, const OnnxTensor& constant);

}  // namespace moka

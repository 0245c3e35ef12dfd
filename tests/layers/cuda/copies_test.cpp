// Copies on the rehearsed GPU over random shapes and layouts, element for element: transpositions go through tiles,
// whose edges few of the catalogue's small cases reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/text.h"
#include "layers/net/catalog.h"
#include "tests/layers/kernel_run.h"

namespace moka {
namespace {

constexpr DType kWidths[] = {DType::kUInt8, DType::kInt8,    DType::kFloat16, DType::kBFloat16,
                             DType::kInt32, DType::kFloat32, DType::kInt64,   DType::kFloat64};

// Values that differ from those of near elements in every type.
RefTensor Numbered(const TensorType& type, int64_t first = 0) {
  RefTensor x{type, {}};
  const int64_t most = BytesOf(type.dtype) == 1 || type.dtype == DType::kBFloat16 ? 127 : 2039;
  for (int64_t i = 0; i < type.shape.Count(); ++i) x.values.push_back(static_cast<double>((first + i) % most));
  return x;
}

// Expects the op's reference of its only row under these layouts, exactly.
void ExpectCopied(const char* op_name, const OpCase& op_case, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs) {
  const Device device{DeviceKind::kCuda, Device::kRehearsed};
  const OpDef& op = StandardCatalog().Op(op_name);
  const OpGraph built = BuildOp(op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  Variant variant{"", built.graph.InputTypes(node), built.graph.OutputTypes(node)};
  std::vector<RefTensor> values;
  for (const TensorType& x : variant.inputs) values.push_back(Numbered(x, static_cast<int64_t>(values.size()) * 31));
  const auto expected = RunReference(op, node.attributes, values, variant.outputs);
  for (size_t i = 0; i < inputs.size(); ++i) variant.inputs[i].layout = Layout::Parse(inputs[i]);
  for (size_t o = 0; o < outputs.size(); ++o) variant.outputs[o].layout = Layout::Parse(outputs[o]);
  const KernelDef& kernel = *StandardCatalog().KernelsOf(op_name, DeviceKind::kCuda).front();
  const auto found = KernelRun(kernel, node, variant, values, device).Run();
  for (size_t o = 0; o < expected.size(); ++o) {
    EXPECT_EQ(found[o].values, expected[o].values) << op_name << " to " << variant.outputs[o].ToString();
  }
}

class CopyTest : public testing::Test {
 protected:
  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Shape RandomShape(int rank) {
    Shape shape;
    int64_t room = 40000;
    for (int i = 0; i < rank; ++i) {
      shape = shape.Inserted(i, Between(1, std::min<int64_t>(room, 75)));
      room /= shape[i];
    }
    return shape;
  }
  // A permutation of 0 .. rank-1.
  Ints RandomOrder(int rank) {
    Ints order;
    for (int i = 0; i < rank; ++i) order.push_back(i);
    std::ranges::shuffle(order, random_);
    return order;
  }
  std::string RandomLayout(int rank) {
    std::string name;
    for (const int64_t axis : RandomOrder(rank)) name += static_cast<char>('a' + axis);
    return name;
  }

 private:
  std::mt19937 random_{7};
};

TEST_F(CopyTest, TransposesOfRandomShapesAndWidths) {
  for (int round = 0; round < 160; ++round) {
    const int rank = static_cast<int>(Between(2, 5));
    const DType dtype = kWidths[round % 8];
    ExpectCopied("transpose",
                 {.name = "", .inputs = {{dtype, RandomShape(rank), {}}}, .attributes = {{"perm", RandomOrder(rank)}}},
                 {RandomLayout(rank)}, {RandomLayout(rank)});
  }
}

TEST_F(CopyTest, ReordersBetweenPlainAndChannelsLast) {
  for (int round = 0; round < 80; ++round) {
    const DType dtype = kWidths[round % 8];
    const OpCase op_case{.name = "",
                         .inputs = {{dtype, RandomShape(4), {}}},
                         .attributes = {{"layout", std::string("acdb")}}};  // the layout pass sets the types
    ExpectCopied("reorder", op_case, {"abcd"}, {"acdb"});
    ExpectCopied("reorder", op_case, {"acdb"}, {"abcd"});
  }
}

// The parts of a whole that lies otherwise: tiles that start inside a tensor, with gaps between their rows.
TEST_F(CopyTest, PartsThatLieOtherwiseThanTheWhole) {
  for (int round = 0; round < 40; ++round) {
    const Shape first = RandomShape(4);
    const auto axis = Between(0, 3);
    const Shape second = first.With(static_cast<int>(axis), Between(1, 20));
    const std::vector<TensorType> parts = {{DType::kFloat32, first, {}}, {DType::kFloat32, second, {}}};
    ExpectCopied("concat", {.name = "", .inputs = parts, .attributes = {{"axis", axis}}}, {"abcd", "acdb"},
                 {RandomLayout(4)});
  }
}

}  // namespace
}  // namespace moka

// Choices by sorting on the rehearsed GPU against the ops' references, over lengths and ties that the catalogue's small
// cases do not have.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/text.h"
#include "layers/net/catalog.h"
#include "tests/layers/kernel_run.h"

namespace moka {
namespace {

class SelectionTest : public testing::Test {
 protected:
  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  // Few values, so that many are equal, and those that no order of numbers has.
  std::vector<double> WithTies(int64_t count) {
    const int64_t most = Between(1, count);
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t pick = Between(0, 40);
      values.push_back(pick == 0   ? std::nan("")
                       : pick == 1 ? INFINITY
                       : pick == 2 ? -INFINITY
                       : pick == 3 ? -0.0
                       : pick == 4 ? 0.0
                                   : static_cast<double>(Between(-most, most)) / 8);
    }
    return values;
  }
  static void ExpectReference(const char* op_name, const OpCase& op_case, DType dtype,
                              const std::vector<std::vector<double>>& values) {
    SCOPED_TRACE(StrCat(op_name, " of ", op_case.inputs[0].ToString(), " as ", NameOf(dtype)));
    const Device device{DeviceKind::kCuda, Device::kRehearsed};
    const OpDef& op = StandardCatalog().Op(op_name);
    const OpGraph built = BuildOp(op, op_case, dtype, WholeInputs::kFloat32);
    const Node& node = built.graph.node(built.node);
    const Variant variant{"", built.graph.InputTypes(node), built.graph.OutputTypes(node)};
    std::vector<RefTensor> inputs;
    for (size_t i = 0; i < values.size(); ++i) {
      const TensorType& type = variant.inputs[i];
      inputs.push_back(FromTensor(ToTensor({type, values[i]}, type).tensor()));
    }
    const auto expected = RunReference(op, node.attributes, inputs, variant.outputs);
    const KernelDef& kernel = *StandardCatalog().KernelsOf(op_name, DeviceKind::kCuda).front();
    EXPECT_EQ(KernelRun(kernel, node, variant, inputs, device).Run()[0].values, expected[0].values);
  }
  static constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

 private:
  std::mt19937 random_{11};
};

TEST_F(SelectionTest, TopKMasksOfAnyLength) {
  for (int round = 0; round < 80; ++round) {
    const Shape shape{Between(1, 3), Between(1, round % 4 == 0 ? 3000 : 150), Between(1, 3)};
    const OpCase op_case{.name = "",
                         .inputs = {{DType::kFloat32, shape, {}}},
                         .attributes = {{"axis", int64_t{1}}, {"k", Between(1, shape[1])}}};
    ExpectReference("top_k_mask", op_case, kFloats[round % 4], {WithTies(shape.Count())});
  }
}

TEST_F(SelectionTest, HardExamplesOfManyGroups) {
  for (int round = 0; round < 80; ++round) {
    const Shape shape{Between(1, round % 4 == 0 ? 3000 : 150)};
    const OpCase op_case{.name = "",
                         .inputs = {{DType::kFloat32, shape, {}}, {DType::kFloat32, shape, {}}},
                         .attributes = {{"keep", Between(1, 20)}},
                         .ranges = {{1, -1, 9}}};
    std::vector<double> groups;
    const int64_t most = Between(0, 30);
    for (int64_t i = 0; i < shape[0]; ++i) groups.push_back(static_cast<double>(Between(-8, most * 4)) / 4);
    groups.back() = -0.0;  // the group of 0
    ExpectReference("hard_example_mask", op_case, kFloats[round % 4], {WithTies(shape[0]), groups});
  }
}

TEST_F(SelectionTest, FiltersOfAnyLength) {
  for (int round = 0; round < 40; ++round) {
    const int64_t count = Between(1, round % 2 == 0 ? 2000 : 100);
    const OpCase op_case{.name = "", .inputs = {{DType::kFloat32, Shape{count}, {}}}, .attributes = {}};
    const DType dtype = round % 3 == 0 ? DType::kFloat64 : DType::kFloat32;  // half types hold few indices
    ExpectReference("filter_index", op_case, dtype, {WithTies(count)});
  }
}

}  // namespace
}  // namespace moka

// A net against arrays of another engine: every value is compared, those that are not finite too, and every blob that
// is given, be its value a layer's own or one that it passes on.
#include "tools/check/net_compare.h"

#include <gmock/gmock.h>

#include <cmath>

#include "proto/text/text_format.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr float kNaN = NAN;
constexpr float kInfinity = INFINITY;

using NamedArrays = std::map<std::string, NumpyArray>;

// Two passed-on inputs, a parameter and results, one of them passed on.
constexpr const char* kPassing = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "drop" type: "Dropout" bottom: "data" top: "drop" }
layer { name: "same" type: "Reshape" bottom: "data" top: "same" reshape_param { shape { dim: 1 dim: 4 } } }
layer { name: "held" type: "Parameter" top: "held" parameter_param { shape { dim: 2 } } }
layer { name: "twice" type: "Power" bottom: "drop" top: "twice" power_param { scale: 2 } }
layer { name: "late" type: "Dropout" bottom: "twice" top: "late" }
)";

NetComparison CompareWith(const std::vector<float>& data, NamedArrays more) {
  NetParameter net;
  ParseText(kPassing, "net.prototxt", net);
  more["blob/data"] = {{1, 4}, data};
  more["param/held/0"] = {{2}, {5, 6}};
  CompareOptions options;
  options.state.set_phase(TEST);
  return CompareNet(net, options, more);
}

const BlobDifference& OfBlob(const NetComparison& comparison, const std::string& name) {
  for (const BlobDifference& difference : comparison.differences) {
    if (difference.name == name) return difference;
  }
  ADD_FAILURE() << name << " was not compared";
  static const BlobDifference none;
  return none;
}

TEST(NetCompare, ValuesThatAreNotFiniteHideNoOthers) {
  const std::vector<float> data = {1, kInfinity, kNaN, 3};
  const auto compared = [&](const std::vector<float>& twice) {
    return OfBlob(CompareWith(data, {{"twice", {{1, 4}, twice}}}), "twice");
  };
  const BlobDifference same = compared({2, kInfinity, kNaN, 6});
  EXPECT_EQ(same.problem, "");
  EXPECT_EQ(same.largest, 0);
  const BlobDifference other = compared({2, kInfinity, kNaN, 8});
  EXPECT_EQ(other.problem, "");
  EXPECT_EQ(other.index, 3);
  EXPECT_EQ(other.relative, 0.25);
  EXPECT_EQ(compared({2, kInfinity, 4, 6}).problem, "at 2: nan here, 4 there");
  EXPECT_EQ(compared({2, -kInfinity, kNaN, 6}).problem, "at 1: inf here, -inf there");
  EXPECT_EQ(compared({2, kNaN, kNaN, 6}).problem, "at 1: inf here, nan there");
  EXPECT_EQ(compared({kInfinity, kInfinity, kNaN, 6}).problem, "at 0: 2 here, inf there");
}

TEST(NetCompare, BlobsThatPassAValueOnAreCompared) {
  const std::vector<float> data = {1, 2, 3, 4};
  for (const auto& [name, right] : NamedArrays{{"drop", {{1, 4}, data}},
                                               {"same", {{1, 4}, data}},
                                               {"held", {{2}, {5, 6}}},
                                               {"twice", {{1, 4}, {2, 4, 6, 8}}},
                                               {"late", {{1, 4}, {2, 4, 6, 8}}}}) {
    EXPECT_EQ(OfBlob(CompareWith(data, {{name, right}}), name).largest, 0) << name;
    NumpyArray wrong = right;
    wrong.values[1] += 1;
    const BlobDifference difference = OfBlob(CompareWith(data, {{name, wrong}}), name);
    EXPECT_EQ(difference.largest, 1) << name;
    EXPECT_EQ(difference.index, 1) << name;
  }
  EXPECT_TRUE(CompareWith(data, {}).differences.empty()) << "an input is what it is fed";
}

}  // namespace
}  // namespace moka

// Tables of names between PyTorch and nets: what is no table, and what values become of small nets on the way there and
// back. Whole nets of torchvision are met in tests/tools/scripts/torch_test.py.
#include "tools/exchange/torch_names.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/text.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "tests/proto/errors_of.h"
#include "tools/exchange/torch_import.h"
#include "tools/exchange/torch_weights.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTable =
    "# a comment\n"
    "@module\ttorchvision.models.small\n"
    "@mean\t0.5\t0.25\t0.125\n"
    "@std\t0.25\t0.5\t1\n"
    "\n"
    "conv.weight\tconv/0\trgb\n"
    "bn.weight\tscale/0\n"
    "bn.bias\tscale/1\n"
    "bn.running_mean\tbn/0\n"
    "bn.running_var\tbn/1\n"
    "fc.weight\tfc/0\tclasses\n"
    "fc.bias\tfc/1\tclasses\n";

constexpr const char* kNet = R"(name: "small"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { crop_size: 2 mean_value: 7 scale: 3 } data_param { source: "no" batch_size: 1 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { crop_size: 2 mean_file: "gone" } data_param { source: "no" batch_size: 1 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 2 kernel_size: 1 bias_term: false } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "fc" type: "InnerProduct" bottom: "conv" top: "fc" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
)";

BuiltNet Built(const std::string& text = kNet) {
  NetOptions options;
  options.state.set_phase(TEST);
  options.data_types = GuessDataTypes({{"data", Shape{1, 3, 2, 2}}, {"label", Shape{1}}});
  return BuildNet(NetFromText(text, "net.prototxt"), options);
}

std::vector<float> Counted(int64_t count, float first) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
  return values;
}

// As a file of the table's names holds them.
Weights TorchFile() {
  Weights weights;
  const auto add = [&](const char* name, const Shape& shape, float first) {
    weights.blobs.push_back({name, 0, shape, Counted(shape.Count(), first)});
  };
  add("conv.weight", Shape{2, 3, 1, 1}, 1);
  add("bn.weight", Shape{2}, 20);
  add("bn.bias", Shape{2}, 30);
  add("bn.running_mean", Shape{2}, 40);
  add("bn.running_var", Shape{2}, 50);
  add("fc.weight", Shape{3, 8}, 100);
  add("fc.bias", Shape{3}, 200);
  return weights;
}

const NamedBlob& BlobNamed(const std::vector<NamedBlob>& blobs, const std::string& layer, int index) {
  const auto found =
      std::ranges::find_if(blobs, [&](const NamedBlob& blob) { return blob.layer == layer && blob.index == index; });
  EXPECT_NE(found, blobs.end()) << layer << "/" << index;
  return *found;
}

TEST(TorchNames, TablesAreRead) {
  const TorchNames names = TorchNamesFromText(kTable, "t.tsv");
  EXPECT_EQ(names.module, "torchvision.models.small");
  EXPECT_THAT(names.means, ElementsAre(0.5, 0.25, 0.125));
  ASSERT_EQ(names.rows.size(), 7U);
  EXPECT_EQ(names.rows[0].tensor, "conv.weight");
  EXPECT_EQ(names.rows[0].layer, "conv");
  EXPECT_TRUE(names.rows[0].is_rgb);
  EXPECT_EQ(names.rows[6].index, 1);
  EXPECT_TRUE(names.rows[6].is_of_classes);
  EXPECT_EQ(names.rows[6].line, 12);
  EXPECT_EQ(TorchNamesFromText("@module\tm\r\na\tb/0\r\n", "t.tsv").rows.at(0).layer, "b");
  EXPECT_EQ(TorchNamesFromText("@module\tm\n@differs\tit is deeper\n", "t.tsv").difference, "it is deeper");
}

TEST(TorchNames, WhatIsNoTableIsToldWithItsPlace) {
  struct Case {
    std::string text;
    std::string error;
  };
  const std::string head = "@module\tm\n";
  for (const auto& [text, error] : std::vector<Case>{
           {head + "a\n", "t.tsv:2:1: a row has 2 or 3 columns"},
           {head + "a\tb/0\trgb\tx\n", "t.tsv:2:1: a row has 2 or 3 columns"},
           {head + "a b/0\n", "t.tsv:2:1: a row has 2 or 3 columns"},
           {head + "a\tb\n", "t.tsv:2:9: expected LAYER/INDEX, found b"},
           {head + "a\tb/01\n", "expected LAYER/INDEX, found b/01"},
           {head + "a\tb/-1\n", "expected LAYER/INDEX"},
           {head + "a\tb/0\tclases\n", "t.tsv:2:17: unknown word clases; did you mean \"classes\"?"},
           {head + "a\tb/0\na\tb/1\n", "t.tsv:3:1: \"a\" stands twice"},
           {head + "a\tb/0\nc\tb/0\n", "t.tsv:3:9: blob \"b/0\" stands twice"},
           {head + "\tb/0\n", "t.tsv:2:1: a column is empty"},
           {head + "a \tb/0\n", "has a blank at an end"},
           {head + "@modul\tm\na\tb/0\n", "t.tsv:2:1: unknown word @modul; did you mean \"@module\"?"},
           {head + head, "t.tsv:2:1: @module stands twice"},
           {"@module\na\tb/0\n", "@module wants one column more"},
           {"a\tb/0\n", "no @module"},
           {head, "t.tsv: the table has no rows"},
           {"", "no @module"},
           {head + "@differs\tit does\na\tb/0\n", "has no rows"},
           {head + "@mean\t1\t2\n", "t.tsv:2:1: @mean wants 3 numbers"},
           {head + "@mean\t1\t2\tx\n", "t.tsv:2:25: expected a number, found x"},
           {head + "@std\t1\t0\t1\n", "expected a positive number, found 0"},
           {head + "@mean\t1\t2\tinf\n", "expected a number, found inf"},
           {head + "a\tb/0\trgb\n", "@mean, @std and the word rgb in a row belong together"},
           {head + "@mean\t1\t2\t3\n@std\t1\t1\t1\na\tb/0\n", "belong together"},
       }) {
    const std::vector<Error> errors = ErrorsOf([&] { TorchNamesFromText(text, "t.tsv"); });
    ASSERT_EQ(errors.size(), 1U) << text;
    EXPECT_EQ(errors[0].kind(), ErrorKind::kConfig);
    EXPECT_THAT(errors[0].what(), HasSubstr(error)) << text;
  }
}

TEST(TorchWeights, GetTheNetsNamesAndOrderOfChannels) {
  const BuiltNet net = Built();
  const TorchNames names = TorchNamesFromText(kTable, "t.tsv");
  const Weights file = TorchFile();
  EXPECT_TRUE(MatchTorch(names, file, net.blobs).IsWhole());
  const FromTorch from = BlobsFromTorch(names, file, net.blobs);
  EXPECT_THAT(from.fresh, IsEmpty());
  EXPECT_THAT(from.swapped, ElementsAre("conv/0"));
  ASSERT_EQ(from.blobs.size(), 8U);
  EXPECT_THAT(BlobNamed(from.blobs, "conv", 0).values, ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(BlobNamed(from.blobs, "scale", 0).values, ElementsAre(20, 21));
  EXPECT_THAT(BlobNamed(from.blobs, "bn", 0).values, ElementsAre(40, 41));
  EXPECT_THAT(BlobNamed(from.blobs, "bn", 1).values, ElementsAre(50, 51));
  EXPECT_THAT(BlobNamed(from.blobs, "bn", 2).values, ElementsAre(1));
  EXPECT_EQ(BlobNamed(from.blobs, "fc", 0).values, Counted(24, 100));
}

TEST(TorchWeights, GoBackAsTheyCameWithMeansInPlaceOfSums) {
  const BuiltNet net = Built();
  const TorchNames names = TorchNamesFromText(kTable, "t.tsv");
  const Weights file = TorchFile();
  std::vector<NamedBlob> blobs = BlobsFromTorch(names, file, net.blobs).blobs;
  for (NamedBlob& blob : blobs) {
    if (blob.layer != "bn") continue;
    for (float& value : blob.values) value *= 4;  // sums over batches of the weight 4
  }
  const ToTorch back = BlobsToTorch(names, blobs, net.blobs);
  ASSERT_EQ(back.tensors.size(), file.blobs.size());
  for (size_t i = 0; i < back.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i], file.blobs[i].layer);
    EXPECT_EQ(back.blobs[i].shape, file.blobs[i].shape);
    EXPECT_EQ(back.blobs[i].values, file.blobs[i].values) << back.tensors[i];
  }
}

TEST(TorchWeights, OfAnotherNumberOfClassesAreLeftOut) {
  const BuiltNet net = Built();
  const TorchNames names = TorchNamesFromText(kTable, "t.tsv");
  Weights file = TorchFile();
  file.blobs[5] = {"fc.weight", 0, Shape{5, 8}, Counted(40, 0)};
  file.blobs[6] = {"fc.bias", 0, Shape{5}, Counted(5, 0)};
  EXPECT_TRUE(MatchTorch(names, file, net.blobs).IsWhole());
  const FromTorch from = BlobsFromTorch(names, file, net.blobs);
  EXPECT_THAT(from.fresh, ElementsAre("fc"));
  EXPECT_EQ(from.blobs.size(), 6U);
  file.blobs.resize(5);
  EXPECT_TRUE(MatchTorch(names, file, net.blobs).IsWhole());
  EXPECT_THAT(BlobsFromTorch(names, file, net.blobs).fresh, ElementsAre("fc"));
}

TEST(TorchWeights, WhatDoesNotMatchIsCountedAndNamed) {
  const BuiltNet net = Built();
  const TorchNames names = TorchNamesFromText(kTable, "t.tsv");
  Weights file = TorchFile();
  file.blobs[0].shape = Shape{3, 2, 1, 1};
  file.blobs[1].layer = "norm.weight";
  file.blobs[5].shape = Shape{8, 3};
  const TorchMatch match = MatchTorch(names, file, net.blobs);
  EXPECT_EQ(match.tensors, 7);
  EXPECT_THAT(match.strangers, ElementsAre("norm.weight"));
  EXPECT_THAT(match.missing, ElementsAre("bn.weight"));
  TorchNames lenient = names;
  lenient.left_out = {"aux.", "norm."};
  EXPECT_THAT(MatchTorch(lenient, file, net.blobs).strangers, IsEmpty());
  EXPECT_THAT(MatchTorch(lenient, file, net.blobs).left_out, ElementsAre("norm.weight"));
  EXPECT_THAT(match.other_shapes, ElementsAre("conv.weight is [3,2,1,1], and conv/0 is [2,3,1,1]",
                                              "fc.weight is [8,3], and fc/0 is [3,8]: it is transposed"));
}

TEST(TorchWeights, ATableOfAnotherNetIsRefusedAtItsRow) {
  const BuiltNet net = Built();
  const std::string table = kTable;
  const auto error = [&](const std::string& text) {
    return ErrorTextOf([&] {
      const TorchNames names = TorchNamesFromText(text, "t.tsv");
      (void)MatchTorch(names, TorchFile(), net.blobs);
      (void)BlobsFromTorch(names, TorchFile(), net.blobs);
    });
  };
  std::string other = table;
  other.replace(other.find("fc/1"), 4, "fb/1");
  EXPECT_THAT(error(other), HasSubstr("t.tsv:12: the net has no blob \"fb/1\"; did you mean \"fc/1\"?"));
  const size_t row = table.find("bn.running_var");
  std::string shorter = table;
  shorter.erase(row, table.find('\n', row) + 1 - row);
  EXPECT_THAT(error(shorter), HasSubstr("t.tsv: the table has no row for the net's blob \"bn/1\""));
}

TEST(TorchWeights, TheNetSubtractsAndDividesAsTheModuleDoes) {
  const TorchNames names = TorchNamesFromText(kTable, "t.tsv");
  NetParameter net = NetFromText(kNet, "net.prototxt");
  EXPECT_THAT(SetTorchInput(names, net), ElementsAre("data"));
  for (int i = 0; i < 2; ++i) {  // of the training and of the tests
    const TransformationParameter& fields = net.layer(i).transform_param();
    EXPECT_EQ(fields.crop_size(), 2U);
    EXPECT_FALSE(fields.has_scale());
    EXPECT_FALSE(fields.has_mean_file());
    EXPECT_THAT(fields.mean_value(), ElementsAre(0.125F * 255, 0.25F * 255, 0.5F * 255));
    EXPECT_THAT(fields.std_value(), ElementsAre(255, 0.5F * 255, 0.25F * 255));
  }
  NetParameter without = NetFromText(kNet, "net.prototxt");
  without.mutable_layer()->DeleteSubrange(0, 2);
  EXPECT_THAT(ErrorTextOf([&] { SetTorchInput(names, without); }), HasSubstr("gives \"data\""));
}

// Each table of the zoo names every blob of its net.
TEST(TorchNames, OfTheZooFitTheirNets) {
  int tables = 0;
  std::set<std::string> modules;
  for (const auto& each : std::filesystem::directory_iterator(MOKA_SOURCE_DIR "/models")) {
    const std::filesystem::path file = each.path() / kTorchNamesFile;
    if (!std::filesystem::exists(file)) continue;
    const TorchNames names = ReadTorchNames(file);
    if (!names.difference.empty()) {
      EXPECT_THAT(ErrorTextOf([&] { RefuseOtherNet(names); }), HasSubstr(names.module));
      continue;
    }
    EXPECT_TRUE(modules.insert(names.module).second) << file;
    ++tables;
    NetOptions options;
    options.state.set_phase(TEST);
    options.data_types = GuessDataTypes();
    const BuiltNet net = BuildNet(ReadNet(each.path() / "train_val.prototxt"), options);
    Weights none;
    none.blobs.push_back({"x", 0, Shape{1}, {1}});
    EXPECT_EQ(MatchTorch(names, none, net.blobs).strangers.size(), 1U) << file;
    std::vector<NamedBlob> values;
    for (const NetBlob& blob : net.blobs) values.push_back({blob.layer, blob.index, Shape{1, 1}, {1}});
    EXPECT_EQ(BlobsToTorch(names, values, net.blobs).tensors.size(), names.rows.size()) << file;
  }
  EXPECT_GE(tables, 15);
}

}  // namespace
}  // namespace moka

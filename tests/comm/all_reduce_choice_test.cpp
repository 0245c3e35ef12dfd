// Algorithms by the names users give.
#include "comm/algorithms/all_reduce_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"

namespace moka {
namespace {

TEST(AllReduceChoice, ReadsGroupsAndDimensions) {
  const AllReduceChoice ring = ChoiceOfAllReduce("ring", 16, 4);
  EXPECT_EQ(ring.name, "ring");
  EXPECT_EQ(ring.algorithm->name, "ring");
  EXPECT_EQ(ring.arrangement.ranks, 16);
  EXPECT_EQ(ChoiceOfAllReduce("hierarchical", 16, 4).name, "hierarchical:4");
  EXPECT_EQ(ChoiceOfAllReduce("hierarchical:8", 16, 4).arrangement.group, 8);
  EXPECT_EQ(ChoiceOfAllReduce("torus", 16, 4).name, "torus:4x4");
  EXPECT_EQ(ChoiceOfAllReduce("torus:2x2x4", 16, 4).arrangement.dimensions, (std::vector<int>{2, 2, 4}));
  EXPECT_EQ(ChoiceOfAllReduce("torus", 15, 4).arrangement.dimensions, (std::vector<int>{15}));
  EXPECT_EQ(ChoiceOfAllReduce("hierarchical", 2, 8).arrangement.group, 2);
  EXPECT_EQ(ChoiceOfAllReduce("double_binary_tree", 16, 4).name, "double_binary_tree:4x16");
  EXPECT_EQ(ChoiceOfAllReduce("double_binary_tree:1", 16, 4).name, "double_binary_tree:1x16");
  EXPECT_EQ(ChoiceOfAllReduce("double_binary_tree:8x5", 16, 4).arrangement.group, 8);
  EXPECT_EQ(ChoiceOfAllReduce("double_binary_tree:8x5", 16, 4).arrangement.pieces, 5);
}

TEST(AllReduceChoice, ListsEachFormOnceAndReadsItBack) {
  for (const int ranks : {1, 2, 6, 64, 1000}) {
    const std::vector<AllReduceChoice> choices = AllReduceChoices(ranks, 8);
    EXPECT_FALSE(choices.empty());
    for (const AllReduceChoice& choice : choices) {
      EXPECT_EQ(std::ranges::count(choices, choice.name, &AllReduceChoice::name), 1) << choice.name;
      EXPECT_EQ(choice.algorithm->refuse(choice.arrangement), "") << choice.name;
      const AllReduceChoice again = ChoiceOfAllReduce(choice.name, ranks, 8);
      EXPECT_EQ(again.name, choice.name);
      EXPECT_TRUE(!choice.algorithm->has_groups || again.arrangement.group == choice.arrangement.group);
      EXPECT_TRUE(!choice.algorithm->has_pieces || again.arrangement.pieces == choice.arrangement.pieces);
      EXPECT_TRUE(!choice.algorithm->has_dimensions || again.arrangement.dimensions == choice.arrangement.dimensions);
    }
  }
  const std::vector<AllReduceChoice> choices = AllReduceChoices(64, 8);
  for (const char* name : {"ring", "hierarchical_ring:8", "hierarchical_ring:32", "torus:8x8", "torus:8x2x4",
                           "double_binary_tree:8x4", "double_binary_tree:8x64"}) {
    EXPECT_EQ(std::ranges::count(choices, name, &AllReduceChoice::name), 1) << name;
  }
}

TEST(AllReduceChoice, NumaNodesAreGroupsAndADimension) {
  const auto count = [](const std::vector<AllReduceChoice>& choices, const char* name) {
    return std::ranges::count(choices, name, &AllReduceChoice::name);
  };
  const std::vector<AllReduceChoice> choices = AllReduceChoices(64, 8, 4);
  for (const char* name : {"two_level:4", "hierarchical:4", "torus:4x2x8", "two_level:8", "torus:8x8"}) {
    EXPECT_EQ(count(choices, name), 1) << name;
  }
  for (const int ranks_per_node : {0, 1, 3, 8}) {
    EXPECT_EQ(AllReduceChoices(64, 8, ranks_per_node).size(), AllReduceChoices(64, 8).size()) << ranks_per_node;
  }
}

TEST(AllReduceChoice, MistakesSayWhatWouldDo) {
  const auto error_of = [](const char* name) -> std::string {
    try {
      (void)ChoiceOfAllReduce(name, 16, 4);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return {};
  };
  EXPECT_NE(error_of("rnig").find("did you mean \"ring\"?"), std::string::npos) << error_of("rnig");
  EXPECT_NE(error_of("ring:4").find("it takes no numbers"), std::string::npos) << error_of("ring:4");
  EXPECT_NE(error_of("hierarchical:x").find("groups of 4 ranks are \"hierarchical:4\""), std::string::npos);
  EXPECT_NE(error_of("hierarchical:2x2").find("is no form of"), std::string::npos);
  EXPECT_NE(error_of("hierarchical:3").find("cannot run among 16 ranks"), std::string::npos);
  EXPECT_NE(error_of("double_binary_tree:4x2x2").find("16 pieces are \"double_binary_tree:4x16\""), std::string::npos);
  EXPECT_NE(error_of("double_binary_tree:3x4").find("groups of 3 do not divide 16 ranks"), std::string::npos);
  EXPECT_NE(error_of("double_binary_tree:4x5000").find("4096 pieces at most"), std::string::npos);
  EXPECT_NE(error_of("double_binary_tee").find("did you mean \"double_binary_tree\"?"), std::string::npos);
  EXPECT_NE(error_of("torus:4x0").find("dimensions 4 and 8 are \"torus:4x8\""), std::string::npos);
  EXPECT_NE(error_of("torus:4x5").find("cannot run among 16 ranks"), std::string::npos);
}

}  // namespace
}  // namespace moka

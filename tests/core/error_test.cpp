#include "core/error.h"

#include <gtest/gtest.h>

namespace moka {
namespace {

TEST(ErrorTest, OneLineHoldsPlaceTextHintAndNotes) {
  Error error(ErrorKind::kConfig, {"net.prototxt", 4, 7, 3}, "no field \"x\"", "did you mean \"y\"?");
  error.AddNote("while building layer \"conv1\"");
  EXPECT_STREQ(error.what(), "net.prototxt:4:7: no field \"x\"; did you mean \"y\"? (while building layer \"conv1\")");
  EXPECT_EQ(static_cast<int>(error.kind()), 78);
}

TEST(ErrorTest, ThePlaceFirstSetStays) {
  Error error(ErrorKind::kConfig, "wrong");
  error.SetPlace({"a", 1, 2, 1}).SetPlace({"b", 3, 4, 1});
  EXPECT_EQ(error.place().ToString(), "a:1:2");
}

TEST(ErrorTest, AListKeepsAtMostTwenty) {
  std::vector<Error> errors(25, Error(ErrorKind::kConfig, "x"));
  const ErrorList list(errors);
  EXPECT_EQ(list.errors().size(), 20U);
  EXPECT_STREQ(list.what(), "x (and 24 more)");
}

TEST(ErrorTest, BrokenPromisesAreOurBugs) {
  try {
    Require(false, "two is three");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  }
}

}  // namespace
}  // namespace moka

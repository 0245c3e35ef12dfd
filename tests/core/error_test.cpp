// The one line that an error renders to, and the exit codes of foreign exceptions.
#include "core/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <vector>

#include "core/exit_code.h"

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

TEST(ErrorTest, WhatTheSystemThrowsHasAnExitCodeThatIsNotOurs) {
  const auto code_of = [](std::errc reason) {
    return ExitCodeOf(std::filesystem::filesystem_error("cannot", std::make_error_code(reason)));
  };
  EXPECT_EQ(code_of(std::errc::permission_denied), 77);
  EXPECT_EQ(code_of(std::errc::no_such_file_or_directory), 66);
  EXPECT_EQ(code_of(std::errc::read_only_file_system), 73);
  EXPECT_EQ(code_of(std::errc::no_space_on_device), 74);
  EXPECT_EQ(code_of(std::errc::too_many_files_open), 74);
  EXPECT_EQ(code_of(std::errc::resource_unavailable_try_again), 69);
  EXPECT_EQ(ExitCodeOf(std::bad_alloc()), 69);
  EXPECT_EQ(ExitCodeOf(std::length_error("vector::reserve")), 69);
  EXPECT_EQ(ExitCodeOf(Error(ErrorKind::kIo, "x")), 74);
  EXPECT_EQ(ExitCodeOf(std::logic_error("basic_string::_M_create")), 70);
}

}  // namespace
}  // namespace moka

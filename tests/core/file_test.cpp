// Writes are whole or absent under full disks, planted links and missing commits.
#include "core/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/error.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moka_file_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  ErrorKind KindOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      text_ = error.what();
      return error.kind();
    }
    ADD_FAILURE() << "no error";
    return ErrorKind::kInternal;
  }

  fs::path folder_;
  std::string text_;
};

TEST_F(FileTest, WritesWholeFilesAndLeavesNothingElse) {
  WriteFileAtomically(folder_ / "a", "hello");
  EXPECT_EQ(ReadFile(folder_ / "a"), "hello");
  WriteFileAtomically(folder_ / "a", "world");
  EXPECT_EQ(ReadFile(folder_ / "a"), "world");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, PlacesWholeFilesWithoutSyncs) {
  PlaceFile(folder_ / "a", "hello");
  PlaceFile(folder_ / "a", std::string(100000, 'w'));
  EXPECT_EQ(ReadFile(folder_ / "a"), std::string(100000, 'w'));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_EQ(KindOf([&] { PlaceFile(folder_ / "absent" / "a", "x"); }), ErrorKind::kCantCreate);
  fs::create_directories(folder_ / "b" / "full");
  EXPECT_EQ(KindOf([&] { PlaceFile(folder_ / "b", "x"); }), ErrorKind::kIo);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(FileTest, WithoutCommitTheOldFileStays) {
  WriteFileAtomically(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.Append("new");
  }
  EXPECT_EQ(ReadFile(folder_ / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(KindOf([&] { ReadFile(folder_); }), ErrorKind::kNoInput);
  EXPECT_NE(text_.find("is not a regular file"), std::string::npos);
  EXPECT_EQ(KindOf([&] { ReadFile(folder_ / "absent"); }), ErrorKind::kNoInput);
  mkfifo((folder_ / "fifo").c_str(), 0600);
  EXPECT_EQ(KindOf([&] { ReadFile(folder_ / "fifo"); }), ErrorKind::kNoInput);  // and does not hang
}

TEST_F(FileTest, RefusesFilesOverTheLimitWithBothNumbers) {
  WriteFileAtomically(folder_ / "a", std::string(2048, 'x'));
  EXPECT_EQ(KindOf([&] { ReadFile(folder_ / "a", 1024); }), ErrorKind::kBadData);
  EXPECT_NE(text_.find("2.00 KiB, more than the limit of 1.00 KiB"), std::string::npos) << text_;
}

TEST_F(FileTest, AFullDiskIsAnIoErrorAndTheOldFileStays) {
  WriteFileAtomically(folder_ / "a", "old");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_EQ(KindOf([&] { WriteFileAtomically(folder_ / "a", std::string(5000, 'x')); }), ErrorKind::kIo);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(ReadFile(folder_ / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, APlantedSymlinkIsReplacedNotFollowed) {
  WriteFileAtomically(folder_ / "victim", "safe");
  fs::create_symlink(folder_ / "victim", folder_ / ("a.tmp" + std::to_string(getpid())));
  WriteFileAtomically(folder_ / "a", "mine");
  EXPECT_EQ(ReadFile(folder_ / "victim"), "safe");
  EXPECT_EQ(ReadFile(folder_ / "a"), "mine");
}

TEST_F(FileTest, SymlinksMoveAtomically) {
  ReplaceSymlink(folder_ / "last", "one");
  ReplaceSymlink(folder_ / "last", "two");
  EXPECT_EQ(fs::read_symlink(folder_ / "last"), "two");
}

TEST_F(FileTest, CannotCreateNamesThePath) {
  EXPECT_EQ(KindOf([&] { WriteFileAtomically(folder_ / "no" / "a", "x"); }), ErrorKind::kCantCreate);
  EXPECT_NE(text_.find("no/a"), std::string::npos);
}

}  // namespace
}  // namespace moka

// A file cut under its map reads as zeros and is an error, and maps of others keep their SIGBUS.
#include "core/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMappedPages = 4;

class MappedFiles : public testing::Test {
 protected:
  MappedFiles() { std::ofstream(path_, std::ios::binary) << std::string(static_cast<size_t>(bytes_), 'x'); }
  ~MappedFiles() override { fs::remove(path_); }
  MappedFile Map() const { return {open(path_.c_str(), O_RDONLY | O_CLOEXEC), bytes_, path_}; }
  static std::string CheckError(const MappedFile& file) {
    try {
      file.CheckUnchanged();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kIo);
      return e.what();
    }
    return {};
  }

  int64_t page_ = sysconf(_SC_PAGESIZE);
  int64_t bytes_ = kMappedPages * page_;
  fs::path path_ = fs::temp_directory_path() / StrCat("moka_mapped_", getpid());
};

TEST_F(MappedFiles, PagesThatWereCutReadAsZerosAndAreAnError) {
  const MappedFile file = Map();
  const MappedFile other = Map();
  file.Check();
  ASSERT_EQ(truncate(path_.c_str(), page_), 0);
  EXPECT_EQ(file.data()[page_ - 1], 'x');
  file.Check();  // nothing that is lost was read
  std::vector<std::thread> readers;
  std::vector<int> values(4, -1);
  for (size_t i = 0; i < values.size(); ++i) {
    readers.emplace_back([&, i] { values[i] = file.data()[bytes_ - 1 - static_cast<int64_t>(i)]; });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_THAT(values, testing::Each(0));
  EXPECT_THAT(CheckError(file), testing::AllOf(testing::HasSubstr(path_.string()), testing::HasSubstr("lost pages")));
  EXPECT_EQ(file.data()[0], 'x');
  other.Check();  // each map has its own mark
  EXPECT_EQ(other.data()[page_], 0);
  EXPECT_THROW(other.Check(), Error);
}

TEST_F(MappedFiles, FilesThatAreCutOrWrittenAreSeenWithoutARead) {
  const MappedFile file = Map();
  EXPECT_EQ(CheckError(file), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    std::fstream write(path_, std::ios::in | std::ios::out | std::ios::binary);
    write << "y";
  }
  EXPECT_THAT(CheckError(file), testing::HasSubstr("was written while it was read"));
  ASSERT_EQ(truncate(path_.c_str(), 10), 0);
  EXPECT_THAT(CheckError(file), testing::HasSubstr("was cut from 16.0 KiB to 10 bytes"));
}

TEST_F(MappedFiles, AFileThatIsReplacedByRenameIsReadOnAsItWas) {
  const MappedFile file = Map();
  const fs::path next = path_.string() + ".next";
  std::ofstream(next) << "other";
  fs::rename(next, path_);
  EXPECT_EQ(file.data()[bytes_ - 1], 'x');
  EXPECT_EQ(CheckError(file), "");
}

TEST_F(MappedFiles, TheMarkGoesWithTheMapAndIsGoneWithIt) {
  {
    MappedFile file = Map();
    ASSERT_EQ(truncate(path_.c_str(), 0), 0);
    MappedFile moved = std::move(file);
    EXPECT_EQ(moved.data()[0], 0);
    EXPECT_THROW(moved.Check(), Error);
    file.Check();
  }
  ASSERT_EQ(truncate(path_.c_str(), bytes_), 0);
  Map().Check();  // in the slot of the one before
}

using MappedFilesDeathTest = MappedFiles;

TEST_F(MappedFilesDeathTest, OtherMapsKeepTheirFate) {
  const MappedFile ours = Map();
  EXPECT_EXIT(
      {
        const int fd = open(path_.c_str(), O_RDONLY);
        auto* theirs =
            static_cast<const volatile char*>(mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ, MAP_SHARED, fd, 0));
        if (truncate(path_.c_str(), 0) == 0) static_cast<void>(theirs[page_]);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace moka

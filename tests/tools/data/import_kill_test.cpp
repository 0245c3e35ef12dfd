// `moka data import` killed at random moments: what it leaves opens and is the beginning of the final database, and the
// same command goes on to exactly the database of an import that was not cut. MOKA_KILLS and MOKA_IMAGES set how much
// is tried (10 kills, 2,000 pictures), MOKA_SEED their moments (1), MOKA_RESULTS a file for the numbers; the acceptance
// run is 50 of 100,000.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/records/lmdb_file.h"
#include "data/records/record_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

int64_t FromEnvironment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no other threads
  return text == nullptr ? fallback : std::strtoll(text, nullptr, 10);
}

class ImportKills : public testing::Test {
 protected:
  ImportKills() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ImportKills() override { fs::remove_all(folder_); }

  pid_t Start(const std::string& out) const {
    const std::string source = StrCat("glyphs:", images_, ":1");
    const std::string path = (folder_ / out).string();
    const std::string batch = std::to_string(batch_);
    const pid_t child = fork();
    if (child == 0) {
      execl(MOKA_BINARY, MOKA_BINARY, "data", "import", source.c_str(), path.c_str(), "--storage", "png", "--shuffle",
            "3", "--workers", "2", "--quiet", "--batch", batch.c_str(), nullptr);
      _exit(127);
    }
    return child;
  }
  // Whether the import ended by itself.
  static bool Wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0) << status;
    return WIFEXITED(status);
  }

  // How many records of the reference the database holds, each in its place; `seen` of them were decoded before.
  static int64_t CheckBeginning(const fs::path& path, const LmdbReader& reference, int64_t seen) {
    const LmdbReader reader(path);
    EXPECT_LE(reader.size(), reference.size());
    EXPECT_GE(reader.size(), seen) << "records that were there are gone";
    std::set<std::string_view> keys;
    RecordScratch scratch;
    for (int64_t i = 0; i < reader.size(); ++i) {
      EXPECT_EQ(reader.key(i), reference.key(i));
      EXPECT_EQ(reader.value(i), reference.value(i)) << i;
      EXPECT_TRUE(keys.insert(reader.key(i)).second) << "twice: " << reader.key(i);
      if (i < seen) continue;
      EXPECT_EQ(LoadDatum(reader.value(i), ImageChannels::kAsStored, scratch).pixels.width, 28);
    }
    return reader.size();
  }

  void ExpectEqualFolders(const fs::path& a, const fs::path& b) const {
    std::set<std::string> names;
    for (const auto& folder : {a, b}) {
      for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names, (std::set<std::string>{"data.mdb", "import.json", "labels.txt", "moka.json", "records.crc32c"}));
    for (const std::string& name : names) EXPECT_TRUE(ReadFile(a / name) == ReadFile(b / name)) << name;
  }

  fs::path folder_ = fs::temp_directory_path() / StrCat("moka_import_kills_", getpid());
  int64_t images_ = FromEnvironment("MOKA_IMAGES", 2000);
  int64_t batch_ = std::max<int64_t>(32, images_ / 200);
};

TEST_F(ImportKills, AnyMomentIsASafePlaceToDie) {
  const int64_t wanted = FromEnvironment("MOKA_KILLS", 10);
  const Clock::time_point begin = Clock::now();
  ASSERT_TRUE(Wait(Start("whole")));
  const double whole_seconds = Seconds(Clock::now() - begin).count();
  const LmdbReader reference(folder_ / "whole");
  ASSERT_EQ(reference.size(), images_);
  RandomStream random(static_cast<uint64_t>(FromEnvironment("MOKA_SEED", 1)), 1);
  std::vector<int64_t> kept;  // after each kill
  int64_t finished = 0;
  int64_t before_anything = 0;
  int64_t seen = 0;
  const auto finish = [&] {
    ExpectEqualFolders(folder_ / "db", folder_ / "whole");
    EXPECT_FALSE(fs::exists(folder_ / "db.partial"));
    fs::remove_all(folder_ / "db");
    ++finished;
    seen = 0;
  };
  while (static_cast<int64_t>(kept.size()) < wanted && !HasFailure()) {
    const pid_t child = Start("db");
    // Several kills to an import, from its first moments to its last.
    std::this_thread::sleep_for(Seconds(random.Uniform(0, whole_seconds / 3)));
    kill(child, SIGKILL);
    if (Wait(child)) {
      finish();
      continue;
    }
    if (fs::exists(folder_ / "db")) {  // killed after its last act
      kept.push_back(images_);
      finish();
    } else if (fs::exists(folder_ / "db.partial")) {
      seen = CheckBeginning(folder_ / "db.partial", reference, seen);
      kept.push_back(seen);
    } else {
      ++before_anything;
      kept.push_back(0);
    }
  }
  ASSERT_TRUE(Wait(Start("db")));
  finish();
  std::set<int64_t> places(kept.begin(), kept.end());
  const nlohmann::json results = {{"images", images_},
                                  {"batch", batch_},
                                  {"kills", kept.size()},
                                  {"imports_resumed_to_the_end", finished},
                                  {"seconds_uncut", whole_seconds},
                                  {"killed_before_the_database", before_anything},
                                  {"records_kept_at_each_kill", kept}};
  EXPECT_GE(places.size(), 2U) << results.dump() << ": the kills did not spread over the import";
  const char* file = std::getenv("MOKA_RESULTS");  // NOLINT(concurrency-mt-unsafe): no other threads
  if (file != nullptr) WriteFileAtomically(file, results.dump(1) + "\n");
}

}  // namespace
}  // namespace moka

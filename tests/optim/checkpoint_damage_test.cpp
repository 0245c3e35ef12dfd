// Every way a checkpoint's files can be damaged is refused by name, and the one before is found.
#include <fstream>

#include "checkpoint_fixture.h"
#include "core/rng.h"

namespace moka {
namespace {

struct Parts {
  std::string weights;
  std::string state;
  std::string manifest;
};

class CheckpointDamageTest : public CheckpointTest {
 protected:
  CheckpointDamageTest() {
    const std::string base = Write(1).string();
    files_ = {ReadFile(base + ".safetensors"), ReadFile(base + ".state"), ReadFile(base + ".sha256")};
  }
  // Refused as bad data, with the file in the text.
  static void ExpectRefused(const Parts& files, std::string_view part, const std::string& what) {
    try {
      CheckpointFromBytes(files.weights, files.state, files.manifest, "iter_0000001");
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::kBadData) << what << ": " << e.what();
      ASSERT_THAT(e.what(), testing::HasSubstr("iter_0000001")) << what;
      return;
    }
    FAIL() << part << ": " << what << " is accepted";
  }
  static std::string& PartOf(Parts& files, int part) {
    return part == 0 ? files.weights : part == 1 ? files.state : files.manifest;
  }

  Parts files_;
};

constexpr std::array<std::string_view, 3> kParts = {"safetensors", "state", "sha256"};

TEST_F(CheckpointDamageTest, TheUndamagedOneIsAccepted) {
  EXPECT_EQ(CheckpointFromBytes(files_.weights, files_.state, files_.manifest, "iter_0000001").trainer.iteration, 1);
}

TEST_F(CheckpointDamageTest, HundredThousandBitFlipsAreRefused) {
  constexpr int kFlips = 100000;
  Parts damaged = files_;
  const size_t bits = 8 * (files_.weights.size() + files_.state.size() + files_.manifest.size());
  RandomStream random(1, 0);
  for (int i = 0; i < kFlips; ++i) {
    // All bits in turn, then random ones.
    size_t bit = static_cast<size_t>(i) < bits ? static_cast<size_t>(i) : random.Below(bits);
    int part = 0;
    while (bit >= 8 * PartOf(damaged, part).size()) bit -= 8 * PartOf(damaged, part++).size();
    char& byte = PartOf(damaged, part)[bit / 8];
    const auto flip = static_cast<char>(1U << (bit % 8));
    byte = static_cast<char>(byte ^ flip);
    ExpectRefused(damaged, kParts.at(static_cast<size_t>(part)), StrCat("bit ", bit));
    if (HasFatalFailure()) return;
    byte = static_cast<char>(byte ^ flip);
  }
}

TEST_F(CheckpointDamageTest, EveryTruncationAndZeroedTailIsRefused) {
  for (int part = 0; part < 3; ++part) {
    const std::string whole = PartOf(files_, part);
    for (size_t length = 0; length<whole.size(); length += whole.size()> 4096 ? 512 : 1) {
      Parts damaged = files_;
      PartOf(damaged, part) = whole.substr(0, length);
      ExpectRefused(damaged, kParts.at(static_cast<size_t>(part)), StrCat("cut to ", length));
      PartOf(damaged, part).resize(whole.size(), '\0');
      if (PartOf(damaged, part) != whole) {
        ExpectRefused(damaged, kParts.at(static_cast<size_t>(part)), StrCat("zeros from ", length));
      }
      if (HasFatalFailure()) return;
    }
    Parts longer = files_;
    PartOf(longer, part) += '\0';
    ExpectRefused(longer, kParts.at(static_cast<size_t>(part)), "one byte more");
  }
}

TEST_F(CheckpointDamageTest, ALargeOneIsCutAtEvery512Bytes) {
  CheckpointContent content = Content(2);
  store_.Add("big/0/@history", {40000});
  store_.Set("big/0/@history", std::vector<float>(40000, 1.5F));
  content.slots.emplace_back("big/0/@history");
  content.weights.push_back({"big", 0, {40000}, std::vector<float>(40000, 0.5F)});
  const std::string base = WriteCheckpoint(folder_, content, false, {}).string();
  for (const char* extension : {".safetensors", ".state"}) {
    const std::string file = base + extension;
    const std::string whole = ReadFile(file);
    for (size_t length = 0; length < whole.size(); length += 512) {
      std::filesystem::resize_file(file, length);
      ASSERT_THAT(ErrorOf([&] { LoadCheckpoint(base); }).text, testing::HasSubstr("iter_0000002")) << length;
      std::ofstream(file, std::ios::binary | std::ios::trunc) << whole;
    }
    std::filesystem::resize_file(file, whole.size() / 2);
    EXPECT_EQ(ResumeFrom(folder_), 1);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole;
  }
}

TEST_F(CheckpointDamageTest, TheDamagedPartIsSaid) {
  Parts damaged = files_;
  damaged.weights[damaged.weights.size() - 1] = 'x';
  const auto error = [](const Parts& f) {
    return ErrorOf([&] { CheckpointFromBytes(f.weights, f.state, f.manifest, "iter_0000001"); }).text;
  };
  EXPECT_THAT(error(damaged), testing::HasSubstr("SHA-256 of iter_0000001.safetensors"));
  damaged = files_;
  damaged.manifest.insert(0, " ");
  EXPECT_THAT(error(damaged), testing::StartsWith("iter_0000001.sha256"));
  damaged = files_;
  damaged.state[damaged.state.find("slot/")] = 'x';
  EXPECT_THAT(error(damaged), testing::StartsWith("iter_0000001.state: head of section 3"));
}

}  // namespace
}  // namespace moka

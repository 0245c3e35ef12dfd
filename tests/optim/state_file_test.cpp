// Every flipped bit and every length of a state file is noticed.
#include "optim/checkpoint/state_file.h"

#include "core/checksum.h"
#include "optim_fixture.h"

namespace moka {
namespace {

class StateFileTest : public FolderTest {
 protected:
  // A file with a text section, a tensor, and an empty section.
  std::string Example() const {
    AtomicFile file(At("x.state"));
    StateWriter writer(file);
    writer.AddSection("note", "hello");
    const std::vector<float> values = {1, -2.5F, 3, 4, 5, 6};
    writer.AddTensor("slot/w", {2, 3}, values);
    writer.AddSection("empty", "");
    writer.Finish();
    file.Commit();
    return ReadFile(At("x.state"));
  }
};

TEST_F(StateFileTest, SectionsComeBackAsWritten) {
  const std::string bytes = Example();
  const std::vector<StateSection> sections = ReadState(bytes, "x.state");
  ASSERT_EQ(sections.size(), 3U);
  EXPECT_EQ(sections[0].name, "note");
  EXPECT_EQ(sections[0].body, "hello");
  const StateTensor tensor = TensorOf(sections[1], "x.state");
  EXPECT_EQ(tensor.shape, (Shape{2, 3}));
  EXPECT_EQ(tensor.values, (std::vector<float>{1, -2.5F, 3, 4, 5, 6}));
  EXPECT_TRUE(sections[2].body.empty());
}

TEST_F(StateFileTest, DamageIsNamedByItsSection) {
  const std::string bytes = Example();
  const auto error_at = [&](size_t offset) {
    std::string damaged = bytes;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 4);
    return ErrorOf([&] { ReadState(damaged, "x.state"); }).text;
  };
  EXPECT_THAT(error_at(0), testing::HasSubstr("not the state of a Moka checkpoint"));
  EXPECT_THAT(error_at(8), testing::HasSubstr("format version 5"));
  EXPECT_THAT(error_at(bytes.find("note")), testing::HasSubstr("head of section 0"));
  EXPECT_THAT(error_at(bytes.find("hello")), testing::HasSubstr("section \"note\""));
  EXPECT_THAT(error_at(bytes.find("slot/w") + 50), testing::HasSubstr("section \"slot/w\""));
  EXPECT_THAT(error_at(bytes.size() - 1), testing::HasSubstr("end mark"));
}

TEST_F(StateFileTest, EveryBitAndEveryLengthMatters) {
  const std::string bytes = Example();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_THROW(ReadState(damaged, "x"), Error) << bit;
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THROW(ReadState(std::string_view(bytes).substr(0, length), "x"), Error) << length;
  }
  EXPECT_THROW(ReadState(bytes + '\0', "x"), Error);
}

TEST_F(StateFileTest, TensorsThatLieAboutTheirShapeAreRefused) {
  const auto error = [](const std::string& body) { return ErrorOf([&] { TensorOf({"t", body}, "x.state"); }).text; };
  const auto number = [](auto value) { return std::string(reinterpret_cast<const char*>(&value), sizeof(value)); };
  EXPECT_THAT(error(""), testing::HasSubstr("cut short"));
  EXPECT_THAT(error(number(uint32_t{9})), testing::HasSubstr("more than 8"));
  EXPECT_THAT(error(number(uint32_t{1}) + number(int64_t{-1})), testing::HasSubstr("dimension of -1"));
  EXPECT_THAT(error(number(uint32_t{1}) + number(int64_t{2}) + "1234"),
              testing::HasSubstr("needs 8 bytes and there are 4"));
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(error(number(uint32_t{2}) + number(huge) + number(huge)), testing::HasSubstr("too large"));
}

}  // namespace
}  // namespace moka

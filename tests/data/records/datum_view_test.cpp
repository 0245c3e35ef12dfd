// The reader in place against protobuf, on written, damaged and random bytes.
#include "data/records/datum_view.h"

#include <algorithm>
#include <bit>

#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

Datum RandomDatum(RandomStream& random) {
  Datum datum;
  const auto number = [&] { return static_cast<int32_t>(random.Bits() >> random.Below(32)); };
  if (random.Below(2) == 0) datum.set_channels(number());
  if (random.Below(2) == 0) datum.set_height(-number());
  if (random.Below(2) == 0) datum.set_width(number());
  if (random.Below(2) == 0) datum.set_label(number());
  if (random.Below(2) == 0) datum.set_encoded(random.Below(2) == 0);
  if (random.Below(2) == 0) datum.set_data(std::string(random.Below(300), static_cast<char>(random.Bits())));
  for (uint64_t i = random.Below(5); i > 0; --i) datum.add_float_data(static_cast<float>(random.Normal(0, 1)));
  return datum;
}

void ExpectSame(const DatumView& view, const Datum& datum) {
  EXPECT_EQ(view.channels, datum.channels());
  EXPECT_EQ(view.height, datum.height());
  EXPECT_EQ(view.width, datum.width());
  EXPECT_EQ(view.label, datum.label());
  EXPECT_EQ(view.encoded, datum.encoded());
  EXPECT_EQ(view.data, datum.data());
  ASSERT_EQ(view.float_count, datum.float_data_size());
  std::vector<float> floats(static_cast<size_t>(view.float_count));
  view.CopyFloats(floats);
  const auto same_bits = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
  EXPECT_TRUE(std::ranges::equal(floats, datum.float_data(), same_bits));
}

// Parses by both parsers: they must agree on whether the bytes are a Datum, and on all of its fields.
void ExpectSameParse(const std::string& wire) {
  Datum datum;
  const bool good = datum.ParseFromString(wire);
  DatumView view;
  bool parsed = true;
  try {
    view = ParseDatum(wire);
  } catch (const Error&) {
    parsed = false;
  }
  ASSERT_EQ(parsed, good) << testing::PrintToString(wire);
  if (good) ExpectSame(view, datum);
}

TEST(DatumView, ReadsWhatProtobufWrites) {
  RandomStream random(1, 2);
  for (int i = 0; i < 2000; ++i) ExpectSameParse(RandomDatum(random).SerializeAsString());
}

TEST(DatumView, AgreesWithProtobufOnDamagedBytes) {
  RandomStream random(3, 4);
  for (int i = 0; i < 40000; ++i) {
    std::string wire = RandomDatum(random).SerializeAsString() + RandomDatum(random).SerializeAsString();
    for (uint64_t k = random.Below(4) + 1; k > 0 && !wire.empty(); --k) {
      wire[random.Below(wire.size())] = static_cast<char>(random.Bits());
    }
    wire.resize(wire.size() - random.Below(std::min<size_t>(wire.size(), 4) + 1));
    ExpectSameParse(wire);
    if (HasFatalFailure()) return;
  }
}

TEST(DatumView, AgreesWithProtobufOnRandomBytes) {
  RandomStream random(5, 6);
  constexpr std::string_view kTags = "\x08\x10\x18\x22\x28\x35\x32\x38\x0b\x0c\x43\x44\x4d\x51\x02\x00";
  for (int i = 0; i < 100000; ++i) {
    std::string wire;
    for (uint64_t k = random.Below(16); k > 0; --k) {
      wire += random.Below(2) == 0 ? kTags[random.Below(kTags.size())] : static_cast<char>(random.Bits());
    }
    ExpectSameParse(wire);
    if (HasFatalFailure()) return;
  }
}

TEST(DatumView, AcceptsPackedFloats) {
  std::string wire("\x32\x08", 2);
  const float values[] = {1.5F, -2.0F};
  wire.append(reinterpret_cast<const char*>(values), sizeof values);
  const DatumView view = ParseDatum(wire);
  std::vector<float> floats(2);
  view.CopyFloats(floats);
  EXPECT_THAT(floats, testing::ElementsAre(1.5F, -2.0F));
}

TEST(DatumView, NamesTheByteOfAFault) {
  EXPECT_EQ(ErrorOf([] { ParseDatum(std::string_view("\x08\x80", 2)); }),
            "not a Datum: the record ends inside a number at byte 2 of 2");
  EXPECT_EQ(ErrorOf([] { ParseDatum(std::string_view("\x22\x05xx", 4)); }),
            "not a Datum: the record ends inside a field at byte 2 of 4");
}

TEST(DatumView, NamesWhatOtherProgramsStore) {
  const std::string pickle("\x80\x04\x95\0\0\0", 6);
  for (const auto& [value, name] :
       {std::pair{EncodePng(Gradient(4, 4, 1)), "a PNG file"}, std::pair{EncodeJpeg(Gradient(4, 4, 1)), "a JPEG file"},
        std::pair{pickle, "a Python pickle"}}) {
    EXPECT_THAT(ErrorOf([&, value = value] { ParseDatum(value); }),
                testing::HasSubstr(StrCat("the value is ", name, ", and no record of Caffe or Moka")));
  }
  const std::string sound("RIFF\x24\0\0\0WAVEfmt ", 16);
  EXPECT_EQ(WhatValueIs(sound), "");
  EXPECT_THAT(WhatValueIs("\x93NUMPY\x01"), testing::HasSubstr("a NumPy array"));
}

TEST(DatumView, CountRefusesNegativeAndHugeShapes) {
  EXPECT_EQ((DatumView{.channels = 3, .height = 4, .width = 5}).Count(), 60);
  EXPECT_EQ((DatumView{.channels = -3, .height = -4, .width = 5}).Count(), -1);
  EXPECT_EQ((DatumView{.channels = 65536, .height = 65536, .width = 65536}).Count(), -1);
  EXPECT_EQ((DatumView{.channels = 2, .height = INT32_MAX, .width = INT32_MAX}).Count(), -1);
}

}  // namespace
}  // namespace moka

// NumPy's files of every type, and their faults; archives that are written, damaged and packed to deceive.
#include "proto/weights/npz.h"

#include <gmock/gmock.h>
#include <unistd.h>
#include <zip.h>

#include <bit>
#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "proto/content.h"
#include "proto/weights/weights.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A .npy of version 1 as NumPy writes it.
std::string Npy(const std::string& type, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string header = StrCat("{'descr': '", type, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }");
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return StrCat(std::string("\x93NUMPY\x01\x00", 8), std::string(1, static_cast<char>(header.size() & 0xFFU)),
                std::string(1, static_cast<char>(header.size() >> 8U)), header, data);
}

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Npy, ReadsNumbersOfEveryType) {
  const NumpyArray floats = ParseNpy(Npy("<f4", "(2, 1)", Bytes<float>({1.5F, -2})), "a");
  EXPECT_EQ(floats.shape, (Shape{2, 1}));
  EXPECT_THAT(floats.values, ElementsAre(1.5F, -2));
  EXPECT_THAT(ParseNpy(Npy("<f8", "(1,)", Bytes<double>({0.25})), "a").values, ElementsAre(0.25F));
  EXPECT_THAT(ParseNpy(Npy("<f2", "(1,)", Bytes<uint16_t>({0x3C00})), "a").values, ElementsAre(1));
  EXPECT_THAT(ParseNpy(Npy("<i8", "(2,)", Bytes<int64_t>({-7, 9})), "a").values, ElementsAre(-7, 9));
  EXPECT_THAT(ParseNpy(Npy("|u1", "(2,)", Bytes<uint8_t>({0, 255})), "a").values, ElementsAre(0, 255));
  EXPECT_EQ(ParseNpy(Npy("<f4", "()", Bytes<float>({3})), "a").shape, Shape{});
}

TEST(Npy, NamesWhatIsWrong) {
  const auto error = [](const std::string& bytes) { return ErrorTextOf([&] { ParseNpy(bytes, "x.npy"); }); };
  EXPECT_THAT(error("no"), HasSubstr("x.npy: not a .npy"));
  EXPECT_THAT(error(Npy("<f4", "(3,)", Bytes<float>({1}))), HasSubstr("needs 12 bytes and has 4"));
  EXPECT_THAT(error(Npy("<f4", "(2, 2)", Bytes<float>({1, 2, 3, 4}), "True")), HasSubstr("Fortran order"));
  EXPECT_THAT(error(Npy("<c8", "(1,)", "12345678")), HasSubstr("values of type '<c8' are not read"));
  EXPECT_THAT(error(Npy("<f4", "(-1,)", "")), HasSubstr("whole numbers"));
  EXPECT_THAT(error(Npy("<f4", "(1,)", "1234").substr(0, 40)), HasSubstr("header is cut"));
  EXPECT_THAT(error(Npy("<f4", "(4000000000, 4000000000, 4000000000)", "")), HasSubstr("overflow"));
}

namespace fs = std::filesystem;

class Npz : public testing::Test {
 protected:
  Npz() { fs::create_directories(folder_); }
  ~Npz() override { fs::remove_all(folder_); }
  std::string At(const std::string& name) const { return folder_ / name; }
  // A zip of members, packed by deflate or stored.
  std::string Zip(const std::vector<std::pair<std::string, std::string>>& members, bool packs = false) const {
    fs::remove(At("made.npz"));
    int status = 0;
    zip_t* zip = zip_open(At("made.npz").c_str(), ZIP_CREATE | ZIP_EXCL, &status);
    for (const auto& [name, content] : members) {
      const zip_int64_t index =
          zip_file_add(zip, name.c_str(), zip_source_buffer(zip, content.data(), content.size(), 0), ZIP_FL_ENC_UTF_8);
      zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), packs ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    EXPECT_EQ(zip_close(zip), 0);
    return ReadFile(At("made.npz"));
  }
  static std::string ErrorOf(const std::string& bytes) {
    return ErrorTextOf([&] { WeightsFromBytes(bytes, "w.npz"); });
  }

  fs::path folder_ = fs::temp_directory_path() / StrCat("moka_npz_", getpid());
};

TEST_F(Npz, AFileThatIsNoArchiveIsRefused) {
  EXPECT_THAT(ErrorTextOf([] { ReadNpz(MOKA_SOURCE_DIR "/README.md"); }), HasSubstr("no zip archive"));
  EXPECT_THAT(ErrorTextOf([] { ReadNpz("/nowhere.npz"); }), HasSubstr("no file"));
}

TEST_F(Npz, BlobsAreReadBackAsTheyWereWritten) {
  const std::vector<NamedBlob> blobs = {{"conv1", 0, Shape{2, 1, 3}, {1, 2, 3, 4, 5, 6}},
                                        {"conv1", 1, Shape{2}, {-1, 0.5F}},
                                        {"a/b", 0, Shape{}, {7}},
                                        {"none", 0, Shape{0, 4}, {}}};
  WriteNpz(At("w.npz"), blobs);
  const std::string bytes = ReadFile(At("w.npz"));
  EXPECT_EQ(RecognizeContent(bytes), Content::kNumpyZip);
  EXPECT_THAT(bytes, HasSubstr("'shape': (2, 1, 3), }"));
  EXPECT_THAT(bytes, HasSubstr("'shape': (2,), }"));
  for (const Weights& weights : {ReadWeights(At("w.npz")), WeightsFromBytes(bytes, "w.npz")}) {
    EXPECT_EQ(weights.format, "npz");
    ASSERT_EQ(weights.blobs.size(), blobs.size());
    for (const NamedBlob& blob : blobs) {
      const auto found = std::ranges::find_if(
          weights.blobs, [&](const NamedBlob& each) { return each.layer == blob.layer && each.index == blob.index; });
      ASSERT_NE(found, weights.blobs.end()) << blob.layer;
      EXPECT_EQ(found->shape, blob.shape);
      EXPECT_EQ(found->values, blob.values);
    }
  }
  WriteNpz(At("again.npz"), blobs);
  EXPECT_EQ(ReadFile(At("again.npz")), bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);  // no other file is left
}

TEST_F(Npz, IsNotWrittenWithoutBlobsOrWithTwoOfOneName) {
  const NamedBlob blob{"a", 0, Shape{1}, {1}};
  EXPECT_EQ(ErrorKindOf([&] { WriteNpz(At("w.npz"), {}); }), ErrorKind::kBadData);
  EXPECT_THAT(ErrorTextOf([&] { WriteNpz(At("w.npz"), std::vector<NamedBlob>{blob, blob}); }), HasSubstr("\"a/0\""));
  EXPECT_EQ(ErrorKindOf([&] { WriteNpz(At("no/w.npz"), std::vector<NamedBlob>{blob}); }), ErrorKind::kCantCreate);
  EXPECT_FALSE(fs::exists(At("w.npz")));
  if (geteuid() == 0) return;  // who may write everywhere
  fs::create_directory(At("closed"));
  fs::permissions(At("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(ErrorKindOf([&] { WriteNpz(At("closed/w.npz"), std::vector<NamedBlob>{blob}); }), ErrorKind::kCantCreate);
}

TEST_F(Npz, EveryCutAndEveryFlippedByteOfValuesIsFound) {
  WriteNpz(At("w.npz"), std::vector<NamedBlob>{{"a", 0, Shape{4}, {1, 2, 3, 4}}, {"b", 0, Shape{1}, {5}}});
  const std::string bytes = ReadFile(At("w.npz"));
  for (size_t n = 0; n < bytes.size(); n += 7) {
    EXPECT_EQ(ErrorKindOf([&] { WeightsFromBytes(std::string_view(bytes).substr(0, n), "w"); }), ErrorKind::kBadData)
        << n;
  }
  const std::string value = Bytes<float>({3});
  std::string flipped = bytes;
  flipped[bytes.find(value)] ^= 1;
  EXPECT_THAT(ErrorOf(flipped), HasSubstr("a/0.npy"));
  EXPECT_THAT(ErrorOf(bytes.substr(0, bytes.size() / 2)), HasSubstr(StrCat("it has ", bytes.size() / 2, " bytes")));
}

TEST_F(Npz, NamesMembersThatAreWrong) {
  const std::string good = Npy("<f4", "(1,)", Bytes<float>({1}));
  EXPECT_THAT(ErrorOf(Zip({{"a.npy", good}, {"b.npy", Npy("<f4", "(1, 1)", Bytes<float>({1}), "True")}})),
              HasSubstr("b.npy: the array is in Fortran order"));
  EXPECT_THAT(ErrorOf(Zip({{"a.npy", Npy("<c8", "(1,)", "12345678")}})), HasSubstr("a.npy: values of type"));
  EXPECT_THAT(ErrorOf(Zip({{"a.npy", good}, {"a", good}})), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(Zip({{"a.npy", good}, {"../../etc/passwd", "root"}})), HasSubstr("passwd: not a .npy"));
  EXPECT_THAT(ErrorOf(Zip({{"a.npy", good}, {"folder/", ""}})), HasSubstr("folder/: not a .npy"));
  EXPECT_EQ(ErrorKindOf([&] {
              WeightsFromBytes(Zip({{"a.npy", Npy("|O", "(1,)", "cos")}}), "w");
            }),
            ErrorKind::kBadData);
  // A name that looks like a path is none: nothing is unpacked.
  EXPECT_EQ(WeightsFromBytes(Zip({{"../../a/0.npy", good}}), "w").blobs.at(0).layer, "../../a");
}

TEST_F(Npz, ABombIsNotUnpacked) {
  const std::string zeros = Npy("<f4", "(50000000,)", std::string(200'000'000, '\0'));
  const std::string bomb = Zip({{"a.npy", zeros}}, true);
  ASSERT_LT(bomb.size(), zeros.size() / 500);
  EXPECT_THAT(ErrorOf(bomb), HasSubstr("unpack to"));
  // One that claims to be small: its size is part of what is checked.
  std::string liar = Zip({{"a.npy", Npy("<f4", "(64,)", std::string(256, '\0'))}}, true);
  const std::string claim = Bytes<uint32_t>({384});
  for (size_t at = liar.find(claim); at != std::string::npos; at = liar.find(claim, at + 1)) liar[at] = '\x70';
  EXPECT_EQ(ErrorKindOf([&] { WeightsFromBytes(liar, "w"); }), ErrorKind::kBadData);
}

TEST_F(Npz, CountersOfPyTorchAreNoWeights) {
  const Weights weights = WeightsFromBytes(
      Zip({{"bn1.weight.npy", Npy("<f4", "(1,)", Bytes<float>({2}))},
           {"bn1.num_batches_tracked.npy", Npy("<i8", "()", Bytes<int64_t>({16'777'217}))}}),  // no float is so
      "w");
  ASSERT_EQ(weights.blobs.size(), 1U);
  EXPECT_EQ(weights.blobs[0].layer, "bn1.weight");
}

}  // namespace
}  // namespace moka

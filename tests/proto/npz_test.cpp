// NumPy's files of every type, and their faults.
#include "proto/weights/npz.h"

#include <gmock/gmock.h>

#include <bit>

#include "core/text.h"
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

TEST(Npz, AFileThatIsNoArchiveIsRefused) {
  EXPECT_THAT(ErrorTextOf([] { ReadNpz(MOKA_SOURCE_DIR "/README.md"); }), HasSubstr("no zip archive"));
  EXPECT_THAT(ErrorTextOf([] { ReadNpz("/nowhere.npz"); }), HasSubstr("no file"));
}

}  // namespace
}  // namespace moka

// Numbers of every type and range through every file that holds arrays: HDF5, NumPy, Caffe's blobs. Each is the same
// number in a net, or refused by its value; reals are rounded as a cast rounds them.
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <type_traits>

#include "core/exact_float.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"
#include "proto/moka.pb.h"
#include "proto/weights/hdf5_file.h"
#include "proto/weights/npz.h"
#include "proto/weights/weights.h"
#include "proto/weights/wide_numbers.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Every magnitude that a type has, its limits among them.
template <class T>
std::vector<T> Extremes(RandomStream& random) {
  std::vector<T> values = {T{0}, T{1}, std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()};
  if constexpr (sizeof(T) >= 4) values.insert(values.end(), {static_cast<T>(16777216), static_cast<T>(16777217)});
  for (int i = 0; i < 40; ++i) {
    const uint64_t bits = uint64_t{random.Bits()} << 32U | random.Bits();
    if constexpr (std::is_integral_v<T>) {
      values.push_back(static_cast<T>(bits >> static_cast<unsigned>(i)));
    } else {
      values.push_back(static_cast<T>(std::ldexp(static_cast<double>(bits >> 11U), i * 5 - 150)));
    }
  }
  return values;
}

template <class T>
hid_t Hdf5TypeOf() {
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8;
  if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? H5T_NATIVE_INT16 : H5T_NATIVE_UINT16;
  if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? H5T_NATIVE_INT32 : H5T_NATIVE_UINT32;
  return std::is_signed_v<T> ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
}

template <class T>
std::string NumpyTypeOf() {
  return StrCat(std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u", sizeof(T));
}

template <class T>
std::string NumpyBytes(T value, bool is_big_endian, const std::string& type) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  if (is_big_endian) std::ranges::reverse(bytes);
  const std::string order = sizeof(T) == 1 ? "|" : is_big_endian ? ">" : "<";
  const std::string header = StrCat("{'descr': '", order, type, "', 'fortran_order': False, 'shape': (1,), }\n");
  return StrCat(std::string("\x93NUMPY\x01\x00", 8), std::string(1, static_cast<char>(header.size())),
                std::string(1, '\0'), header, bytes);
}

class WideNumbers : public ::testing::Test {
 protected:
  WideNumbers() {
    folder_ = fs::temp_directory_path() / StrCat("moka_wide_test_", getpid());
    CreateFolders(folder_);
  }
  ~WideNumbers() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  template <class T>
  float ThroughHdf5(T value) const {
    const std::string path = (folder_ / "x.h5").string();
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t dim = 1;
    const hid_t space = H5Screate_simple(1, &dim, nullptr);
    const hid_t dataset = H5Dcreate2(file, "x", Hdf5TypeOf<T>(), space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(dataset, Hdf5TypeOf<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Fclose(file);
    const Hdf5Reader reader(path);
    float row = 0;
    reader.ReadRows("x", 0, 1, {&row, 1});
    const float whole = reader.Read("x").values.at(0);
    EXPECT_EQ(std::memcmp(&row, &whole, sizeof(float)), 0);
    return whole;
  }

  template <class T>
  static void Check(T value, const char* where, const std::function<float()>& read) {
    bool is_kept = IsExactFloat(value);
    if constexpr (std::is_floating_point_v<T>) is_kept = !IsBeyondFloat(static_cast<double>(value));
    SCOPED_TRACE(StrCat(where, " of ", NumpyTypeOf<T>(), ": ", std::to_string(value)));
    if (is_kept) {
      EXPECT_EQ(read(), static_cast<float>(value));
      return;
    }
    const std::string error = ErrorTextOf([&] { read(); });
    EXPECT_THAT(error, HasSubstr("value 0 is "));
    if constexpr (std::is_integral_v<T>) {
      EXPECT_THAT(error, HasSubstr(std::to_string(value)));
    }
  }

  template <class T>
  void CheckType() const {
    RandomStream random(5, sizeof(T));
    for (const T value : Extremes<T>(random)) {
      Check<T>(value, "HDF5", [&] { return ThroughHdf5(value); });
      for (const bool is_big_endian : {false, true}) {
        Check<T>(value, "NumPy",
                 [&] { return ParseNpy(NumpyBytes(value, is_big_endian, NumpyTypeOf<T>()), "x.npy").values.at(0); });
      }
    }
  }

  fs::path folder_;
};

TEST_F(WideNumbers, KeepTheirValueOrAreRefused) {
  CheckType<int8_t>();
  CheckType<uint8_t>();
  CheckType<int16_t>();
  CheckType<uint16_t>();
  CheckType<int32_t>();
  CheckType<uint32_t>();
  CheckType<int64_t>();
  CheckType<uint64_t>();
  CheckType<float>();
  CheckType<double>();
}

TEST_F(WideNumbers, OfBlobsToo) {
  const auto through = [](const BlobProto& blob) {
    NetParameter net;
    LayerParameter& layer = *net.add_layer();
    layer.set_name("ip");
    layer.set_type("InnerProduct");
    *layer.add_blobs() = blob;
    return WeightsFromBytes(net.SerializeAsString(), "w").blobs.at(0).values.at(0);
  };
  const auto raw = [&](ElementType type, auto value) {
    BlobProto blob;
    blob.set_raw_data_type(type);
    blob.set_raw_data(&value, sizeof(value));
    return blob;
  };
  RandomStream random(6, 1);
  for (const double value : Extremes<double>(random)) {
    BlobProto blob;
    blob.add_double_data(value);
    Check<double>(value, "double_data", [&] { return through(blob); });
    Check<double>(value, "raw_data", [&] { return through(raw(DOUBLE, value)); });
  }
  for (const int32_t value : Extremes<int32_t>(random))
    Check<int32_t>(value, "raw_data", [&] { return through(raw(INT, value)); });
  for (const uint32_t value : Extremes<uint32_t>(random)) {
    Check<uint32_t>(value, "raw_data", [&] { return through(raw(UINT, value)); });
  }
}

TEST_F(WideNumbers, RowsAreCountedFromTheDatasetsBeginning) {
  const std::string path = (folder_ / "rows.h5").string();
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t dims[] = {3, 2};
  const int64_t values[] = {0, 1, 2, 3, 4, 16777217};
  const hid_t space = H5Screate_simple(2, dims, nullptr);
  const hid_t dataset = H5Dcreate2(file, "ids", H5T_STD_I64BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(dataset);
  H5Sclose(space);
  H5Fclose(file);
  const Hdf5Reader reader(path);
  std::vector<float> row(2);
  reader.ReadRows("ids", 1, 1, row);
  EXPECT_THAT(row, testing::ElementsAre(2, 3));
  EXPECT_THAT(ErrorTextOf([&] { reader.ReadRows("ids", 2, 1, row); }),
              HasSubstr("dataset \"ids\": value 5 is 16777217, which would become 16777216"));
}

}  // namespace
}  // namespace moka

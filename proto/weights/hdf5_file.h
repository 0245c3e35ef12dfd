// HDF5 files as Caffe writes them: groups of float datasets, some integers and texts. The library (Debian's libhdf5)
// stays behind this header; it is not thread-safe, so every call takes one lock. Links to other files, external and
// virtual storage and filter plug-ins are refused: a file can neither name another one nor load code, and no dataset
// may be larger than its file could hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace moka {

struct Hdf5Tensor {
  Shape shape;
  std::vector<float> values;
};

class Hdf5Reader {
 public:
  // Errors: kNoInput, kBadData naming the file and what the library said.
  explicit Hdf5Reader(const std::filesystem::path& path);
  // Bytes in memory; `name` is the file's name in errors.
  Hdf5Reader(std::string_view bytes, std::string name);
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;
  ~Hdf5Reader();

  // Whether the root group has an object of the name.
  bool Has(const std::string& name) const;
  // Paths of all datasets below a group, relative to it, in the order of their names. Errors: kBadData.
  std::vector<std::string> Datasets(const std::string& group) const;
  // A dataset of numbers as floats. Errors: kBadData naming the dataset.
  Hdf5Tensor Read(const std::string& dataset) const;
  // The shape of a dataset of numbers; rows [first, first + rows) of it as floats, row-major. Requires: the rows exist
  // and `values` has room for just them.
  Shape ShapeOf(const std::string& dataset) const;
  void ReadRows(const std::string& dataset, int64_t first, int64_t rows, std::span<float> values) const;
  // The only value of a dataset of integers; a text of fixed length. Errors: kBadData.
  int64_t ReadInteger(const std::string& dataset) const;
  std::string ReadText(const std::string& dataset) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes beside the final name and moves the file there on Commit().
class Hdf5Writer {
 public:
  // Errors: kCantCreate.
  explicit Hdf5Writer(std::filesystem::path path);
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;
  ~Hdf5Writer();

  // Groups of a path that are not there yet are made. Errors: kBadData for names the format cannot hold, kIo.
  void AddGroup(const std::string& path);
  void AddFloats(const std::string& path, const Shape& shape, std::span<const float> values);
  // More rows of a dataset that grows; the first call makes it. Requires: `rows` has the same row shape each time.
  void AppendRows(const std::string& path, const Shape& rows, std::span<const float> values);
  void AddInteger(const std::string& path, int64_t value);  // 32 bits, one element
  void AddFloat(const std::string& path, float value);      // one element
  void AddText(const std::string& path, const std::string& text);
  void Commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moka

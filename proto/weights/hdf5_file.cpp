// Everything is checked before the library reads a value: shape, storage size, filters and their ratio, external files.
// libhdf5 is not safe between threads, so all calls hold one mutex.
#include "proto/weights/hdf5_file.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/open_file.h"
#include "core/size.h"
#include "core/text.h"
#include "core/unpacking.h"
#include "proto/weights/hdf5_library.h"
#include "proto/weights/wide_numbers.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthLimit = 16;
constexpr size_t kObjectLimit = 1 << 20;
constexpr int64_t kTextLimitBytes = 64 << 10;
// deflate cannot make data shorter than by this factor.
constexpr int64_t kCompressionLimit = 1032;
// Chunks are unpacked in memory as a whole: any file may have such, others some times what they are themselves.
constexpr int64_t kChunkLimitBytes = int64_t{128} << 20;
constexpr int64_t kChunkLimitFiles = 8;

}  // namespace

struct Hdf5Reader::State {
  std::string name;
  int64_t bytes = 0;
  Hdf5Handle file;
  // Totals of the datasets that were read as a whole:
  Size stored_bytes = 0;  // in the file
  Size whole_bytes = 0;   // in memory

  [[noreturn]] void Fail(std::string text) const {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = name}, std::move(text));
  }
  [[noreturn]] void Fail(const std::string& dataset, std::string_view problem) const {
    Fail(StrCat("dataset \"", Printable(dataset), "\" ", problem));
  }

  // Every part of a path must lie in this file.
  void CheckLinks(const std::string& path) const {
    for (size_t end = 0; end != std::string::npos;) {
      end = path.find('/', end + 1);
      H5L_info_t info{};
      const std::string part = path.substr(0, end);
      if (H5Lget_info(file.get(), part.c_str(), &info, H5P_DEFAULT) < 0) {
        Fail(StrCat("there is no \"", Printable(part), "\""));
      }
      if (info.type != H5L_TYPE_HARD) Fail(StrCat("\"", Printable(part), "\" is a link to another place"));
    }
  }

  Hdf5Handle OpenDataset(const std::string& path) const {
    CheckLinks(path);
    Hdf5Handle dataset(H5Dopen2(file.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset.is_open()) Fail(path, StrCat("cannot be opened: ", LibraryReason()));
    return dataset;
  }
  Shape ShapeOf(hid_t dataset, const std::string& path) const;
  // The numbers of a selection as floats; `first` counts those before it. Errors: kBadData.
  void ReadNumbers(hid_t dataset, const std::string& path, hid_t in_memory, hid_t in_file, int64_t first,
                   std::span<float> values) const;
  template <class T>
  void ReadWide(hid_t dataset, const std::string& path, hid_t type, hid_t in_memory, hid_t in_file, int64_t first,
                std::span<float> values) const;
  Shape CheckNumbers(hid_t dataset, const std::string& path) const;
  void CheckStorage(hid_t dataset, const std::string& path, const Shape& shape, size_t value_bytes) const;
  void CheckWhole(hid_t dataset, const std::string& path, const Shape& shape);
  void List(hid_t group, const std::string& prefix, int depth, size_t& objects, std::vector<std::string>& found) const;
};

Shape Hdf5Reader::State::ShapeOf(hid_t dataset, const std::string& path) const {
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  if (!space.is_open()) Fail(path, StrCat("has no extent: ", LibraryReason()));
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_SCALAR) return {};
  const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (rank < 0 || rank > Shape::kMaxRank)
    Fail(path, StrCat("has no shape of at most ", Shape::kMaxRank, " dimensions"));
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  std::vector<int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    const hsize_t dim = dims.at(static_cast<size_t>(i));
    if (dim > static_cast<hsize_t>(INT64_MAX)) Fail(path, "has a dimension beyond 2^63");
    shape.push_back(static_cast<int64_t>(dim));
  }
  try {
    Shape result(shape);
    (Size(result.Count()) * int64_t{sizeof(double)}).value();
    return result;
  } catch (const Error& error) {
    Fail(path, error.text());
  }
}

// Refuses values that lie elsewhere, or more of them than the file can hold.
void Hdf5Reader::State::CheckStorage(hid_t dataset, const std::string& path, const Shape& shape,
                                     size_t value_bytes) const {
  const Size needed = Size(shape.Count()) * static_cast<int64_t>(value_bytes);
  const Hdf5Handle plist(H5Dget_create_plist(dataset), H5Pclose);
  if (!plist.is_open()) Fail(path, StrCat("has no layout: ", LibraryReason()));
  const H5D_layout_t layout = H5Pget_layout(plist.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(plist.get()) != 0)
    Fail(path, "takes its values from another file");
  const int filters = H5Pget_nfilters(plist.get());
  if (filters < 0) Fail(path, StrCat("has no filters: ", LibraryReason()));
  const Size limit = filters == 0 ? Size(bytes) : Size(bytes) * kCompressionLimit;
  if (needed > limit) {
    Fail(path, StrCat("claims ", needed.value(), " bytes and the file has ", bytes));
  }
  if (layout != H5D_CHUNKED) return;
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank = H5Pget_chunk(plist.get(), H5S_MAX_RANK, dims.data());
  if (rank != shape.rank()) Fail(path, "has chunks of another rank");
  // A chunk may be unpacked in memory, and each takes time: neither is more than the file can say.
  const Size most = std::min(limit, std::max(Size(kChunkLimitBytes), Size(bytes) * kChunkLimitFiles));
  Size chunk_bytes = static_cast<int64_t>(value_bytes);
  Size chunks = 1;
  for (int i = 0; i < rank; ++i) {
    const auto dim = static_cast<int64_t>(std::min<hsize_t>(dims.at(static_cast<size_t>(i)), UINT32_MAX));
    if (dim == 0 || most / chunk_bytes < dim)
      Fail(path, StrCat("has chunks that a file of ", bytes, " bytes cannot hold"));
    chunk_bytes *= dim;
    chunks *= CeilDiv(shape[i], dim);  // no overflow: no more than the shape's count
    if (chunks > bytes) Fail(path, StrCat("has more chunks than a file of ", bytes, " bytes can hold"));
  }
}

void Hdf5Reader::State::List(hid_t group, const std::string& prefix, int depth, size_t& objects,
                             std::vector<std::string>& found) const {
  struct Links {
    std::vector<std::string> names;
    bool has_foreign = false;
  };
  if (depth > kDepthLimit) Fail(StrCat("groups are nested more than ", kDepthLimit, " deep"));
  Links links;
  const auto take = [](hid_t, const char* link, const H5L_info_t* info, void* data) -> herr_t {
    auto& all = *static_cast<Links*>(data);
    all.has_foreign = all.has_foreign || info->type != H5L_TYPE_HARD;
    all.names.emplace_back(link);
    return all.names.size() > kObjectLimit ? 1 : 0;
  };
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &links) < 0) {
    Fail(StrCat("group \"", Printable(prefix), "\" cannot be listed: ", LibraryReason()));
  }
  if (links.has_foreign) Fail(StrCat("group \"", Printable(prefix), "\" holds a link to another place"));
  objects += links.names.size();
  if (objects > kObjectLimit) Fail(StrCat("more than ", kObjectLimit, " objects"));
  for (const std::string& link : links.names) {
    const std::string path = prefix.empty() ? link : StrCat(prefix, "/", link);
    const Hdf5Handle object(H5Oopen(group, link.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.is_open()) Fail(StrCat("\"", Printable(path), "\" cannot be opened: ", LibraryReason()));
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_GROUP) List(object.get(), path, depth + 1, objects, found);
    if (type == H5I_DATASET) found.push_back(path);
  }
}

Hdf5Reader::Hdf5Reader(const fs::path& path) : state_(std::make_unique<State>()) {
  const std::scoped_lock lock(LibraryMutex());
  PrepareLibrary();
  state_->name = path.string();
  state_->bytes = OpenFile::ForReading(path).bytes();
  const Hdf5Handle access = FileAccess();
  state_->file = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!state_->file.is_open()) state_->Fail(StrCat("the HDF5 file cannot be read: ", LibraryReason()));
}

Hdf5Reader::Hdf5Reader(std::string_view bytes, std::string name) : state_(std::make_unique<State>()) {
  const std::scoped_lock lock(LibraryMutex());
  PrepareLibrary();
  state_->name = std::move(name);
  state_->bytes = static_cast<int64_t>(bytes.size());
  constexpr size_t kGrowBytes = 1 << 16;
  const Hdf5Handle access = FileAccess();
  H5Pset_fapl_core(access.get(), kGrowBytes, false);
  // The library copies the bytes; it takes them as a pointer to what may change.
  std::string copy(bytes);
  H5Pset_file_image(access.get(), copy.data(), copy.size());
  // The library takes two files of one name for the same.
  static int64_t opened = 0;
  const std::string unique = StrCat("memory ", ++opened);
  state_->file = Hdf5Handle(H5Fopen(unique.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!state_->file.is_open()) state_->Fail(StrCat("the HDF5 file cannot be read: ", LibraryReason()));
}

Hdf5Reader::~Hdf5Reader() {
  const std::scoped_lock lock(LibraryMutex());
  state_.reset();
}

bool Hdf5Reader::Has(const std::string& name) const {
  const std::scoped_lock lock(LibraryMutex());
  return H5Lexists(state_->file.get(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> Hdf5Reader::Datasets(const std::string& group) const {
  const std::scoped_lock lock(LibraryMutex());
  state_->CheckLinks(group);
  const Hdf5Handle opened(H5Gopen2(state_->file.get(), group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!opened.is_open()) state_->Fail(StrCat("\"", Printable(group), "\" is no group"));
  std::vector<std::string> found;
  size_t objects = 0;
  state_->List(opened.get(), "", 0, objects, found);
  return found;
}

// The shape of a dataset that holds numbers, as many as the file can hold.
Shape Hdf5Reader::State::CheckNumbers(hid_t dataset, const std::string& path) const {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const size_t value_bytes = H5Tget_size(type.get());
  if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || value_bytes == 0 || value_bytes > sizeof(double)) {
    Fail(path, "holds no numbers of at most 64 bits");
  }
  const Shape shape = ShapeOf(dataset, path);
  CheckStorage(dataset, path, shape, value_bytes);
  return shape;
}

// Checks a dataset that is about to be in memory as a whole, beside those before it. Two names may have one dataset.
void Hdf5Reader::State::CheckWhole(hid_t dataset, const std::string& path, const Shape& shape) {
  const Size stored = static_cast<int64_t>(std::min<hsize_t>(H5Dget_storage_size(dataset), INT64_MAX / 2));
  const Size values = Size(shape.Count()) * int64_t{sizeof(float)};
  stored_bytes += stored;
  if (stored_bytes > Size(bytes)) Fail(path, "and those before it claim more bytes than the file has");
  whole_bytes += values;
  CheckUnpackedBytes(name, stored_bytes.value(), whole_bytes.value());
}

template <class T>
void Hdf5Reader::State::ReadWide(hid_t dataset, const std::string& path, hid_t type, hid_t in_memory, hid_t in_file,
                                 int64_t first, std::span<float> values) const {
  std::vector<T> numbers(values.size());
  if (H5Dread(dataset, type, in_memory, in_file, H5P_DEFAULT, numbers.data()) < 0) {
    Fail(path, StrCat("cannot be read: ", LibraryReason()));
  }
  CopyWide(std::span<const T>(numbers), StrCat(name, ": dataset \"", Printable(path), "\""), first, values);
}

void Hdf5Reader::State::ReadNumbers(hid_t dataset, const std::string& path, hid_t in_memory, hid_t in_file,
                                    int64_t first, std::span<float> values) const {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const size_t value_bytes = H5Tget_size(type.get());
  constexpr size_t kExactBytes = 2;  // whole numbers of 16 bits are floats as they are
  if (kind == H5T_INTEGER && value_bytes > kExactBytes) {
    if (H5Tget_sign(type.get()) == H5T_SGN_NONE) {
      return ReadWide<uint64_t>(dataset, path, H5T_NATIVE_UINT64, in_memory, in_file, first, values);
    }
    return ReadWide<int64_t>(dataset, path, H5T_NATIVE_INT64, in_memory, in_file, first, values);
  }
  if (kind == H5T_FLOAT && value_bytes > sizeof(float)) {
    return ReadWide<double>(dataset, path, H5T_NATIVE_DOUBLE, in_memory, in_file, first, values);
  }
  if (H5Dread(dataset, H5T_NATIVE_FLOAT, in_memory, in_file, H5P_DEFAULT, values.data()) < 0) {
    Fail(path, StrCat("cannot be read: ", LibraryReason()));
  }
}

Hdf5Tensor Hdf5Reader::Read(const std::string& path) const {
  const std::scoped_lock lock(LibraryMutex());
  const Hdf5Handle dataset = state_->OpenDataset(path);
  Hdf5Tensor tensor;
  tensor.shape = state_->CheckNumbers(dataset.get(), path);
  state_->CheckWhole(dataset.get(), path, tensor.shape);
  tensor.values.resize(static_cast<size_t>(tensor.shape.Count()));
  if (tensor.values.empty()) return tensor;
  state_->ReadNumbers(dataset.get(), path, H5S_ALL, H5S_ALL, 0, tensor.values);
  return tensor;
}

Shape Hdf5Reader::ShapeOf(const std::string& path) const {
  const std::scoped_lock lock(LibraryMutex());
  const Hdf5Handle dataset = state_->OpenDataset(path);
  return state_->CheckNumbers(dataset.get(), path);
}

void Hdf5Reader::ReadRows(const std::string& path, int64_t first, int64_t rows, std::span<float> values) const {
  const std::scoped_lock lock(LibraryMutex());
  const Hdf5Handle dataset = state_->OpenDataset(path);
  const Shape shape = state_->CheckNumbers(dataset.get(), path);
  Require(shape.rank() > 0 && first >= 0 && rows >= 0 && first <= shape[0] - rows, "ReadRows: the rows exist");
  Require(static_cast<int64_t>(values.size()) == rows * shape.Count(1, shape.rank()), "ReadRows: room for the rows");
  if (values.empty()) return;
  std::array<hsize_t, H5S_MAX_RANK> begin{};
  std::array<hsize_t, H5S_MAX_RANK> count{};
  for (int i = 0; i < shape.rank(); ++i) count.at(static_cast<size_t>(i)) = static_cast<hsize_t>(shape[i]);
  begin[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(rows);
  const Hdf5Handle in_file(H5Dget_space(dataset.get()), H5Sclose);
  const Hdf5Handle in_memory(H5Screate_simple(shape.rank(), count.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr) < 0) {
    state_->Fail(path, StrCat("cannot be read: ", LibraryReason()));
  }
  const int64_t before = first * shape.Count(1, shape.rank());
  state_->ReadNumbers(dataset.get(), path, in_memory.get(), in_file.get(), before, values);
}

int64_t Hdf5Reader::ReadInteger(const std::string& path) const {
  const std::scoped_lock lock(LibraryMutex());
  const Hdf5Handle dataset = state_->OpenDataset(path);
  const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const size_t value_bytes = H5Tget_size(type.get());
  const Shape shape = state_->ShapeOf(dataset.get(), path);
  if (H5Tget_class(type.get()) != H5T_INTEGER || value_bytes > sizeof(int64_t) || shape.Count() != 1) {
    state_->Fail(path, "is not one integer");
  }
  state_->CheckStorage(dataset.get(), path, shape, value_bytes);
  int64_t value = 0;
  if (H5Dread(dataset.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) < 0) {
    state_->Fail(path, StrCat("cannot be read: ", LibraryReason()));
  }
  return value;
}

std::string Hdf5Reader::ReadText(const std::string& path) const {
  const std::scoped_lock lock(LibraryMutex());
  const Hdf5Handle dataset = state_->OpenDataset(path);
  const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const auto bytes = static_cast<int64_t>(H5Tget_size(type.get()));
  const bool is_fixed = H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0;
  const Shape shape = state_->ShapeOf(dataset.get(), path);
  if (!is_fixed || bytes > kTextLimitBytes || shape.Count() != 1) {
    state_->Fail(path, StrCat("is not one text of fixed length, at most ", kTextLimitBytes, " bytes"));
  }
  state_->CheckStorage(dataset.get(), path, shape, static_cast<size_t>(bytes));
  std::string text(static_cast<size_t>(bytes), '\0');
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
    state_->Fail(path, StrCat("cannot be read: ", LibraryReason()));
  }
  return text.substr(0, text.find('\0'));
}

}  // namespace moka

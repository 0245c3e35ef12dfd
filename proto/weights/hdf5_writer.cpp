// Writing of HDF5 files, which appear whole.
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/size.h"
#include "core/text.h"
#include "proto/weights/hdf5_file.h"
#include "proto/weights/hdf5_library.h"

namespace moka {

namespace fs = std::filesystem;

struct Hdf5Writer::State {
  fs::path path;
  fs::path temporary;
  Hdf5Handle file;
  Hdf5Handle links;  // makes the groups on the way

  [[noreturn]] void Fail(const std::string& object) const {
    throw Error(ErrorKind::kIo,
                StrCat("cannot write ", path.string(), ": \"", Printable(object), "\": ", LibraryReason()));
  }
  // "." and empty parts mean other objects to the library.
  void CheckName(const std::string& object) const {
    for (const std::string& part : Split(object, '/')) {
      if (!part.empty() && part != "." && part.find('\0') == std::string::npos) continue;
      throw Error(ErrorKind::kBadData,
                  StrCat(path.string(), ": HDF5 cannot hold an object of the name \"", Printable(object), "\""));
    }
  }
  void Write(const std::string& object, hid_t type, const std::vector<hsize_t>& dims, bool is_scalar,
             const void* data) {
    CheckName(object);
    const Hdf5Handle space(
        is_scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
        H5Sclose);
    Hdf5Handle dataset(H5Dcreate2(file.get(), object.c_str(), type, space.get(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose);
    if (!dataset.is_open()) Fail(object);
    const bool is_empty = std::ranges::find(dims, hsize_t{0}) != dims.end();
    if (!is_empty && H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) Fail(object);
    if (dataset.Close() < 0) Fail(object);
  }
};

Hdf5Writer::Hdf5Writer(fs::path path) : state_(std::make_unique<State>()) {
  const std::scoped_lock lock(LibraryMutex());
  PrepareLibrary();
  state_->path = std::move(path);
  CheckReplaceable(state_->path);
  state_->temporary = state_->path;
  state_->temporary += StrCat(".tmp", getpid());
  std::error_code code;
  fs::remove(state_->temporary, code);  // left by a killed process that had our pid
  const Hdf5Handle access = FileAccess();
  state_->file = Hdf5Handle(H5Fcreate(state_->temporary.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()), H5Fclose);
  if (!state_->file.is_open()) {
    throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", state_->path.string(), ": ", LibraryReason()));
  }
  state_->links = Hdf5Handle(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(state_->links.get(), 1);
}

Hdf5Writer::~Hdf5Writer() {
  const std::scoped_lock lock(LibraryMutex());
  const fs::path temporary = state_->temporary;
  state_.reset();
  std::error_code code;
  if (!temporary.empty()) fs::remove(temporary, code);
}

void Hdf5Writer::AddGroup(const std::string& path) {
  const std::scoped_lock lock(LibraryMutex());
  state_->CheckName(path);
  const Hdf5Handle there(H5Gopen2(state_->file.get(), path.c_str(), H5P_DEFAULT), H5Gclose);
  if (there.is_open()) return;
  const Hdf5Handle group(H5Gcreate2(state_->file.get(), path.c_str(), state_->links.get(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Gclose);
  if (!group.is_open()) state_->Fail(path);
}

void Hdf5Writer::AddFloats(const std::string& path, const Shape& shape, std::span<const float> values) {
  const std::scoped_lock lock(LibraryMutex());
  Require(shape.Count() == static_cast<int64_t>(values.size()), "AddFloats: the values fill the shape");
  std::vector<hsize_t> dims;
  for (const int64_t dim : shape.dims()) dims.push_back(static_cast<hsize_t>(dim));
  state_->Write(path, H5T_NATIVE_FLOAT, dims, dims.empty(), values.data());
}

void Hdf5Writer::AppendRows(const std::string& path, const Shape& rows, std::span<const float> values) {
  const std::scoped_lock lock(LibraryMutex());
  Require(rows.rank() > 0 && rows.Count() > 0 && rows.Count() == static_cast<int64_t>(values.size()),
          "AppendRows: the values are the rows");
  const int rank = rows.rank();
  std::vector<hsize_t> added;
  for (const int64_t dim : rows.dims()) added.push_back(static_cast<hsize_t>(dim));
  Hdf5Handle dataset(H5Dopen2(state_->file.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.is_open()) {
    state_->CheckName(path);
    std::vector<hsize_t> dims = added;
    std::vector<hsize_t> limits = added;
    dims[0] = 0;
    limits[0] = H5S_UNLIMITED;
    const Hdf5Handle space(H5Screate_simple(rank, dims.data(), limits.data()), H5Sclose);
    const Hdf5Handle plist(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    // A chunk holds at most 4 GiB.
    std::vector<hsize_t> chunk = added;
    constexpr int64_t kChunkValues = int64_t{1} << 20U;
    chunk[0] = static_cast<hsize_t>(std::clamp<int64_t>(kChunkValues / (rows.Count() / rows[0]), 1, rows[0]));
    H5Pset_chunk(plist.get(), rank, chunk.data());
    dataset = Hdf5Handle(H5Dcreate2(state_->file.get(), path.c_str(), H5T_NATIVE_FLOAT, space.get(),
                                    state_->links.get(), plist.get(), H5P_DEFAULT),
                         H5Dclose);
    if (!dataset.is_open()) state_->Fail(path);
  }
  const Hdf5Handle old(H5Dget_space(dataset.get()), H5Sclose);
  Require(H5Sget_simple_extent_ndims(old.get()) == rank, "AppendRows: rows of one shape");
  std::vector<hsize_t> dims(added.size());
  H5Sget_simple_extent_dims(old.get(), dims.data(), nullptr);
  std::vector<hsize_t> begin(added.size());
  begin[0] = dims[0];
  dims[0] += added[0];
  Require(std::equal(dims.begin() + 1, dims.end(), added.begin() + 1), "AppendRows: rows of one shape");
  if (H5Dset_extent(dataset.get(), dims.data()) < 0) state_->Fail(path);
  const Hdf5Handle in_file(H5Dget_space(dataset.get()), H5Sclose);
  const Hdf5Handle in_memory(H5Screate_simple(rank, added.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, begin.data(), nullptr, added.data(), nullptr) < 0 ||
      H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, in_memory.get(), in_file.get(), H5P_DEFAULT, values.data()) < 0 ||
      dataset.Close() < 0) {
    state_->Fail(path);
  }
}

void Hdf5Writer::AddInteger(const std::string& path, int64_t value) {
  const std::scoped_lock lock(LibraryMutex());
  Require(value >= INT32_MIN && value <= INT32_MAX, "AddInteger: Caffe's files hold integers of 32 bits");
  const auto narrow = static_cast<int32_t>(value);
  state_->Write(path, H5T_NATIVE_INT32, {1}, false, &narrow);
}

void Hdf5Writer::AddFloat(const std::string& path, float value) {
  const std::scoped_lock lock(LibraryMutex());
  state_->Write(path, H5T_NATIVE_FLOAT, {1}, false, &value);
}

void Hdf5Writer::AddText(const std::string& path, const std::string& text) {
  const std::scoped_lock lock(LibraryMutex());
  const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), text.size() + 1);
  state_->Write(path, type.get(), {}, true, text.c_str());
}

void Hdf5Writer::Commit() {
  {
    const std::scoped_lock lock(LibraryMutex());
    if (H5Fflush(state_->file.get(), H5F_SCOPE_LOCAL) < 0 || state_->file.Close() < 0) state_->Fail("the file's end");
  }
  CommitFile(state_->temporary, state_->path);
  state_->temporary.clear();
}

}  // namespace moka

// libzip writes the archive (with zip64 where it needs it) beside its name and it is moved there whole. Every member
// has the first day that a zip can tell as its date, so that equal blobs make equal files.
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/npz.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr zip_uint16_t kFirstDosDate = (1U << 5U) | 1U;  // 1 January 1980

// The header of a .npy of version 1, padded so that values begin at a multiple of 64 bytes.
std::string HeaderOf(const Shape& shape) {
  constexpr size_t kFixed = 10;  // magic, version, 2 bytes of length
  std::string dims;
  for (const int64_t dim : shape.dims()) dims += StrCat(dim, ", ");
  if (shape.rank() > 1) dims.resize(dims.size() - 2);
  std::string text = StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", Trim(dims), "), }");
  text.resize((kFixed + text.size() + 1 + 63) / 64 * 64 - kFixed - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY\x01";
  for (const size_t byte : {size_t{0}, text.size() & 0xFFU, text.size() >> 8U}) header += static_cast<char>(byte);
  return header + text;
}

// Removes a file that was not moved to its name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& path) : path_(path) {
    path_ += StrCat(".tmp", getpid());
    Remove();  // one of a killed process that had this number
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { Remove(); }
  const fs::path& path() const { return path_; }

 private:
  void Remove() {
    std::error_code code;
    fs::remove(path_, code);
  }
  fs::path path_;
};

}  // namespace

void WriteNpz(const fs::path& path, std::span<const NamedBlob> blobs) {
  if (blobs.empty()) throw Error(ErrorKind::kBadData, "there are no blobs to write");
  const std::vector<std::string> names = BlobNames(blobs);
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) continue;
    throw Error(ErrorKind::kBadData, StrCat("two blobs are named \"", Printable(name), "\""));
  }
  CheckReplaceable(path);
  // The library creates nothing before the archive is closed, and says then that it could not write.
  { const AtomicFile tried(path); }
  const TemporaryFile file(path);
  int status = 0;
  std::unique_ptr<zip_t, decltype(&zip_discard)> zip(zip_open(file.path().c_str(), ZIP_CREATE | ZIP_EXCL, &status),
                                                     zip_discard);
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, status);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", Printable(path.string()), ": ", Printable(reason)));
  }
  const auto fail = [&] {
    throw Error(ErrorKind::kIo,
                StrCat("cannot write ", Printable(path.string()), ": ", Printable(zip_strerror(zip.get()))));
  };
  std::vector<std::string> headers;
  headers.reserve(blobs.size());  // the archive reads them when it is closed
  for (size_t i = 0; i < blobs.size(); ++i) {
    const NamedBlob& blob = blobs[i];
    Require(blob.shape.Count() == std::ssize(blob.values), "WriteNpz: a blob's values fill its shape");
    std::string& header = headers.emplace_back(HeaderOf(blob.shape));
    zip_buffer_fragment_t fragments[2] = {};
    fragments[0].data = reinterpret_cast<zip_uint8_t*>(header.data());
    fragments[0].length = header.size();
    fragments[1].data = reinterpret_cast<zip_uint8_t*>(const_cast<float*>(blob.values.data()));  // it is only read
    fragments[1].length = blob.values.size() * sizeof(float);
    zip_source_t* source = zip_source_buffer_fragment(zip.get(), fragments, blob.values.empty() ? 1 : 2, 0);
    if (source == nullptr) fail();
    const zip_int64_t index = zip_file_add(zip.get(), (names[i] + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      if (zip_error_code_zip(zip_get_error(zip.get())) != ZIP_ER_INVAL) fail();
      throw Error(ErrorKind::kBadData, {}, StrCat("no zip holds a member called \"", Printable(names[i]), "\""),
                  "give the layer a name without control characters, or write .safetensors");
    }
    const auto member = static_cast<zip_uint64_t>(index);
    if (zip_set_file_compression(zip.get(), member, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(zip.get(), member, 0, kFirstDosDate, 0) != 0) {
      fail();
    }
  }
  if (zip_close(zip.get()) != 0) fail();
  (void)zip.release();  // closed
  CommitFile(file.path(), path);
}

}  // namespace moka

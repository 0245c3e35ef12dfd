// libzip reads the directory at the end of the file; members are then read in its order, bounded by the sizes that it
// gives.
#include "data/files/zip_members.h"

#include <sys/stat.h>
#include <zip.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "core/unpacking.h"

namespace moka {
namespace {

constexpr int64_t kZipMemberLimit = int64_t{1} << 30U;

struct CloseZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

struct ZipMembers::State {
  std::string path;
  std::unique_ptr<zip_t, CloseZip> zip;
  zip_int64_t next = 0;                          // the present member's number, and 1
  std::unique_ptr<zip_file_t, CloseZip> file{};  // the present member, once it is read; closed before the archive is
  int64_t read_bytes = 0;                        // of it
  int64_t packed_bytes = 0;                      // it has in the archive

  [[noreturn]] void Fail(std::string_view text) const { throw Error(ErrorKind::kBadData, StrCat(path, ": ", text)); }
  // Returns whether a member is a link, which only a Unix program writes as one.
  bool IsLink(zip_uint64_t index) const {
    zip_uint8_t system = 0;
    zip_uint32_t attributes = 0;
    const bool is_known = zip_file_get_external_attributes(zip.get(), index, 0, &system, &attributes) == 0;
    return is_known && system == ZIP_OPSYS_UNIX && S_ISLNK(attributes >> 16U);
  }
};

bool ZipMembers::IsZip(std::string_view begin) {
  return begin.starts_with("PK\x03\x04") || begin.starts_with("PK\x05\x06");
}

ZipMembers::ZipMembers(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->path = path.string();
  int code = 0;
  state_->zip.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (state_->zip != nullptr) return;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  state_->Fail(StrCat("a damaged or truncated zip archive: ", Printable(reason)));
}

ZipMembers::~ZipMembers() = default;

bool ZipMembers::Next() {
  const zip_int64_t count = zip_get_num_entries(state_->zip.get(), 0);
  state_->file.reset();
  while (state_->next < count) {
    const auto index = static_cast<zip_uint64_t>(state_->next++);
    zip_stat_t stat;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE;
    if (zip_stat_index(state_->zip.get(), index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
      state_->Fail(StrCat("member ", index, " of the zip archive has no name or size"));
    }
    name_ = stat.name;
    if (name_.ends_with('/')) continue;  // a folder
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE) {
      left_out_.Add("encrypted members", name_);
      continue;
    }
    if (state_->IsLink(index)) {
      left_out_.Add("links", name_);
      continue;
    }
    if (stat.size > static_cast<zip_uint64_t>(kZipMemberLimit)) {
      left_out_.Add(StrCat("members of more than ", BytesText(kZipMemberLimit)), name_);
      continue;
    }
    bytes_ = static_cast<int64_t>(stat.size);
    const bool has_packed = (stat.valid & ZIP_STAT_COMP_SIZE) != 0;
    state_->packed_bytes =
        has_packed ? static_cast<int64_t>(std::min<zip_uint64_t>(stat.comp_size, INT64_MAX)) : bytes_;
    return true;
  }
  return false;
}

std::string ZipMembers::ReadPart(int64_t bytes) {
  const auto fail = [&](std::string_view text) {
    state_->Fail(StrCat("member \"", Printable(name_), "\" of the zip archive ", text));
  };
  if (state_->file == nullptr) {
    CheckUnpackedBytes(state_->path, state_->packed_bytes, bytes_, kUnpackByHand);
    state_->file.reset(zip_fopen_index(state_->zip.get(), static_cast<zip_uint64_t>(state_->next - 1), 0));
    state_->read_bytes = 0;
    if (state_->file == nullptr) fail(StrCat("cannot be read: ", Printable(zip_strerror(state_->zip.get()))));
  }
  // The size is what the archive claims: memory grows with what is really there.
  constexpr int64_t kStep = int64_t{1} << 20U;
  std::string data;
  while (std::ssize(data) < bytes) {
    const int64_t before = std::ssize(data);
    data.resize(static_cast<size_t>(std::min(bytes, before + kStep)));
    const zip_int64_t got =
        zip_fread(state_->file.get(), data.data() + before, static_cast<zip_uint64_t>(std::ssize(data) - before));
    if (got < 0) fail(StrCat("is damaged: ", Printable(zip_file_strerror(state_->file.get()))));
    data.resize(static_cast<size_t>(before + got));
    if (got == 0) fail(StrCat("ends after ", state_->read_bytes + before, " of ", bytes_, " bytes"));
  }
  state_->read_bytes += bytes;
  if (state_->read_bytes < bytes_) return data;
  // The library holds the member to its checksum when it meets the end.
  char more = 0;
  const zip_int64_t got = zip_fread(state_->file.get(), &more, 1);
  if (got < 0) fail(StrCat("is damaged: ", Printable(zip_file_strerror(state_->file.get()))));
  if (got > 0) fail("is longer than it says");
  return data;
}

}  // namespace moka

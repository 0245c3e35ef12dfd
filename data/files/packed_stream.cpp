// libarchive's raw format behind its filters for xz, bzip2 and Zstandard: a stream of bytes and no archive.
#include "data/files/packed_stream.h"

#include <archive.h>
#include <archive_entry.h>

#include "core/error.h"
#include "core/text.h"

namespace moka {

struct PackedStream::State {
  struct Close {
    void operator()(archive* opened) const { archive_read_free(opened); }
  };
  std::string path;
  std::string packer;
  std::unique_ptr<archive, Close> file{archive_read_new()};
  bool is_empty = false;

  [[noreturn]] void Fail() const {
    const char* const reason = archive_error_string(file.get());
    throw Error(ErrorKind::kBadData, StrCat(path, ": damaged or truncated ", packer,
                                            " data: ", Printable(reason == nullptr ? "no reason is known" : reason)));
  }
};

std::string_view PackedStream::PackerOf(std::string_view begin) {
  if (begin.starts_with("\xFD"
                        "7zXZ")) {
    return "xz";
  }
  if (begin.starts_with("BZh")) return "bzip2";
  if (begin.starts_with("\x28\xB5\x2F\xFD")) return "Zstandard";
  return {};
}

PackedStream::PackedStream(const std::filesystem::path& path, std::string_view packer)
    : state_(std::make_unique<State>()) {
  constexpr size_t kBlockBytes = size_t{1} << 17U;
  state_->path = path.string();
  state_->packer = packer;
  archive* const file = state_->file.get();
  if (file == nullptr) throw Error(ErrorKind::kUnavailable, "libarchive: no memory for a reader");
  archive_read_support_filter_xz(file);
  archive_read_support_filter_bzip2(file);
  archive_read_support_filter_zstd(file);
  archive_read_support_format_raw(file);
  archive_read_support_format_empty(file);
  if (archive_read_open_filename(file, path.c_str(), kBlockBytes) != ARCHIVE_OK) state_->Fail();
  archive_entry* entry = nullptr;
  const int code = archive_read_next_header(file, &entry);
  state_->is_empty = code == ARCHIVE_EOF;
  if (code != ARCHIVE_OK && code != ARCHIVE_EOF) state_->Fail();
}

PackedStream::~PackedStream() = default;

int64_t PackedStream::Read(char* data, int64_t bytes) {
  int64_t done = 0;
  while (!state_->is_empty && done < bytes) {
    const la_ssize_t got = archive_read_data(state_->file.get(), data + done, static_cast<size_t>(bytes - done));
    if (got < 0) state_->Fail();
    if (got == 0) break;
    done += got;
  }
  return done;
}

int64_t PackedStream::packed_bytes() const { return archive_filter_bytes(state_->file.get(), -1); }

}  // namespace moka

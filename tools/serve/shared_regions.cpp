// A file is opened once, by a name without folders, and belongs to whoever runs the server.
#include "tools/serve/shared_regions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/infer_job.h"
#include "tools/serve/wire_check.h"

namespace moka {
namespace {

constexpr size_t kMostName = 128;

CallFailure Wrong(const std::string& text, const std::string& hint = {}) { return {CallStatus::kWrong, text, hint}; }

std::string RegionText(std::string_view name) { return StrCat("shared memory region \"", ShownName(name), "\""); }

// The file of a key, "/name" or "name"; empty for one that is no name.
std::string FileOf(const std::string& key) {
  const std::string name = key.starts_with('/') ? key.substr(1) : key;
  constexpr size_t kMostLetters = 255;
  const bool is_name = !name.empty() && name.size() <= kMostLetters && !name.starts_with('.') &&
                       name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  return is_name ? StrCat("/dev/shm/", name) : "";
}

// Whether a caller is on this machine: another has no memory in common with it.
bool IsHere(std::string_view peer) {
  return peer.starts_with("127.") || peer == "::1" || peer.starts_with("::ffff:127.");
}

CallFailure FarAway() { return {CallStatus::kNotAllowed, "shared memory is of callers on this machine"}; }

std::string_view BytesOfValues(const AnsweredTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.values.data()),  // NOLINT(*-reinterpret-cast)
          tensor.values.size() * sizeof(float)};
}

// A share of the bytes that may be copied, while it lives.
class CopyShare {
 public:
  CopyShare(int64_t bytes, int64_t most, std::atomic<int64_t>& copied) : bytes_(bytes), copied_(copied) {
    const bool fits = (copied_ += bytes_) <= most;
    if (fits) return;
    copied_ -= bytes_;
    throw Error(ErrorKind::kUnavailable, "too many inputs from shared memory are on their way");
  }
  CopyShare(const CopyShare&) = delete;
  CopyShare& operator=(const CopyShare&) = delete;
  ~CopyShare() { copied_ -= bytes_; }

 private:
  int64_t bytes_;
  std::atomic<int64_t>& copied_;
};

}  // namespace

struct SharedRegions::Opened {
  SharedRegion region;
  int file = -1;

  Opened(SharedRegion of, int opened) : region(std::move(of)), file(opened) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { close(file); }

  // Errors: kBadData where the file has become shorter.
  std::string Read(const SharedPlace& place) const {
    std::string bytes(static_cast<size_t>(place.bytes), '\0');
    for (int64_t done = 0; done < place.bytes;) {
      const ssize_t got = pread(file, bytes.data() + done, static_cast<size_t>(place.bytes - done),
                                region.offset + place.offset + done);
      if (got <= 0) throw Error(ErrorKind::kBadData, StrCat(RegionText(region.name), " has become smaller"));
      done += got;
    }
    return bytes;
  }

  // Errors: kBadData likewise; a file is not made longer.
  void Write(std::string_view bytes, int64_t offset) const {
    struct stat facts = {};
    const int64_t begin = region.offset + offset;
    bool fits = fstat(file, &facts) == 0 && facts.st_size >= begin + std::ssize(bytes);
    for (int64_t done = 0; fits && done < std::ssize(bytes);) {
      const ssize_t put = pwrite(file, bytes.data() + done, bytes.size() - static_cast<size_t>(done), begin + done);
      fits = put > 0;
      done += put;
    }
    if (!fits) throw Error(ErrorKind::kBadData, StrCat(RegionText(region.name), " has become smaller"));
  }
};

std::optional<CallFailure> SharedRegions::Register(const SharedRegion& region, std::string_view peer) {
  if (!IsHere(peer)) return FarAway();
  if (region.name.empty() || region.name.size() > kMostName) return Wrong("a region's name has 1 to 128 characters");
  const std::string path = FileOf(region.key);
  if (path.empty())
    return Wrong(StrCat("the key \"", ShownName(region.key), "\" is no name of shared memory"),
                 "expected a name without folders, as shm_open takes it");
  if (region.offset < 0 || region.bytes < 1) return Wrong(StrCat(RegionText(region.name), " has no bytes"));
  const int file = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);  // NOLINT(*-vararg)
  const auto opened = std::make_shared<const Opened>(region, file);
  struct stat facts = {};
  const bool is_own = file >= 0 && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid();
  if (!is_own) return Wrong(StrCat("the key \"", ShownName(region.key), "\" is no shared memory of the server's user"));
  const bool fits = region.offset <= facts.st_size && region.bytes <= facts.st_size - region.offset;
  if (!fits)
    return Wrong(StrCat(RegionText(region.name), " ends beyond its memory, which has ", facts.st_size, " bytes"));
  const std::lock_guard lock(mutex_);
  if (regions_.contains(region.name))
    return Wrong(StrCat(RegionText(region.name), " is registered already"), "unregister it before");
  if (std::ssize(regions_) >= limits_.regions)
    return CallFailure{CallStatus::kFull, StrCat("there are ", limits_.regions, " regions, the most at once")};
  regions_[region.name] = opened;
  return std::nullopt;
}

std::optional<CallFailure> SharedRegions::Unregister(const std::string& name, std::string_view peer) {
  if (!IsHere(peer)) return FarAway();
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    regions_.clear();
  } else if (regions_.erase(name) == 0) {
    return CallFailure{CallStatus::kNotFound, StrCat("there is no ", RegionText(name))};
  }
  return std::nullopt;
}

CallResult<std::vector<SharedRegion>> SharedRegions::List(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<SharedRegion> regions;
  for (const auto& [known, opened] : regions_) {
    if (name.empty() || known == name) regions.push_back(opened->region);
  }
  if (!name.empty() && regions.empty())
    return CallFailure{CallStatus::kNotFound, StrCat("there is no ", RegionText(name))};
  return regions;
}

SharedRegions::Owned SharedRegions::RegionOf(const SharedPlace& place, const std::string& where) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(place.region);
  if (found == regions_.end())
    throw Error(ErrorKind::kBadData, StrCat(where, ": there is no ", RegionText(place.region)));
  const int64_t bytes = found->second->region.bytes;
  if (place.offset < 0 || place.bytes < 1 || place.offset > bytes || place.bytes > bytes - place.offset) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat(where, ": ", place.bytes, " bytes from ", place.offset, " on are no part of ", RegionText(place.region)),
        StrCat("it has ", bytes, " bytes"));
  }
  return found->second;
}

InferRespond SharedRegions::Fill(InferRequest& request, InferRespond respond) {
  const int64_t bytes = SharedBytesOf(request);
  if (bytes > limits_.tensor_bytes)
    throw Error(ErrorKind::kBadData,
                StrCat("inputs from shared memory have at most ", BytesText(limits_.tensor_bytes), " a request"));
  auto share = std::make_shared<CopyShare>(bytes, limits_.copied_bytes, copied_);
  for (WireTensor& input : request.inputs) {
    if (!input.shared) continue;
    const std::string where = StrCat("input \"", ShownName(input.name), "\"");
    FillFromBytes(RegionOf(*input.shared, where)->Read(*input.shared), "shared_memory_byte_size", input);
  }
  std::vector<std::pair<Owned, SharedPlace>> outputs;
  for (const WantedOutput& output : request.outputs) {
    if (!output.shared) continue;
    outputs.emplace_back(RegionOf(*output.shared, StrCat("output \"", ShownName(output.name), "\"")), *output.shared);
  }
  return [share, outputs = std::move(outputs), respond = std::move(respond)](CallResult<InferAnswer> result) {
    auto* answer = std::get_if<InferAnswer>(&result);
    if (answer == nullptr || outputs.empty()) return respond(std::move(result));
    std::optional<CallFailure> failure;
    try {
      size_t next = 0;
      for (AnsweredTensor& tensor : answer->outputs) {
        if (!tensor.shared) continue;
        const auto& [region, place] = outputs[next++];
        std::string texts;
        if (tensor.is_text) AppendBytes(tensor, texts);
        const std::string_view written = tensor.is_text ? std::string_view(texts) : BytesOfValues(tensor);
        CheckOutputFits(tensor.name, std::ssize(written), place);
        region->Write(written, place.offset);
        tensor.shared->bytes = std::ssize(written);
        tensor.values = {};
        tensor.texts = {};
      }
    } catch (const Error& error) {
      failure = FailureOf(error);
    } catch (const std::exception& error) {  // memory is short
      failure = CallFailure{CallStatus::kFailed, error.what()};
    }
    failure ? respond(std::move(*failure)) : respond(std::move(result));
  };
}

int64_t SharedBytesOf(const InferRequest& request) {
  int64_t bytes = 0;
  for (const WireTensor& input : request.inputs) {
    const int64_t of_input = input.shared ? std::max<int64_t>(0, input.shared->bytes) : 0;
    if (__builtin_add_overflow(bytes, of_input, &bytes)) return INT64_MAX;
  }
  return bytes;
}

bool UsesRegions(const InferRequest& request) {
  const auto is_shared = [](const auto& tensor) { return tensor.shared.has_value(); };
  return std::ranges::any_of(request.inputs, is_shared) || std::ranges::any_of(request.outputs, is_shared);
}

}  // namespace moka

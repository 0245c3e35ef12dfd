// A number behind the last slash is an index only as std::to_string writes it, so that every name is read back as it
// was written.
#include "proto/weights/blob_name.h"

#include <algorithm>
#include <charconv>

#include "core/text.h"

namespace moka {

void SplitBlobName(const std::string& name, NamedBlob& blob) {
  blob.layer = name;
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  int index = 0;
  const auto [end, error] = std::from_chars(name.data() + slash + 1, name.data() + name.size(), index);
  const bool canonical =
      error == std::errc{} && end == name.data() + name.size() && std::to_string(index) == name.substr(slash + 1);
  if (!canonical || index < 0) return;
  blob.layer = name.substr(0, slash);
  blob.index = index;
}

std::string BlobName(const std::string& layer, int index) { return StrCat(layer, "/", index); }

std::vector<std::string> BlobNames(std::span<const NamedBlob> blobs) {
  std::vector<std::string> names;
  names.reserve(blobs.size());
  for (const NamedBlob& blob : blobs) names.push_back(BlobName(blob.layer, blob.index));
  return names;
}

bool IsTorchCounter(std::string_view name) { return name.ends_with(".num_batches_tracked"); }

bool IsTorchName(std::string_view name) {
  constexpr std::string_view kEnds[] = {".weight", ".bias", ".running_mean", ".running_var"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace moka

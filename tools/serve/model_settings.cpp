// Each field of the file either becomes a setting or is refused at its place.
#include "tools/serve/model_settings.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "proto/serve.pb.h"
#include "proto/text/places.h"
#include "proto/text/text_format.h"

namespace moka {
namespace {

[[noreturn]] void RefuseField(const ServeConfig& config, std::string_view field, const std::string& text,
                              const std::string& hint) {
  throw Error(ErrorKind::kConfig, PlaceOf(config.origin(), field), text, hint);
}

VersionPolicy PolicyOf(const ServeConfig& config) {
  VersionPolicy policy;
  const ServeConfig::VersionPolicy& given = config.version_policy();
  if (given.has_latest()) {
    policy.latest = given.latest().num_versions();
    if (policy.latest == 0)
      RefuseField(config, "version_policy.latest.num_versions", "num_versions is 0", "one version at least is served");
  } else if (given.has_all()) {
    policy.choice = VersionPolicy::Choice::kAll;
  } else if (given.has_specific()) {
    policy.choice = VersionPolicy::Choice::kSpecific;
    std::set<int64_t> versions;
    for (int i = 0; i < given.specific().versions_size(); ++i) {
      constexpr int64_t kMost = 999'999'999;
      const int64_t version = given.specific().versions(i);
      if (version < 1 || version > kMost)
        RefuseField(config, StrCat("version_policy.specific.versions[", i, "]"), StrCat(version, " is no version"),
                    StrCat("versions are folders called by a number from 1 to ", kMost));
      versions.insert(version);
    }
    if (versions.empty())
      RefuseField(config, "version_policy.specific", "specific names no version", "versions: [1, 2] names two");
    policy.specific = {versions.begin(), versions.end()};
  }
  return policy;
}

}  // namespace

std::vector<int64_t> VersionPolicy::Chosen(const std::vector<int64_t>& there) const {
  std::vector<int64_t> chosen;
  if (choice == Choice::kSpecific) {
    std::ranges::set_intersection(there, specific, std::back_inserter(chosen));
  } else {
    const auto count = std::ssize(there);
    chosen.assign(choice == Choice::kAll ? there.begin() : there.end() - std::min<int64_t>(latest, count), there.end());
  }
  return chosen;
}

ModelSettings ReadModelSettings(const std::filesystem::path& file) {
  ModelSettings settings;
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return settings;
  ServeConfig config;
  ParseText(ReadTextFile(file, "what serving a model is set to"), file.string(), config);
  settings.versions = PolicyOf(config);
  return settings;
}

}  // namespace moka

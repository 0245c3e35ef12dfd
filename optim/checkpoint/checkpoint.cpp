// Files are written, synced and listed with their digests in a manifest, by which a reader tells a whole checkpoint
// from the litter of a writer that was killed.
#include "optim/checkpoint/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeights = ".safetensors";
constexpr std::string_view kState = ".state";
constexpr std::string_view kManifest = ".sha256";
constexpr std::string_view kSlotPrefix = "slot/";
constexpr std::string_view kRankPrefix = "rank/";
constexpr int64_t kLimitBytes = int64_t{1} << 40;  // a checkpoint's file; a guard against absurd sizes only
constexpr int64_t kManifestLimitBytes = 4096;

fs::path WithExtension(fs::path base, std::string_view extension) { return base += extension; }

fs::path WithoutExtension(const fs::path& path) {
  const std::string extension = path.extension().string();
  fs::path base = path;
  if (extension == kWeights || extension == kState || extension == kManifest) base.replace_extension();
  return base;
}

struct FileDigest {
  std::string sha256;
  int64_t bytes = 0;
};

// Readable by `sha256sum -c`; the last line guards the others.
std::string ManifestText(const std::string& name, const FileDigest& weights, const FileDigest& state) {
  std::string text = StrCat(weights.sha256, "  ", name, kWeights, "\n", state.sha256, "  ", name, kState, "\n# bytes ",
                            weights.bytes, " ", state.bytes, "\n");
  return StrCat(text, "# this ", Sha256(text), "\n");
}

// Says which line of a manifest is not what the files demand.
[[noreturn]] void RefuseManifest(std::string_view found, const std::string& expected, const std::string& name) {
  const std::array<std::string, 4> parts = {StrCat("SHA-256 of ", name, kWeights), StrCat("SHA-256 of ", name, kState),
                                            "sizes", "own checksum"};
  const std::vector<std::string> old_lines = Split(found, '\n');
  const std::vector<std::string> new_lines = Split(expected, '\n');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string line = i < old_lines.size() ? old_lines[i] : "";
    if (line == new_lines[i]) continue;
    throw Error(ErrorKind::kBadData,
                StrCat(name, kManifest, ": ", parts.at(i), ": the manifest says \"", Printable(line.substr(0, 80)),
                       "\" and the files are \"", new_lines[i], "\"; one of them is damaged"));
  }
  throw Error(ErrorKind::kBadData, StrCat(name, kManifest, ": text follows the manifest's last line"));
}

FileDigest DigestOf(std::string_view bytes) { return {Sha256(bytes), static_cast<int64_t>(bytes.size())}; }

void WriteStateFile(const fs::path& path, const CheckpointContent& content) {
  AtomicFile file(path);
  StateWriter writer(file);
  writer.AddSection("trainer", ToJson(content.trainer));
  writer.AddSection("solver", content.solver_text);
  writer.AddSection("net", content.net_text);
  for (const std::string& slot : content.slots) {
    writer.AddTensor(StrCat(kSlotPrefix, slot), content.store->type(slot).shape, content.store->Values(slot));
  }
  for (const RankMemory& state : content.rank_states) {
    writer.AddTensor(StrCat(kRankPrefix, state.name), state.tensor.shape, state.tensor.values);
  }
  writer.Finish();
  file.Commit();
}

// The iteration of "iter_0005000", or -1.
int64_t IterationOf(std::string_view name) {
  constexpr std::string_view kPrefix = "iter_";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  int64_t iteration = -1;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), iteration);
  return code == std::errc{} && end == name.data() + name.size() ? iteration : -1;
}

struct Listed {
  int64_t iteration = -1;
  fs::path base;
};

// Checkpoints that have a file of the extension, newest first.
std::vector<Listed> ListCheckpoints(const fs::path& folder, std::string_view extension) {
  std::vector<Listed> found;
  for (const fs::path& file : ListFiles(folder, extension)) {
    const fs::path base = WithoutExtension(file);
    const int64_t iteration = IterationOf(base.filename().string());
    if (iteration >= 0) found.push_back({iteration, base});
  }
  std::sort(found.begin(), found.end(), [](const Listed& a, const Listed& b) { return a.iteration > b.iteration; });
  return found;
}

// Iteration a link points at, or -1.
int64_t IterationOfLink(const fs::path& link) {
  std::error_code code;
  const fs::path target = fs::read_symlink(link, code);
  return code ? -1 : IterationOf(WithoutExtension(target.filename()).string());
}

void RemoveCheckpoint(const fs::path& base) {
  std::error_code code;
  // The manifest first: from then on the rest is litter, not a damaged checkpoint.
  for (const std::string_view extension : {kManifest, kState, kWeights}) {
    fs::remove(WithExtension(base, extension), code);
    if (code) LogWarning(StrCat("cannot remove ", WithExtension(base, extension).string(), ": ", code.message()));
  }
}

// Removes checkpoints beyond the policy, files without a manifest, and temporary files of killed writers (the run's
// lock is ours, so nobody else writes here).
void Prune(const fs::path& folder, const CheckpointPolicy& policy) {
  std::set<int64_t> complete;
  const std::vector<Listed> listed = ListCheckpoints(folder, kManifest);
  const size_t kept = policy.keep_last == 0 ? listed.size() : static_cast<size_t>(std::max(policy.keep_last, 2));
  const int64_t best = policy.keep_best ? IterationOfLink(folder / "best") : -1;
  for (size_t i = 0; i < listed.size(); ++i) {
    if (i >= kept && listed[i].iteration != best) {
      RemoveCheckpoint(listed[i].base);
    } else {
      complete.insert(listed[i].iteration);
    }
  }
  for (const std::string_view extension : {kState, kWeights}) {
    for (const Listed& part : ListCheckpoints(folder, extension)) {
      if (!complete.contains(part.iteration)) RemoveCheckpoint(part.base);
    }
  }
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if ((name.starts_with("iter_") || name.starts_with("last.") || name.starts_with("best.")) &&
        name.find(".tmp") != std::string::npos) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  }
}

// Points a link at a checkpoint's weights, or removes it when that checkpoint is not there.
void PointAt(const fs::path& folder, const char* link, int64_t iteration) {
  const std::string name = CheckpointName(iteration);
  std::error_code code;
  if (iteration >= 0 && fs::exists(folder / StrCat(name, kManifest), code)) {
    ReplaceSymlink(folder / link, StrCat(name, kWeights));
  } else if (fs::is_symlink(folder / link, code)) {
    fs::remove(folder / link, code);
  }
}

}  // namespace

std::string CheckpointName(int64_t iteration) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "iter_%07lld", static_cast<long long>(iteration));
  return text.data();
}

fs::path WriteCheckpoint(const fs::path& folder, const CheckpointContent& content, bool is_best,
                         const CheckpointPolicy& policy) {
  // The parents are not made: a run's folder that is gone is none to make anew.
  std::error_code not_made;
  fs::create_directory(folder, not_made);
  const std::string name = CheckpointName(content.trainer.iteration);
  fs::path base = folder / name;
  const fs::path weights = WithExtension(base, kWeights);
  const fs::path state = WithExtension(base, kState);
  const fs::path manifest = WithExtension(base, kManifest);
  std::error_code code;
  // A run that was resumed may write an iteration again: until the new manifest is there it must not look complete.
  if (fs::remove(manifest, code)) SyncFolder(folder);
  WriteSafetensors(weights, content.weights,
                   {{"format", "moka"}, {"iteration", std::to_string(content.trainer.iteration)}});
  WriteStateFile(state, content);
  const auto digest = [](const fs::path& path) {
    return FileDigest{Sha256OfFile(path), static_cast<int64_t>(fs::file_size(path))};
  };
  WriteFileAtomically(manifest, ManifestText(name, digest(weights), digest(state)));
  ReplaceSymlink(folder / "last", weights.filename());
  if (is_best) ReplaceSymlink(folder / "best", weights.filename());
  SyncFolder(folder);
  Prune(folder, policy);
  return base;
}

Checkpoint CheckpointFromBytes(std::string_view weights, std::string_view state, std::string_view manifest,
                               const std::string& name) {
  const std::string state_file = StrCat(name, kState);
  const std::string short_name = fs::path(name).filename().string();
  Checkpoint checkpoint;
  checkpoint.path = name;
  const std::vector<StateSection> sections = ReadState(state, state_file);
  const std::string expected = ManifestText(short_name, DigestOf(weights), DigestOf(state));
  if (manifest != expected) RefuseManifest(manifest, expected, short_name);
  std::set<std::string> seen;
  for (const StateSection& section : sections) {
    seen.insert(section.name);
    if (section.name == "trainer") {
      checkpoint.trainer = TrainerStateFromJson(section.body, StrCat(state_file, ": section \"trainer\""));
    } else if (section.name == "solver") {
      checkpoint.solver_text = section.body;
    } else if (section.name == "net") {
      checkpoint.net_text = section.body;
    } else if (section.name.starts_with(kSlotPrefix)) {
      checkpoint.slots.emplace_back(section.name.substr(kSlotPrefix.size()), TensorOf(section, state_file));
    } else if (section.name.starts_with(kRankPrefix)) {
      checkpoint.rank_states.push_back({section.name.substr(kRankPrefix.size()), TensorOf(section, state_file)});
    } else {
      LogWarning(StrCat(state_file, ": section \"", Printable(section.name), "\" is unknown to this Moka and ignored"));
    }
  }
  for (const std::string needed : {"trainer", "solver", "net"}) {
    if (!seen.contains(needed)) {
      throw Error(ErrorKind::kBadData, StrCat(state_file, ": section \"", needed, "\" is missing"));
    }
  }
  checkpoint.weights = WeightsFromBytes(weights, StrCat(name, kWeights));
  return checkpoint;
}

fs::path BehindLink(const fs::path& path) {
  std::error_code code;
  if (!fs::is_symlink(path, code)) return path;
  const bool is_own = path.filename() == "last" || path.filename() == "best";
  return is_own ? TargetInFolder(path) : path.parent_path() / fs::read_symlink(path, code);
}

Checkpoint LoadCheckpoint(const fs::path& path) {
  std::error_code code;
  const fs::path base = WithoutExtension(BehindLink(path));
  const fs::path manifest = WithExtension(base, kManifest);
  if (!fs::exists(manifest, code)) {
    throw Error(ErrorKind::kNoInput, StrCat(manifest.string(), " does not exist: there is no complete checkpoint ",
                                            base.filename().string()));
  }
  return CheckpointFromBytes(ReadFile(WithExtension(base, kWeights), kLimitBytes),
                             ReadFile(WithExtension(base, kState), kLimitBytes),
                             ReadFile(manifest, kManifestLimitBytes), base.string());
}

std::optional<Checkpoint> FindNewestValid(const fs::path& folder) {
  std::set<int64_t> complete;
  for (const Listed& listed : ListCheckpoints(folder, kManifest)) complete.insert(listed.iteration);
  for (const Listed& part : ListCheckpoints(folder, kWeights)) {
    if (complete.contains(part.iteration)) continue;
    LogWarning(StrCat("checkpoint ", part.base.string(), " has no manifest: its writing was cut off; ignored"));
  }
  for (const Listed& listed : ListCheckpoints(folder, kManifest)) {
    try {
      return LoadCheckpoint(listed.base);
    } catch (const Error& e) {
      LogWarning(StrCat("checkpoint ", listed.base.string(), " is refused: ", e.what()));
    }
  }
  return std::nullopt;
}

void SetAsideNewer(const fs::path& folder, int64_t iteration, int64_t best_iteration) {
  for (const std::string_view extension : {kManifest, kState, kWeights}) {
    for (const Listed& listed : ListCheckpoints(folder, extension)) {
      if (listed.iteration <= iteration) continue;
      const fs::path file = WithExtension(listed.base, extension);
      std::error_code code;
      fs::rename(file, WithExtension(file, ".refused"), code);
      if (code) throw Error(ErrorKind::kIo, StrCat("cannot rename ", file.string(), ": ", code.message()));
    }
  }
  PointAt(folder, "last", iteration);
  PointAt(folder, "best", best_iteration);
}

}  // namespace moka

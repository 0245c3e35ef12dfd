// Networks from files: read, upgrade, expand blocks, override.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/text/overrides.h"

namespace moka {

struct NetReadOptions {
  // See proto/text/overrides.h. Those that name a block, a block_param or a layer of type "Block" are applied before
  // the blocks are expanded, all others after.
  std::vector<std::string> overrides;
  bool expand_blocks = true;
  // If not null, what the overrides did is appended.
  std::vector<AppliedOverride>* applied = nullptr;
};

// Reads a text net: old versions are upgraded (with a warning), overrides applied, blocks expanded. Every layer knows
// its place (proto/text/places.h). Errors: kNoInput, kBadData (not text), ErrorList of kConfig, kUsage (overrides).
NetParameter ReadNet(const std::filesystem::path& path, const NetReadOptions& options = {});
// The same for text in memory; `file` is the name used in places.
NetParameter NetFromText(std::string_view text, const std::string& file, const NetReadOptions& options = {});

// The same for a net that is parsed already, as one inside a solver.
NetParameter FinishNet(NetParameter net, const std::string& file, const NetReadOptions& options = {});

// The same for a net in binary (.caffemodel), blobs included. Errors: kBadData with the byte offset.
NetParameter ReadNetBinary(const std::filesystem::path& path);
NetParameter NetFromBinary(std::string_view bytes, const std::string& file);

// Clean prototxt of a net or solver, without origins.
std::string NetToText(const NetParameter& net);

}  // namespace moka

// The order of steps matters and is the same for text and binary nets: parse, upgrade, overrides that are about blocks,
// expansion, the other overrides, upgrade of what those wrote.
#include "proto/nets/net_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/nets/blocks.h"
#include "proto/nets/filter.h"
#include "proto/text/origins.h"
#include "proto/text/places.h"
#include "proto/text/text_format.h"
#include "proto/upgrade/upgrade.h"
#include "proto/wire.h"

namespace moka {
namespace {

// Whether an override speaks of blocks, which are gone after they are expanded.
bool IsAboutBlocks(const std::string& text, const NetParameter& net) {
  const size_t begin = text.find_first_not_of("+~");
  if (begin == std::string::npos) return false;
  const std::string path = text.substr(begin, text.find('=') - begin);
  if (path.starts_with("block[") || path.starts_with("block=") || path == "block") return true;
  if (path.find("block_param") != std::string::npos) return true;
  return std::any_of(net.layer().begin(), net.layer().end(), [&](const LayerParameter& layer) {
    return layer.type() == "Block" && path.starts_with("layer[" + layer.name() + "]");
  });
}

// Fields of older nets, which UpgradeNet has brought to layers before overrides are applied.
void RefuseOldFields(const std::string& text, const NetParameter& net) {
  const char* field = net.layers_size() > 0        ? "layers"
                      : net.input_size() > 0       ? "input"
                      : net.input_shape_size() > 0 ? "input_shape"
                      : net.input_dim_size() > 0   ? "input_dim"
                                                   : nullptr;
  if (field == nullptr) return;
  const bool is_layers = field == std::string_view("layers");
  throw Error(ErrorKind::kUsage, {},
              StrCat("override \"", Printable(text), "\": ", field, " is of an older form of nets, ",
                     is_layers ? "whose layers are layer here" : "whose inputs are layers of type Input here"),
              is_layers
                  ? "write +layer={ name: \"...\" type: \"ReLU\" ... }"
                  : "set layer[input].input_param.shape[0], or write the layer into the net's file: layer { name: "
                    "\"data\" type: \"Input\" top: \"data\" input_param { shape { dim: 1 dim: 3 } } }");
}

void Override(const NetReadOptions& options, bool about_blocks, OverridesSoFar& so_far, NetParameter& net) {
  for (const std::string& text : options.overrides) {
    const bool now = options.expand_blocks ? IsAboutBlocks(text, net) == about_blocks : about_blocks;
    if (!now) continue;
    const std::vector<AppliedOverride> applied = ApplyOverride(text, net);
    RefuseOldFields(text, net);
    so_far.Add(applied);
    if (options.applied != nullptr) options.applied->insert(options.applied->end(), applied.begin(), applied.end());
  }
}

}  // namespace

NetParameter NetFromText(std::string_view text, const std::string& file, const NetReadOptions& options) {
  NetParameter net;
  ParseText(text, file, net);
  return FinishNet(std::move(net), file, options);
}

NetParameter FinishNet(NetParameter net, const std::string& file, const NetReadOptions& options) {
  UpgradeNet(net, file);
  if (net.layer_size() == 0) {
    std::vector<Error> unknown = UnknownFieldsOf(net.origin());
    if (!unknown.empty()) throw ErrorList(std::move(unknown));
    throw Error(ErrorKind::kConfig, SourcePlace{.file = file}, "the net has no layers", "write layer { ... } for each");
  }
  const bool has_blocks = options.expand_blocks && net.block_size() > 0;
  OverridesSoFar so_far;
  Override(options, true, so_far, net);
  if (options.expand_blocks) {
    ExpandBlocks(net);
    Override(options, false, so_far, net);
  }
  // Overrides may have written an old spelling, and blocks may hold one.
  if (has_blocks || !options.overrides.empty()) UpgradeNet(net, file);
  if (options.expand_blocks) {
    WarnOfUnknownStages(net, net.state(), PlaceOf(net, "state.stage").ToString());
    WarnOfUselessLevel(net, net.state(), PlaceOf(net, "state.level").ToString());
  }
  return net;
}

NetParameter ReadNet(const std::filesystem::path& path, const NetReadOptions& options) {
  return NetFromText(ReadTextFile(path, "a net"), path.string(), options);
}

NetParameter NetFromBinary(std::string_view bytes, const std::string& file) {
  NetParameter net;
  const int64_t unknown = ParseWire(bytes, file, "a binary net (.caffemodel)", net);
  if (unknown > 0) LogWarning(StrCat(file, ": skipped ", unknown, " fields that are not in the schema"));
  ClearOrigins(net);
  UpgradeNet(net, file);
  return net;
}

NetParameter ReadNetBinary(const std::filesystem::path& path) {
  return NetFromBinary(ReadFile(path, kWireLimitBytes), path.string());
}

std::string NetToText(const NetParameter& net) { return ToText(net); }

}  // namespace moka

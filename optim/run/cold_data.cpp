// Every file once, whatever number of layers reads it.
#include "optim/run/cold_data.h"

#include <cmath>
#include <set>

#include "core/error.h"
#include "core/page_cache.h"
#include "core/text.h"
#include "core/wall_clock.h"
#include "data/files/layer_files.h"
#include "data/pipeline/open_pipeline.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

void AddFiles(const NetParameter& net, const fs::path& base_folder, std::set<fs::path>& files) {
  for (const LayerParameter& layer : net.layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    for (fs::path& file : FilesOfLayer(layer, base_folder)) files.insert(std::move(file));
  }
}

}  // namespace

ColdData DropDataPages(const SolverNets& nets, const fs::path& base_folder) {
  std::set<fs::path> files;
  AddFiles(nets.train, base_folder, files);
  for (const NetParameter& net : nets.turns) AddFiles(net, base_folder, files);
  for (const NetParameter& net : nets.tests) AddFiles(net, base_folder, files);
  ColdData cold;
  for (const fs::path& file : files) {
    try {
      const DroppedPages dropped = DropPages(file);
      ++cold.files;
      cold.bytes += dropped.bytes;
      if (dropped.left_bytes == 0 || !cold.why.empty()) continue;
      cold.why = StrCat(file.string(), " still has ", BytesText(dropped.left_bytes), " of ", BytesText(dropped.bytes),
                        " in the system's cache");
    } catch (const Error& error) {
      if (cold.why.empty()) cold.why = error.text();
    }
  }
  if (files.empty()) cold.why = "the nets name no files of data";
  cold.is_cold = cold.why.empty();
  cold.at_ms = std::llround(SecondsSince1970() * 1000);
  return cold;
}

}  // namespace moka

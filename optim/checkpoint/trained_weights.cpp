// Takes a checkpoint's exponential means where the training tested with them, else its weights.
#include "optim/checkpoint/trained_weights.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "optim/checkpoint/checkpoint.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/optimizers/update.h"

namespace moka {

void LoadTrainedWeights(const std::string& list, std::span<const NetBlob> blobs, ParameterStore& store) {
  const std::vector<std::string> missing = ReadWeightFiles(list, blobs, store);
  if (!missing.empty()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(list, ": no weights of ", missing.size() == 1 ? "layer " : "layers ", Join(missing, ", "),
                       ", which the net needs"),
                "only a training fills layers that its weights lack; name more files with commas, or mend the names");
  }
  for (const std::string& part : Split(list, ',')) {
    const std::string file(Trim(part));
    std::filesystem::path state = file;
    std::filesystem::path manifest = file;
    std::error_code code;
    if (!std::filesystem::exists(state.replace_extension(".state"), code)) continue;
    if (!std::filesystem::exists(manifest.replace_extension(".sha256"), code)) continue;
    for (const auto& slot : LoadCheckpoint(file).slots) {
      const auto blob =
          std::ranges::find_if(blobs, [&](const NetBlob& one) { return SlotName(one.name, kEmaSlot) == slot.first; });
      if (blob != blobs.end() && slot.second.shape == blob->shape) store.Set(blob->name, slot.second.values);
    }
  }
}

}  // namespace moka

// Shares blobs out by size, largest first, each to the rank with the least so far (Graham's rule, within 4/3 of the
// best).
#include "optim/strategies/ownership.h"

#include <algorithm>

#include "comm/transport/rank_values.h"
#include "core/error.h"

namespace moka {

std::vector<std::vector<NetBlob>> ShareOut(std::vector<NetBlob> blobs, int ranks) {
  std::ranges::stable_sort(blobs, std::greater{}, [](const NetBlob& blob) { return blob.shape.Count(); });
  std::vector<std::vector<NetBlob>> owned(static_cast<size_t>(ranks));
  std::vector<int64_t> elements(owned.size(), 0);
  for (NetBlob& blob : blobs) {
    const auto least = static_cast<size_t>(std::ranges::min_element(elements) - elements.begin());
    elements[least] += blob.shape.Count();
    owned[least].push_back(std::move(blob));
  }
  return owned;
}

void ShareValues(Communicator& world, const std::vector<std::vector<std::string>>& names, const ParameterStore& from,
                 ParameterStore& to) {
  for (int rank = 0; rank < world.size(); ++rank) {
    std::string bytes;
    if (rank == world.rank()) {
      for (const std::string& name : names[static_cast<size_t>(rank)]) {
        const std::vector<float> values = from.Values(name);
        bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      }
    }
    bytes = world.Broadcast(bytes, rank);
    std::string_view rest = bytes;
    for (const std::string& name : names[static_cast<size_t>(rank)]) {
      std::vector<float> values(static_cast<size_t>(to.type(name).shape.Count()));
      const std::string_view own = rest.substr(0, values.size() * sizeof(float));
      TakeValues(world, rank, own, std::span(values));
      rest.remove_prefix(own.size());
      to.Set(name, values);
    }
    RequireBytes(world, rank, rest, 0);
  }
}

std::vector<std::vector<std::string>> SlotsOf(const std::vector<std::vector<NetBlob>>& owned,
                                              const std::vector<SlotState>& slots) {
  std::vector<std::vector<std::string>> names;
  for (const std::vector<NetBlob>& blobs : owned) {
    std::vector<std::string>& of_rank = names.emplace_back();
    for (const NetBlob& blob : blobs) {
      for (const SlotState& slot : slots) {
        if (slot.blob == blob.name) of_rank.push_back(slot.name);
      }
    }
  }
  return names;
}

}  // namespace moka

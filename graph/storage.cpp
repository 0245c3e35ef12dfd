// Follows aliases and results written in place to the storage that they share, tells constants, inputs and states from
// the arena's tenants, and hands these to PlanMemory with their first and last step.
#include "graph/storage.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/op.h"

namespace moka {
namespace {

// Less scratch stays in the cores' own caches, where the next step's results may well be written over it (ResNet-20).
constexpr int64_t kRestingBytes = int64_t{2} << 20;

// Time runs over the constants, then over the steps; constants that steps read have memory of their own.
class StoragePlanner {
 public:
  StoragePlanner(const Graph& graph, const NodeSchedule& schedule, std::span<const int64_t> scratch_bytes)
      : graph_(graph), schedule_(schedule), scratch_bytes_(scratch_bytes) {
    order_ = schedule.constants;
    order_.insert(order_.end(), schedule.steps.begin(), schedule.steps.end());
    plan_.storage_of.assign(static_cast<size_t>(graph.value_count()), -1);
    plan_.copied.assign(graph.assignments().size(), true);
    last_use_.assign(static_cast<size_t>(graph.value_count()), -1);
    assigned_.resize(static_cast<size_t>(graph.value_count()));
    for (size_t i = 0; i < graph.assignments().size(); ++i) {
      assigned_[static_cast<size_t>(graph.assignments()[i].value)].push_back(i);
    }
  }

  StoragePlan Run() {
    FindLastUses();
    PlaceOutside();
    for (int step = 0; step < static_cast<int>(order_.size()); ++step) PlaceResults(step);
    MarkConstants();
    PlanArena();
    return std::move(plan_);
  }

 private:
  int constant_steps() const { return static_cast<int>(schedule_.constants.size()); }
  int end() const { return static_cast<int>(order_.size()); }

  // Tracks in the order of steps and constants; -1 outside.
  int TrackOf(int step) const { return schedule_.TrackOf(step - constant_steps()); }

  // Follows aliases to the value that owns the memory.
  ValueId Root(ValueId id) const {
    for (;;) {
      const NodeId producer = graph_.value(id).producer;
      if (producer == kNoId || !graph_.node(producer).op->is_alias) return id;
      id = graph_.node(producer).inputs[0];
    }
  }

  void FindLastUses() {
    const auto use = [&](ValueId id, int step) {
      int& last = last_use_[static_cast<size_t>(Root(id))];
      last = std::max(last, step);
    };
    for (int step = 0; step < end(); ++step) {
      for (const ValueId input : graph_.node(order_[static_cast<size_t>(step)]).inputs) use(input, step);
    }
    for (const GraphOutput& output : graph_.outputs()) use(output.value, end());
    for (size_t i = 0; i < graph_.assignments().size(); ++i) use(graph_.assignments()[i].value, end());
  }

  int NewStorage(StoragePlace place, ValueId owner, int first, int last) {
    plan_.storages.push_back({place, owner, graph_.type(owner).Bytes(), first, last, 0});
    const int index = static_cast<int>(plan_.storages.size()) - 1;
    plan_.storage_of[static_cast<size_t>(owner)] = index;
    return index;
  }

  void PlaceOutside() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const ValueKind kind = graph_.value(id).kind;
      if (kind == ValueKind::kState) NewStorage(StoragePlace::kState, id, 0, 0);
      if (kind == ValueKind::kInput) NewStorage(StoragePlace::kInput, id, 0, 0);
    }
  }

  // Whether the node may write an output over a state it possibly reads.
  bool MayWriteOver(const Node& node, ValueId state, int output) const {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (Root(node.inputs[k]) != state) continue;
      if (node.op->may_overwrite == nullptr || graph_.type(node.inputs[k]) != graph_.type(state)) return false;
      if (!node.op->may_overwrite(node.attributes, static_cast<int>(k), output)) return false;
    }
    return true;
  }

  // The state storage that a new value may be written over, or -1.
  int StateOf(const Node& node, int output) {
    for (const size_t i : assigned_[static_cast<size_t>(node.outputs[static_cast<size_t>(output)])]) {
      const Assignment& assignment = graph_.assignments()[i];
      if (!schedule_.in_place[i]) continue;
      if (graph_.type(assignment.state) != graph_.type(assignment.value)) continue;
      if (!MayWriteOver(node, assignment.state, output)) continue;
      plan_.copied[i] = false;
      return plan_.storage_of[static_cast<size_t>(assignment.state)];
    }
    return -1;
  }

  // Whether each input of the node that lies in root's memory may be overwritten by the output.
  bool EveryReadAllows(const Node& node, ValueId root, int output) const {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (Root(node.inputs[k]) != root) continue;
      if (!node.op->may_overwrite(node.attributes, static_cast<int>(k), output)) return false;
    }
    return true;
  }

  // The storage of an input that dies at this step and whose memory the output may take over, or -1.
  int DyingInput(const Node& node, int output, int step) const {
    const ValueId y = node.outputs[static_cast<size_t>(output)];
    // A result nobody reads dies at once; two of them must not share one dying input.
    if (node.op->may_overwrite == nullptr || last_use_[static_cast<size_t>(y)] <= step) return -1;
    const TensorType& type = graph_.type(y);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId root = Root(node.inputs[k]);
      if (!EveryReadAllows(node, root, output)) continue;
      const int index = plan_.storage_of[static_cast<size_t>(root)];
      const Storage& storage = plan_.storages[static_cast<size_t>(index)];
      const bool dies = storage.place == StoragePlace::kArena && storage.last == step && storage.first < step;
      const bool same_phase = (storage.first < constant_steps()) == (step < constant_steps());
      // Values from before the tracks may be read by all of them.
      if (TrackOf(step) != TrackOf(storage.first)) continue;
      if (dies && same_phase && graph_.type(node.inputs[k]) == type && storage.bytes == type.Bytes()) return index;
    }
    return -1;
  }

  void PlaceResults(int step) {
    const Node& node = graph_.node(order_[static_cast<size_t>(step)]);
    if (node.op->is_alias) {
      const ValueId root = Root(node.inputs[0]);
      plan_.storage_of[static_cast<size_t>(node.outputs[0])] = plan_.storage_of[static_cast<size_t>(root)];
      return;
    }
    for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
      const ValueId output = node.outputs[static_cast<size_t>(k)];
      const int last = std::max(step, last_use_[static_cast<size_t>(output)]);
      int index = StateOf(node, k);
      if (index < 0) {
        index = DyingInput(node, k, step);
        if (index >= 0) plan_.storages[static_cast<size_t>(index)].last = last;
      }
      if (index < 0) index = NewStorage(StoragePlace::kArena, output, step, last);
      plan_.storage_of[static_cast<size_t>(output)] = index;
    }
  }

  // Results of constants that steps (or the caller) read stay; the others live in the arena while constants run.
  void MarkConstants() {
    Size bytes = 0;
    for (Storage& storage : plan_.storages) {
      const bool kept =
          storage.place == StoragePlace::kArena && storage.first < constant_steps() && storage.last >= constant_steps();
      if (!kept) continue;
      storage.place = StoragePlace::kConstant;
      storage.offset = bytes.value();
      bytes += RoundUp(storage.bytes, kArenaAlignment);
    }
    plan_.constant_bytes = bytes.value();
  }

  // A tenant of the arena: a storage, or the scratch of a step.
  struct Tenant {
    PlanItem item;
    size_t index;  // of the storage or step
    bool is_scratch;
    int64_t offset = 0;
  };

  std::vector<Tenant> Tenants() const {
    std::vector<Tenant> tenants;
    for (size_t i = 0; i < plan_.storages.size(); ++i) {
      const Storage& storage = plan_.storages[i];
      if (storage.place != StoragePlace::kArena) continue;
      tenants.push_back({{storage.bytes, storage.first, storage.last}, i, false});
    }
    for (int step = 0; step < end(); ++step) {
      tenants.push_back({{scratch_bytes_[static_cast<size_t>(step)], step, step}, static_cast<size_t>(step), true});
    }
    return tenants;
  }

  // The scratch of a step is left alone by the next step too, wherever the peak stays what it is. Threads cut scratch
  // by channels and results by images, and a line that another core has just written is slow to write: batch norms
  // after Winograd convolutions of 14x14 took 1.5 ms instead of 0.4 (two threads). One thread, or a track, has its own
  // scratch in its caches.
  void LetScratchRest(std::vector<Tenant>& tenants) const {
    if (ThreadCount() == 1) return;
    std::vector<double> alive(static_cast<size_t>(end()) + 2);  // bytes at each step
    for (const Tenant& tenant : tenants) {
      alive[static_cast<size_t>(tenant.item.first)] += static_cast<double>(tenant.item.bytes);
      alive[static_cast<size_t>(tenant.item.last) + 1] -= static_cast<double>(tenant.item.bytes);
    }
    std::partial_sum(alive.begin(), alive.end(), alive.begin());
    const double peak = *std::ranges::max_element(alive);
    for (Tenant& tenant : tenants) {
      const int next = tenant.item.last + 1;
      if (!tenant.is_scratch || tenant.item.bytes < kRestingBytes) continue;
      if (next == end() || next == constant_steps()) continue;
      if (TrackOf(next - 1) >= 0 || TrackOf(next) >= 0) continue;
      double& then = alive[static_cast<size_t>(next)];
      if (then + static_cast<double>(tenant.item.bytes) > peak) continue;
      then += static_cast<double>(tenant.item.bytes);
      tenant.item.last = next;
    }
  }

  // Tracks run beside each other, so what lives within one has a block of memory that no one else uses meanwhile, and
  // what lives beyond lives for as long as any track runs.
  void PlanArena() {
    std::vector<Tenant> tenants = Tenants();
    LetScratchRest(tenants);
    std::vector<std::vector<Tenant*>> within(static_cast<size_t>(schedule_.track_count()));
    std::vector<Tenant*> beyond;
    for (Tenant& tenant : tenants) {
      PlanItem& item = tenant.item;
      const int first = TrackOf(item.first);
      const int last = TrackOf(item.last);
      if (first >= 0 && first == last) {
        within[static_cast<size_t>(first)].push_back(&tenant);
        continue;
      }
      if (first >= 0) item.first = constant_steps() + schedule_.tracks.front();
      if (last >= 0) item.last = constant_steps() + schedule_.tracks.back() - 1;
      beyond.push_back(&tenant);
    }
    std::vector<PlanItem> items = ItemsOf(beyond);
    std::vector<MemoryPlan> tracks;
    for (const std::vector<Tenant*>& track : within) {
      tracks.push_back(PlanMemory(ItemsOf(track)));
      items.push_back({tracks.back().peak_bytes, constant_steps() + schedule_.tracks.front(),
                       constant_steps() + schedule_.tracks.back() - 1});
    }
    const MemoryPlan memory = PlanMemory(items);
    Place(beyond, memory, 0, true);
    const bool peaks_in_tracks = TrackOf(memory.peak_step) >= 0;
    for (size_t i = 0; i < tracks.size(); ++i) {
      Place(within[i], tracks[i], memory.offsets[beyond.size() + i], peaks_in_tracks);
    }
    plan_.arena_bytes = items.empty() ? 0 : memory.peak_bytes;
    plan_.bound_bytes = memory.bound_bytes;
    KeepOffsets(tenants);
    KeepLargest();
  }

  static std::vector<PlanItem> ItemsOf(const std::vector<Tenant*>& tenants) {
    std::vector<PlanItem> items;
    items.reserve(tenants.size());
    for (const Tenant* tenant : tenants) items.push_back(tenant->item);
    return items;
  }

  // The offsets, and what is alive at the peak if that is the arena's.
  void Place(const std::vector<Tenant*>& tenants, const MemoryPlan& memory, int64_t begin, bool has_peak) {
    for (size_t i = 0; i < tenants.size(); ++i) {
      Tenant& tenant = *tenants[i];
      tenant.offset = begin + memory.offsets[i];
      const bool at_peak = tenant.item.first <= memory.peak_step && memory.peak_step <= tenant.item.last;
      if (has_peak && at_peak && !tenant.is_scratch) plan_.largest.push_back(plan_.storages[tenant.index].owner);
    }
  }

  void KeepOffsets(const std::vector<Tenant>& tenants) {
    plan_.scratch_offset.assign(static_cast<size_t>(end()), 0);
    for (const Tenant& tenant : tenants) {
      (tenant.is_scratch ? plan_.scratch_offset[tenant.index] : plan_.storages[tenant.index].offset) = tenant.offset;
    }
  }

  void KeepLargest() {
    const auto bytes = [&](ValueId id) { return graph_.type(id).Bytes(); };
    std::stable_sort(plan_.largest.begin(), plan_.largest.end(),
                     [&](ValueId a, ValueId b) { return bytes(a) > bytes(b); });
    constexpr size_t kShown = 5;
    if (plan_.largest.size() > kShown) plan_.largest.resize(kShown);
  }

  const Graph& graph_;
  const NodeSchedule& schedule_;
  std::span<const int64_t> scratch_bytes_;
  std::vector<NodeId> order_;
  std::vector<int> last_use_;                  // by root value
  std::vector<std::vector<size_t>> assigned_;  // by ValueId: the assignments of that value
  StoragePlan plan_;
};

}  // namespace

StoragePlan PlanStorage(const Graph& graph, const NodeSchedule& schedule, std::span<const int64_t> scratch_bytes) {
  return StoragePlanner(graph, schedule, scratch_bytes).Run();
}

}  // namespace moka

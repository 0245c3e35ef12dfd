// Trainer: snapshots in Caffe's formats, under the solver's snapshot_prefix.
#include <map>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/checkpoint/caffe_state.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/run/trainer.h"
#include "proto/text/places.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/weight_diffs.h"

namespace moka {
namespace {

void MakeSnapshotFolder(const SolverParameter& solver) {
  if (!solver.has_snapshot_prefix()) return;
  if (solver.snapshot_prefix().starts_with("~/")) {
    throw Error(
        ErrorKind::kConfig, PlaceOf(solver, "snapshot_prefix"),
        StrCat("snapshot_prefix \"", Printable(solver.snapshot_prefix()), "\": \"~\" is a shell's word for a folder"),
        "write the folder out; one that is called ~ is ./~");
  }
  const std::filesystem::path probe = StrCat(solver.snapshot_prefix(), "_iter_0.caffemodel");
  try {
    if (probe.has_parent_path()) CreateFolders(probe.parent_path());
    const AtomicFile written(probe);  // never committed, so it goes again
  } catch (const Error& error) {
    throw Error(error.kind(), PlaceOf(solver, "snapshot_prefix"),
                StrCat("snapshot_prefix \"", Printable(solver.snapshot_prefix()), "\": ", error.text()),
                "snapshot_prefix=PREFIX gives another");
  }
}

// Refuses names that HDF5 cannot hold.
void RefuseSnapshotNames(const SolverParameter& solver, std::span<const NetBlob> blobs) {
  if (!solver.has_snapshot_prefix() || solver.snapshot_format() != SolverParameter::HDF5) return;
  std::map<std::string, const NetBlob*> datasets;
  for (const NetBlob& blob : blobs) datasets.emplace(BlobName(blob.layer, blob.index), &blob);
  const auto refuse = [&](const NetBlob& blob, const std::string& why) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "snapshot_format"),
                StrCat("an HDF5 file cannot hold layer \"", Printable(blob.layer), "\": ", why),
                "snapshot_format: BINARYPROTO takes any name");
  };
  for (const auto& [path, blob] : datasets) {
    for (const std::string& part : Split(blob->layer, '/')) {
      if (part.empty() || part == ".") refuse(*blob, "a part of its name between slashes is empty or a dot");
    }
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      const auto other = datasets.find(path.substr(0, slash));
      if (other != datasets.end()) {
        refuse(*blob, StrCat("its group would lie where blob ", other->second->index, " of layer \"",
                             Printable(other->second->layer), "\" is"));
      }
    }
  }
}

}  // namespace

void Trainer::PrepareSnapshots() {
  if (std::exchange(has_prepared_snapshots_, true) || !is_first() || max_iter_ <= state_.iteration) return;
  MakeSnapshotFolder(solver_);
  RefuseSnapshotNames(solver_, train_->blobs());
}

// prefix_iter_N.caffemodel and .solverstate, as Caffe names them; with ".h5" behind in HDF5.
void Trainer::WriteCaffeSnapshot(const ParameterStore& slots) try {
  const bool is_hdf5 = solver_.snapshot_format() == SolverParameter::HDF5;
  const std::string kind = is_hdf5 ? "HDF5" : "binary proto";
  const std::string ending = is_hdf5 ? ".h5" : "";
  const std::string prefix = StrCat(solver_.snapshot_prefix(), "_iter_", state_.iteration);
  const std::string model = StrCat(prefix, ".caffemodel", ending);
  LogToFile(StrCat("Snapshotting to ", kind, " file ", model));
  const auto write = is_hdf5 ? WriteHdf5WeightsWithDiffs : WriteCaffemodelWithDiffs;
  write(model, train_->param(), WeightsOf(train_->blobs(), store_), LastUpdate());
  if (!IsCaffeSolver(solver_)) {
    LogToFile(StrCat("Caffe has no solver of type ", solver_.type(), ": no .solverstate is written"));
    return;
  }
  const std::string file = StrCat(prefix, ".solverstate", ending);
  LogToFile(StrCat("Snapshotting solver state to ", kind, " file ", file));
  WriteCaffeState(file, {.iteration = state_.iteration,
                         .learned_net = model,
                         .current_step = CaffeCurrentStep(solver_, state_.iteration - 1),
                         .history = HistoryFromStore(solver_, train_->blobs(), slots)});
} catch (const Error& error) {
  if (options_.run == nullptr) throw;
  throw Error(error.kind(), PlaceOf(solver_, "snapshot_prefix"), error.text(),
              StrCat("checkpoint ", last_checkpoint_.string(), " is whole: moka train --resume=",
                     options_.run->path().string(), " snapshot_prefix=PREFIX goes on from it"));
}

}  // namespace moka

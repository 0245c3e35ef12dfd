// The files that a net's HDF5Output layers write: what the layers read is an output of the net's program, and is
// written after each run of it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/records/hdf5_sink.h"
#include "graph/program.h"
#include "layers/net/net.h"

namespace moka {

// Makes what HDF5Output layers read outputs of the graph. `net` is as BuildNet made it.
void AddFileOutputs(BuiltNet& net);
// Says of each such layer of a train net that it writes nothing.
void WarnOfOutputFiles(const NetParameter& net);

class OutputFiles {
 public:
  // Names of files that are relative start at the folder. Errors: those of Hdf5Sink.
  OutputFiles(const NetParameter& net, const std::filesystem::path& base_folder);

  // Adds what the program's last run made. Requires: it was compiled after AddFileOutputs. Errors: kCantCreate, kIo.
  void Append(const Program& program);
  // Gives the files their names, or drops what was added.
  void Finish();
  void Discard();

 private:
  struct Sink {
    std::string layer;
    std::unique_ptr<Hdf5Sink> file;
  };
  std::vector<Sink> sinks_;
};

}  // namespace moka

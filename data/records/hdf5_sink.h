// HDF5Output: the rows that a net made, as datasets "data" and "label" of an HDF5 file. The file takes its name when
// the run is over; until then it lies beside it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "core/device/tensor.h"
#include "proto/moka.pb.h"
#include "proto/weights/hdf5_file.h"

namespace moka {

class Hdf5Sink {
 public:
  // A file name that is relative starts at the folder. Errors: kConfig for a name that OutputPath does not let out of
  // it, unless the command line gave the name.
  Hdf5Sink(const LayerParameter& layer, const std::filesystem::path& base_folder);
  // Finishes, or drops the rows when an exception is on its way; what goes wrong then is a warning.
  ~Hdf5Sink();
  Hdf5Sink(const Hdf5Sink&) = delete;
  Hdf5Sink& operator=(const Hdf5Sink&) = delete;

  // Adds the rows of both bottoms, [N,C,H,W] each with axes of 1 at the end where there are fewer, as Caffe writes
  // them. Requires: float32, the same N in both and the same shapes each time. Errors: kCantCreate, kIo.
  void Append(std::span<const float> data, const Shape& data_shape, std::span<const float> label,
              const Shape& label_shape);
  // Ends the file, if rows were added; the next Append begins a new one.
  void Finish();
  // Drops the rows that were added since the file was begun.
  void Discard() { writer_.reset(); }

 private:
  std::filesystem::path path_;
  std::unique_ptr<Hdf5Writer> writer_;
};

}  // namespace moka

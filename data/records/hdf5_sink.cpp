// Rows are appended batch by batch, as a test's outputs need not fit memory; the file gets its name when all are there,
// and a run that failed drops them.
#include "data/records/hdf5_sink.h"

#include <exception>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/output_place.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

Shape FourAxes(Shape shape) {
  while (shape.rank() < 4) shape = shape.Inserted(shape.rank(), 1);
  return shape;
}

}  // namespace

Hdf5Sink::Hdf5Sink(const LayerParameter& layer, const std::filesystem::path& base_folder) {
  constexpr const char* kField = "hdf5_output_param.file_name";
  const std::string& name = layer.hdf5_output_param().file_name();
  try {
    path_ = IsOverridden(PlaceOf(layer, kField)) ? base_folder / name : OutputPath(base_folder, name);
  } catch (const Error& error) {
    throw ErrorAt(layer, kField, StrCat("layer \"", Printable(layer.name()), "\": ", kField, " ", error.text()),
                  error.hint());
  }
}

Hdf5Sink::~Hdf5Sink() {
  if (std::uncaught_exceptions() > 0) return;  // the run failed: what it wrote is dropped
  try {
    Finish();
  } catch (const Error& error) {
    LogWarning(StrCat("HDF5Output: ", error.what()));
  }
}

void Hdf5Sink::Append(std::span<const float> data, const Shape& data_shape, std::span<const float> label,
                      const Shape& label_shape) {
  if (writer_ == nullptr) {
    if (path_.has_parent_path()) CreateFolders(path_.parent_path());
    writer_ = std::make_unique<Hdf5Writer>(path_);
  }
  writer_->AppendRows("data", FourAxes(data_shape), data);
  writer_->AppendRows("label", FourAxes(label_shape), label);
}

void Hdf5Sink::Finish() {
  if (writer_ == nullptr) return;
  const std::unique_ptr<Hdf5Writer> writer = std::move(writer_);
  writer->Commit();
}

}  // namespace moka

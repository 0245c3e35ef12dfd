// One file is open at a time and read in blocks of rows. A shuffled file is kept whole if it is small, as Caffe does; a
// larger one is read row by row.
#include "data/pipeline/hdf5_pipeline.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/rng.h"
#include "core/size.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/files/list_text.h"
#include "data/files/non_finite.h"
#include "data/layer_fields.h"
#include "data/pipeline/open_layers.h"
#include "data/pipeline/sampling_fields.h"
#include "data/transform/pixel_mean.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// A block of rows in order; a shuffled file that is not larger than the second number is kept whole, as Caffe does, and
// a larger one is read row by row.
constexpr int64_t kBlockBytes = int64_t{32} << 20U;
constexpr int64_t kWholeFileBytes = int64_t{2} << 30U;
constexpr int64_t kMaxBatch = int64_t{1} << 24U;
constexpr uint64_t kFileStream = uint64_t{1} << 63U;  // apart from the rows' streams

uint64_t FileStream(int64_t epoch, int64_t file) {
  return static_cast<uint64_t>(epoch) << 24U | static_cast<uint64_t>(file);
}

}  // namespace

Hdf5Pipeline::Hdf5Pipeline(const LayerParameter& layer, const PipelineOptions& options, uint64_t seed)
    : options_(options), seed_(seed) {
  const HDF5DataParameter& param = layer.hdf5_data_param();
  const std::string name = StrCat("layer \"", layer.name(), "\"");
  if (layer.top_size() < 1) throw ErrorAt(layer, "top", StrCat(name, " has no top"));
  if (layer.has_transform_param()) ReadCrop(layer);
  if (param.source().empty()) {
    throw ErrorAt(layer, "hdf5_data_param.source", StrCat(name, ": hdf5_data_param.source is not set"),
                  "name a text file that lists HDF5 files");
  }
  const int64_t batch = param.batch_size();
  if (batch < 1 || batch > kMaxBatch) {
    throw ErrorAt(layer, "hdf5_data_param.batch_size",
                  StrCat(name, ": batch_size is ", batch, ", expected 1..", kMaxBatch));
  }
  shuffle_ = param.shuffle();
  list_ = (options.base_folder / param.source()).string();
  top_names_ = {layer.top().begin(), layer.top().end()};
  ReadList();
  for (File& file : files_) {
    file.before = rows_;
    ReadShapes(file);
  }
  if (rows_ == 0) throw Error(ErrorKind::kBadData, StrCat(list_, ": the files it lists hold no rows"));
  for (TensorType& type : types_) {
    type.shape = type.shape.With(0, batch);
    rows_in_file_.push_back(type.shape.Erased(0));
  }
  if (crop_.length > 0) CropShapes();
  block_.values.resize(types_.size());
  told_.assign(types_.size(), false);
}

void Hdf5Pipeline::ReadCrop(const LayerParameter& layer) {
  constexpr std::string_view kFields[] = {"crop_size_l", "crop_size_h", "crop_size_w", "mirror", "mean_value", "scale"};
  const TransformationParameter& param = layer.transform_param();
  const std::string name = StrCat("layer \"", layer.name(), "\"");
  if (!param.has_crop_size_l() && !param.has_crop_size_h() && !param.has_crop_size_w()) {
    throw ErrorAt(layer, "transform_param",
                  StrCat(name, ": HDF5Data does not transform data, but for crops of volumes"),
                  "remove transform_param, and transform the data when the files are written");
  }
  CheckTransformFields(layer, kFields);
  crop_ = {.length = param.crop_size_l(),
           .height = param.crop_size_h(),
           .width = param.crop_size_w(),
           .mirror = param.mirror(),
           .means = ReadPixelMean(param, options_.base_folder).values,
           .scale = param.scale()};
  constexpr int64_t kMaxSide = 1 << 16;
  for (const int64_t side : {crop_.length, crop_.height, crop_.width}) {
    if (side >= 1 && side <= kMaxSide) continue;
    throw ErrorAt(layer, "transform_param.crop_size_l",
                  StrCat(name, ": crop_size_l, crop_size_h and crop_size_w are ", crop_.length, ", ", crop_.height,
                         " and ", crop_.width, ", expected 1..", kMaxSide, " each"));
  }
}

void Hdf5Pipeline::CropShapes() {
  for (size_t i = 0; i < types_.size(); ++i) {
    const Shape& row = rows_in_file_[i];
    const bool fits = row.rank() == 4 && row[1] >= crop_.length && row[2] >= crop_.height && row[3] >= crop_.width;
    const bool agrees = row.rank() == 4 && row.With(0, 1) == rows_in_file_[0].With(0, 1);
    if (!fits || !agrees) {
      throw Error(ErrorKind::kBadData,
                  StrCat(list_, ": rows of dataset \"", Printable(top_names_[i]), "\" have the shape ", row.ToString(),
                         fits ? StrCat(", those of \"", Printable(top_names_[0]), "\" ", rows_in_file_[0].ToString())
                              : StrCat(", a crop of [", crop_.length, ",", crop_.height, ",", crop_.width,
                                       "] needs volumes [C,L,H,W] that are not smaller")));
    }
    const Shape cut{types_[i].shape[0], row[0], crop_.length, crop_.height, crop_.width};
    types_[i].shape = cut;
  }
  const size_t means = crop_.means.size();
  if (means > 1 && means != static_cast<size_t>(rows_in_file_[0][0])) {
    throw Error(ErrorKind::kBadData, StrCat("transform_param.mean_value has ", means, " values, the volumes have ",
                                            rows_in_file_[0][0], " channels; give one value or one a channel"));
  }
}

// The box and the mirror are those of all rows of the file in the epoch, since 3D-Caffe draws when it opens a file.
void Hdf5Pipeline::CopyVolume(const Place& place, size_t top, const float* row, float* to) const {
  const Shape& from = rows_in_file_[top];
  RandomStream random(DataSeed(options_.seed, "augment"), FileStream(place.epoch, place.file));
  const auto offset = [&](int64_t side, int64_t crop) {
    const int64_t free = side - crop;
    return options_.phase == TRAIN ? static_cast<int64_t>(random.Below(static_cast<uint64_t>(free + 1))) : free / 2;
  };
  const int64_t l0 = offset(from[1], crop_.length);
  const int64_t h0 = offset(from[2], crop_.height);
  const int64_t w0 = offset(from[3], crop_.width);
  const bool is_mirrored = crop_.mirror && (random.Bits() & 1U) != 0;
  const bool is_data = top == 0;  // labels are only cut
  const float scale = is_data ? crop_.scale : 1.0F;
  for (int64_t c = 0; c < from[0]; ++c) {
    const auto channel = static_cast<size_t>(c);
    const float mean = !is_data || crop_.means.empty() ? 0.0F : crop_.means[channel % crop_.means.size()];
    for (int64_t l = 0; l < crop_.length; ++l) {
      for (int64_t h = 0; h < crop_.height; ++h, to += crop_.width) {
        const float* line = row + ((c * from[1] + l + l0) * from[2] + h + h0) * from[3] + w0;
        for (int64_t w = 0; w < crop_.width; ++w) {
          to[is_mirrored ? crop_.width - 1 - w : w] = (line[w] - mean) * scale;
        }
      }
    }
  }
}

// Names are separated by blanks or line ends, as Caffe reads them.
void Hdf5Pipeline::ReadList() {
  std::array<char, 4> begin{};
  OpenFile::ForReading(list_).ReadAt(0, begin.data(), std::ssize(begin), list_);
  if (std::string_view(begin.data(), begin.size()) == "\x89HDF") {
    throw Error(ErrorKind::kBadData, {}, StrCat(list_, " is an HDF5 file, and the source is a list of such files"),
                "name a text file that has the path of one on each line");
  }
  const std::string text = ReadListText(list_);
  int line = 1;
  std::string name;
  const auto take = [&] {
    if (!name.empty()) files_.push_back({(options_.base_folder / name).string(), line, 0, 0});
    name.clear();
  };
  for (const char c : text) {
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (is_blank) {
      take();
    } else {
      name += c;
    }
    if (c == '\n') ++line;
  }
  take();
  if (files_.empty()) throw Error(ErrorKind::kBadData, StrCat(list_, ": lists no HDF5 file"));
  std::vector<NamedLine> names;
  for (const File& file : files_) names.push_back({file.path, static_cast<int>(file.line)});
  if (const std::string repeated = RepeatedNames(list_, names, {}, {}, "file"); !repeated.empty()) LogWarning(repeated);
}

void Hdf5Pipeline::Rethrow(const File& file, const Error& error) const {
  const std::string text = error.place().file.empty() ? error.text() : StrCat(error.place().file, ": ", error.text());
  throw Error(error.kind(), SourcePlace{.file = list_, .line = file.line}, text, error.hint());
}

// The first file's datasets give the shapes of all.
void Hdf5Pipeline::ReadShapes(File& file) {
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = list_, .line = file.line}, StrCat(file.path, ": ", text));
  };
  const bool is_first = types_.empty();
  try {
    const Hdf5Reader reader(file.path);
    for (size_t i = 0; i < top_names_.size(); ++i) {
      const std::string& name = top_names_[i];
      if (!reader.Has(name)) fail(StrCat("there is no dataset \"", Printable(name), "\", which a top is named after"));
      const Shape shape = reader.ShapeOf(name);
      if (shape.rank() == 0) fail(StrCat("dataset \"", Printable(name), "\" is one number; it has no rows"));
      if (i == 0) file.rows = shape[0];
      if (shape[0] != file.rows) {
        fail(StrCat("dataset \"", Printable(name), "\" has ", shape[0], " rows, \"", Printable(top_names_[0]),
                    "\" has ", file.rows));
      }
      const Shape row = shape.Erased(0);
      if (is_first) {
        types_.push_back({DType::kFloat32, shape, {}});
        row_sizes_.push_back(row.Count());
      } else if (types_[i].shape.Erased(0) != row) {
        fail(StrCat("rows of dataset \"", Printable(name), "\" have the shape ", row.ToString(), ", those of ",
                    files_[0].path, " ", types_[i].shape.Erased(0).ToString()));
      }
      if (row.Count() == 0) fail(StrCat("rows of dataset \"", Printable(name), "\" are empty"));
    }
  } catch (const Error& error) {
    if (error.place().line > 0) throw;
    Rethrow(file, error);
  }
  rows_ = (Size(rows_) + file.rows).value();
}

void Hdf5Pipeline::OrderFiles(int64_t epoch) {
  if (epoch == ordered_epoch_) return;
  const auto count = static_cast<int64_t>(files_.size());
  order_.resize(files_.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (shuffle_) {
    const Permutation files(static_cast<uint64_t>(count), seed_, kFileStream | static_cast<uint64_t>(epoch));
    for (int64_t i = 0; i < count; ++i) {
      order_[static_cast<size_t>(i)] = static_cast<int64_t>(files(static_cast<uint64_t>(i)));
    }
  }
  starts_.clear();
  int64_t start = 0;
  for (const int64_t file : order_) {
    starts_.push_back(start);
    start += files_[static_cast<size_t>(file)].rows;
  }
  ordered_epoch_ = epoch;
}

// A pure function of (seed, sample): the position is all there is to save.
Hdf5Pipeline::Place Hdf5Pipeline::PlaceOfSample(int64_t sample) {
  const int64_t run = options_.whole_batches ? batch_size() : 1;
  return PlaceOfAll(((Size(sample / run) * options_.world + options_.rank) * run + sample % run).value());
}

int64_t Hdf5Pipeline::RecordAt(int64_t global) {
  const Place place = PlaceOfAll(global);
  return files_[static_cast<size_t>(place.file)].before + place.row;
}

// The rows of a single file have the order in which databases and lists of as many records are shuffled.
Hdf5Pipeline::Place Hdf5Pipeline::PlaceOfAll(int64_t global) {
  const int64_t epoch = global / rows_;
  OrderFiles(epoch);
  // The last file that starts at or before the row; files without rows start where the next one does.
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), global % rows_);
  const auto at = static_cast<size_t>(next - starts_.begin() - 1);
  Place place{.file = order_[at], .row = global % rows_ - starts_[at], .epoch = epoch};
  if (shuffle_) {
    const auto rows = static_cast<uint64_t>(files_[static_cast<size_t>(place.file)].rows);
    const uint64_t stream = files_.size() == 1 ? static_cast<uint64_t>(epoch) : FileStream(epoch, place.file);
    const Permutation order(rows, seed_, stream);
    place.row = static_cast<int64_t>(order(static_cast<uint64_t>(place.row)));
  }
  return place;
}

void Hdf5Pipeline::Load(const Place& place) {
  const bool is_there =
      block_.file == place.file && place.row >= block_.first && place.row < block_.first + block_.count;
  if (is_there) return;
  const File& file = files_[static_cast<size_t>(place.file)];
  block_.file = -1;
  try {
    if (open_file_ != place.file) {
      reader_ = std::make_unique<Hdf5Reader>(file.path);
      open_file_ = place.file;
    }
    int64_t row_bytes = 0;
    for (const int64_t size : row_sizes_) row_bytes += size * int64_t{sizeof(float)};
    block_.first = place.row;
    block_.count = std::min(file.rows - place.row, std::max<int64_t>(1, kBlockBytes / row_bytes));
    if (shuffle_) {
      const bool is_whole = file.rows <= kWholeFileBytes / row_bytes;
      block_.first = is_whole ? 0 : place.row;
      block_.count = is_whole ? file.rows : 1;
    }
    for (size_t i = 0; i < types_.size(); ++i) {
      const Shape now = reader_->ShapeOf(top_names_[i]);
      if (now.rank() == 0 || now != rows_in_file_[i].Inserted(0, file.rows)) {
        throw Error(ErrorKind::kBadData, StrCat(file.path, ": dataset \"", Printable(top_names_[i]),
                                                "\" has changed since the run began, to ", now.ToString()));
      }
      block_.values[i].resize(static_cast<size_t>(block_.count * row_sizes_[i]));
      reader_->ReadRows(top_names_[i], block_.first, block_.count, block_.values[i]);
      if (looked_at_ < rows_) TellNonFinite(file, i);
    }
    looked_at_ += block_.count;
  } catch (const Error& error) {
    open_file_ = -1;
    Rethrow(file, error);
  }
  block_.file = place.file;
}

// Some losses take NaN for what is not known, so it is no error; but it is seldom meant, and a layer may hide it: a
// maximum of NaN and 0 is 0, and the loss goes on falling.
void Hdf5Pipeline::TellNonFinite(const File& file, size_t top) {
  if (told_[top]) return;
  const std::vector<float>& values = block_.values[top];
  const std::optional<int64_t> at = PlaceOfNonFinite(values);
  if (!at) return;
  told_[top] = true;
  LogWarning(StrCat(list_, ":", file.line, ": ", file.path, ": dataset \"", Printable(top_names_[top]), "\" holds ",
                    values[static_cast<size_t>(*at)], " in row ", block_.first + *at / row_sizes_[top], " (value ",
                    *at % row_sizes_[top], " of it; this is said once for each dataset)"));
}

void Hdf5Pipeline::Deliver(std::span<const Tensor> tops, PipelineStatistics& /*statistics*/) {
  for (int64_t n = 0; n < batch_size(); ++n) {
    const Place place = PlaceOfSample(position() + n);
    Load(place);
    for (size_t i = 0; i < tops.size(); ++i) {
      const float* row = block_.values[i].data() + (place.row - block_.first) * row_sizes_[i];
      const int64_t size = types_[i].shape.Count() / batch_size();
      float* to = tops[i].as<float>().data() + n * size;
      if (crop_.length > 0) {
        CopyVolume(place, i, row, to);
      } else {
        std::copy_n(row, size, to);
      }
    }
  }
}

namespace {

std::unique_ptr<Pipeline> OpenHdf5Data(const LayerParameter& layer, const PipelineOptions& options) {
  RefuseSampling(layer);
  return std::make_unique<Hdf5Pipeline>(layer, options, DataSeed(options.seed, "order"));
}

}  // namespace

DataLayerRow Hdf5DataRow() { return {.type = "HDF5Data", .open = OpenHdf5Data}; }

}  // namespace moka

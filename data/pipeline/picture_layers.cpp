// Layers of pictures from databases and from lists: from a layer's fields to its pipeline.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>

#include "core/log.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/pipeline/open_layers.h"
#include "data/pipeline/prefetch.h"
#include "data/pipeline/record_data.h"
#include "data/pipeline/sampling_fields.h"
#include "data/records/datum_view.h"
#include "data/records/record_channels.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Fields of forks that would change the pictures and that this reader does not have: refused where they are set.
void RefuseForeign(const LayerParameter& layer) {
  constexpr int kFirstOfSsd = 8;  // resize_param, noise_param, ...; Caffe's own fields are below
  constexpr int kFirstOfMoka = 2000;
  constexpr int kLastOfMoka = 2999;
  constexpr std::array<std::string_view, 6> kHarmless = {"forward_packing", "use_gpu_transform", "display",
                                                         "random_seed",     "num_labels",        "emit_constraint"};
  const TransformationParameter& transform = layer.transform_param();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  transform.GetReflection()->ListFields(transform, &fields);
  for (const auto* field : fields) {
    if (field->number() < kFirstOfSsd) continue;
    if (field->number() >= kFirstOfMoka && field->number() <= kLastOfMoka) continue;
    if (std::ranges::find(kHarmless, field->name()) != kHarmless.end()) continue;
    throw ErrorAt(
        layer, StrCat("transform_param.", field->name()),
        StrCat("layer \"", layer.name(), "\": ", layer.type(), " does not read transform_param.", field->name()),
        "Moka's own are resize_short, rand_resized_crop, crop_h, crop_w, pad, std_value, augment and mixing");
  }
}

// Checks of the tops and the source, which layers that read a database have in common.
void CheckFolder(const LayerParameter& layer, int most_tops) {
  CheckTops(layer, most_tops);
  if (!layer.data_param().source().empty()) return;
  throw ErrorAt(layer, "data_param.source", StrCat("layer \"", layer.name(), "\": data_param.source is not set"),
                "name the database folder");
}

void CheckBackend(const LayerParameter& layer) {
  const DataParameter& param = layer.data_param();
  if (param.backend() == DataParameter::LMDB) return;
  throw ErrorAt(layer, "data_param.backend",
                StrCat("layer \"", layer.name(), "\": backend LEVELDB",
                       param.has_backend() ? "" : " (the default when none is set)", " is not supported"),
                "set `backend: LMDB`, and make the database with `moka data import` (leveldb:FOLDER copies one)");
}

// A pool of batches to draw from is a poorer shuffle, of databases that are read in order only.
bool IsShuffled(const DataParameter& param) { return param.shuffle() || param.shuffle_pool_size() > 1; }

LmdbReader::Checks ChecksOf(SolverParameter::RecordChecks checks) {
  switch (checks) {
    case SolverParameter::FIRST_READ: return LmdbReader::Checks::kFirstRead;
    case SolverParameter::NO_READ: return LmdbReader::Checks::kNoRead;
    case SolverParameter::EVERY_READ: break;
  }
  return LmdbReader::Checks::kEveryRead;
}

LmdbReader::Use UseOf(const DataParameter& param, const PipelineOptions& options) {
  return {IsShuffled(param) ? LmdbReader::Access::kShuffled : LmdbReader::Access::kSequential,
          ChecksOf(options.record_checks)};
}

std::unique_ptr<const LmdbReader> OpenDatabase(const DataParameter& param, const PipelineOptions& options) {
  return std::make_unique<const LmdbReader>(options.base_folder / param.source(), UseOf(param, options));
}

std::unique_ptr<Pipeline> OpenPrefetch(const LayerParameter& layer, const PipelineOptions& options, int64_t batch,
                                       std::unique_ptr<const SampleMaker> maker) {
  const DataParameter& param = layer.data_param();
  SamplerOptions sampler = SamplerFor(options, maker->record_count(), IsShuffled(param), param.rand_skip(), batch);
  if (maker->record_count() == 0) {
    throw Error(ErrorKind::kBadData, StrCat((options.base_folder / param.source()).string(), ": no records"));
  }
  const bool skips_bad = param.on_bad_record() == DataParameter::SKIP;
  ReadSampling(layer, options, *maker, skips_bad, sampler);
  PrefetchOptions prefetch{.batch_size = batch,
                           .batches_ahead = CheckedPrefetch(layer),
                           .workers = WorkersFor(options.threads, param.threads(), batch),
                           .top_names = {layer.top().begin(), layer.top().end()},
                           .mixer = MixerFor(layer, options),
                           .device = options.device};
  if (skips_bad) prefetch.on_bad_record = PrefetchOptions::OnBadRecord::kSkip;
  return std::make_unique<PrefetchPipeline>(std::move(maker), sampler, std::move(prefetch));
}

std::unique_ptr<Pipeline> OpenAnnotatedData(const LayerParameter& layer, const PipelineOptions& options) {
  if (layer.transform_param().caffe_yolo()) {
    throw ErrorAt(layer, "transform_param.caffe_yolo",
                  StrCat("layer \"", layer.name(),
                         "\": caffe_yolo is not supported: its batches must come from the "
                         "program that runs the net"));
  }
  constexpr int kMostTops = 3;
  CheckFolder(layer, kMostTops);
  CheckBackend(layer);
  if (layer.data_param().cache_mb() > 0) {
    throw ErrorAt(layer, "data_param.cache_mb",
                  StrCat("layer \"", layer.name(), "\": cache_mb is read by Data layers, not by AnnotatedData"));
  }
  const AnnotatedDataParameter& boxes = layer.annotated_data_param();
  BoxLabels labels{.are_lists = boxes.yolo_data_type() == 1, .has_difficult = boxes.train_diffcult()};
  if (layer.top_size() == kMostTops) {
    if (layer.transform_param().has_expand_param() || CropOf(layer).height > 0) {
      throw ErrorAt(layer, "transform_param",
                    StrCat("layer \"", layer.name(),
                           "\": label images (a third top) are neither expanded nor cropped with their image"));
    }
    labels.picture.emplace(boxes, options.base_folder);
  }
  const DataParameter& param = layer.data_param();
  const int64_t batch = CheckedBatch(layer, "data_param.batch_size", param.batch_size());
  BoxTransform transform(PictureFieldsOf(layer), layer.annotated_data_param(), options.phase,
                         DataSeed(options.seed, "augment"));
  auto reader = OpenDatabase(param, options);
  if (IsToForceColor(layer, *reader)) transform.ForceColor();
  return OpenPrefetch(layer, options, batch,
                      std::make_unique<AnnotatedMaker>(std::move(reader), transform, std::move(labels)));
}

std::unique_ptr<Pipeline> OpenRecordData(const LayerParameter& layer, const PipelineOptions& options) {
  CheckFolder(layer, RecordDataParameter::Output_ARRAYSIZE);
  const DataParameter& param = layer.data_param();
  if (param.has_backend()) CheckBackend(layer);
  if (param.cache_mb() > 0) {
    throw ErrorAt(layer, "data_param.cache_mb",
                  StrCat("layer \"", layer.name(), "\": cache_mb is read by Data layers, not by RecordData"));
  }
  const int64_t batch = CheckedBatch(layer, "data_param.batch_size", param.batch_size());
  auto reader = OpenDatabase(param, options);
  LayerParameter forced = layer;
  if (IsToForceColor(layer, *reader)) forced.mutable_transform_param()->set_force_color(true);
  return OpenPrefetch(layer, options, batch,
                      std::make_unique<RecordDataMaker>(forced, options.base_folder, std::move(reader), options.phase,
                                                        DataSeed(options.seed, "augment")));
}

// Records without a label read as class 0. A database has them in none of its records, or in all but a few.
void TellMissingLabels(const LayerParameter& layer, const LmdbReader& reader) {
  constexpr int64_t kMostLookedAt = 256;
  if (layer.top_size() < 2) return;
  const int64_t step = std::max<int64_t>(1, (reader.size() + kMostLookedAt - 1) / kMostLookedAt);
  for (int64_t i = 0; i < reader.size(); i += step) {
    try {
      if (ParseDatum(reader.unchecked_value(i)).has_label) return;
    } catch (const Error&) {  // a bad record is told when its turn comes
      return;
    }
  }
  LogWarning(StrCat("layer \"", layer.name(), "\": the records of ", layer.data_param().source(), " have no label: \"",
                    layer.top(1), "\" is 0 for each"));
}

std::unique_ptr<Pipeline> OpenData(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr int kMostTops = 2;
  CheckFolder(layer, kMostTops);
  CheckBackend(layer);
  RefuseForeign(layer);
  const DataParameter& param = layer.data_param();
  const int64_t batch = CheckedBatch(layer, "data_param.batch_size", param.batch_size());
  Transform transform(PictureFieldsOf(layer), options.phase, DataSeed(options.seed, "augment"), options.base_folder);
  if (param.cache_mb() > 0 && transform.takes_parts()) {
    throw ErrorAt(
        layer, "data_param.cache_mb",
        StrCat("layer \"", layer.name(),
               "\": cache_mb keeps whole pictures, and of these only the part that a sample needs is decoded"),
        "leave out cache_mb, or rand_resized_crop and resize_short");
  }
  auto reader = OpenDatabase(param, options);
  TellMissingLabels(layer, *reader);
  if (IsToForceColor(layer, *reader)) transform.ForceColor();
  auto source = std::make_unique<LmdbSource>(std::move(reader), transform.channels(), int64_t{param.cache_mb()} << 20U);
  return OpenPrefetch(layer, options, batch, std::make_unique<LabelledMaker>(std::move(source), transform));
}

// Returns the channels that listed pictures are decoded to. Errors: kConfig where is_color and transform_param say two
// things.
ImageChannels ListedChannelsOf(const LayerParameter& layer, const ImageDataParameter& param, std::string_view message) {
  const TransformationParameter& fields = layer.transform_param();
  const bool is_forced = fields.force_color() || fields.force_gray();
  const bool is_color = is_forced ? fields.force_color() : param.is_color();
  if (is_forced && param.has_is_color() && param.is_color() != is_color) {
    const std::string field = fields.force_color() ? "transform_param.force_color" : "transform_param.force_gray";
    throw ErrorAt(layer, field,
                  StrCat("layer \"", layer.name(), "\": ", field, " is set, and ", message, ".is_color is ",
                         param.is_color() ? "true" : "false", "; keep one"));
  }
  return is_color ? ImageChannels::kColor : ImageChannels::kGray;
}

// One label a line, or (labels > 0) several, of the shape [N] and `label_dims`.
std::unique_ptr<Pipeline> OpenImageList(const LayerParameter& layer, const PipelineOptions& options,
                                        const ImageDataParameter& param, std::string_view message, int64_t labels,
                                        const Shape& label_dims) {
  CheckTops(layer);
  CheckSource(layer, StrCat(message, ".source"), param.source());
  CheckNewSize(layer, message, param.new_height(), param.new_width());
  RefuseForeign(layer);
  const int64_t batch = CheckedBatch(layer, StrCat(message, ".batch_size"), param.batch_size());
  const int64_t group = param.pair_size();
  constexpr int64_t kMostPairs = 1 << 20;
  if (group < 1 || group > kMostPairs) {
    throw ErrorAt(layer, StrCat(message, ".pair_size"),
                  StrCat("layer \"", layer.name(), "\": pair_size is ", group, ", expected 1..", kMostPairs));
  }
  for (const auto& [field, is_set] :
       {std::pair{"raw_hdf5", param.raw_hdf5()}, std::pair{"color_aug", param.color_aug()},
        std::pair{"rand_frame", param.rand_frame()}, std::pair{"multiview", param.multiview()},
        std::pair{"probability", param.probability() != 1}}) {
    if (!is_set) continue;
    throw ErrorAt(layer, StrCat(message, ".", field),
                  StrCat("layer \"", layer.name(), "\": ", layer.type(), " does not read ", message, ".", field));
  }
  const Transform transform(PictureFieldsOf(layer), options.phase, DataSeed(options.seed, "augment"),
                            options.base_folder);
  auto source =
      std::make_unique<ImageListSource>(ImageListSource::Options{.list = options.base_folder / param.source(),
                                                                 .base = options.base_folder,
                                                                 .prefix = param.root_folder(),
                                                                 .height = param.new_height(),
                                                                 .width = param.new_width(),
                                                                 .channels = ListedChannelsOf(layer, param, message),
                                                                 .labels = labels});
  return OpenListed(layer, options,
                    {.batch = batch, .shuffle = param.shuffle(), .rand_skip = param.rand_skip(), .group = group},
                    std::make_unique<LabelledMaker>(std::move(source), transform, label_dims));
}

std::unique_ptr<Pipeline> OpenImageData(const LayerParameter& layer, const PipelineOptions& options) {
  if (layer.image_data_param().has_sample_num()) {
    throw ErrorAt(layer, "image_data_param.sample_num",
                  StrCat("layer \"", layer.name(), "\": classes drawn for each batch (sample_num) are not read"),
                  "list the pictures in the order in which they are to come");
  }
  if (layer.top_size() == 3) return OpenRunData(layer, options);
  return OpenImageList(layer, options, layer.image_data_param(), "image_data_param", 0, {});
}

int64_t CheckedLabels(const LayerParameter& layer, std::string_view field, int64_t labels) {
  constexpr int64_t kMostLabels = 1 << 20;
  if (labels >= 1 && labels <= kMostLabels) return labels;
  throw ErrorAt(
      layer, field,
      StrCat("layer \"", layer.name(), "\": ", field, " is ", labels, ", expected 1..", kMostLabels, " labels a line"));
}

// DRML's labels are [N,labels,1,1], PG-CNN's [N,labels].
std::unique_ptr<Pipeline> OpenMultilabelImageData(const LayerParameter& layer, const PipelineOptions& options) {
  if (layer.has_multi_label_image_data_param()) {
    const ImageDataParameter& param = layer.multi_label_image_data_param();
    const int64_t labels = CheckedLabels(layer, "multi_label_image_data_param.label_num", param.label_num());
    return OpenImageList(layer, options, param, "multi_label_image_data_param", labels, {labels});
  }
  const ImageDataParameter& param = layer.image_data_param();
  const int64_t labels = CheckedLabels(layer, "image_data_param.multilabel_num", param.multilabel_num());
  return OpenImageList(layer, options, param, "image_data_param", labels, {labels, 1, 1});
}

}  // namespace

DataLayerRow AnnotatedDataRow() {
  return {.type = "AnnotatedData", .open = OpenAnnotatedData, .database = RecordKind::kAnnotated, .augments = true};
}

DataLayerRow DatabaseRow() {
  return {.type = "Data", .open = OpenData, .database = RecordKind::kDatum, .augments = true, .mixes = true};
}

DataLayerRow RecordDataRow() {
  return {.type = "RecordData", .open = OpenRecordData, .database = RecordKind::kSample, .augments = true};
}

DataLayerRow ImageDataRow() {
  return {.type = "ImageData",
          .open = OpenImageData,
          .reads_list = true,
          .reads_own_list = false,
          .augments = true,
          .mixes = true};
}

DataLayerRow MultiLabelImageDataRow() {
  return {.type = "MultiLabelImageData", .open = OpenMultilabelImageData, .reads_list = true, .augments = true};
}

DataLayerRow MultilabelImageDataRow() {
  return {.type = "MultilabelImageData", .open = OpenMultilabelImageData, .reads_list = true, .augments = true};
}

}  // namespace moka

// Opens the layer as a training does and takes the mean and the scale back, so that what is drawn is what the net sees.
#include "data/inspect/preview.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/image/drawing.h"
#include "data/pipeline/open_pipeline.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr int64_t kGap = 3;         // pixels between pictures
constexpr int64_t kLeastSide = 96;  // smaller pictures are enlarged by whole factors
constexpr int64_t kCaption = 22;    // pixels of a caption's line
constexpr double kLetters = 0.5;    // OpenCV's scale of letters

// The layer with batches of so many samples, in order, and without a mean image, which cannot be taken back here.
LayerParameter ForPreview(const LayerParameter& layer, int64_t batch) {
  LayerParameter changed = layer;
  changed.mutable_transform_param()->clear_mean_file();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    google::protobuf::Message* message = changed.GetReflection()->MutableMessage(&changed, field);
    const auto* size = message->GetDescriptor()->FindFieldByName("batch_size");
    if (size != nullptr && size->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32) {
      message->GetReflection()->SetUInt32(message, size, static_cast<uint32_t>(batch));
    }
    for (const char* name : {"shuffle", "mean_file", "rand_skip", "shuffle_pool_size", "bucket"}) {
      const auto* order = message->GetDescriptor()->FindFieldByName(name);
      if (order != nullptr) message->GetReflection()->ClearField(message, order);
    }
  }
  return changed;
}

float ValueOf(const google::protobuf::RepeatedField<float>& values, int64_t channel, float none) {
  if (values.empty()) return none;
  return values[static_cast<int>(channel) % values.size()];
}

// Label 0 is left as it is; others get colours far from their neighbours'.
void LayOver(const float* labels, Image& image) {
  for (int64_t i = 0; i < image.width * image.height; ++i) {
    const auto label = static_cast<uint32_t>(labels[i]);
    if (label == 0) continue;
    for (uint32_t c = 0; c < 3; ++c) {
      uint8_t& value = image.pixels[static_cast<size_t>(i * 3 + c)];
      value = static_cast<uint8_t>((value + label * (67 + 58 * c) % 256) / 2);
    }
  }
}

void DrawBoxes(std::span<const float> rows, int64_t item, Image& image) {
  constexpr Color kGreen{.green = 255};
  const auto width = static_cast<double>(image.width);
  const auto height = static_cast<double>(image.height);
  for (size_t i = 0; i + 8 <= rows.size(); i += 8) {
    if (rows[i] != static_cast<float>(item)) continue;
    DrawBox({rows[i + 3] * width, rows[i + 4] * height, rows[i + 5] * width, rows[i + 6] * height}, kGreen, 1, image);
  }
}

void DrawPoints(std::span<const float> points, Image& image) {
  constexpr Color kRed{.red = 255};
  for (size_t i = 0; i + 3 <= points.size(); i += 3) {
    if (points[i + 2] == 0) continue;
    DrawDisc(points[i] * static_cast<double>(image.width), points[i + 1] * static_cast<double>(image.height), 2, kRed,
             image);
  }
}

// Boxes and points of an item, from the tops that have such.
void DrawObjects(const LayerParameter& layer, const std::vector<OwnedTensor>& tops, int64_t item, Image& image) {
  for (size_t top = 1; top < tops.size(); ++top) {
    const Shape& shape = tops[top].type().shape;
    const auto at = static_cast<int>(top);
    const RecordDataParameter& record = layer.record_data_param();
    const bool has_output = DataRowOf(layer).database == RecordKind::kSample && at < record.output_size();
    const bool is_ssd = DataRowOf(layer).database == RecordKind::kAnnotated && top == 1 && shape[0] == 1;
    if (is_ssd || (has_output && record.output(at) == RecordDataParameter::BOXES)) {
      DrawBoxes(tops[top].as<float>(), item, image);
    } else if (has_output && record.output(at) == RecordDataParameter::POINTS) {
      const int64_t count = shape.Count(1, shape.rank());
      DrawPoints(tops[top].as<float>().subspan(static_cast<size_t>(item * count), static_cast<size_t>(count)), image);
    }
  }
}

}  // namespace

Image PictureOfSample(const TransformationParameter& transform, const Shape& sample, std::span<const float> values) {
  Image image;
  image.Resize(sample[2], sample[1], 3);
  const int64_t plane = sample[1] * sample[2];
  for (int64_t c = 0; c < 3; ++c) {
    const int64_t from = sample[0] == 3 ? c : 0;
    const float factor = ValueOf(transform.std_value(), from, 1) / (transform.scale() == 0 ? 1 : transform.scale());
    const float mean = ValueOf(transform.mean_value(), from, 0);
    for (int64_t i = 0; i < plane; ++i) {
      const float value = values[static_cast<size_t>(from * plane + i)] * factor + mean;
      image.pixels[static_cast<size_t>(i * 3 + c)] = static_cast<uint8_t>(std::clamp(std::round(value), 0.0F, 255.0F));
    }
  }
  return image;
}

Image PreviewLayer(const LayerParameter& layer, const PreviewOptions& options) {
  const PipelineOptions opening{.phase = options.phase, .seed = options.seed, .base_folder = options.base_folder};
  const int64_t records = std::min(options.records, OpenPipeline(ForPreview(layer, 1), opening)->epoch_size());
  const auto pipeline = OpenPipeline(ForPreview(layer, std::max<int64_t>(records, 1)), opening);
  const Shape shape = pipeline->types()[0].shape;
  if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3) || pipeline->epoch_size() == 0) {
    throw ErrorAt(layer, {},
                  StrCat("layer \"", layer.name(), "\": samples of the shape ", shape.ToString(),
                         " are no pictures of 1 or 3 channels"));
  }
  std::vector<OwnedTensor> tops(pipeline->types().begin(), pipeline->types().end());
  std::vector<Tensor> tensors;
  for (const OwnedTensor& top : tops) tensors.push_back(top.tensor());
  const int64_t factor = std::max<int64_t>(1, (kLeastSide + shape[3] - 1) / shape[3]);
  const int64_t width = shape[3] * factor;
  const int64_t height = shape[2] * factor;
  Image sheet = Paper(options.epochs * (width + kGap) + kGap, shape[0] * (height + kGap) + kGap);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    pipeline->Seek(epoch * pipeline->epoch_size());
    pipeline->Next(tensors);
    for (int64_t n = 0; n < shape[0]; ++n) {
      const auto count = static_cast<size_t>(shape.Count(1, 4));
      const std::span<const float> sample = tops[0].as<float>().subspan(static_cast<size_t>(n) * count, count);
      Image image = PictureOfSample(layer.transform_param(), {shape[1], shape[2], shape[3]}, sample);
      for (size_t top = 1; top < tops.size(); ++top) {
        if (tops[top].type().shape != shape.With(1, 1)) continue;
        LayOver(tops[top].as<float>().data() + n * shape[2] * shape[3], image);
      }
      Image shown;
      ResizeImage(image, width, height, Interpolation::kNearest, shown);
      DrawObjects(layer, tops, n, shown);
      Paste(shown, kGap + epoch * (width + kGap), kGap + n * (height + kGap), sheet);
    }
  }
  return sheet;
}

Image Stacked(const std::vector<CaptionedImage>& images) {
  const WordStyle style{.scale = kLetters};
  int64_t width = 1;
  int64_t height = 0;
  for (const CaptionedImage& part : images) {
    width = std::max({width, part.image.width, SizeOfWords(part.caption, style).width + 2 * kGap});
    height += part.image.height + kCaption;
  }
  Image all = Paper(width, std::max<int64_t>(height, 1));
  int64_t y = 0;
  for (const CaptionedImage& part : images) {
    DrawWords(part.caption, kGap, y + 1, style, all);
    Paste(part.image, 0, y + kCaption, all);
    y += kCaption + part.image.height;
  }
  return all;
}

}  // namespace moka

// The outputs of the tops are checked against the schema when the layer is opened; a record is then decoded and
// transformed once for all tops.
#include "data/pipeline/record_data.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/text/tokens.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using Parameter = RecordDataParameter;

constexpr int64_t kBoxNumbers = 8;    // of a row
constexpr int64_t kPointNumbers = 3;  // of a point

bool Has(const Parameter& param, Parameter::Output output) {
  return std::ranges::find(param.output(), output) != param.output().end();
}

// Returns the names of the record's points, or of each box's where boxes have points.
const google::protobuf::RepeatedPtrField<std::string>& PointNames(const SampleSchema& schema) {
  return schema.box_point().empty() ? schema.point() : schema.box_point();
}

}  // namespace

RecordDataMaker::RecordDataMaker(const LayerParameter& layer, const std::filesystem::path& folder,
                                 std::unique_ptr<const LmdbReader> reader, Phase phase, uint64_t seed)
    : layer_name_(layer.name()),
      reader_(std::move(reader)),
      schema_(ReadSampleSchema(folder / layer.data_param().source())),
      param_(layer.record_data_param()),
      transform_(layer, phase, seed,
                 {.mask = Has(param_, Parameter::MASK),
                  .instances = Has(param_, Parameter::INSTANCES),
                  .mirrored_points = MirroredPoints(PointNames(schema_)),
                  .are_points_of_boxes = schema_.box_point_size() > 0}) {
  CheckOutputs(layer);
  OpenVocabulary(layer, folder);
  const bool has_box_points = Has(param_, Parameter::POINTS) && schema_.box_point_size() > 0;
  has_rows_ = Has(param_, Parameter::BOXES) || has_box_points;
  if (!has_rows_) return;
  rows_ = std::max<int64_t>(1, param_.max_boxes() > 0 ? param_.max_boxes() : MostBoxes());
}

void RecordDataMaker::CheckOutputs(const LayerParameter& layer) const {
  const auto fail = [&](std::string_view text, std::string_view hint = "") {
    throw ErrorAt(layer, "record_data_param.output",
                  StrCat("layer \"", layer.name(), "\": record_data_param.output ", text), std::string(hint));
  };
  if (param_.output_size() != layer.top_size()) {
    fail(StrCat("is given ", param_.output_size(), " times, the layer has ", layer.top_size(), " tops"),
         "give one for each top");
  }
  if (param_.output(0) != Parameter::PICTURE) fail("must begin with PICTURE");
  std::vector<int> seen;
  for (const int output : param_.output()) {
    const auto wanted = static_cast<Parameter::Output>(output);
    const std::string& name = Parameter::Output_Name(wanted);
    if (std::ranges::find(seen, output) != seen.end()) fail(StrCat("has ", name, " twice"));
    seen.push_back(output);
    const bool is_there = wanted == Parameter::PICTURE || (wanted == Parameter::LABELS && schema_.label_size() > 0) ||
                          (wanted == Parameter::TARGETS && schema_.target_size() > 0) ||
                          (wanted == Parameter::BOXES && schema_.boxes()) ||
                          (wanted == Parameter::MASK && schema_.mask()) ||
                          (wanted == Parameter::INSTANCES && schema_.box_masks()) ||
                          (wanted == Parameter::POINTS && !PointNames(schema_).empty()) ||
                          (wanted == Parameter::TEXTS && schema_.text_size() > 0);
    if (!is_there) {
      fail(StrCat("wants ", name, ", which the records of ", reader_->path().string(), " have not"),
           StrCat("its ", kSchemaFile, " says what they have"));
    }
  }
}

void RecordDataMaker::OpenVocabulary(const LayerParameter& layer, const std::filesystem::path& folder) {
  const auto fail = [&](const std::string& field, std::string_view text, std::string_view hint) {
    throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", field, " ", text), std::string(hint));
  };
  if (!Has(param_, Parameter::TEXTS)) {
    if (!param_.has_vocabulary()) return;
    fail("record_data_param.vocabulary", "is of the output TEXTS, which no top has", "add it, or leave this out");
  }
  constexpr uint32_t kLeastWords = 2;  // one and the mark
  constexpr uint32_t kMostWords = 1 << 16;
  if (param_.text_length() < kLeastWords || param_.text_length() > kMostWords) {
    fail("record_data_param.text_length",
         StrCat("is ", param_.text_length(), ", expected ", kLeastWords, "..", kMostWords), "");
  }
  if (param_.vocabulary().empty()) {
    fail("record_data_param.vocabulary", "is not given, and TEXTS are numbers of its words",
         "`moka data vocabulary` makes one of text files");
  }
  vocabulary_.emplace(folder / param_.vocabulary());
}

int64_t RecordDataMaker::MostBoxes() const {
  SampleRecord record;
  return reader_->MostOf([&](std::string_view value) {
    ParseSample(value, schema_, record);
    return int64_t{record.box_size()};
  });
}

// The whole set is not looked through for it when the layer is opened: max_boxes is there to save that reading.
void RecordDataMaker::TellCut(int64_t record, const RecordPictureScratch& scratch) const {
  const int64_t boxes = std::ssize(scratch.boxes);
  if (!has_rows_ || boxes <= rows_ || has_told_cut_.exchange(true)) return;
  LogWarning(StrCat("layer \"", layer_name_, "\": ", NameOf(record), " has ", boxes, " boxes, max_boxes is ", rows_,
                    ": the others are left out, as of all records that have more (this is said once); raise "
                    "record_data_param.max_boxes, or leave it out"));
}

void RecordDataMaker::Load(int64_t record, SampleScratch& scratch) const {
  const std::string_view wire = reader_->value(record);
  scratch.record.clock.Enter(Stage::kDecode);
  ParseSample(wire, schema_, scratch.record_picture.record);
}

Shape RecordDataMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  Load(record, scratch);
  return transform_.OutputShape(scratch.record_picture, scratch.record.decoder);
}

std::optional<int64_t> RecordDataMaker::ClassOf(int64_t record) const {
  if (schema_.label_size() != 1) return std::nullopt;
  SampleRecord read;
  ParseSample(reader_->unchecked_value(record), schema_, read);
  return read.label(0);
}

Shape RecordDataMaker::PartShape(Parameter::Output output, const Shape& sample) const {
  switch (output) {
    case Parameter::LABELS: return schema_.label_size() == 1 ? Shape{} : Shape{schema_.label_size()};
    case Parameter::TARGETS: return {schema_.target_size()};
    case Parameter::MASK:
    case Parameter::INSTANCES: return {1, sample[1], sample[2]};
    case Parameter::POINTS:
      if (schema_.box_point_size() > 0) return {rows_, schema_.box_point_size(), kPointNumbers};
      return {schema_.point_size(), kPointNumbers};
    case Parameter::BOXES: return {rows_, kBoxNumbers};
    case Parameter::TEXTS: return {schema_.text_size(), int64_t{param_.text_length()}};
    case Parameter::PICTURE: break;
  }
  return sample;
}

std::vector<Shape> RecordDataMaker::LabelShapes(int64_t batch_size, const Shape& sample) const {
  std::vector<Shape> shapes;
  for (int i = 1; i < param_.output_size(); ++i) {
    if (param_.output(i) == Parameter::BOXES) {
      shapes.push_back({1, 1, batch_size * rows_, kBoxNumbers});
    } else {
      shapes.push_back(PartShape(param_.output(i), sample).Inserted(0, batch_size));
    }
  }
  return shapes;
}

void RecordDataMaker::WriteBoxes(const RecordPictureScratch& scratch, int64_t item, std::span<float> out) const {
  std::ranges::fill(out, -1.0F);
  const auto count = std::min<size_t>(scratch.boxes.size(), static_cast<size_t>(rows_));
  float* row = out.data();
  for (size_t i = 0; i < count; ++i) {
    const Annotated& a = scratch.boxes[i];
    const bool is_crowd = scratch.record.box(a.instance_id - 1).crowd();
    const std::array<float, kBoxNumbers> values = {static_cast<float>(item),
                                                   static_cast<float>(a.group_label),
                                                   static_cast<float>(i + 1),
                                                   a.box.xmin,
                                                   a.box.ymin,
                                                   a.box.xmax,
                                                   a.box.ymax,
                                                   is_crowd      ? 2.0F
                                                   : a.difficult ? 1.0F
                                                                 : 0.0F};
    row = std::ranges::copy(values, row).out;
  }
}

void RecordDataMaker::WritePoints(const RecordPictureScratch& scratch, std::span<float> out) const {
  float* to = out.data();
  if (schema_.box_point_size() == 0) {
    for (const KeyPoint& point : scratch.points) {
      to = std::ranges::copy(std::array{point.x, point.y, point.is_visible ? 1.0F : 0.0F}, to).out;
    }
    return;
  }
  std::ranges::fill(out, 0.0F);
  const auto count = static_cast<size_t>(schema_.box_point_size());
  const size_t rows = std::min<size_t>(scratch.boxes.size(), static_cast<size_t>(rows_));
  for (size_t row = 0; row < rows; ++row) {
    const auto box = static_cast<size_t>(scratch.boxes[row].instance_id - 1);
    for (const KeyPoint& point : std::span(scratch.points).subspan(box * count, count)) {
      const float flag = point.is_visible ? 2.0F : point.is_hidden ? 1.0F : 0.0F;
      const std::array values = {point.x, point.y, flag};
      if (flag > 0) std::ranges::copy(values, to);
      to += kPointNumbers;
    }
  }
}

void RecordDataMaker::WriteTexts(const SampleRecord& record, std::span<float> out) const {
  std::ranges::fill(out, static_cast<float>(kNoWord));
  const size_t length = param_.text_length();
  std::vector<std::string> words;
  for (int i = 0; i < record.text_size(); ++i) {
    const std::span<float> row = out.subspan(static_cast<size_t>(i) * length, length);
    SplitWords(record.text(i), param_.tokens(), words);
    const size_t count = std::min(words.size(), length - 1);
    for (size_t w = 0; w < count; ++w) row[w] = static_cast<float>(vocabulary_->NumberOf(words[w]));
    row[count] = static_cast<float>(kEndWord);
  }
}

// Boxes that are no longer there, or have no row, leave no instance.
void RecordDataMaker::WriteInstances(const RecordPictureScratch& scratch, std::span<float> out) const {
  std::vector<float> row_of(static_cast<size_t>(scratch.record.box_size()) + 1);
  const bool has_rows = Has(param_, Parameter::BOXES);
  for (size_t i = 0; i < scratch.boxes.size(); ++i) {
    if (has_rows && static_cast<int64_t>(i) >= rows_) break;
    row_of[static_cast<size_t>(scratch.boxes[i].instance_id)] = static_cast<float>(i + 1);
  }
  for (size_t p = 0; p < out.size(); ++p) {
    out[p] = row_of[scratch.instances.At(p)];
  }
}

void RecordDataMaker::Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
                           std::span<float> data, std::span<float> label) const {
  Load(record, scratch);
  RecordPictureScratch& p = scratch.record_picture;
  transform_.Apply(id, shape, scratch.record.decoder, scratch.record.clock, scratch.transform, p, data);
  TellCut(record, p);
  for (int i = 1; i < param_.output_size(); ++i) {
    const auto count = static_cast<size_t>(PartShape(param_.output(i), shape).Count());
    const std::span<float> out = label.first(count);
    label = label.subspan(count);
    switch (param_.output(i)) {
      case Parameter::LABELS: std::ranges::copy(p.record.label(), out.begin()); break;
      case Parameter::TARGETS: std::ranges::copy(p.record.target(), out.begin()); break;
      case Parameter::MASK: std::ranges::copy(p.mask.pixels, out.begin()); break;
      case Parameter::INSTANCES: WriteInstances(p, out); break;
      case Parameter::BOXES: WriteBoxes(p, item, out); break;
      case Parameter::POINTS: WritePoints(p, out); break;
      case Parameter::TEXTS: WriteTexts(p.record, out); break;
      case Parameter::PICTURE: break;
    }
  }
}

}  // namespace moka

// How a pipeline's samples are made: records loaded and transformed into the floats of one place in a batch. Making is
// const and safe from any number of threads; what a thread needs of its own is its SampleScratch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/records/record_source.h"
#include "data/transform/box_transform.h"
#include "data/transform/label_picture.h"
#include "data/transform/record_transform.h"
#include "data/transform/transform.h"

namespace moka {

// Pictures of a maker that works on several at once.
struct PictureScratch {
  Image image;
  Image label;
  Image changed;
  std::vector<uint8_t> planes;
};

struct SampleScratch {
  RecordScratch record;
  PictureScratch pictures;
  TransformScratch transform;
  AnnotatedRecord annotated;
  BoxScratch boxes;
  RecordPictureScratch record_picture;
};

class SampleMaker {
 public:
  SampleMaker() = default;
  SampleMaker(const SampleMaker&) = delete;
  SampleMaker& operator=(const SampleMaker&) = delete;
  virtual ~SampleMaker() = default;

  virtual int64_t record_count() const = 0;
  virtual std::string NameOf(int64_t record) const = 0;
  // [C,H,W] of a record's data. Errors: those of the record.
  virtual Shape DataShape(int64_t record, SampleScratch& scratch) const = 0;
  // Shape of the first top of a batch whose samples have the shape `sample`.
  virtual Shape DataTop(int64_t batch_size, const Shape& sample) const { return sample.Inserted(0, batch_size); }
  // Rows of the first top that a sample has, where they are items of the batch: positions count them.
  virtual int64_t RowsOf(const Shape& /*sample*/) const { return 1; }
  // Equal parts of a sample in a top that lie apart in a batch: first parts of all samples, then their second ones, as
  // recurrent nets take sequences.
  virtual int64_t StepsOf(size_t /*top*/) const { return 1; }
  // Shapes of the tops after the data of a batch whose samples have the shape `sample`; each holds batch_size equal
  // parts, one a sample.
  virtual std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& /*sample*/) const { return {{batch_size}}; }
  // Writes a sample of `shape` and its labels, one after the other, which go to place `item` of a batch. Errors: those
  // of the record.
  virtual void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
                    std::span<float> data, std::span<float> label) const = 0;

  // The class that balanced sampling counts; none where records have no single one. Errors: those of the record.
  virtual std::optional<int64_t> ClassOf(int64_t /*record*/) const { return std::nullopt; }
  // Whether the records do not all fit into memory, so that the system is to be told of those that come soon.
  virtual bool reads_ahead() const { return false; }
  virtual void WillNeed(int64_t /*record*/) const {}
  // Whether the file of the records is still the one that was opened; asked after some were made. Errors: kIo.
  virtual void CheckFile() const {}
  virtual int64_t cache_bytes() const { return 0; }
  // Whether decoded pictures can be kept in memory, if data_param.cache_mb says so.
  virtual bool can_cache() const { return false; }
};

// Images with one label each, or several of the shape `label`.
class LabelledMaker final : public SampleMaker {
 public:
  LabelledMaker(std::unique_ptr<const RecordSource> source, const Transform& transform, const Shape& label = {})
      : source_(std::move(source)), transform_(transform), label_(label) {}
  int64_t record_count() const override { return source_->size(); }
  std::string NameOf(int64_t record) const override { return source_->NameOf(record); }
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& /*sample*/) const override {
    return {label_.Inserted(0, batch_size)};
  }
  std::optional<int64_t> ClassOf(int64_t record) const override { return source_->ClassOf(record); }
  bool reads_ahead() const override { return source_->reads_ahead(); }
  void WillNeed(int64_t record) const override { source_->WillNeed(record); }
  void CheckFile() const override { source_->CheckFile(); }
  int64_t cache_bytes() const override { return source_->cache_bytes(); }
  // Pictures of which only parts are decoded are not kept.
  bool can_cache() const override { return source_->can_cache() && !transform_.takes_parts(); }
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  std::unique_ptr<const RecordSource> source_;
  Transform transform_;
  Shape label_;
};

// The form in which an AnnotatedMaker writes boxes as labels.
struct BoxLabels {
  bool are_lists = false;     // YOLO's, else SSD's rows
  bool has_difficult = true;  // lists: difficult boxes too
  std::optional<LabelPicture> picture = std::nullopt;
};

// Images with boxes, from an LMDB of AnnotatedDatums. The label of a batch is [1,1,G,8], rows of item, group_label,
// instance_id, xmin, ymin, xmax, ymax, difficult: each item has as many as the record with the most boxes, those not
// used hold -1. Lists are [N,1,300,5]: group_label - 1, centre and sides, then zeros. A label image is [N,C,H,W].
class AnnotatedMaker final : public SampleMaker {
 public:
  // Counts every record's boxes.
  AnnotatedMaker(std::unique_ptr<const LmdbReader> reader, BoxTransform transform, BoxLabels labels);
  int64_t record_count() const override { return reader_->size(); }
  std::string NameOf(int64_t record) const override { return reader_->NameOf(record); }
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  bool reads_ahead() const override { return reader_->reads_ahead(); }
  void WillNeed(int64_t record) const override { reader_->WillNeed(record); }
  void CheckFile() const override { reader_->CheckFile(); }
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  void WriteRows(const std::vector<Annotated>& boxes, int64_t item, std::span<float> label) const;
  void WriteList(const std::vector<Annotated>& boxes, std::span<float> label) const;
  // Reads a record into the box scratch.
  void Load(int64_t record, SampleScratch& scratch) const;

  std::unique_ptr<const LmdbReader> reader_;
  BoxTransform transform_;
  BoxLabels labels_;
  int64_t rows_ = 1;  // of one item
};

}  // namespace moka

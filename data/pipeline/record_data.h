// Samples of RecordData: an LMDB of Moka's own records, of which each top takes what record_data_param.output says.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/pipeline/sample_maker.h"
#include "data/records/lmdb_file.h"
#include "data/text/vocabulary.h"
#include "data/transform/record_transform.h"

namespace moka {

class RecordDataMaker final : public SampleMaker {
 public:
  // The layer's files are relative to `folder`. Reads the schema, a vocabulary if TEXTS is an output and, for BOXES
  // without max_boxes, every record. Errors: kConfig at the layer's fields, those of the database and the vocabulary.
  RecordDataMaker(const LayerParameter& layer, const std::filesystem::path& folder,
                  std::unique_ptr<const LmdbReader> reader, Phase phase, uint64_t seed);
  int64_t record_count() const override { return reader_->size(); }
  std::string NameOf(int64_t record) const override { return reader_->NameOf(record); }
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  std::optional<int64_t> ClassOf(int64_t record) const override;
  bool reads_ahead() const override { return reader_->reads_ahead(); }
  void WillNeed(int64_t record) const override { reader_->WillNeed(record); }
  void CheckFile() const override { reader_->CheckFile(); }
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  void CheckOutputs(const LayerParameter& layer) const;
  void OpenVocabulary(const LayerParameter& layer, const std::filesystem::path& folder);
  int64_t MostBoxes() const;  // of any record
  // Says once of the first record with more boxes than rows that some of them are left out.
  void TellCut(int64_t record, const RecordPictureScratch& scratch) const;
  // Shape of an output's part of one sample.
  Shape PartShape(RecordDataParameter::Output output, const Shape& sample) const;
  void Load(int64_t record, SampleScratch& scratch) const;
  void WriteBoxes(const RecordPictureScratch& scratch, int64_t item, std::span<float> out) const;
  void WritePoints(const RecordPictureScratch& scratch, std::span<float> out) const;
  void WriteTexts(const SampleRecord& record, std::span<float> out) const;
  void WriteInstances(const RecordPictureScratch& scratch, std::span<float> out) const;

  std::string layer_name_;
  std::unique_ptr<const LmdbReader> reader_;
  SampleSchema schema_;
  RecordDataParameter param_;
  RecordTransform transform_;
  std::optional<Vocabulary> vocabulary_;  // of TEXTS
  bool has_rows_ = false;                 // BOXES or boxes' points are an output
  int64_t rows_ = 1;                      // of these, one item's
  mutable std::atomic<bool> has_told_cut_ = false;
};

}  // namespace moka

// A trained net whose first input is pictures: decode, transform, run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/inspect/picture_reader.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "tools/infer/source.h"
#include "tools/nets/deploy_net.h"

namespace moka {

// One thread.
class PictureNet {
 public:
  // For `batch` pictures a run. Errors: those of reading and building the net and of loading the weights; kConfig when
  // the first input is no picture [N,C,H,W], is no sample of the data layer or reaches no output, and where another
  // input reaches every output; kUsage for a `blob` the net does not have. With a blob that alone is the output.
  PictureNet(const InferSource& source, int64_t batch, const std::string& blob = {});

  int64_t batch() const { return batch_; }
  const Program& program() const { return *program_; }
  // Returns those of the net's outputs, in the order of its text, that the pictures alone give; where there is none,
  // the scores that answer.
  const std::vector<std::string>& outputs() const { return outputs_; }
  Tensor output(const std::string& name) const { return program_->output(name); }
  // The output that answers: the scores of a training net's loss (tools/nets/deploy_net.h), else the last of outputs().
  const std::string& answer() const { return scores_ ? scores_->top : outputs_.back(); }
  // Returns the loss whose scores answer; nothing where they are those of no loss.
  const std::optional<DeployedScores>& scores() const { return scores_; }
  // The layer that writes an output last. Requires: the net has that output.
  const LayerParameter& WriterOf(const std::string& output) const;
  // Returns the input's shape: [N,C,H,W].
  const Shape& input_shape() const { return input_.shape(); }

  // Decodes a file and writes it to a slot of the batch, as the net's data layer would. Returns the picture as it was,
  // upright. Errors: kNoInput, kBadData naming the file. Requires: slot < batch.
  Image Load(const std::filesystem::path& file, int64_t slot);
  // The same for a picture that is decoded already; its channels become the input's.
  void Put(Image image, int64_t slot);
  // A part of a picture that has the input's size: as it is.
  void PutAsIs(Image image, int64_t slot);
  // Returns the part of the picture in a slot that the input shows (PictureReader::shown).
  const ImageBox& shown(int64_t slot) const { return shown_.at(static_cast<size_t>(slot)); }
  // Runs the net over the pictures in the first `used` slots. Errors: those of CheckScores of their outputs and of the
  // answer.
  void Run(int64_t used);

 private:
  std::span<float> SlotOf(int64_t slot) const;

  int64_t batch_;
  NetParameter deploy_;
  std::vector<ImageBox> shown_;  // of each slot
  ParameterStore store_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<PictureReader> reader_;
  std::vector<std::string> outputs_;
  std::optional<DeployedScores> scores_;
  Tensor input_;
  bool told_infinite_ = false;
};

}  // namespace moka

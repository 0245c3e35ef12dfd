// A batch has slots that pictures are written to in any order; a run looks at the used ones only.
#include "tools/infer/picture_net.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/slow_phase.h"
#include "data/files/file_tree.h"
#include "proto/content.h"
#include "proto/text/places.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/input_shape.h"
#include "tools/infer/picture_way.h"
#include "tools/nets/deploy_net.h"

namespace moka {

namespace fs = std::filesystem;

PictureNet::PictureNet(const InferSource& source, int64_t batch, const std::string& blob)
    : batch_(batch), store_(source.compile.device) {
  const SlowPhase phase("building the net");
  const NetParameter net = InferNet(source);
  deploy_ = DeployNet(net, InputShapeOf(source, net, batch_));
  std::vector<std::string> kept;
  if (!blob.empty()) kept = {blob};
  if (blob.empty()) scores_ = DeployedScoresOf(net);
  if (scores_) kept = {scores_->top};  // though a layer behind them reads them
  InferProgram made = CompileForInference(source, deploy_, kept, store_);
  program_ = std::move(made.program);
  const std::string input = ImageInput(deploy_).top(0);
  const auto is_filled = [&](const std::string& output) { return IsFilled(*program_, deploy_, {input}, output); };
  std::vector<std::string> wanted = blob.empty() ? made.outputs : std::vector{blob};
  if (scores_ && !is_filled(scores_->top)) scores_.reset();  // scores that another input reaches answer nothing
  if (scores_ && std::ranges::none_of(wanted, is_filled)) wanted.push_back(scores_->top);
  outputs_ = FilledOutputs(*program_, deploy_, {input}, wanted);
  if (!program_->HasInput(input))
    throw Error(ErrorKind::kConfig, StrCat("input \"", input, "\" does not reach the output"));
  input_ = program_->input(input);
  if (input_.shape().rank() != 4) {
    throw Error(ErrorKind::kConfig,
                StrCat("input \"", input, "\" is ", input_.shape().ToString(), ", not pictures [N,C,H,W]"));
  }
  shown_.resize(static_cast<size_t>(batch_));
  const Shape sample = input_.shape().Erased(0);
  const PictureWay way = PictureWayOf(source, net, deploy_, sample);
  try {
    reader_ = std::make_unique<PictureReader>(way.layer, sample, fs::path{}, way.order, way.stored);
  } catch (Error& error) {
    const SourcePlace place = PlaceOf(ImageInput(deploy_));
    if (place.ToString() != PlaceOf(way.layer).ToString())
      error.AddNote(StrCat("for input \"", input, "\" of ", place.ToString()));
    throw;
  }
}

const LayerParameter& PictureNet::WriterOf(const std::string& output) const {
  const auto writes = [&](const LayerParameter& layer) {
    return std::ranges::find(layer.top(), output) != layer.top().end();
  };
  const auto last = std::find_if(deploy_.layer().rbegin(), deploy_.layer().rend(), writes);
  Require(last != deploy_.layer().rend(), "PictureNet::WriterOf: an output of the net");
  return *last;
}

void PictureNet::Run(int64_t used) {
  program_->Run();
  std::vector<std::string> checked = outputs_;
  if (std::ranges::find(outputs_, answer()) == outputs_.end()) checked.push_back(answer());
  for (const std::string& name : checked) {
    const Tensor output = program_->output(name);
    const Shape& shape = output.shape();
    const bool is_of_pictures = shape.rank() > 0 && shape[0] == batch_;
    // The output of a slot without a picture says nothing.
    if (output.type().dtype != DType::kFloat32 || (!is_of_pictures && used < batch_)) continue;
    const int64_t count = is_of_pictures ? used * shape.Count(1, shape.rank()) : shape.Count();
    const bool is_finite = CheckScores(output.as<const float>().first(static_cast<size_t>(count)), name);
    if (is_finite || std::exchange(told_infinite_, true)) continue;
    LogWarning(StrCat("output \"", name, "\" holds infinite values"));
  }
}

std::span<float> PictureNet::SlotOf(int64_t slot) const {
  const int64_t count = input_.shape().Count(1, 4);
  return input_.as<float>().subspan(static_cast<size_t>(slot * count), static_cast<size_t>(count));
}

Image PictureNet::Load(const fs::path& file, int64_t slot) {
  std::string bytes;
  try {
    bytes = ReadFile(file);
    Image image = reader_->Load(bytes, SlotOf(slot));
    TellLosses(reader_->TakeLosses(), Printable(file.string()));
    shown_[static_cast<size_t>(slot)] = reader_->shown();
    return image;
  } catch (const Error& error) {
    if (error.text().find(file.string()) != std::string::npos) throw;
    const bool is_text = RecognizeContent(std::string_view(bytes).substr(0, 4096)) == Content::kText;
    const bool is_list = error.kind() == ErrorKind::kBadData && is_text && !IsImageName(file.filename().string());
    const std::string hint =
        is_list ? "a list of pictures, a path a line, goes in on the standard input: - < LIST" : "";
    throw Error(error.kind(), error.place(), StrCat(Printable(file.string()), ": ", error.text()),
                hint.empty() ? error.hint() : hint);
  }
}

void PictureNet::Put(Image image, int64_t slot) {
  reader_->Put(std::move(image), SlotOf(slot));
  shown_[static_cast<size_t>(slot)] = reader_->shown();
}

void PictureNet::PutAsIs(Image image, int64_t slot) {
  reader_->PutAsIs(std::move(image), SlotOf(slot));
  shown_[static_cast<size_t>(slot)] = {0, 0, 1, 1};
}

}  // namespace moka

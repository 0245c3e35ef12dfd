#include "tools/infer/picture_net.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/slow_phase.h"
#include "core/text.h"
#include "proto/places.h"
#include "tools/deploy_net.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/picture_way.h"
#include "tools/net_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// What the net's data layer gives a batch of one, in the test phase.
Shape InputShape(const NetParameter& net, int64_t batch) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "Input") {
      if (layer.input_param().shape_size() == 0)
        throw Error(ErrorKind::kConfig, StrCat("layer \"", layer.name(), "\" has no shape"));
      const BlobShape& shape = layer.input_param().shape(0);
      return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end())).With(0, batch);
    }
    if (layer.top_size() > 0 && layer.bottom_size() == 0) {
      return ProbeDataTypes(TEST, {})(layer)[0].shape.With(0, batch);
    }
  }
  throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no input"));
}

}  // namespace

PictureNet::PictureNet(const InferSource& source, int64_t batch, const std::string& blob)
    : batch_(batch), store_(source.compile.device) {
  const SlowPhase phase("building the net");
  const NetParameter net = InferNet(source);
  deploy_ = DeployNet(net, InputShape(net, batch_));
  InferProgram made =
      CompileForInference(source, deploy_, blob.empty() ? std::vector<std::string>{} : std::vector{blob}, store_);
  program_ = std::move(made.program);
  const std::string input = ImageInput(deploy_).top(0);
  outputs_ = FilledOutputs(*program_, deploy_, {input}, blob.empty() ? made.outputs : std::vector{blob});
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
  for (const std::string& name : outputs_) {
    const Tensor output = program_->output(name);
    const Shape& shape = output.shape();
    const bool is_of_pictures = shape.rank() > 0 && shape[0] == batch_;
    // What a slot without a picture gives says nothing.
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
  try {
    Image image = reader_->Load(ReadFile(file), SlotOf(slot));
    TellLosses(reader_->TakeLosses(), Printable(file.string()));
    shown_[static_cast<size_t>(slot)] = reader_->shown();
    return image;
  } catch (const Error& error) {
    if (error.text().find(file.string()) != std::string::npos) throw;
    throw Error(error.kind(), error.place(), StrCat(Printable(file.string()), ": ", error.text()), error.hint());
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

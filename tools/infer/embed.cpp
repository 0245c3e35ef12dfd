// Embedding: words or pictures in, their vectors out, and what lies nearest: of a word the words of the vocabulary by
// the cosine, of a picture the others given by the distance, as contrastive losses measure it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/text_layers.h"
#include "data/text/vocabulary.h"
#include "layers/net/layer.h"
#include "tools/cli/print.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/nets/deploy_net.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualTop = 5;  // neighbours

// Rows of one width.
struct VectorRows {
  size_t width = 0;
  std::vector<float> values;

  size_t rows() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const float> row(size_t i) const { return std::span(values).subspan(i * width, width); }
  void Add(std::span<const float> row) {
    width = row.size();
    values.insert(values.end(), row.begin(), row.end());
  }
};

double DotOf(std::span<const float> a, std::span<const float> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                               [](float x, float y) { return static_cast<double>(x) * static_cast<double>(y); });
}

// 0 where a vector is nothing but zeros.
double CosineOf(std::span<const float> a, std::span<const float> b) {
  const double norms = std::sqrt(DotOf(a, a) * DotOf(b, b));
  return norms > 0 ? DotOf(a, b) / norms : 0;
}

double DistanceOf(std::span<const float> a, std::span<const float> b) {
  return std::sqrt(std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(), [](float x, float y) {
    const double difference = static_cast<double>(x) - static_cast<double>(y);
    return difference * difference;
  }));
}

struct Neighbor {
  size_t row = 0;
  double measure = 0;
};

// The `top` rows from `first` on of the least `measure`, without the row itself; of two alike the earlier.
template <class Measure>
std::vector<Neighbor> NearestRows(const VectorRows& all, size_t of, size_t first, int64_t top, const Measure& measure) {
  std::vector<Neighbor> near;
  for (size_t i = first; i < all.rows(); ++i) {
    if (i != of) near.push_back({i, measure(all.row(of), all.row(i))});
  }
  std::ranges::stable_sort(near, {}, &Neighbor::measure);
  near.resize(std::min(near.size(), static_cast<size_t>(top)));
  return near;
}

// The layer of words that the net begins with, or null. (RecordData's vocabulary is of texts beside its pictures.)
const LayerParameter* WordLayer(const NetParameter& net) {
  const auto found = std::ranges::find_if(net.layer(), [](const LayerParameter& layer) {
    const LayerDef* def = FindLayer(layer.type());
    return def != nullptr && def->words != nullptr && !VocabulariesOf(layer).empty();
  });
  return found == net.layer().end() ? nullptr : &*found;
}

// Returns the vector of every word of the vocabulary, in its order; none where the command only looks inside the
// program.
std::optional<VectorRows> WordVectors(const InferSource& source, const NetParameter& net, const Vocabulary& vocabulary,
                                      const Arguments& arguments) {
  const NetParameter deploy = DeployNet(net, Shape{vocabulary.size()});
  ParameterStore store(source.compile.device);
  const InferProgram made = CompileForInference(source, deploy, {}, store);
  RefuseUnreadBeforeLook(arguments, {"json"});
  if (LookInside(arguments, "infer", *made.program)) return std::nullopt;
  const std::string& input = ImageInput(deploy).top(0);
  const std::string name = FilledOutputs(*made.program, deploy, {input}, made.outputs).back();
  const Tensor output = made.program->output(name);
  const int64_t words = vocabulary.size();
  if (!made.program->HasInput(input) || output.shape().rank() < 2 || output.shape()[0] != words) {
    throw Error(ErrorKind::kConfig, StrCat("output \"", name, "\" is ", output.shape().ToString(),
                                           ", not a vector for each of ", words, " words"));
  }
  const std::span<float> numbers = made.program->input(input).as<float>();
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  made.program->Run();
  const std::span<const float> values = output.as<const float>();
  CheckScores(values, name);
  return VectorRows{values.size() / static_cast<size_t>(words), {values.begin(), values.end()}};
}

int32_t KnownWord(const Vocabulary& vocabulary, const std::string& word) {
  const int32_t number = vocabulary.NumberOf(word);
  if (number != kUnknownWord) return number;
  throw Error(ErrorKind::kUsage, {}, StrCat("the net does not know the word \"", Printable(word), "\""),
              DidYouMean(word, vocabulary.words()));
}

int EmbedWords(const InferSource& source, const NetParameter& net, const LayerParameter& layer,
               const std::vector<std::string>& words, const Arguments& arguments) {
  if (words.empty() && !LooksInside(arguments)) throw Error(ErrorKind::kUsage, "missing argument: at least one word");
  const int64_t top = arguments.Int("top", kUsualTop, 1, INT64_MAX);
  const Vocabulary vocabulary(VocabularyFile(source, layer, VocabulariesOf(layer)[0].file));
  std::vector<size_t> asked;
  asked.reserve(words.size());
  for (const std::string& word : words) asked.push_back(static_cast<size_t>(KnownWord(vocabulary, word)));
  const std::optional<VectorRows> vectors = WordVectors(source, net, vocabulary, arguments);
  if (!vectors) return 0;
  PictureJson json = PictureJson::array();
  for (const size_t word : asked) {
    const std::vector<Neighbor> near =
        NearestRows(*vectors, word, kMarkWords.size(), top,
                    [](std::span<const float> a, std::span<const float> b) { return -CosineOf(a, b); });
    if (arguments.Has("json")) {
      PictureJson list = PictureJson::array();
      for (const Neighbor& one : near)
        list.push_back({{"word", vocabulary.words()[one.row]}, {"cosine", -one.measure}});
      json.push_back({{"word", vocabulary.words()[word]}, {"nearest", list}, {"vector", vectors->row(word)}});
      continue;
    }
    Print("{}\n", vocabulary.words()[word]);
    for (const Neighbor& one : near) Print("  {:.4f} - \"{}\"\n", -one.measure, vocabulary.words()[one.row]);
  }
  if (arguments.Has("json")) PrintJson(json);
  return 0;
}

// Errors: kConfig.
Tensor VectorsOf(const PictureNet& net) {
  Tensor output = net.output(net.outputs().back());
  if (output.shape().rank() >= 2 && output.shape()[0] == net.batch()) return output;
  throw Error(ErrorKind::kConfig, StrCat("output \"", net.outputs().back(), "\" is ", output.shape().ToString(),
                                         ", not a vector for each picture"));
}

// The pictures nearest to picture i.
PictureJson NearestJson(const VectorRows& vectors, const std::vector<std::string>& files, size_t i, int64_t top) {
  PictureJson list = PictureJson::array();
  for (const Neighbor& one : NearestRows(vectors, i, 0, top, DistanceOf))
    list.push_back({{"file", files[one.row]}, {"distance", one.measure}});
  return list;
}

PictureJson VectorJson(const std::string& file, PictureJson nearest, std::span<const float> vector) {
  return {{"file", file}, {"nearest", std::move(nearest)}, {"vector", vector}};
}

// A server answers a picture at a time, and knows none beside it.
void RelateVectors(PictureJson& list) {
  VectorRows vectors;
  std::vector<std::string> files;
  for (const PictureJson& one : list) {
    const auto vector = one.at("vector").get<std::vector<float>>();
    if (vector.empty() || (!files.empty() && vector.size() != vectors.width))
      throw Error(ErrorKind::kPeer, "vectors of several lengths came for pictures of one model");
    vectors.Add(vector);
    files.push_back(TextAt(one, "file"));
  }
  for (size_t i = 0; i < files.size(); ++i) list[i]["nearest"] = NearestJson(vectors, files, i, kUsualTop);
}

void PrintVector(const PictureJson& answer) {
  constexpr size_t kShown = 8;
  const PictureJson& vector = answer.at("vector");
  std::string numbers;
  for (size_t i = 0; i < std::min(vector.size(), kShown); ++i)
    numbers += fmt::format(" {:.4f}", vector.at(i).get<double>());
  Print("{}: [{}]{}{}\n", TextAt(answer, "file"), vector.size(), numbers, vector.size() > kShown ? " ..." : "");
  for (const PictureJson& near : answer.at("nearest"))
    Print("  {:.4f} - {}\n", NumberAt(near, "distance"), TextAt(near, "file"));
}

int EmbedPictures(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const std::vector<fs::path> files = PicturesToInfer(inputs, arguments);
  const int64_t top = arguments.Int("top", kUsualTop, 1, INT64_MAX);
  PictureNet net(source, PicturesARun(files, arguments));
  const Tensor output = VectorsOf(net);
  TellOutput(net, net.outputs().back());
  RefuseUnreadBeforeLook(arguments, {"json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  PictureReport report(arguments);
  VectorRows vectors;
  const auto width = static_cast<size_t>(output.shape().Count() / net.batch());
  const FilesSeen done = ForEachPicture(net, files, [&](const fs::path&, const Image&, int64_t slot) {
    vectors.Add(output.as<const float>().subspan(static_cast<size_t>(slot) * width, width));
  });
  std::vector<std::string> names;
  for (const fs::path& file : done.files) names.push_back(file.string());
  for (size_t i = 0; i < names.size(); ++i) {
    PictureJson json = VectorJson(names[i], NearestJson(vectors, names, i, top), vectors.row(i));
    if (report.as_json()) {
      report.Add(std::move(json));
    } else {
      PrintVector(json);
    }
  }
  report.Finish(names.size());
  return done.code;
}

class VectorAnswers : public PictureAnswers {
 public:
  VectorAnswers(const InferSource& source, const SharedWeights& weights) : PictureAnswers(source, weights) {
    (void)VectorsOf(own_net());
    TellOutput(own_net(), own_net().outputs().back());
    wanted_ = {own_net().outputs().back()};
  }

  TaskAnswer AnswerOf(const AskedContent& asked, const PreparedPicture& /*prepared*/,
                      const NetOutputs& outputs) const override {
    return {.json = PictureJson::array({VectorJson(asked.name, PictureJson::array(), outputs[0].as<const float>())})};
  }

 protected:
  std::vector<std::string> Wanted() const override { return wanted_; }

 private:
  std::vector<std::string> wanted_;
};

std::unique_ptr<TaskAnswers> EmbedAnswers(const InferSource& source, const SharedWeights& weights) {
  if (WordLayer(InferNet(source)) != nullptr) return nullptr;
  return std::make_unique<VectorAnswers>(source, weights);
}

int RunEmbed(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const NetParameter net = InferNet(source);
  const LayerParameter* layer = WordLayer(net);
  return layer == nullptr ? EmbedPictures(source, inputs, arguments)
                          : EmbedWords(source, net, *layer, inputs, arguments);
}

}  // namespace

InferTask EmbedTask() {
  return {.task = ModelCard::EMBED,
          .run = RunEmbed,
          .answers = EmbedAnswers,
          .form = {.print = PrintVector, .relate = RelateVectors},
          .input = "WORD|PICTURE..."};
}

}  // namespace moka

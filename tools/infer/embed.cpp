// Embedding: words or pictures in, their vectors out, and what lies nearest: of a word the words of the vocabulary by
// the cosine, of a picture the others given by the distance, as contrastive losses measure it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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

// The vectors of all words of a vocabulary, in its order. One thread.
class WordVectors {
 public:
  WordVectors(const InferSource& source, const NetParameter& net, const LayerParameter& layer)
      : vocabulary_(VocabularyFile(source, layer, VocabulariesOf(layer)[0].file)), store_(source.compile.device) {
    const NetParameter deploy = DeployNet(net, Shape{vocabulary_.size()});
    made_ = CompileForInference(source, deploy, {}, store_);
    input_ = ImageInput(deploy).top(0);
    name_ = FilledOutputs(*made_.program, deploy, {input_}, made_.outputs).back();
    const Shape shape = made_.program->output(name_).shape();
    if (!made_.program->HasInput(input_) || shape.rank() < 2 || shape[0] != vocabulary_.size()) {
      throw Error(ErrorKind::kConfig, StrCat("output \"", name_, "\" is ", shape.ToString(),
                                             ", not a vector for each of ", vocabulary_.size(), " words"));
    }
  }

  const Program& program() const { return *made_.program; }
  // Errors: kUsage for a word that the net does not know, with the nearest.
  size_t NumberOf(const std::string& word) const {
    const int32_t number = vocabulary_.NumberOf(word);
    if (number != kUnknownWord) return static_cast<size_t>(number);
    throw Error(ErrorKind::kUsage, {}, StrCat("the net does not know the word \"", Printable(word), "\""),
                DidYouMean(word, vocabulary_.words()));
  }
  // The word, those nearest to it and its vector. The first call runs the net. Errors: those of CheckScores.
  PictureJson AnswerTo(size_t word, int64_t top) {
    if (vectors_.values.empty()) Run();
    const auto measure = [](std::span<const float> a, std::span<const float> b) { return -CosineOf(a, b); };
    PictureJson list = PictureJson::array();
    for (const Neighbor& one : NearestRows(vectors_, word, kMarkWords.size(), top, measure))
      list.push_back({{"word", vocabulary_.words()[one.row]}, {"cosine", -one.measure}});
    return {{"word", vocabulary_.words()[word]}, {"nearest", list}, {"vector", vectors_.row(word)}};
  }

 private:
  void Run() {
    const std::span<float> numbers = made_.program->input(input_).as<float>();
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    made_.program->Run();
    const std::span<const float> values = made_.program->output(name_).as<const float>();
    CheckScores(values, name_);
    vectors_ = {values.size() / static_cast<size_t>(vocabulary_.size()), {values.begin(), values.end()}};
  }

  Vocabulary vocabulary_;
  ParameterStore store_;
  InferProgram made_;
  std::string input_;
  std::string name_;
  VectorRows vectors_;
};

void PrintWord(const PictureJson& answer) {
  Print("{}\n", TextAt(answer, "word"));
  for (const PictureJson& near : answer.at("nearest"))
    Print("  {:.4f} - \"{}\"\n", NumberAt(near, "cosine"), TextAt(near, "word"));
}

int EmbedWords(const InferSource& source, const NetParameter& net, const LayerParameter& layer,
               const std::vector<std::string>& words, const Arguments& arguments) {
  if (words.empty() && !LooksInside(arguments)) throw Error(ErrorKind::kUsage, "missing argument: at least one word");
  const int64_t top = arguments.Int("top", kUsualTop, 1, INT64_MAX);
  WordVectors vectors(source, net, layer);
  std::vector<size_t> asked;
  for (const std::string& word : words) asked.push_back(vectors.NumberOf(word));
  RefuseUnreadBeforeLook(arguments, {"json"});
  if (LookInside(arguments, "infer", vectors.program())) return 0;
  PictureJson json = PictureJson::array();
  for (const size_t word : asked) json.push_back(vectors.AnswerTo(word, top));
  if (arguments.Has("json")) {
    PrintJson(json);
  } else {
    for (const PictureJson& one : json) PrintWord(one);
  }
  return 0;
}

// Words of a text, each with those nearest to it.
class WordAnswers : public TaskAnswers {
 public:
  WordAnswers(const InferSource& source, const NetParameter& net, const LayerParameter& layer)
      : vectors_(source, net, layer) {}

  AskedKind kind() const override { return AskedKind::kText; }
  TaskAnswer Answer(const AskedContent& asked) override {
    TaskAnswer answer{.json = PictureJson::array()};
    std::istringstream words{std::string(asked.bytes)};
    for (std::string word; words >> word;) answer.json.push_back(vectors_.AnswerTo(vectors_.NumberOf(word), kUsualTop));
    if (answer.json.empty()) throw Error(ErrorKind::kBadData, "a text without a word");
    return answer;
  }

 private:
  WordVectors vectors_;
};

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
  const NetParameter net = InferNet(source);
  const LayerParameter* layer = WordLayer(net);
  if (layer != nullptr) return std::make_unique<WordAnswers>(source, net, *layer);
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
          .form_of_texts = {.asked = AskedKind::kText, .print = PrintWord},
          .input = "WORD|PICTURE..."};
}

}  // namespace moka

// Classification: pictures in, ranked classes out; of a net that learns numbers, these.
#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/places.h"
#include "tools/cli/print.h"
#include "tools/infer/annotate.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/infer/uncertainty.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualTop = 5;  // classes shown

struct RankedClass {
  int64_t label = 0;
  std::string name;
  double score = 0;
};

// Returns the numbers that a regression gives for a picture, in the order of its targets.
std::vector<RankedClass> TargetsOf(const Tensor& values, int64_t slot, const InferSource& source) {
  const int64_t count = values.shape().Count(1, values.shape().rank());
  std::vector<RankedClass> targets;
  for (int64_t i = 0; i < count; ++i) {
    const float value = values.as<const float>()[static_cast<size_t>(slot * count + i)];
    targets.push_back({i, NameOf(source, i), static_cast<double>(value)});
  }
  return targets;
}

// A picture's part of the scores [N,classes].
std::span<const float> ScoresOfSlot(const Tensor& scores, int64_t slot) {
  const int64_t classes = scores.shape().Count(1, scores.shape().rank());
  return scores.as<const float>().subspan(static_cast<size_t>(slot * classes), static_cast<size_t>(classes));
}

// The best classes of a picture, best first. `scores` is [N,classes].
std::vector<RankedClass> RankClasses(const Tensor& scores, int64_t slot, int64_t top, const InferSource& source) {
  const std::span<const float> of_slot = ScoresOfSlot(scores, slot);
  const int64_t classes = std::ssize(of_slot);
  std::vector<int64_t> order(static_cast<size_t>(classes));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto best = static_cast<std::ptrdiff_t>(std::min(top, classes));
  std::partial_sort(order.begin(), order.begin() + best, order.end(), [&](int64_t a, int64_t b) {
    const float sa = of_slot[static_cast<size_t>(a)];
    const float sb = of_slot[static_cast<size_t>(b)];
    return sa != sb ? sa > sb : a < b;
  });
  std::vector<RankedClass> predictions;
  for (std::ptrdiff_t i = 0; i < best; ++i) {
    const int64_t label = order[static_cast<size_t>(i)];
    predictions.push_back({label, NameOf(source, label), static_cast<double>(of_slot[static_cast<size_t>(label)])});
  }
  return predictions;
}

PictureJson ClassesJson(const fs::path& file, const std::vector<RankedClass>& best) {
  PictureJson top = PictureJson::array();
  for (const RankedClass& p : best) top.push_back({{"label", p.name}, {"index", p.label}, {"score", p.score}});
  return {{"file", file.string()}, {"top", top}};
}

PictureJson TargetsJson(const fs::path& file, const std::vector<RankedClass>& targets) {
  PictureJson values = PictureJson::array();
  for (const RankedClass& t : targets) values.push_back({{"target", t.name}, {"index", t.label}, {"value", t.score}});
  return {{"file", file.string()}, {"targets", values}};
}

void PrintRanked(const PictureJson& answer) {
  Print("{}\n", TextAt(answer, "file"));
  if (answer.contains("targets")) {
    for (const PictureJson& t : answer.at("targets")) Print("  {} = {:g}\n", TextAt(t, "target"), NumberAt(t, "value"));
    return;
  }
  for (const PictureJson& p : answer.at("top")) Print("  {:.4f} - \"{}\"\n", NumberAt(p, "score"), TextAt(p, "label"));
}

// Errors: kConfig unless the answer is a score of each class.
void CheckScoresOf(const PictureNet& net, const Shape& shape) {
  const std::string& output = net.answer();
  RefuseIndices(net, output);
  if (shape.rank() < 2 || shape[0] != net.batch())
    throw Error(ErrorKind::kConfig, StrCat("output \"", output, "\" is ", shape.ToString(), ", not [N,classes]"));
  if (shape.Count(2, shape.rank()) > 1) {
    throw ErrorAt(net.WriterOf(output), {},
                  StrCat("output \"", output, "\" is ", shape.ToString(), ", a map, not [N,classes]"),
                  "task: SEGMENT in a model.prototxt beside the net draws the classes of a map's pixels");
  }
}

// The flags of annotations, which a net of classes alone can make. Errors: kUsage.
std::optional<AnnotationKind> ClassAnnotationOf(const PictureNet& net, const InferSource& source,
                                                const Arguments& arguments) {
  const std::optional<AnnotationKind> kind = AnnotationKindOf(arguments, source, {AnnotationKind::kFolders});
  if (kind && net.scores() && net.scores()->is_regression) {
    throw Error(ErrorKind::kUsage, StrCat("--annotate is of classes, and loss \"", net.scores()->loss,
                                          "\" trains numbers, which no format of annotations holds"));
  }
  return kind;
}

class ClassAnswers : public PictureAnswers {
 public:
  ClassAnswers(const InferSource& source, const SharedWeights& weights) : PictureAnswers(source, weights) {
    const PictureNet& net = own_net();
    const Shape scores = net.output(net.answer()).shape();
    TellOutput(net, net.answer());
    CheckScoresOf(net, scores);
    CheckNames(source, net.answer(), scores.Count(1, scores.rank()));
    is_regression_ = net.scores() && net.scores()->is_regression;
    wanted_ = {net.answer()};
  }

  TaskAnswer AnswerOf(const AskedContent& asked, const PreparedPicture& /*prepared*/,
                      const NetOutputs& outputs) const override {
    const Tensor& scores = outputs[0].tensor();
    TaskAnswer answer{.json = PictureJson::array()};
    answer.json.push_back(is_regression_ ? TargetsJson(asked.name, TargetsOf(scores, 0, source()))
                                         : ClassesJson(asked.name, RankClasses(scores, 0, kUsualTop, source())));
    return answer;
  }

 protected:
  std::vector<std::string> Wanted() const override { return wanted_; }

 private:
  std::vector<std::string> wanted_;
  bool is_regression_ = false;
};

int RunClassify(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const std::vector<fs::path> files = PicturesToInfer(inputs, arguments);
  const int64_t batch = PicturesARun(files, arguments);
  const int64_t top = arguments.Int("top", kUsualTop, 1, INT64_MAX);
  PictureNet net(source, batch);
  const Tensor scores = net.output(net.answer());
  TellOutput(net, net.answer());
  CheckScoresOf(net, scores.shape());
  const bool is_regression = net.scores() && net.scores()->is_regression;
  if (is_regression && arguments.Has("top")) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--top is of ranked classes, and loss \"", net.scores()->loss,
                       "\" trains numbers, all of which are shown"),
                "leave it out");
  }
  CheckNames(source, net.answer(), scores.shape().Count(1, scores.shape().rank()));
  const std::optional<AnnotationKind> kind = ClassAnnotationOf(net, source, arguments);
  const double least = kind ? arguments.Number("score", 0, 0, 1) : 0;
  if (kind) arguments.WillRead({"out"});
  RefuseUnreadBeforeLook(arguments, {"json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  std::optional<AnnotationFolder> annotations;
  if (kind) annotations.emplace(*kind, arguments, source, scores.shape().Count(1, scores.shape().rank()));
  PictureReport report(arguments);
  const FilesSeen done = ForEachPicture(net, files, [&](const fs::path& file, const Image&, int64_t slot) {
    if (is_regression) {
      PictureJson json = TargetsJson(file, TargetsOf(scores, slot, source));
      return report.as_json() ? report.Add(std::move(json)) : PrintRanked(json);
    }
    const std::vector<RankedClass> best = RankClasses(scores, slot, top, source);
    PictureJson json = ClassesJson(file, best);
    if (annotations) {
      const double uncertainty = MarginUncertainty(ScoresOfSlot(scores, slot));
      const AnnotationFolder::FoundClass found{best[0].label, best[0].score, best[0].score >= least};
      json["annotation"] = annotations->AddClass(file, found, uncertainty);
      json["uncertainty"] = uncertainty;
    }
    if (report.as_json()) return report.Add(std::move(json));
    PrintRanked(json);
  });
  if (annotations) annotations->Finish();
  report.Finish(done.files.size());
  return done.code;
}

}  // namespace

InferTask ClassifyTask() {
  return {.task = ModelCard::CLASSIFY,
          .run = RunClassify,
          .answers = MakeAnswers<ClassAnswers>,
          .form = {.print = PrintRanked},
          .options = {{"top", "N", "classes (default 5), answers (1) or neighbours (5) shown"},
                      AnnotateOption(),
                      ScoreOption()},
          .shows_classes = true};
}

}  // namespace moka

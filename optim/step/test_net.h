// A test net as an inference program over the train net's weights (or their exponential means).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "graph/shared_arena.h"
#include "layers/net/net.h"
#include "optim/evaluators/average_precision.h"
#include "optim/evaluators/evaluator.h"
#include "optim/step/bucket_programs.h"
#include "optim/step/feed.h"
#include "optim/step/loss_signs.h"
#include "optim/step/step_program.h"

namespace moka {

// How the outputs of several batches are joined.
enum class Evaluation {
  kMeans,      // each element's mean, but where the layer's evaluator knows better
  kDetection,  // of rows of DetectionEvaluate layers, too, the mean average precision
};

struct WatchedBlob {
  std::string name;
  SourcePlace place = {};  // of a solver's field that names it; a command line has none
};

// Whether a net gives shares of labels whose number changes from batch to batch: a test sums hits and labels, so that
// the size of its batches makes no difference.
bool GivesShares(const NetParameter& net);

// Tops of Accuracy layers, in layer order.
std::vector<std::string> AccuracyTops(const NetParameter& net);

struct TestOptions {
  std::string name = "test0";  // of the feed's positions
  PipelineOptions data;
  CompileOptions compile;
  uint64_t seed = 0;                      // fills blobs only the test net has
  bool use_means = false;                 // read "blob/@ema" where the store has it
  std::vector<WatchedBlob> watched = {};  // that can be read after each batch
  Evaluation evaluation = Evaluation::kMeans;
  PrecisionRule precision_rule = PrecisionRule::kIntegral;
  bool has_buckets = true;  // programs of their own for shorter sentences, where the data layer has buckets
};

class TestNet {
 public:
  // Errors: those of BuildNet and Compile; kConfig when a blob's shape differs from the train net's.
  TestNet(const NetParameter& param, const TestOptions& options, ParameterStore& store);

  // Means of the outputs over `batches` from the first record on, whatever ran before. Where the records end within the
  // last batch of all ranks, a smaller one takes their rest and counts for as much as it holds, so that every record
  // counts once; a net that does not build with that batch is said to count the first records twice. Then each rank's
  // result is such that their mean is that of all. `batches`: this rank's; `on_batch` is told how many are done and may
  // stop the test by returning false (then nothing is returned).
  std::vector<OutputValue> Run(int64_t batches, const std::function<bool(int64_t)>& on_batch = {});
  // Where the files that the net's layers write lie from now on; at first in the data's base folder. Errors: kConfig
  // for a name that leads out of it.
  void SetOutputFolder(std::filesystem::path folder);
  // The shape of a watched blob of a whole batch.
  Shape watched_shape(const std::string& blob) const { return whole_.batch->output(WatchName(blob)).shape(); }
  // A watched blob of the last batch, float32 and plain; of fewer items where the records ended.
  Tensor watched(const std::string& blob) const {
    return tail_ && ran_tail_ ? tail_->watched(blob) : whole_.batch->output(WatchName(blob));
  }
  // Weighted sum of the last Run's losses.
  double loss() const { return loss_; }

  // Steps of sentences in the program of the last batch; 0: that of the net's text.
  int64_t bucket_steps() const { return ran_->steps; }

  const std::vector<BuiltNet::Output>& outputs() const { return outputs_; }
  // Outputs that are rows of DetectionEvaluate layers.
  std::vector<std::string> DetectionOutputs() const;
  // Outputs that an evaluator makes a number of, in layer order: the first ranks a run.
  std::vector<std::string> EvaluatedOutputs() const;
  // Returns the names of a Run's results.
  std::vector<std::string> MetricNames() const;
  const std::vector<NetBlob>& blobs() const { return blobs_; }
  const NetParameter& param() const { return param_; }
  Feed& feed() { return feed_; }
  const Feed& feed() const { return feed_; }
  // The program of a whole batch, or that of the last one: where the records ended, or its sentences are short, it had
  // one of its own.
  enum class Batch : uint8_t { kWhole, kLast };
  Program& program(Batch batch = Batch::kWhole) {
    if (batch == Batch::kWhole) return *whole_.batch;
    return tail_ && ran_tail_ ? *tail_->ran_->batch : *ran_->batch;
  }

 private:
  // The sum of one element of an output over batches; of a share it is the hits, and `labels` the labels that counted.
  struct BatchSum {
    OutputValue sum;
    std::optional<double> labels = {};
  };

  // Ranks that share the batches.
  int64_t ranks() const { return feed_.ranks(); }
  static BuiltNet Build(const NetParameter& param, const DataTypes& types, bool tells_fields);
  // The program of a net that is given up for it. Errors: kConfig for a watched blob that it does not have.
  std::unique_ptr<Program> MakeProgram(BuiltNet& net);
  // Programs of shorter sentences. None where something of a whole batch is read, or states go on to the next one.
  void AddBuckets();
  // Takes the next batch and runs it; `key` is that of its draws.
  void RunNext(int64_t key);
  void AddEvaluators(const EvaluatorOptions& options);
  // Adds to the outputs of the graph how many labels each share of an Accuracy layer is of.
  void AddCounts(BuiltNet& net);
  void AddCount(BuiltNet& net, const std::string& top);
  bool IsOutput(const std::string& name) const;
  // The records of the last of `batches` of all ranks, where there are fewer than it takes; 0: it is full.
  int64_t Rest(int64_t batches) const;
  // The net for so many records; null if there is none.
  TestNet* TailOf(int64_t rest);
  // Adds the outputs of the net's last batch to the sums of all; what is evaluated goes to the evaluators.
  void AddBatch(const TestNet& net, double weight, std::vector<BatchSum>& sums);
  // An output's value and what else of it is read after a batch.
  std::vector<BatchSum> ValuesOf(const TestNet& net, const BuiltNet::Output& output);
  static std::string WatchName(const std::string& blob) { return "watched " + blob; }
  static std::string CountName(const std::string& top) { return "counted " + top; }

  const NetParameter given_;
  const TestOptions options_;
  std::filesystem::path output_folder_;
  ParameterStore& store_;
  std::unique_ptr<TestNet> tail_;
  int64_t tail_records_ = 0;  // that tail_ was asked for
  bool ran_tail_ = false;     // the last batch was its
  NetParameter param_;
  std::vector<NetBlob> blobs_;
  std::vector<BuiltNet::Output> outputs_;
  StepProgram whole_;
  BucketPrograms buckets_;
  StepProgram* ran_ = &whole_;                                            // of the last batch
  std::shared_ptr<SharedArena> arena_ = std::make_shared<SharedArena>();  // of all of them
  Feed feed_;  // goes before the program whose stream it reads ahead for
  std::map<std::string, std::unique_ptr<Evaluator>> evaluators_;  // by output
  std::set<std::string> shares_;  // outputs that are shares of labels whose number changes from batch to batch
  LossSigns signs_;
  bool has_kept_ = false;  // states that go on from batch to batch
  double loss_ = 0;
};

}  // namespace moka

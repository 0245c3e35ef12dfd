// The verbs of inference for each task of a model's card: a row a task, one file each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"
#include "tools/infer/source.h"
#include "tools/infer/task_answers.h"

namespace moka {

// InferTask::answers of a task of pictures.
template <class Answers>
std::unique_ptr<TaskAnswers> MakeAnswers(const InferSource& source, const SharedWeights& weights) {
  return std::make_unique<Answers>(source, weights);
}

struct InferTask {
  ModelCard::Task task = ModelCard::CLASSIFY;
  // Reads what `inputs` name (files, folders; InferSource::inputs), prints, draws. Returns the exit code.
  int (*run)(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) = nullptr;
  // The same for who asks otherwise than by a command line; null for tasks that nothing is asked of.
  std::unique_ptr<TaskAnswers> (*answers)(const InferSource& source, const SharedWeights& weights) = nullptr;
  AnswerForm form = {};
  AnswerForm form_of_texts = {};         // where a task of pictures has nets that texts ask
  std::vector<OptionSpec> options = {};  // flags of this task alone
  bool shows_classes = false;            // by their names, which --labels gives
  std::string input = "PICTURE";         // what stands behind a run in a command that shows how to try it
};

InferTask AnswerTask();
InferTask ClassifyTask();
InferTask DetectTask();
InferTask EmbedTask();
InferTask GenerateTask();
InferTask InstancesTask();
InferTask RegressTask();
InferTask SegmentTask();
InferTask TranslateTask();

const std::vector<InferTask>& AllInferTasks();
// Null for a task that has no inference.
const InferTask* FindInferTask(ModelCard::Task task);
// "  try     moka infer RUN PICTURE": the command that shows what a run has learned.
std::string TryLine(const InferTask& task, const std::string& run);
// Errors: kUsage for a task that has no inference.
const InferTask& InferTaskFor(const InferSource& source);

}  // namespace moka

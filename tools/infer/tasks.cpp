// The list of tasks; a card's task chooses the row.
#include "tools/infer/tasks.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "tools/launch/command.h"

namespace moka {

const std::vector<InferTask>& AllInferTasks() {
  static const std::vector<InferTask> tasks = {AnswerTask(),  ClassifyTask(), DetectTask(),
                                               EmbedTask(),   GenerateTask(), InstancesTask(),
                                               RegressTask(), SegmentTask(),  TranslateTask()};
  return tasks;
}

const InferTask* FindInferTask(ModelCard::Task task) {
  const std::vector<InferTask>& tasks = AllInferTasks();
  const auto found = std::ranges::find(tasks, task, &InferTask::task);
  return found == tasks.end() ? nullptr : &*found;
}

std::string TryLine(const InferTask& task, const std::string& run) {
  return StrCat("  try     moka ", ShellLine({"infer", run}), task.input.empty() ? "" : " ", task.input);
}

const InferTask& InferTaskFor(const InferSource& source) {
  const InferTask* found = FindInferTask(source.card.task());
  if (found != nullptr) return *found;
  throw Error(ErrorKind::kUsage, StrCat("moka infer does not know the task ", ModelCard::Task_Name(source.card.task()),
                                        " of ", Printable(source.card.name())));
}

}  // namespace moka

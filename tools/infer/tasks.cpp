#include "tools/infer/tasks.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {

const std::vector<InferTask>& AllInferTasks() {
  static const std::vector<InferTask> tasks = {AnswerTask(),    ClassifyTask(), DetectTask(),   GenerateTask(),
                                               InstancesTask(), SegmentTask(),  TranslateTask()};
  return tasks;
}

const InferTask& InferTaskFor(const InferSource& source) {
  const std::vector<InferTask>& tasks = AllInferTasks();
  const auto found = std::ranges::find(tasks, source.card.task(), &InferTask::task);
  if (found != tasks.end()) return *found;
  throw Error(ErrorKind::kUsage, StrCat("moka infer does not know the task ", ModelCard::Task_Name(source.card.task()),
                                        " of ", Printable(source.card.name())));
}

}  // namespace moka

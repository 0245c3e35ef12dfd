// An inference between the wire and the queue, the same for HTTP and gRPC: a request is checked against its model and
// becomes a job, and what the net gave becomes the tensors of the answer.
#pragma once

#include <memory>
#include <string>

#include "core/error.h"
#include "tools/serve/net_queue.h"
#include "tools/serve/served_model.h"
#include "tools/serve/service_calls.h"
#include "tools/serve/wire_tensor.h"

namespace moka {

// Errors: kBadData for a model that is asked by texts.
void CheckTakesTensors(const ServedModel& model);
// A job that responds with the tensors of its answer, or with why there are none. Requires: the model takes tensors.
// Errors: kBadData naming the input or output, and what was expected.
std::shared_ptr<QueuedRequest> InferJobOf(const std::shared_ptr<ServedModel>& model, InferRequest request,
                                          std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond);

// Why a job that ended so, not kDone, has no answer.
CallFailure FailureOf(RequestEnd end, const std::string& error);
CallFailure FailureOf(const Error& error);
// A text about files as whoever asks may see it: of paths from the root the last part alone.
std::string WithoutFolders(std::string_view text);

}  // namespace moka

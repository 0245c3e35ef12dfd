// The server's answers: the Open Inference Protocol (version 2) over HTTP with its extensions for bytes, classes,
// statistics and the repository, and predict, to which a picture or a text is sent as it is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/serve/call_address.h"
#include "tools/serve/http_message.h"
#include "tools/serve/http_server.h"
#include "tools/serve/net_queue.h"
#include "tools/serve/repository.h"
#include "tools/serve/service_calls.h"
#include "tools/serve/shared_regions.h"
#include "tools/serve/tokens.h"
#include "tools/serve/workers.h"

namespace moka {

class Service : public ServiceCalls {
 public:
  // `allows_load`: whether models may be loaded and unloaded by requests. Without tokens everyone may ask. `regions`:
  // null where requests use no shared memory.
  Service(ModelRepository& repository, NetQueue& queue, bool allows_load, Tokens tokens = {},
          SharedRegions* regions = nullptr)
      : ServiceCalls(regions),
        repository_(repository),
        queue_(queue),
        allows_load_(allows_load),
        tokens_(std::move(tokens)),
        regions_(regions) {}
  // Waits for models that are being loaded.
  ~Service() override { WaitForLoads(); }

  // Answers, now or later. Thread-safe.
  void Handle(HttpRequest request, const HttpRespond& respond);
  // Why a request is refused whatever its body is; nothing: it may come. Sets its owner.
  std::optional<HttpAnswer> Gate(HttpRequest& head) const;
  // From now on /v2/health/ready says no.
  void BeginDraining() { is_draining_ = true; }
  // From now on models are asked; before they are refused.
  void BeginServing() { is_serving_ = true; }
  // The server whose connections the metrics count.
  void Count(const HttpServer& server) { server_ = &server; }
  void WaitForLoads();

  std::optional<CallFailure> Refusal(std::string_view authorization, bool loads) const override;
  bool IsReady() const override;
  CallResult<ModelFacts> Model(const std::string& name, const std::string& version) const override;
  CallResult<std::vector<ModelStatistics>> Statistics(const std::string& name,
                                                      const std::string& version) const override;
  std::vector<ModelListing> Index(bool wants_ready) const override;
  void Load(const std::string& name, bool loads, LoadRespond respond) override;
  void Infer(const std::string& name, const std::string& version, InferRequest request,
             std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond) override;

 private:
  std::optional<CallFailure> RefusalOfOwner(const TokenOwner& owner, bool loads) const;
  // Likewise, of a request whose owner is known, by its path in parts; of a call of one model. Errors: kNoInput for a
  // model that is not there.
  std::optional<HttpAnswer> Refusal(const HttpRequest& head, const std::vector<std::string>& parts) const;
  std::optional<HttpAnswer> Refusal(const HttpRequest& head, const ModelCall& call) const;
  HttpAnswer Answer(const HttpRequest& request, const std::vector<std::string>& parts);
  void HandleModel(HttpRequest& request, const ModelCall& call, const HttpRespond& respond);
  void Infer(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const HttpRespond& respond);
  void Predict(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const std::string& name,
               const HttpRespond& respond);
  // Infer once its body is looked at.
  void ReadAndInfer(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const HttpRespond& respond);
  // Submits a request whose tensors, or pictures, are read; those in shared memory are not.
  void StartInfer(const std::shared_ptr<ServedModel>& model, InferRequest request,
                  std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond);
  // Why the job is not taken; nothing: it will end.
  std::optional<CallFailure> Submit(std::shared_ptr<QueuedRequest> job);
  // Why a request that is still to be prepared would not be taken; nothing: it would.
  std::optional<CallFailure> Outlook(ServedModel& model, int64_t priority);
  static CallFailure NotTaken(const Submission& submission);
  // Errors: kNoInput, kUnavailable.
  CallFailure NotLoaded(const std::string& name, const std::string& version) const;
  std::shared_ptr<ServedModel> LoadedModel(const std::string& name, const std::string& version) const;
  void LoadOrUnload(const HttpRequest& request, const std::string& name, bool loads, const HttpRespond& respond);
  // Answers calls of /v2/systemsharedmemory/...
  HttpAnswer RegionsAnswer(const HttpRequest& request, const std::vector<std::string>& parts) const;
  HttpAnswer StatisticsAnswer(const std::string& name, const std::string& version) const;
  HttpAnswer Metrics() const;
  HttpAnswer Page() const;

  ModelRepository& repository_;
  NetQueue& queue_;
  bool allows_load_;
  Tokens tokens_;
  SharedRegions* regions_;
  std::atomic<const HttpServer*> server_ = nullptr;
  std::atomic<bool> is_serving_ = false;
  std::atomic<bool> is_draining_ = false;
  std::mutex mutex_;
  std::condition_variable loaded_;
  int64_t loads_ = 0;   // that run or wait
  Workers workers_{2};  // last: what they do uses the others
};

}  // namespace moka

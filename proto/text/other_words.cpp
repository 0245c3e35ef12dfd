// Two tables of words and their equals here, for hints only: no word is ever taken for another one.
#include "proto/text/other_words.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.h"

namespace moka {
namespace {

using Word = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kBatch =
    "the batch is the data layer's: layer[NAME].data_param.batch_size=N (moka model show lists the layers)";

// The fields that are meant by other tools' words; each is the end of the sentence "here it is ...".
constexpr std::array kFields = {
    Word{"epochs", "max_epochs"},
    Word{"num_epochs", "max_epochs"},
    Word{"nepochs", "max_epochs"},
    Word{"max_steps", "max_iter"},
    Word{"steps", "max_iter"},
    Word{"iterations", "max_iter"},
    Word{"num_iterations", "max_iter"},
    Word{"total_steps", "max_iter"},
    Word{"lr", "base_lr"},
    Word{"lr0", "base_lr"},
    Word{"learning_rate", "base_lr"},
    Word{"lrf", "min_lr"},
    Word{"eta_min", "min_lr"},
    Word{"scheduler", "lr_policy"},
    Word{"lr_scheduler", "lr_policy"},
    Word{"schedule", "lr_policy"},
    Word{"cos_lr", "lr_policy: \"cosine\""},
    Word{"milestones", "stepvalue, with lr_policy: \"multistep\""},
    Word{"warmup", "warmup_iter"},
    Word{"warmup_steps", "warmup_iter"},
    Word{"warmup_epochs", "warmup_iter, in iterations"},
    Word{"optimizer", "type"},
    Word{"optim", "type"},
    Word{"solver", "type"},
    Word{"wd", "weight_decay"},
    Word{"decay", "weight_decay"},
    Word{"beta1", "momentum"},
    Word{"beta2", "momentum2"},
    Word{"betas", "momentum and momentum2"},
    Word{"eps", "delta"},
    Word{"nesterov", "type: \"Nesterov\""},
    Word{"clip", "clip_gradients"},
    Word{"clip_norm", "clip_gradients"},
    Word{"grad_clip", "clip_gradients"},
    Word{"max_grad_norm", "clip_gradients"},
    Word{"gradient_accumulation_steps", "iter_size"},
    Word{"accumulate", "iter_size"},
    Word{"accum_iter", "iter_size"},
    Word{"patience", "early_stop_patience"},
    Word{"early_stopping", "early_stop_patience"},
    Word{"seed", "random_seed, or --seed"},
    Word{"amp", "precision: \"float16\" or \"bfloat16\""},
    Word{"fp16", "precision: \"float16\""},
    Word{"bf16", "precision: \"bfloat16\""},
    Word{"half", "precision: \"float16\""},
    Word{"ema", "ema_decay"},
    Word{"save_period", "snapshot"},
    Word{"save_steps", "snapshot"},
    Word{"save_every", "snapshot"},
    Word{"checkpoint_interval", "snapshot"},
    Word{"eval_interval", "test_interval"},
    Word{"eval_steps", "test_interval"},
    Word{"val_interval", "test_interval"},
    Word{"log_interval", "display"},
    Word{"logging_steps", "display"},
    Word{"device", "the flag --device cpu or gpu:0"},
    Word{"gpu", "the flag --device gpu:0"},
    Word{"gpus", "the flag --device gpu:0,gpu:1"},
    Word{"workers", "the flag --data-threads N"},
    Word{"num_workers", "the flag --data-threads N"},
    Word{"resume", "the flag --resume"},
    Word{"pretrained", "the flag --weights FILE, or --from RUN@best"},
    Word{"checkpoint", "the flag --from RUN@best"},
    Word{"name", "the flag --run NAME"},
    Word{"project", "the flag --runs FOLDER"},
    Word{"model", "the word after the verb: moka train SOLVER|FOLDER"},
    Word{"data", "the data layer's source: layer[NAME].data_param.source=PATH"},
    Word{"dataset", "the data layer's source: layer[NAME].data_param.source=PATH"},
    Word{"imgsz", "the data layer's transform_param: layer[NAME].transform_param.crop_size=N"},
    Word{"image_size", "the data layer's transform_param: layer[NAME].transform_param.crop_size=N"},
    Word{"img_size", "the data layer's transform_param: layer[NAME].transform_param.crop_size=N"},
    Word{"label_smoothing", "the loss layer's: see moka explain layer SoftmaxWithLoss"},
};

constexpr std::array<std::string_view, 6> kBatchWords = {"batch",     "batch_size",       "bs",
                                                         "batchsize", "train_batch_size", "per_device_batch_size"};

}  // namespace

std::string OtherToolsField(std::string_view name) {
  std::string word = AsciiLower(name);
  std::ranges::replace(word, '-', '_');
  if (std::ranges::find(kBatchWords, word) != kBatchWords.end()) return std::string(kBatch);
  const auto* it = std::ranges::find(kFields, std::string_view(word), &Word::first);
  return it == kFields.end() ? std::string() : StrCat("other tools' \"", name, "\" is here ", it->second);
}

std::string OlderLayersField(std::string_view name) {
  constexpr std::array kRenamed = {
      Word{"blob_share_mode", "param { share_mode: PERMISSIVE }"},
      Word{"blobs_lr", "param { lr_mult: 0 }"},
      Word{"weight_decay", "param { decay_mult: 0 }"},
  };
  const auto* it = std::ranges::find(kRenamed, name, &Word::first);
  if (it == kRenamed.end()) return {};
  return StrCat("it is a field of the older \"layers\"; here each of the layer's blobs has a param: ", it->second);
}

}  // namespace moka

// Every number of a solver against what it may be, and every field against the sources that read it.
#include "optim/optimizers/solver_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;

std::string SolverFieldError(const std::string& text) {
  try {
    CheckSolverNumbers(SolverFromText(text, "s.prototxt"));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool IsNumber(const Field& field) {
  return field.cpp_type() == Field::CPPTYPE_FLOAT || field.cpp_type() == Field::CPPTYPE_INT32 ||
         field.cpp_type() == Field::CPPTYPE_INT64;
}

TEST(SolverFields, EveryNumberHasARangeAndEveryRangeAField) {
  std::set<std::string> ranged;
  for (const SolverRange& range : SolverRanges()) {
    const Field* field = SolverParameter::descriptor()->FindFieldByName(range.field);
    ASSERT_NE(field, nullptr) << range.field;
    EXPECT_TRUE(IsNumber(*field)) << range.field;
    EXPECT_LE(range.low, range.high) << range.field;
    EXPECT_TRUE(ranged.insert(range.field).second) << range.field << " twice";
  }
  for (int i = 0; i < SolverParameter::descriptor()->field_count(); ++i) {
    const Field& field = *SolverParameter::descriptor()->field(i);
    EXPECT_EQ(IsNumber(field), ranged.contains(field.name())) << field.name();
  }
}

TEST(SolverFields, ValuesOutOfRangeAreRefusedAtTheirPlace) {
  int refused = 0;
  for (const SolverRange& range : SolverRanges()) {
    const Field& field = *SolverParameter::descriptor()->FindFieldByName(range.field);
    const bool is_float = field.cpp_type() == Field::CPPTYPE_FLOAT;
    std::vector<std::pair<std::string, double>> values = {{"0", 0}, {"-1", -1}, {"2147483647", 2147483647}};
    if (is_float) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      values = {{"nan", std::nan("")}, {"inf", kInfinity}, {"-inf", -kInfinity}, {"0", 0}, {"-1", -1}, {"3e38", 3e38}};
    }
    for (const auto& [text, value] : values) {
      const std::string error = SolverFieldError(StrCat("type: \"SGD\"\n  ", range.field, ": ", text));
      if (value >= range.low && value <= range.high) {
        EXPECT_EQ(error, "") << range.field << ": " << text;
        continue;
      }
      ++refused;
      EXPECT_THAT(error, testing::HasSubstr("s.prototxt:2:3: ")) << range.field << ": " << text;
      EXPECT_THAT(error, testing::HasSubstr(range.field)) << text;
    }
  }
  EXPECT_GT(refused, 120);
}

TEST(SolverFields, NumbersInsideOtherMessagesAreFinite) {
  EXPECT_THAT(SolverFieldError("distributed {\n deadline_s: nan }"), testing::HasSubstr("s.prototxt:2:2: "));
  EXPECT_THAT(SolverFieldError("sample_grid { low: -inf }"), testing::HasSubstr("sample_grid[0].low"));
  EXPECT_THAT(SolverFieldError("turn { momentum: 2 }"), testing::HasSubstr("at least 0 and below 1"));
  EXPECT_EQ(SolverFieldError("turn { momentum: 0.5 } distributed { deadline_s: 3 }"), "");
}

TEST(SolverFields, WhatATrainingDoesNotReadIsSaid) {
  const auto said = [](const std::string& text) {
    return Join(UnreadSolverFields(SolverFromText(text, "s.prototxt")), "\n");
  };
  EXPECT_EQ(said("base_lr: 0.1 lr_policy: \"step\" gamma: 0.1 stepsize: 5 momentum: 0.9 weight_decay: 0.1"), "");
  EXPECT_THAT(
      said("base_lr: 0.1 lr_policy: \"fixed\"\nstepsize: 5"),
      testing::HasSubstr("s.prototxt:2:1: stepsize is not read by this training; what reads it is lr_policy sigmoid"));
  EXPECT_THAT(said("base_lr: 0.1 debug_info: true"), testing::HasSubstr("debug_info is not read"));
  EXPECT_EQ(said("base_lr: 0.1 debug_info: false"), "");
  EXPECT_THAT(said("base_lr: 0.1 type: \"SGD\" momentum2: 0.5 delta: 1e-4"),
              testing::AllOf(testing::HasSubstr("type Adam, AdamW"), testing::HasSubstr("delta is not read")));
  EXPECT_THAT(said("base_lr: 0.1 test_interval: 100"), testing::HasSubstr("a test net, which test_iter counts"));
  EXPECT_THAT(
      said("base_lr: 0.1 lr_policy: \"fixed\" min_lr: 0.01"),
      testing::HasSubstr("min_lr is not read by this training; what reads it is an lr_policy other than fixed"));
  EXPECT_EQ(said("base_lr: 0.1 lr_policy: \"poly\" power: 2 min_lr: 0.01"), "");
  EXPECT_EQ(said("base_lr: 0.1 lr_policy: \"fixed\" rampup_interval: 5 min_lr: 0.01"), "");
  const std::string stages = "lr_policy: \"multifixed\" stagelr: 1 stageiter: 9 base_lr: 7";
  EXPECT_THAT(said(stages), testing::HasSubstr("base_lr is not read by this training; what reads it is an lr_policy"));
  EXPECT_EQ(said(stages + " warmup_iter: 2"), "");
  EXPECT_THAT(said("momentum_policy: \"opt\" momentum_power: 2"), testing::HasSubstr("momentum_power is not read"));
  EXPECT_THAT(said("momentum_policy: \"opt\" momentum: 0.9"), testing::HasSubstr("momentum is not read"));
  EXPECT_THAT(said("keep_best: false"), testing::HasSubstr("keep_best is not read"));
  EXPECT_THAT(said("base_lr: 0"), testing::HasSubstr("base_lr is 0: no weight learns"));
  EXPECT_THAT(said("base_lr: 1 clip_gradients: 0"), testing::HasSubstr("every gradient 0"));
  EXPECT_THAT(said("base_lr: 1 test_offset: 4 richness: 3"),
              testing::AllOf(testing::HasSubstr("test_offset is"), testing::HasSubstr("richness is")));
}

TEST(SolverFields, WhatATurnDoesNotReadIsSaidThere) {
  const auto said = [](const std::string& turns) {
    return Join(UnreadSolverFields(SolverFromText("type: \"SGD\"\n" + turns, "s.prototxt")), "\n");
  };
  EXPECT_EQ(said("turn { name: \"b\" momentum2: 0.5 }"),
            "s.prototxt:2:18: turn[0].momentum2 is not read by this turn; what reads it is type Adam, AdamW or LAMB");
  EXPECT_THAT(said("turn { } turn { type: \"Adam\" momentum2: 0.5 rms_decay: 0.5 }"),
              testing::AllOf(testing::HasSubstr("turn[1].rms_decay is not read by this turn"),
                             testing::Not(testing::HasSubstr("momentum2"))));
}

TEST(SolverFields, WhatOneWayOfRanksDoesNotReadIsSaid) {
  const auto said = [](const std::string& text) {
    return Join(UnreadSolverFields(SolverFromText("distributed { " + text + " }", "s.prototxt")), "\n");
  };
  for (const auto& [field, way] :
       {std::pair{"local_steps: 5", "strategy: \"local\""}, std::pair{"local_from_iter: 5", "strategy: \"local\""},
        std::pair{"delay: 3", "strategy: \"delayed\""}, std::pair{"dynamic_delay: true", "strategy: \"delayed\""},
        std::pair{"delay_compensation: 1", "strategy: \"turn\""},
        std::pair{"server: \"stale\"", "strategy: \"parameter_server\""},
        std::pair{"staleness: 1", "strategy: \"parameter_server\" server: \"stale\""},
        std::pair{"bucket_bytes: 5", "fusion: \"fixed\""}}) {
    const std::string name = std::string(field).substr(0, std::string(field).find(':'));
    EXPECT_THAT(said(field), testing::HasSubstr(StrCat("s.prototxt:1:15: distributed.", name, " is not read")))
        << field;
    EXPECT_EQ(said(StrCat(field, " ", way)), "") << field;
  }
  EXPECT_EQ(
      Join(UnreadSolverFields(SolverFromText("layer_wise_reduce: false distributed { fusion: \"fixed\" }", "s")), "\n"),
      "s:1:40: distributed.fusion is not read by this training; what reads it is layer_wise_reduce: true");
  EXPECT_THAT(said("compression { method: \"dgc\" density: 0.1 rank: 2 }"),
              testing::HasSubstr("distributed.compression.rank is not read by this training; what reads it is method "
                                 "\"powersgd\""));
  EXPECT_THAT(said("compression { force: true }"), testing::HasSubstr("a method that compresses"));
  EXPECT_EQ(said("compression { method: \"powersgd\" rank: 2 force: true }"), "");
  EXPECT_THAT(SolverFieldError("distributed { deadline_s: -1 }"), testing::HasSubstr("distributed.deadline_s"));
  EXPECT_THAT(SolverFieldError("distributed { micro_batches: 0 }"), testing::HasSubstr("distributed.micro_batches"));
}

TEST(SolverFields, GroupDecaysNeedAParameterThatAsksForThem) {
  const SolverParameter solver = SolverFromText("breadth_decay: 1 kernel_shape_decay: 1 block_group_decay: 1", "s");
  const auto said = [&](const std::string& spec) {
    SolverContext context;
    TellGroups(NetFromText("layer { name: 'a' type: 'InnerProduct' param { " + spec + " } }", "n"), context);
    return Join(UnreadSolverFields(solver, context), "\n");
  };
  EXPECT_EQ(said("breadth_decay_mult: 1 kernel_shape_decay_mult: 1 block_group_lasso { xdimen: 1 }"), "");
  EXPECT_EQ(said("breadth_decay_mult: 1 block_group_lasso { xdimen: 1 }"),
            "s:1:18: kernel_shape_decay is not read by this training; what reads it is a layer's param with "
            "kernel_shape_decay_mult");
  EXPECT_THAT(said(""),
              testing::AllOf(testing::HasSubstr("breadth_decay is"), testing::HasSubstr("kernel_shape_decay is"),
                             testing::HasSubstr("block_group_decay is")));
}

// A field that no source asks for is in the list of those that are said to be ignored.
TEST(SolverFields, EveryFieldIsReadBySomeSourceOrSaidToBeIgnored) {
  std::string sources;
  for (const char* room : {"optim", "tools", "proto", "comm", "data"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(MOKA_SOURCE_DIR) / room)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() == ".cpp" && name != "solver_fields.cpp" && name != "trainer_options.cpp")
        sources += ReadFile(entry.path());
    }
  }
  for (int i = 0; i < SolverParameter::descriptor()->field_count(); ++i) {
    const Field& field = *SolverParameter::descriptor()->field(i);
    const bool is_read = sources.find(StrCat(field.name(), "()")) != std::string::npos ||
                         sources.find(StrCat(field.name(), "_size()")) != std::string::npos ||
                         sources.find(StrCat("_", field.name(), "(")) != std::string::npos;
    SolverParameter solver;
    if (is_read || field.message_type() != nullptr || field.name() == "record_checks") continue;
    const std::string value = field.enum_type() != nullptr                ? field.enum_type()->value(1)->name()
                              : field.cpp_type() == Field::CPPTYPE_STRING ? "\"other\""
                              : field.cpp_type() == Field::CPPTYPE_BOOL
                                  ? (field.default_value_bool() ? "false" : "true")
                                  : "7";
    const std::string said =
        Join(UnreadSolverFields(SolverFromText(StrCat(field.name(), ": ", value), "s.prototxt")), "\n");
    EXPECT_THAT(said, testing::HasSubstr(field.name())) << "neither read nor said to be ignored";
  }
}

// A field set to other than its default, as text.
std::string OtherValue(const Field& field) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_ENUM: {
      const int last = field.enum_type()->value_count() - 1;
      const bool is_default = field.default_value_enum()->index() == last;
      return StrCat(": ", field.enum_type()->value(is_default ? 0 : last)->name());
    }
    case Field::CPPTYPE_STRING: return ": \"other\"";
    case Field::CPPTYPE_BOOL: return field.default_value_bool() ? ": false" : ": true";
    case Field::CPPTYPE_MESSAGE: return " { }";
    default: return ": 7";
  }
}

// Fields that every training reads, whatever else it says; a new field stands here or has a row that says who reads it.
TEST(SolverFields, EveryFieldHasARowOrIsReadByEveryTraining) {
  const std::set<std::string> always = {
      // These say what is trained, for how long, and what is written.
      "net", "net_param", "train_net", "test_net", "train_net_param", "test_net_param", "train_state", "test_iter",
      "base_lr", "display", "average_loss", "max_iter", "iter_size", "lr_policy", "momentum", "weight_decay",
      "snapshot", "snapshot_prefix", "snapshot_diff", "snapshot_after_train", "solver_mode", "device_id", "random_seed",
      "type", "solver_type", "weights", "max_epochs", "max_time", "threads", "deterministic", "recompute", "precision",
      "loss_scale", "record_checks", "first_solver", "on_nan", "keep_last", "ema_decay", "layer_wise_reduce",
      "distributed", "turn", "noise_scale_interval", "mlperf",
      // These change the rate, a gradient or a weight wherever they stand, or are refused where they cannot.
      "clip_gradients", "warmup_iter", "decay_skip_bias_and_norm", "policy_after_warmup", "rampup_interval",
      "momentum_policy", "larc", "weight_decay_policy", "local_lr_auto", "clip_weights", "clamp_weights_lower",
      "clamp_weights_upper", "disabled_update", "force_decay", "larc_turbo", "prune_method",
      // Names of a test's outputs, which without a test net are refused.
      "best_metric", "target_metric"};
  for (int i = 0; i < SolverParameter::descriptor()->field_count(); ++i) {
    const Field& field = *SolverParameter::descriptor()->field(i);
    if (field.name() == "origin") continue;
    const SolverParameter solver =
        SolverFromText(StrCat("base_lr: 0.1 lr_policy: \"fixed\" max_iter: 9 ",
                              field.name() == "base_lr" || field.name() == "lr_policy" || field.name() == "max_iter"
                                  ? std::string()
                                  : StrCat(field.name(), OtherValue(field))),
                       "s.prototxt");
    SolverContext nothing;
    nothing.finds_loss_scale = nothing.has_classes = false;
    nothing.has_breadth_decay = nothing.has_kernel_shape_decay = nothing.has_block_groups = false;
    const std::string index = field.is_repeated() ? "[0]" : "";
    const std::string said = Join(UnreadSolverFields(solver, nothing), "\n");
    const bool is_said = said.find(StrCat(": ", field.name(), index, " is not read")) != std::string::npos;
    EXPECT_NE(is_said, always.contains(field.name()))
        << field.name() << (is_said ? " has a row and is in the list" : " has no row and is not in the list");
  }
}

}  // namespace
}  // namespace moka

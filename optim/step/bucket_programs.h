// Length buckets: where a TextPairData layer brings batches of sentences of nearly one length, each bucket has a
// program of its length. All are made of the same net with other numbers of steps and share the store with its weights,
// slots and states, so a batch gives what the longest program gives (tests/optim/text_training_test.cpp), in the time
// of its own length. A batch comes into the inputs of the whole program, whose steps have room for every sentence; the
// rows that hold words are copied on: a source's last ones, a target's first ones.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "layers/net/layer.h"
#include "optim/step/step_program.h"
#include "proto/moka.pb.h"

namespace moka {

class BucketPrograms {
 public:
  // Makes a program of a net's text, whose data layers' tops are of these types.
  using Make = std::function<StepProgram(const NetParameter&, const DataTypes&)>;

  // A program for each bucket of the net's data layer that is shorter than `whole`, which is of the text `param`. None
  // without such a layer, and, which the log says, where it is unknown how long a batch is or `can_shorten` is false.
  // Errors: those of `make`, with a note that names the bucket.
  void Add(const NetParameter& param, const StepProgram& whole, bool can_shorten, const Make& make);

  std::span<StepProgram> shorter() { return shorter_; }
  // The program to run for the batch that is in the inputs of the whole one; its own inputs hold the batch then.
  StepProgram& ProgramOf(StepProgram& whole);

 private:
  std::vector<StepProgram> shorter_;  // ascending by steps
};

}  // namespace moka

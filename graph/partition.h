// Cuts a net's differentiated graph into the programs of one stage of a pipeline: what it computes forward and backward
// for one micro-batch, what it gets from and gives to other stages, and what it keeps of a micro-batch from the one to
// the other (GPipe, Huang et al. 2019; PipeDream, Narayanan et al. 2019). Pure: all ranks find the same cuts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace moka {

struct PartitionSpec {
  std::map<std::string, int> stage_of;  // layer -> stage; nodes of no layer follow what they read
  NodeId first_backward = kNoId;        // nodes from here on are of the backward pass
  int stages = 1;
};

// A value of one micro-batch that outlives the program that makes it.
struct KeptValue {
  std::string name;
  TensorType type;
  int from = 0;                     // the stage that makes it
  bool is_data = false;             // an input of the whole graph, not a node's result
  bool is_read_by_forward = false;  // an input of this stage's forward program
  bool is_read_by_backward = false;
  std::vector<int> readers;  // other stages that it is sent to, ascending
};

struct StageGraphs {
  explicit StageGraphs(const Catalog& catalog) : forward(catalog), backward(catalog) {}

  Graph forward;
  Graph backward;
  // In an order that is that of every stage, so each pair of stages agrees on the order of what passes between them.
  // Made going forward: those of this stage, and those that it gets.
  std::vector<KeptValue> values;
  // Made going backward, which pass between stages.
  std::vector<KeptValue> gradients;
};

// Errors: kConfig at a layer that reads what a later stage computes; kUnavailable where the backward pass reads a state
// that the forward pass assigns.
StageGraphs Partition(const Graph& graph, const PartitionSpec& spec, int stage);

// The stage that computes a value; of inputs and states, which all stages have: 0.
int StageOf(const Graph& graph, const PartitionSpec& spec, ValueId value);

}  // namespace moka

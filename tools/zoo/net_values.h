// The values that an entry's nets give, and their counts: built, run once on given inputs, and measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/parameter_store.h"
#include "layers/net/net.h"
#include "proto/moka.pb.h"
#include "tools/measure/made_up_data.h"
#include "tools/zoo/entry.h"

namespace moka {

// Numbers of a net.
struct NetCounts {
  int64_t parameters = 0;  // learned
  int64_t statistics = 0;  // running
  int64_t macs = 0;        // of a whole batch's forward pass: half the operations of products, convolutions, cells
};
NetCounts CountsOf(const BuiltNet& net);

// A net with its state (phase, stages) and its own data layers' shapes. Errors: those of BuildNet.
BuiltNet BuildAsIs(const NetParameter& net);

// Inference's form of the entry for batches of the card's check: ReadDeployed without labels (tools/nets/deploy_net.h),
// its first input as the made-up test net's first data layer gives it. Errors: those of both; kConfig where there is no
// test net.
NetParameter DeployedNet(const ZooEntry& entry, const NetParameter& made_test);

// Blobs of the built net are in the store: by their fillers from a fixed seed where the store did not have them,
// running statistics 1 (a variance of 0 is no net that anybody runs).
void FillStore(const BuiltNet& net, ParameterStore& store);

// One pass in the net's phase; the values of blobs `wanted` as the last layer that wrote them left them. Inputs that
// `inputs` lacks by name take, in order, those of the same number of elements that no other input took. Errors:
// kConfig for an input that nothing fits, those of compiling and running.
Blobs RunOnce(BuiltNet net, const Blobs& inputs, const std::vector<std::string>& wanted, ParameterStore& store);

// Three numbers that stand for all of a blob: a change anywhere changes them.
struct BlobSummary {
  Shape shape;
  double mean = 0;
  double deviation = 0;
  double projection = 0;  // on a fixed vector of random numbers, divided by the root of their count
};
BlobSummary SummaryOf(const BlobValues& blob);
// Returns the difference beyond rounding, as a text; empty: none.
std::string Difference(const BlobSummary& expected, const BlobSummary& found);

// The blobs of two nets to compare: for each output of `deployed` the nearest blob on its way from the inputs that
// `test` has, too. Errors: kConfig where there is none.
std::vector<std::string> CommonBlobs(const BuiltNet& deployed, const BuiltNet& test);

}  // namespace moka

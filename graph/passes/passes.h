// The passes' functions; the first lines of each pass's source state Requires and Ensures.
#pragma once

#include "graph/pass.h"

namespace moka {

bool Simplify(Graph& graph, const PassContext& context);
bool FoldInference(Graph& graph, const PassContext& context);
bool QuantizeInference(Graph& graph, const PassContext& context);
bool ObserveConvolutions(Graph& graph, const PassContext& context);
bool AssignPrecision(Graph& graph, const PassContext& context);
bool FusePointwise(Graph& graph, const PassContext& context);
bool JoinTables(Graph& graph, const PassContext& context);
bool UpdateSparsely(Graph& graph, const PassContext& context);
bool Recompute(Graph& graph, const PassContext& context);
bool MarkConstantWeights(Graph& graph, const PassContext& context);
bool CutIntoTracks(Graph& graph, const PassContext& context);
bool SplitBatch(Graph& graph, const PassContext& context);
bool DeepenStems(Graph& graph, const PassContext& context);
bool AssignLayouts(Graph& graph, const PassContext& context);
bool SumChannelStatistics(Graph& graph, const PassContext& context);
bool SumGradients(Graph& graph, const PassContext& context);
bool GroupUpdates(Graph& graph, const PassContext& context);
bool AwaitGathers(Graph& graph, const PassContext& context);

// Removes nodes without effect. Shared by passes that leave some behind.
bool RemoveDeadNodes(Graph& graph);

// Values that are outputs or assigned.
std::vector<bool> Pinned(const Graph& graph);

// The nodes whose results stay the same from run to run: no input (full), and when `states_are_constant` what depends
// on states alone that the graph does not assign. Indexed by NodeId.
std::vector<bool> ConstantNodes(const Graph& graph, bool states_are_constant);
// The same of one node, from what is known of the producers of its inputs. `written`: by ValueId, the assigned states.
bool IsConstantNode(const Graph& graph, const Node& node, const std::vector<bool>& constant,
                    const std::vector<bool>& written, bool states_are_constant);
std::vector<bool> WrittenStates(const Graph& graph);

}  // namespace moka

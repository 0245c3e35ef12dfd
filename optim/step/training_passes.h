// The passes of a training step (optim/step/training_graph.h), in the order of the list.
#pragma once

#include "optim/step/training_graph.h"

namespace moka::training_passes {

// Running statistics of layers that the turn does not train keep their values.
void KeepOtherStatistics(TrainingGraph& step);

// The net's outputs and its loss become outputs of the graph. Before any rewriting, so that none of them is joined into
// another node.
void NameOutputs(TrainingGraph& step);

// The forward graph's chains become the ops that have gradients and kernels of their own. Requires: outputs are named.
void Compose(TrainingGraph& step);

// Strided convolutions that read one value take their positions from one copy of it.
void ShareSubsampling(TrainingGraph& step);

// Ensures: `scale`, and numbers that gradients meet inside layers are of the scaled gradients.
void ScaleLoss(TrainingGraph& step);

// Ensures: `trained`, `gradients` and `loss`. Errors: kConfig for a net without loss; a net without anything to train
// is a warning. Requires: the loss is scaled or of a pipeline.
void DifferentiateLoss(TrainingGraph& step);

// Ensures: `gradients` of 0 for weights that decay though no gradient reaches them, and `reached`.
void DecayUnreachedWeights(TrainingGraph& step);

// The exchange comes to compress gradients as the solver asks. Errors: kConfig at "distributed".
void ChooseCompression(TrainingGraph& step);

// Gradients, loss, wishes and statistics become those of all ranks. Requires: `reached`. Ensures: `summed`; gradients
// are sums and the loss is a mean over the ranks. Of blobs whose rows are split the gradient is such a sum as it is.
// The norms before and after are outputs where the solver has them measured (optim/step/gradient_norms.h).
void SumOverAllRanks(TrainingGraph& step);

// Each rank updates the weights that it owns. Requires: gradients are sums. Ensures: `sums`, `owned`; only own weights
// have `gradients`.
void ShardUpdates(TrainingGraph& step);

// States keep their values where the loss is not finite, those of the update also where a scaled gradient is not.
// Ensures: `loss` is the guard of the update.
void GuardStates(TrainingGraph& step);

// Requires: `gradients`, `loss`. Ensures: `updates`.
void UpdateWeights(TrainingGraph& step);

// Running statistics that the step changes have the means that weights have (ema_decay). Requires: statistics are those
// of all ranks, `updates`. Ensures: their slots among those of `updates`.
void MeanStatistics(TrainingGraph& step);

// The weights that owners update become everybody's, on their way while the next iteration begins. Requires: `sums`,
// `owned`. Ensures: `all_slots`.
void GatherFromOwners(TrainingGraph& step);

// Running statistics keep their values where this batch's loss is not finite.
void GuardStatistics(TrainingGraph& step);

// Gradients are added up in "@sum" states.
void Accumulate(TrainingGraph& step);

// Ensures: `apart`, which updates from the "@sum" states, over all ranks where these sum gradients; `updates`.
void UpdateApart(TrainingGraph& step);

// The updates are the servers'. Ensures: `updates` has their slots and no inputs.
void UpdateOnServers(TrainingGraph& step);

// Errors: kConfig for a parameter that layers of two stages share, kUnavailable for a scaled loss. Ensures: statistics
// keep their values where what a batch gives them is not finite, and `first_backward`.
void PrepareStages(TrainingGraph& step);

// Ensures: `stages`, `apart` for the weights of this rank's layers, and `updates` with the slots of all.
void CutIntoStages(TrainingGraph& step);

// States that layers keep, and those of the loss scale, are in checkpoints as slots are. Requires: `updates`.
void KeepStates(TrainingGraph& step);

// Slots for the sums that are not in the weights yet, for checkpoints. Requires: `reached`, `updates`.
void KeepWaitingSums(TrainingGraph& step);

}  // namespace moka::training_passes

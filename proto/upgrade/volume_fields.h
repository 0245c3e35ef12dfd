// Convolution and pooling of volumes under the message names of forks, brought to Caffe's.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// convolution3d_param (C3D 1.1) becomes convolution_param; pooling3d_param (C3D 1.1, P3D) and pooling_nd_param become
// pooling_param, with kernel_depth, temporal_stride and temporal_pad for the time axis. Layers that have both stay as
// they are. True if anything changed.
bool RenameVolumeFields(NetParameter& net);

}  // namespace moka

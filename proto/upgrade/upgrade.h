// Old nets and solvers brought to the present spelling, exactly as Caffe's upgrade_proto does: V0 and V1 layers,
// padding layers, input fields, data transformation fields, BatchNorm's parameter rates, solver_type.
#pragma once

#include <string>
#include <string_view>

#include "proto/moka.pb.h"

namespace moka {

// True if something was upgraded; it is logged as a warning naming the file. Parameters that an old layer type never
// had are dropped with a warning, as Caffe does. A text with both `layer` and `layers` is read in its order, with a
// warning: Caffe refuses it. Errors: kConfig (both of them in a binary net or with V0 layers, unknown old types, input
// shapes that do not fit the inputs).
bool UpgradeNet(NetParameter& net, const std::string& file);
bool UpgradeSolver(SolverParameter& solver, const std::string& file);

// The present name of a V1 type: "INNER_PRODUCT" is InnerProduct.
std::string LayerTypeOf(V1LayerParameter::LayerType type);
// The same for a V1 name of a fork that the enum does not have: "RESIZE" is Resize. Names with small letters stay.
std::string LayerTypeOf(std::string_view v1_name);

}  // namespace moka

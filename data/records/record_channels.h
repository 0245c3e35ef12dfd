// Databases in which grey pictures are among coloured ones.
#pragma once

#include "data/records/lmdb_file.h"
#include "proto/moka.pb.h"

namespace moka {

// Whether a layer of a database whose fields force no number of channels is to read all pictures as coloured ones, so
// that a grey one becomes three equal channels wherever it comes: if one of the records is coloured (of large databases
// some are looked at). Says so if it met both.
bool IsToForceColor(const LayerParameter& layer, const LmdbReader& reader);

}  // namespace moka

// Whether the log file of core/log.h holds what was said.
#pragma once

namespace moka {

// Errors: kIo with the system's reason if a line could not be written to the log file since SetLogFile opened it.
void CheckLogFile();

}  // namespace moka

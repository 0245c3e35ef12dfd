// Catches the error that a call throws, for tests of error texts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace moka {

// The errors a call throws (those of a list one by one); empty, with a test failure, if it throws none.
template <class Call>
std::vector<Error> ErrorsOf(Call call) {
  try {
    call();
  } catch (const ErrorList& list) {
    return list.errors();
  } catch (const Error& error) {
    return {error};
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

template <class Call>
std::string ErrorTextOf(Call call) {
  const std::vector<Error> errors = ErrorsOf(call);
  return errors.empty() ? "" : errors.front().what();
}

template <class Call>
ErrorKind ErrorKindOf(Call call) {
  const std::vector<Error> errors = ErrorsOf(call);
  return errors.empty() ? ErrorKind::kInternal : errors.front().kind();
}

}  // namespace moka

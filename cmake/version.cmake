# Writes OUT, a C file that says what was built: the commit of SOURCE and KIND. Runs at every build and leaves OUT alone where
# nothing changed. A released archive has no repository; its file COMMIT says the same.
set(commit "unknown")
if(EXISTS ${SOURCE}/COMMIT)
  file(STRINGS ${SOURCE}/COMMIT commit LIMIT_COUNT 1)
elseif(EXISTS ${SOURCE}/.git)
  find_package(Git QUIET)
  if(Git_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} diff-index --quiet HEAD --
      ERROR_QUIET RESULT_VARIABLE changed)
    if(NOT failed)
      set(commit ${head})
      if(changed)
        string(APPEND commit ", changed since")
      endif()
    endif()
  endif()
endif()
string(CONFIGURE [[// made by cmake/version.cmake
#include "cli/build.h"

const char build_commit[] = "@commit@";
const char build_kind[] = "@KIND@";
]] text @ONLY)
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT "${text}" STREQUAL "${before}")
  file(WRITE ${OUT} "${text}")
endif()

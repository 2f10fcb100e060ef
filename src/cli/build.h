// build.h - what `firm --version` says of the program; the texts are made by cmake/version.cmake.
#ifndef CLI_BUILD_H
#define CLI_BUILD_H

extern const char build_commit[];  // of the sources; "unknown" outside a repository
extern const char build_kind[];    // compiler, optimisation, sanitizers, optional parts

#endif

// rows.h - episode files as plain bytes over two streams, for programs without HDF5, the Python
// package first of all (python/src/firm/episodes.py). docs/formats.md, "Rows", has the words.
//
// What comes in is checked like a file: the header, its sizes, and then the whole by
// episodes_read() before anything is in its place.
#ifndef DATA_ROWS_H
#define DATA_ROWS_H

#include <stdio.h>

#include "data/episodes.h"
#include "data/frames.h"

// Says what the file holds in one line of JSON, then answers requests until `in` ends. `e` was read
// from `path`; `f` draws its frames on the threads of `p`.
firm_status rows_serve(const char* path, const episodes* e, frames* f, pool* p, FILE* in, FILE* out,
                       firm_error* err);
// Writes the file that `in` describes. *out (the caller frees it) is what episodes_read() finds
// there; where it refuses, nothing is written.
firm_status rows_record(const env_spec* spec, const char* path, FILE* in, episodes** out,
                        firm_error* err);

#endif

// frames.h - frames on demand: from a file's pixels column, or rendered from the recorded state,
// behind a bounded cache for tasks whose rendering is slow. Thread-safe; the same row always gives
// the same bytes.
#ifndef DATA_FRAMES_H
#define DATA_FRAMES_H

#include "data/episodes.h"

typedef struct frames frames;

firm_status frames_open(const episodes* e, int workers, size_t cache_bytes, frames** out,
                        firm_error* err);
// Frame of a row into (image, image, 3) bytes. `worker` < workers names the calling thread's
// renderer.
firm_status frames_get(frames* f, int worker, int64_t row, uint8_t* rgb);
// Frame of any state of the task (intervention outcomes), rendered.
firm_status frames_render(frames* f, int worker, const double* state, uint8_t* rgb);
void frames_free(frames* f);

#endif

// pictures.h - a few pictures in one small file, without loss: the golden moments as they were
// drawn, for tests that have no simulator. tests/env/moments_test.c writes the files and compares
// them with what the simulators draw.
//
// The file is a list of runs. Byte 0 of a run is 64 * kind + length - 1, in pixels: copied from the
// picture before, copied from the row above, repeated from the left, or given (3 bytes each).
#ifndef TESTS_PLAN_PICTURES_H
#define TESTS_PLAN_PICTURES_H

#include <stddef.h>
#include <stdint.h>

enum { PICTURES_SIDE = 224, PICTURES_BYTES = 3 * PICTURES_SIDE * PICTURES_SIDE };

// rgb (count, 224, 224, 3) into out, which has room for 4 bytes a pixel; returns the bytes written.
size_t pictures_pack(const uint8_t* rgb, int count, uint8_t* out);
// 1: the bytes are exactly `count` pictures.
int pictures_unpack(const uint8_t* bytes, size_t n, int count, uint8_t* rgb);

#endif

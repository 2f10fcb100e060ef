// crc.h - CRC-32 as zlib, PNG and gzip have it: polynomial 0xedb88320, bits reflected, start and
// end inverted. The checksum of "123456789" is cbf43926.
//
//     crc c;
//     crc_start(&c);
//     crc_add(&c, bytes, n);
//     uint32_t sum = crc_sum(&c);
#ifndef CORE_CRC_H
#define CORE_CRC_H

#include <stddef.h>
#include <stdint.h>

enum { CRC_SLICES = 8 };

typedef struct crc {
    uint32_t state;
    uint32_t table[CRC_SLICES][256];  // [k][b]: byte b with k zero bytes behind it
} crc;

void crc_start(crc* c);  // makes the tables, in a few microseconds
void crc_add(crc* c, const void* bytes, size_t n);
uint32_t crc_sum(const crc* c);  // of all bytes so far; more may be added

#endif

// crc.c - slicing by eight (Kounavis and Berry, 2005): eight tables take eight bytes at a time.
#include "core/crc.h"

enum { POLYNOMIAL = 0xedb88320u };

void crc_start(crc* c) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t value = b;
        for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? POLYNOMIAL : 0);
        c->table[0][b] = value;
    }
    for (int k = 1; k < CRC_SLICES; k++)
        for (int b = 0; b < 256; b++) {
            uint32_t before = c->table[k - 1][b];
            c->table[k][b] = before >> 8 ^ c->table[0][before & 255];
        }
    c->state = 0xffffffff;
}

static uint32_t word_at(const unsigned char* p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void crc_add(crc* c, const void* bytes, size_t n) {
    const unsigned char* p = bytes;
    uint32_t s = c->state;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = s ^ word_at(p), high = word_at(p + 4);
        s = c->table[7][low & 255] ^ c->table[6][low >> 8 & 255] ^ c->table[5][low >> 16 & 255] ^
            c->table[4][low >> 24] ^ c->table[3][high & 255] ^ c->table[2][high >> 8 & 255] ^
            c->table[1][high >> 16 & 255] ^ c->table[0][high >> 24];
    }
    for (; n > 0; n--) s = s >> 8 ^ c->table[0][(s ^ *p++) & 255];
    c->state = s;
}

uint32_t crc_sum(const crc* c) {
    return ~c->state;
}

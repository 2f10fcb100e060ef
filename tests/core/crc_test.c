// crc_test.c - CRC-32 against published sums and against its definition, bit by bit.
#include "core/crc.h"

#include <string.h>

#include "check.h"

static uint32_t sum_of(const void* bytes, size_t n) {
    crc c;
    crc_start(&c);
    crc_add(&c, bytes, n);
    return crc_sum(&c);
}

// The definition: division of polynomials over one bit, the lowest bit first.
static uint32_t by_definition(const unsigned char* p, size_t n) {
    uint32_t s = 0xffffffff;
    for (size_t i = 0; i < 8 * n; i++) {
        uint32_t bit = (s ^ p[i / 8] >> i % 8) & 1;
        s = s >> 1 ^ (bit ? 0xedb88320u : 0);
    }
    return ~s;
}

TEST(core, crc_published) {
    EXPECT(sum_of("123456789", 9) == 0xcbf43926);
    EXPECT(sum_of("", 0) == 0);
    EXPECT(sum_of("a", 1) == 0xe8b7be43);
    EXPECT(sum_of("abc", 3) == 0x352441c2);
    EXPECT(sum_of("The quick brown fox jumps over the lazy dog", 43) == 0x414fa339);
    EXPECT(sum_of("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32) ==
           0x190a55ad);
}

TEST(core, crc_by_definition) {
    unsigned char bytes[300];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)((x = x * 69069 + 1) >> 24);
    // every length, at every alignment, in one piece and in two
    for (size_t at = 0; at < 8; at++)
        for (size_t n = 0; n <= 70; n++) {
            uint32_t want = by_definition(bytes + at, n);
            EXPECT(sum_of(bytes + at, n) == want);
            crc c;
            crc_start(&c);
            crc_add(&c, bytes + at, n / 3);
            EXPECT(crc_sum(&c) == by_definition(bytes + at, n / 3));
            crc_add(&c, bytes + at + n / 3, n - n / 3);
            EXPECT(crc_sum(&c) == want);
        }
    EXPECT(sum_of(bytes, sizeof bytes) == by_definition(bytes, sizeof bytes));
}

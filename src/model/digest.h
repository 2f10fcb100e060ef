// digest.h - the two checksums of a model file, each eight hexadecimal digits of a CRC-32.
//
// "firm.digest" covers the contents, in whatever layout: the other "firm." texts of the metadata by
// key, then all tensors by name (docs/formats.md has the exact order). It holds as long as these
// do, whichever program writes them and whatever texts of its own it adds. "firm.checksum", of
// files without a digest, covers the bytes: the whole file with its own digits set to 0.
#ifndef MODEL_DIGEST_H
#define MODEL_DIGEST_H

#include "core/crc.h"
#include "model/safetensors.h"

#define DIGEST_KEY "firm.digest"
#define CHECKSUM_KEY "firm.checksum"

enum { DIGEST_DIGITS = 8 };
typedef char digest_text[DIGEST_DIGITS + 1];

// ---- contents ----
int digest_by_key(const void* a, const void* b);                     // order of safetensors_text
int digest_by_name(const void* a, const void* b);                    // order of safetensors_tensor
void digest_start(crc* c, const safetensors_text* text, int texts);  // texts by key
void digest_tensor(crc* c, const safetensors_tensor* t);  // by name; its bytes are added next
void digest_end(const crc* c, digest_text out);
void digest_of(const safetensors* s, digest_text out);  // of a file that was read

// ---- bytes ----
// Where the digits of a key stand in a file's header, or 0.
size_t digest_find(const char* bytes, size_t n, const char* key);
void digest_checksum(const char* bytes, size_t n, size_t digits, digest_text out);

#endif

// text.h - text of fixed room: appending that cannot leave it, words of a file's line read one by
// one, each checked, and UTF-8. What a file says goes through these before it is used.
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stddef.h>
#include <stdint.h>

// Appends to the text in `to`, which has `room` bytes with its NUL. Returns 0 if it had to be cut.
int text_add(char* to, size_t room, const char* fmt, ...) __attribute__((format(printf, 3, 4)));

// Appends a number in nine digits, which give back the same float, with a point as in all files.
int text_add_number(char* to, size_t room, double value);

// Bytes of the UTF-8 character at p (RFC 3629: shortest form, no surrogates), a NUL included; 0 if
// there is none. The text ends with a NUL, which is never passed.
size_t text_utf8(const char* p);

// Words with one space between them: `words w = {line};`. After a word that does not fit, every
// further one is 0 or "", and words_end says so.
typedef struct words {
    const char* at;  // the next word; NULL after the first that did not fit
} words;

int64_t words_whole(words* w, int64_t least, int64_t most);
// A number with a point, whatever the language around us. Infinite bounds let in what is not
// finite.
double words_number(words* w, double least, double most);
void words_text(words* w, char* out, size_t room);  // 1 to room - 1 bytes
int words_end(const words* w);                      // all words fitted, and none is left

#endif

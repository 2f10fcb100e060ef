// program.h - drives the built program from tests: runs a command line, keeps what it printed, and
// makes the small data set and model that the cases start from.
#ifndef TESTS_CLI_PROGRAM_H
#define TESTS_CLI_PROGRAM_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <sys/types.h>

#include "check.h"

typedef struct outcome {
    int code;    // exit status; 128 + signal if killed
    int killed;  // by a signal
    char out[1 << 16], err[1 << 14];
} outcome;

// Runs `firm ARGUMENTS` (a shell-like line: words separated by blanks, '...' quotes) in `folder`.
// Lines with `--config smoke` train on fewer frames than the settings say.
// file_limit: largest file it may write, in bytes, 0: any; stands for a full disk.
const outcome* firm_run(const char* folder, long file_limit, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
// Starts it and returns its process; firm_end() waits for it. One at a time, else the last one's
// output counts.
pid_t firm_start(const char* folder, const char* line);
void firm_await(pid_t child);  // until it has begun to catch signals
const outcome* firm_end(pid_t child);

// A folder with f.h5 (60 episodes), i.h5, run/ (smoke settings) and frame-0.png .. frame-3.png,
// made once. NULL if that failed, which is reported.
const char* firm_fixture(void);
// A fresh, empty folder of this test.
void fresh_folder(char path[512]);

// Entries of a folder, also hidden ones; -1 if it cannot be read. names (nullable) gets them,
// separated by blanks, in some order.
int folder_entries(const char* path, char* names, size_t room);
void put_file(const char* folder, const char* name, const void* bytes, size_t n);
char* get_file(const char* folder, const char* name,
               size_t* n);  // malloc'd; NULL if it is not there

// The last outcome's stdout as JSON with nothing before or after it; NULL (reported) if it is not.
cJSON* json_of(const char* file, int line, const outcome* o);
#define JSON_OF(o) json_of(__FILE__, __LINE__, (o))
void expect_keys(const char* file, int line, const cJSON* json, const char* keys);  // "a b c"
#define EXPECT_KEYS(json, keys) expect_keys(__FILE__, __LINE__, (json), (keys))

// Bad input: exit 2, nothing on stdout, one line on stderr that starts "firm COMMAND: " and
// contains `says`.
void expect_refusal(const char* file, int line, const outcome* o, const char* command,
                    const char* says);
#define EXPECT_REFUSAL(o, command, says) expect_refusal(__FILE__, __LINE__, (o), (command), (says))

#endif

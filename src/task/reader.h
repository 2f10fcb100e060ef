// reader.h - a task's text line by line, for readers that know more words than a typed task has:
// task files (env/taskfile.c). task_read() is the whole of it for texts of typed tasks alone.
#ifndef TASK_READER_H
#define TASK_READER_H

#include "task/task.h"

enum { TASK_LINE = 4096 };  // room for a value

typedef struct task_reader {
    const char* from;  // names the text in sentences
    const char* at;    // the rest of it
    task_typed* t;
    int line;
    unsigned seen;  // a bit for each single key that was taken
    char section[TASK_NAME], key[TASK_NAME], value[TASK_LINE];
} task_reader;

void task_reader_begin(task_reader* r, const char* from, const char* text, task_typed* out);
// The next `key = value` into section, key and value; *more 0: the text is at its end.
firm_status task_reader_next(task_reader* r, int* more, firm_error* err);
// Takes section, key and value as words of a typed task.
firm_status task_reader_take(task_reader* r, firm_error* err);
int task_reader_has(const task_reader* r, const char* section, const char* key);  // taken already
// Nothing is missing, and the task can be used.
firm_status task_reader_end(task_reader* r, firm_error* err);
// The sentence about the line at hand: "[section] key wants ...".
firm_status task_reader_bad(const task_reader* r, const char* wanted, firm_error* err);

#endif

// names.c - reads the scheme of names.h, word by word.
#include "report/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/paper.h"

static const struct {
    const char *word, *variant;
} ablations[] = {{"F", "factual only"},
                 {"I", "intervention only"},
                 {"no-fiber", "no history fiber"},
                 {"mismatch", "mismatched outcomes"}};

// Does text begin with these whole words? Returns their length with the dash after them, or 0.
static size_t starts(const char* text, const char* words) {
    size_t n = strlen(words);
    if (strncmp(text, words, n) != 0 || (text[n] && text[n] != '-')) return 0;
    return n + (text[n] == '-');
}

static int all_digits(const char* text, size_t n) {
    return n > 0 && strspn(text, "0123456789") >= n;
}

static void add_word(char* to, size_t room, const char* word, size_t n) {
    text_add(to, room, "%s%.*s", to[0] ? " " : "", (int)n, word);
}

// "contract-25" and "reach-50" at the end say what was evaluated, not of which run.
static int is_mode(const char* text) {
    size_t n = starts(text, "contract");
    if (!n) n = starts(text, "reach");
    return n && all_digits(text + n, strlen(text + n));
}

// Everything after the task: plus, ablation-X, seed-N or N, labels.
static void read_words(const char* p, result_name* out) {
    while (*p && !is_mode(p)) {
        size_t n = starts(p, "ablation"), word = strcspn(p, "-");
        if (n) {
            p += n;
            for (size_t i = 0; i < sizeof ablations / sizeof *ablations; i++) {
                if (!(n = starts(p, ablations[i].word))) continue;
                out->variant = ablations[i].variant;
                p += n;
                break;
            }
        } else if (starts(p, "seed")) {
            p += starts(p, "seed");
        } else {
            if (all_digits(p, word) && word < 9 && out->seed < 0)
                out->seed = (int)strtol(p, NULL, 10);  // at most eight digits
            else
                add_word(out->edition, sizeof out->edition, p, word);
            p += word + (p[word] == '-');
        }
    }
}

static void clear(result_name* out) {
    memset(out, 0, sizeof *out);
    out->variant = "";
    out->seed = -1;
}

int names_of_file(const char* stem, const char* task, result_name* out) {
    clear(out);
    const char* rest = strchr(stem, '-');
    size_t n = rest && task[0] ? starts(rest + 1, task) : 0;
    if (!n) return 0;
    rest++;
    read_words(rest + n, out);
    const char* end = rest + n;
    while (*end && !is_mode(end)) end += strcspn(end, "-") + (end[strcspn(end, "-")] == '-');
    int length = (int)(end - rest);
    while (length && rest[length - 1] == '-') length--;
    snprintf(out->run, sizeof out->run, "%.*s", length, rest);
    return 1;
}

void names_of_folder(const char* path, const char* task, result_name* out) {
    int plus = 0, ensemble = 0, member = 0;
    clear(out);
    for (const char* p = path; *p; p += strcspn(p, "/") + (p[strcspn(p, "/")] == '/')) {
        char part[128];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(p, "/"), p);
        if (starts(part, "ablation")) read_words(part, out);
        // only the scheme's own word counts here: a run folder may have any name
        size_t n = task[0] ? starts(part, task) : 0;
        if (n && strcmp(part + n, "plus") == 0)
            plus = 1;
        else if (starts(part, "ensemble"))
            ensemble = plus;
        else if ((n = starts(part, "member")) && ensemble && all_digits(part + n, strlen(part + n)))
            member = 1;
    }
    snprintf(out->edition, sizeof out->edition, "%s%s%s", plus ? "plus" : "",
             ensemble ? " ensemble" : "", member ? " member" : "");
}

// "seed-2" as "2", "ablation-F-seed-2" as "ablation-F-2"; others as they are.
static int add_run(char* out, size_t room, const char* part) {
    const char* seed = strstr(part, "seed-");
    return seed ? text_add(out, room, "-%.*s%s", (int)(seed - part), part, seed + 5)
                : text_add(out, room, "-%s", part);
}

int names_flat(const char* folder, const char* stem, const char* task, char* out, size_t room) {
    result_name name;
    out[0] = 0;
    if (names_of_file(stem, task, &name)) return text_add(out, room, "%s", stem);
    size_t kind = strcspn(stem, "-");
    int found = 0, fits = text_add(out, room, "%.*s", (int)kind, stem);
    for (const char* p = folder; *p; p += strcspn(p, "/") + (p[strcspn(p, "/")] == '/')) {
        char part[128];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(p, "/"), p);
        if (!names_study_folder(part)) continue;
        if (!found && !starts(part, task)) continue;
        found = 1;
        fits = fits && add_run(out, room, part);
    }
    return found && fits && text_add(out, room, "%s", stem + kind);
}

int names_study_folder(const char* name) {
    size_t n = starts(name, "seed");
    if (n) return all_digits(name + n, strlen(name + n));
    if (starts(name, "ablation") || starts(name, "ensemble") || starts(name, "member") ||
        strcmp(name, "lewm") == 0)
        return 1;
    for (int i = 0; paper_task(i); i++) {
        n = starts(name, paper_task(i));
        if (n && (!name[n] || strcmp(name + n, "plus") == 0)) return 1;
    }
    return 0;
}

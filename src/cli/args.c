// args.c - the option parser. A wrong flag or value becomes one sentence that says what is allowed.
#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

const arg_option args_common[] = {
    {"threads", 0, ARG_INT, 0, 1024, "0", NULL, "N", "threads to use; 0: all cores"},
    {"seed", 0, ARG_SEED, 0, 0, NULL, NULL, "S", "seed of everything random in this command"},
    {"config", 0, ARG_TEXT, 0, 0, NULL, NULL, "FILE",
     "settings on top of the task's own, or a built-in name"},
    {"set", 0, ARG_LIST, 0, 0, NULL, NULL, "SECTION.KEY=VALUE", "one setting; may be repeated"},
    {"json", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "one JSON object on standard output and nothing else"},
    {"quiet", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "no progress and no messages"},
    {"help", 'h', ARG_SWITCH, 0, 0, NULL, NULL, NULL, "this text"},
};
const int args_common_count = sizeof args_common / sizeof *args_common;

// ---- nearest name -------------------------------------------------------------------------------

static int edit_distance(const char* a, const char* b) {
    enum { MOST = 40 };
    int row[MOST + 1];
    size_t n = strlen(b);
    if (n > MOST || strlen(a) > MOST) return MOST;
    for (size_t k = 0; k <= n; k++) row[k] = (int)k;
    for (size_t i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t k = 1; k <= n; k++) {
            int change = diagonal + (a[i - 1] != b[k - 1]);
            diagonal = row[k];
            int step = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            row[k] = change < step ? change : step;
        }
    }
    return row[n];
}

const char* args_nearest(const char* word, const char* const* names, int count) {
    const char* best = NULL;
    int limit = strlen(word) > 4 ? 3 : 2, least = limit + 1;
    for (int i = 0; i < count; i++) {
        int distance = edit_distance(word, names[i]);
        // a word cut short is close too
        if (strlen(word) >= 3 && strncmp(word, names[i], strlen(word)) == 0) distance = 1;
        if (distance < least) {
            least = distance;
            best = names[i];
        }
    }
    return best;
}

// ---- values -------------------------------------------------------------------------------------

static int read_whole(const char* text, int64_t* out) {
    char* end;
    errno = 0;
    if (!(*text >= '0' && *text <= '9') && *text != '-') return 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && errno == 0;
}

static int read_real(const char* text, double* out) {
    char* end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

static int is_choice(const char* choices, const char* text) {
    size_t n = strlen(text);
    for (const char* at = choices; *at;) {
        size_t length = strcspn(at, "|");
        if (length == n && memcmp(at, text, n) == 0) return 1;
        at += length + (at[length] == '|');
    }
    return 0;
}

static firm_status check_value(const args* a, const arg_option* o, const char* text,
                               firm_error* err) {
    int64_t whole;
    double real;
    switch (o->type) {
        case ARG_INT:
            if (read_whole(text, &whole) && (double)whole >= o->min && (double)whole <= o->max)
                return FIRM_OK;
            return FAIL(err, FIRM_E_USAGE, "--%s is '%s'; give a whole number from %.0f to %.0f",
                        o->name, text, o->min, o->max);
        case ARG_SEED:
            if (read_whole(text, &whole) && whole >= 0 && whole <= 9007199254740992) return FIRM_OK;
            return FAIL(err, FIRM_E_USAGE,
                        "--%s is '%s'; give a whole number from 0 to 9007199254740992", o->name,
                        text);
        case ARG_REAL:
            if (read_real(text, &real) && real >= o->min && real <= o->max) return FIRM_OK;
            return FAIL(err, FIRM_E_USAGE, "--%s is '%s'; give a number from %g to %g", o->name,
                        text, o->min, o->max);
        case ARG_CHOICE: {
            if (is_choice(o->choices, text)) return FIRM_OK;
            return FAIL(err, FIRM_E_USAGE, "--%s is '%s'; give one of %s", o->name, text,
                        o->choices);
        }
        default:
            if (*text) return FIRM_OK;
            return FAIL(err, FIRM_E_USAGE, "--%s is empty; see firm %s --help", o->name,
                        a->command);
    }
}

static firm_status store(args* a, int index, const char* text, firm_error* err) {
    const arg_option* o = a->option[index];
    TRY(check_value(a, o, text, err));
    if (o->type == ARG_LIST || o->type == ARG_SEVERAL) {
        if (a->listed == ARGS_MAX_VALUES)
            return FAIL(err, FIRM_E_USAGE, "more than %d values for --%s and the like",
                        ARGS_MAX_VALUES, o->name);
        a->list[a->listed] = text;
        a->list_of[a->listed++] = o;
    } else if (a->value[index]) {
        return FAIL(err, FIRM_E_USAGE, "--%s is given twice", o->name);
    }
    a->value[index] = text;
    return FIRM_OK;
}

// ---- parsing ------------------------------------------------------------------------------------

static int is_flag(const char* word) {
    // -5 and -0.3,1 are values; - alone is a file name for some
    return word[0] == '-' && ((word[1] >= 'a' && word[1] <= 'z') || word[1] == '-');
}

static int find(const args* a, const char* name, size_t n) {
    for (int i = 0; i < a->options; i++)
        if (strlen(a->option[i]->name) == n && memcmp(a->option[i]->name, name, n) == 0) return i;
    return -1;
}

static firm_status unknown(const args* a, const char* word, firm_error* err) {
    const char* names[ARGS_MAX_OPTIONS];
    char bare[64];
    for (int i = 0; i < a->options; i++) names[i] = a->option[i]->name;
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + strspn(word, "-"), "="),
             word + strspn(word, "-"));
    const char* near = args_nearest(bare, names, a->options);
    if (near)
        return FAIL(err, FIRM_E_USAGE,
                    "there is no option %.60s; did you mean --%s? (firm %s --help lists all)", word,
                    near, a->command);
    return FAIL(err, FIRM_E_USAGE, "there is no option %.60s; firm %s --help lists all", word,
                a->command);
}

static firm_status parse_flag(args* a, int argc, char** argv, int* at, firm_error* err) {
    const char* word = argv[*at];
    const char* equals = strchr(word, '=');
    int index = -1;
    if (word[1] == '-') {
        size_t n = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        index = find(a, word + 2, n);
    } else if (word[2] == 0) {
        for (int i = 0; i < a->options; i++)
            if (a->option[i]->letter == word[1]) index = i;
    }
    if (index < 0) return unknown(a, word, err);
    const arg_option* o = a->option[index];
    if (word[1] != '-') equals = NULL;

    if (o->type == ARG_SWITCH) {
        if (equals) return FAIL(err, FIRM_E_USAGE, "--%s takes no value", o->name);
        a->value[index] = "1";
        return FIRM_OK;
    }
    if (equals) return store(a, index, equals + 1, err);
    int taken = 0;
    while (*at + 1 < argc &&
           (!is_flag(argv[*at + 1]) || o->type == ARG_INT || o->type == ARG_SEED)) {
        TRY(store(a, index, argv[++*at], err));
        taken++;
        if (o->type != ARG_SEVERAL) break;
    }
    if (!taken)
        return FAIL(err, FIRM_E_USAGE, "--%s needs a value (%s: %s)", o->name,
                    o->hint ? o->hint : "VALUE", o->help);
    return FIRM_OK;
}

firm_status args_parse(args* a, const char* command, const char* usage, const arg_option* own,
                       int own_count, int min, int max, int argc, char** argv, firm_error* err) {
    *a = (args){.command = command};
    CHECK(own_count + args_common_count <= ARGS_MAX_OPTIONS, "firm %s has too many options",
          command);
    for (int i = 0; i < own_count; i++) a->option[a->options++] = &own[i];
    // a command may declare a common flag again, with a default of its own
    for (int i = 0; i < args_common_count; i++)
        if (find(a, args_common[i].name, strlen(args_common[i].name)) < 0)
            a->option[a->options++] = &args_common[i];
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            a->value[find(a, "help", 4)] = "1";
            return FIRM_OK;
        }
    for (int i = 0; i < argc; i++) {
        if (is_flag(argv[i])) {
            TRY(parse_flag(a, argc, argv, &i, err));
        } else {
            if (a->positionals == max || a->positionals == ARGS_MAX_VALUES)
                return FAIL(err, FIRM_E_USAGE,
                            "'%.100s' is one argument too many; the form is: firm %s", argv[i],
                            usage);
            a->positional[a->positionals++] = argv[i];
        }
    }
    if (a->positionals < min)
        return FAIL(err, FIRM_E_USAGE, "an argument is missing; the form is: firm %s", usage);
    return FIRM_OK;
}

// ---- reading ------------------------------------------------------------------------------------

static int must_find(const args* a, const char* name) {
    int index = find(a, name, strlen(name));
    CHECK(index >= 0, "firm %s does not declare --%s", a->command, name);
    return index;
}

int args_given(const args* a, const char* name) {
    return a->value[must_find(a, name)] != NULL;
}

int args_switch(const args* a, const char* name) {
    return args_given(a, name);
}

const char* args_text(const args* a, const char* name) {
    int index = must_find(a, name);
    return a->value[index] ? a->value[index] : a->option[index]->value;
}

int64_t args_int(const args* a, const char* name) {
    const char* text = args_text(a, name);
    return text ? strtoll(text, NULL, 10) : 0;
}

double args_real(const args* a, const char* name) {
    const char* text = args_text(a, name);
    return text ? strtod(text, NULL) : 0.0;
}

int args_list(const args* a, const char* name, const char** out) {
    const arg_option* o = a->option[must_find(a, name)];
    int n = 0;
    for (int i = 0; i < a->listed; i++)
        if (a->list_of[i] == o) out[n++] = a->list[i];
    return n;
}

void args_note_inputs(const args* a) {
    for (int i = 0; i < a->options; i++)
        if (a->value[i] && a->option[i]->type == ARG_TEXT) file_input_note(a->value[i]);
    for (int i = 0; i < a->listed; i++) file_input_note(a->list[i]);
}

enum { HELP_INDENT = 33, HELP_WIDTH = 80 };

// The words of an option's help in lines of at most HELP_WIDTH, the first from HELP_INDENT on.
static void put_help(FILE* to, const char* text) {
    int room = HELP_WIDTH - HELP_INDENT;
    while (*text) {
        int n = (int)strlen(text), cut = n;
        if (n > room)
            for (cut = room; cut > 0 && text[cut] != ' ';) cut--;
        if (cut == 0) cut = (int)strcspn(text, " ");  // a word that is longer than a line
        fprintf(to, "%.*s\n", cut, text);
        text += cut + strspn(text + cut, " ");
        if (*text) fprintf(to, "%*s", HELP_INDENT, "");
    }
}

void args_help(const arg_option* option, int count, FILE* to) {
    for (int i = 0; i < count; i++) {
        const arg_option* o = &option[i];
        char flag[80], letter[8] = "";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(flag, sizeof flag, "%s--%s%s%s", letter, o->name, o->type == ARG_SWITCH ? "" : " ",
                 o->type == ARG_SWITCH   ? ""
                 : o->type == ARG_CHOICE ? o->choices
                 : o->hint               ? o->hint
                                         : "VALUE");
        char text[400] = "";
        text_add(text, sizeof text, "%s", o->help);
        if (o->type == ARG_INT) text_add(text, sizeof text, " (%.0f to %.0f)", o->min, o->max);
        if (o->type == ARG_REAL) text_add(text, sizeof text, " (%g to %g)", o->min, o->max);
        if (o->value) text_add(text, sizeof text, " [%s]", o->value);
        fprintf(to, "  %-30s ", flag);
        if (strlen(flag) > 30) fprintf(to, "\n%*s", HELP_INDENT, "");
        put_help(to, text);
    }
}

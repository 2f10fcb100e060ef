// main.c - the firm program: finds the command, turns errors into one sentence and an exit status.
// Exit 0: done; 1: ran, but a gate or check failed; 2: bad usage or bad input; 128 + N: stopped by
// signal N.
#include <stdio.h>
#include <string.h>

#include "cli/build.h"
#include "cli/cli.h"
#include "cli/pages.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "eval/settings.h"

static const cli_command* const commands[] = {
#define CLI_ENTRY(name) &cli_##name,
    CLI_COMMANDS(CLI_ENTRY)
#undef CLI_ENTRY
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const cli_command* find(const char* name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static void print_log(void* user, firm_log_level level, const char* text) {
    (void)user;
    fprintf(stderr, "%s%s\n", level == FIRM_LOG_WARN ? "warning: " : "", text);
}

static void help_all(FILE* to) {
    fputs("firm - a compact pixel world model: goal image in, actions out\n\n", to);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  firm %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs(
        "\n  firm help COMMAND    options of a command\n"
        "  firm help settings   every key that --config files and --set may change\n"
        "  firm --version\n\n",
        to);
    fprintf(to, "Try it: firm demo %s\n", env_at(0)->task.name);
}

static void help_one(const cli_command* c, FILE* to) {
    fprintf(to, "firm %s\n\n%s\n%s\n", c->usage, c->summary, c->more);
    args_help(c->options, c->option_count, to);
    fputs(c->option_count ? "\nand, as for every command:\n" : "as for every command:\n", to);
    for (int i = 0; i < args_common_count; i++) {
        int own = 0;
        for (int k = 0; k < c->option_count; k++)
            own |= strcmp(c->options[k].name, args_common[i].name) == 0;
        if (!own) args_help(&args_common[i], 1, to);
    }
}

static firm_status no_command(const char* name, firm_error* err) {
    const char* names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
    const char* near = args_nearest(name, names, COMMANDS);
    if (near)
        return FAIL(err, FIRM_E_USAGE, "there is no command '%.60s'; did you mean '%s'?", name,
                    near);
    return FAIL(err, FIRM_E_USAGE, "there is no command '%.60s'; firm --help lists them", name);
}

firm_status cli_run(int argc, char** argv, cJSON** capture, firm_error* err) {
    const cli_command* c = argc > 0 ? find(argv[0]) : NULL;
    if (!c) return no_command(argc > 0 ? argv[0] : "", err);
    args a;
    TRY(args_parse(&a, c->name, c->usage, c->options, c->option_count, c->min, c->max, argc - 1,
                   argv + 1, err));
    a.capture = capture;
    if (args_switch(&a, "help")) {
        help_one(c, stdout);
        return FIRM_OK;
    }
    const int before = file_inputs();  // of a command that runs this one
    args_note_inputs(&a);
    for (int i = 0; i < a.positionals; i++)
        if (!env_find(a.positional[i])) file_input_note(a.positional[i]);
    firm_status status = c->run(&a, err);
    file_inputs_drop(before);
    return status;
}

static firm_status help(int argc, char** argv, firm_error* err) {
    if (argc == 0) {
        help_all(stdout);
        return FIRM_OK;
    }
    if (strcmp(argv[0], "settings") == 0) {
        settings_help(stdout);
        return FIRM_OK;
    }
    const cli_command* c = find(argv[0]);
    if (!c) return no_command(argv[0], err);
    help_one(c, stdout);
    return FIRM_OK;
}

// What the build asks for and nobody else: texts made from the tables.
static firm_status page(int argc, char** argv, firm_error* err) {
    const pages_commands all = {commands, COMMANDS};
    const char* shell = argc > 1 ? argv[1] : "";
    if (strcmp(argv[0], "--man") == 0)
        pages_man(all, stdout);
    else if (strcmp(shell, "bash") == 0)
        pages_bash(all, stdout);
    else if (strcmp(shell, "zsh") == 0)
        pages_zsh(all, stdout);
    else
        return FAIL(err, FIRM_E_USAGE, "--completion takes bash or zsh");
    return FIRM_OK;
}

static firm_status dispatch(int argc, char** argv, firm_error* err) {
    if (argc == 0) {
        help_all(stderr);
        return FAIL(err, FIRM_E_USAGE, "a command is missing");
    }
    if (strcmp(argv[0], "--version") == 0) {
        int v = firm_version();
        printf("firm %d.%d.%d\ncommit %s\nbuild %s\n", v / 10000, v / 100 % 100, v % 100,
               build_commit, build_kind);
        return FIRM_OK;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) return help(0, NULL, err);
    if (strcmp(argv[0], "help") == 0) return help(argc - 1, argv + 1, err);
    if (strcmp(argv[0], "--man") == 0 || strcmp(argv[0], "--completion") == 0)
        return page(argc, argv, err);
    return cli_run(argc, argv, NULL, err);
}

// ---- stopping -----------------------------------------------------------------------------------

// One more word of a command line, such that a shell reads it back.
static void add_word(char* line, size_t room, const char* word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
    size_t n = strlen(line);
    const int quoted = !*word || word[strspn(word, plain)];
    if (n && n + 1 < room) line[n++] = ' ';
    if (quoted && n + 1 < room) line[n++] = '\'';
    for (; *word && n + 5 < room; word++) {
        if (*word == '\'') {
            memcpy(line + n, "'\\''", 4);
            n += 4;
        } else {
            line[n++] = *word;
        }
    }
    if (quoted && n + 1 < room) line[n++] = '\'';
    line[n] = 0;
}

// What a user who stopped the program is told: trainings and studies go on from where they are.
static void advise(int argc, char** argv, char* text, size_t room) {
    const char* name = argc > 1 ? argv[1] : "";
    const int training = strcmp(name, "train") == 0;
    if (!training && strcmp(name, "reproduce") != 0) {
        snprintf(text, room, "; files that were not finished are left as they were before\n");
        return;
    }
    char line[8000] = "";
    int resumes = !training;
    for (int i = 0; i < argc; i++) {
        add_word(line, sizeof line, argv[i]);
        resumes |= strcmp(argv[i], "--resume") == 0;
    }
    if (!resumes) add_word(line, sizeof line, "--resume");
    snprintf(text, room, "; to go on: %s\n", line);
}

int main(int argc, char** argv) {
    int quiet = 0;
    for (int i = 1; i < argc; i++) quiet |= strcmp(argv[i], "--quiet") == 0;
    progress_enable(!quiet);
    if (!quiet) firm_set_log(print_log, NULL);

    const cli_command* c = argc > 1 ? find(argv[1]) : NULL;
    char who[64], stopped[100], advice[8192];
    snprintf(who, sizeof who, "firm%s%s", c ? " " : "", c ? c->name : "");
    snprintf(stopped, sizeof stopped, "%s: stopped by ", who);
    advise(argc, argv, advice, sizeof advice);
    interrupt_catch(stopped, advice);

    firm_error err = {0};
    firm_status status = dispatch(argc - 1, argv + 1, &err);
    if (fflush(stdout) != 0 && status == FIRM_OK)
        status = FAIL(&err, FIRM_E_IO, "cannot write to standard output; is the disk full?");
    if (status == FIRM_OK) return 0;
    const char* text = err.message[0] ? err.message : firm_status_str(status);
    if (status == FIRM_E_STOPPED) {
        fprintf(stderr, "%s: %s (%s)%s", who, text, interrupt_name(interrupt_seen()), advice);
        return 128 + interrupt_seen();
    }
    fprintf(stderr, "%s: %s\n", who, text);
    return status == FIRM_E_GATE ? 1 : 2;
}
